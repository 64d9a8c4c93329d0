//! Leases: how long an attempt keeps its execution, what it tells meanwhile, and who has lost it. And putting off.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, LogLine, Progress, Reason};
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{
    Applied, AttemptFence, CancelBatch, CancelVerdict, Claim, Claimed, Completion, Deferral, Extended, Extension,
    Granted, Lease, RunningQuery, WaitingQuery,
};
use campanile_model::{ExecutionId, TenantId, Timestamp, limits};

/// An external worker's claim of a new execution of job `n`, with a lease from beat to beat.
async fn beating(store: &Fixture, n: u64, timeout_ms: u64, lease_ms: u64) -> (Job, Granted) {
    let job = g::job_with(n, |d| d.timeout_ms = timeout_ms);
    store.put(g::create(&job)).await;
    let fire = g::fire(&job, DUE);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let claim = Claim { lease: Lease::Beats(lease_ms), ..g::claim(id, 0, DUE) };
    match store.claim(vec![claim]).await.unwrap().verdicts.remove(0) {
        Claimed::Granted(granted) => (job, *granted),
        other => panic!("{other:?}"),
    }
}

async fn extended(store: &Fixture, extension: Extension) -> Extended {
    store.extend(vec![extension]).await.unwrap().remove(0)
}

fn later(ms: i64) -> Timestamp {
    DUE.saturating_add_ms(ms)
}

/// Beyond the time limit for those that keep it themselves, from beat to beat for the others.
pub async fn a_lease_lasts_as_it_was_asked_for(store: Fixture) {
    let (_, granted) = beating(&store, 1, 60_000, 5_000).await;
    assert_eq!(granted.lease_until, later(5_000));
    let (_, short) = beating(&store, 2, 2_000, 60_000).await;
    let last = 2_000 + limits::TIMEOUT_GRACE_MS as i64;
    assert_eq!(short.lease_until, later(last), "never past the time limit and its grace");
    let (_, id) = store.pending(3).await;
    assert_eq!(store.granted(id, 0, DUE).await.lease_until, later(30_000 + g::LEASE_MS as i64));
}

/// By fence, while it runs; never shorter.
pub async fn a_lease_is_extended_by_its_holder_only(store: Fixture) {
    let (_, granted) = beating(&store, 1, 60_000, 5_000).await;
    let (id, fence) = (granted.fence.execution, granted.fence);
    let extend = async |fence, until| extended(&store, g::extension(fence, later(1_000), until)).await;
    assert_eq!(extend(fence, later(6_000)).await, Extended::Until(later(6_000)));
    assert_eq!(store.execution(id).await.wake_at, later(6_000));
    assert_eq!(extend(fence, later(2_000)).await, Extended::Until(later(6_000)), "never shorter");
    let before = store.execution(id).await;
    let running = Extended::Stale { state: State::Running };
    for wrong in [fence.fence + 1, fence.fence - 1, 0] {
        assert_eq!(extend(AttemptFence { fence: wrong, ..fence }, later(9_000)).await, running);
    }
    let nobody = AttemptFence { execution: ExecutionId::floor(DUE), ..fence };
    assert_eq!(extend(nobody, later(9_000)).await, Extended::Gone);
    // Who knows no fence says who it is.
    let by = |worker: &str| Extension {
        fence: None,
        worker: worker.into(),
        ..g::extension(fence, later(1_000), later(7_000))
    };
    assert_eq!(extended(&store, by("worker-2")).await, running);
    assert_eq!(store.execution(id).await, before, "what was refused changed nothing");
    assert_eq!(extended(&store, by("worker-1")).await, Extended::Until(later(7_000)));
    store.completed(g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, later(2_000))).await;
    let ended = Extended::Stale { state: State::Succeeded };
    assert_eq!(extend(fence, later(9_000)).await, ended);
    assert_eq!(extended(&store, by("worker-1")).await, ended);
}

/// Up to the time limit of the attempt, and what it gets to say that it has stopped; at the limit it is told to.
pub async fn no_lease_goes_past_the_time_limit(store: Fixture) {
    let (_, granted) = beating(&store, 1, 10_000, 4_000).await;
    let extend =
        async |now: i64, until: i64| extended(&store, g::extension(granted.fence, later(now), later(until))).await;
    assert_eq!(extend(3_000, 7_000).await, Extended::Until(later(7_000)));
    assert_eq!(extend(6_500, 10_500).await, Extended::Until(later(10_500)));
    let last = 10_000 + limits::TIMEOUT_GRACE_MS as i64;
    assert_eq!(extend(9_999, last + 1).await, Extended::Until(later(last)));
    assert_eq!(extend(10_000, last + 1).await, Extended::Cancel { until: later(last), reason: None });
    assert_eq!(store.execution(granted.fence.execution).await.wake_at, later(last));
}

/// Asked to stop: no more time, and it hears why.
pub async fn no_lease_is_extended_after_a_cancel(store: Fixture) {
    let (_, granted) = beating(&store, 1, 60_000, 30_000).await;
    let id = granted.fence.execution;
    let asked = CancelBatch { grace_ms: Some(5_000), ..g::cancel(&[id], later(1_000)) };
    assert_eq!(store.cancel(asked).await.unwrap().verdicts, [CancelVerdict::Asked { until: later(6_000) }]);
    let told = Extension {
        progress: Some(Progress { checkpoint: Some("7".into()), at: later(2_000), ..Progress::default() }),
        ..g::extension(granted.fence, later(2_000), later(32_000))
    };
    let cancel = Extended::Cancel { until: later(6_000), reason: Some(Reason::CancelledByUser) };
    assert_eq!(extended(&store, told).await, cancel);
    assert_eq!(store.execution(id).await.wake_at, later(6_000));
    let told = store.reports(TenantId::DEFAULT, id, 0, 0).await.unwrap().progress.unwrap();
    assert_eq!(told.checkpoint.as_deref(), Some("7"), "what it tells while it stops is kept");
}

/// One by one, and the checkpoint outlives its attempt.
pub async fn progress_is_kept_and_the_next_attempt_gets_the_checkpoint(store: Fixture) {
    let (job, first) = beating(&store, 1, 60_000, 5_000).await;
    let id = first.fence.execution;
    assert_eq!(store.reports(job.tenant, id, 0, 0).await.unwrap().progress, None);
    let tell = async |fence: AttemptFence,
                      ms: i64,
                      fraction: Option<f64>,
                      message: Option<&str>,
                      checkpoint: Option<&str>| {
        let told = Progress {
            fraction,
            message: message.map(str::to_owned),
            checkpoint: checkpoint.map(Into::into),
            at: later(ms),
        };
        let extension = g::extension(fence, later(ms), later(ms + 5_000));
        assert!(matches!(extended(&store, Extension { progress: Some(told), ..extension }).await, Extended::Until(_)));
        let read = store.reports(job.tenant, id, 0, 0).await.unwrap().progress.unwrap();
        (read.fraction, read.message, read.checkpoint.map(|it| it.to_string()), read.at)
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(tell(first.fence, 100, Some(0.25), None, None).await, (Some(0.25), None, None, later(100)));
    let all = tell(first.fence, 200, None, Some("half"), Some("{\"row\":5}")).await;
    assert_eq!(all, (Some(0.25), text("half"), text("{\"row\":5}"), later(200)));
    let wrong = AttemptFence { fence: first.fence.fence + 1, ..first.fence };
    let told = Some(Progress { fraction: Some(0.9), ..Progress::default() });
    let zombie = Extension { progress: told, ..g::extension(wrong, later(300), later(900)) };
    assert_eq!(extended(&store, zombie).await, Extended::Stale { state: State::Running });
    assert_eq!(
        store.reports(job.tenant, id, 0, 0).await.unwrap().progress.unwrap().fraction,
        Some(0.25),
        "a zombie tells nothing"
    );
    let failed = g::complete(&first, Event::FailRetryable, AttemptOutcome::Failed, later(400));
    let wake_at = failed.wake_at;
    store.completed(failed).await;
    let second = store.granted(id, 1, wake_at).await;
    assert_eq!(second.checkpoint.as_deref(), Some("{\"row\":5}"));
    let fresh = tell(second.fence, 2_000, None, Some("again"), None).await;
    assert_eq!(fresh, (None, text("again"), text("{\"row\":5}"), later(2_000)), "only the checkpoint is taken over");
    assert_eq!(store.reports(TenantId(2), id, 0, 0).await.unwrap().progress, None);
}

/// In the order of arrival, over all attempts, up to the limit.
pub async fn logs_are_kept_in_order_and_bounded(store: Fixture) {
    let (job, granted) = beating(&store, 1, 60_000, 5_000).await;
    let id = granted.fence.execution;
    let line = |n: usize| LogLine { at: later(n as i64), level: "info".into(), message: format!("line {n}") };
    let extension = |lines: std::ops::Range<usize>| Extension {
        logs: lines.map(line).collect(),
        ..g::extension(granted.fence, later(1), later(5_000))
    };
    store.extend(vec![extension(0..3), extension(3..5)]).await.unwrap();
    let list = async |tenant, after, limit| store.reports(tenant, id, after, limit).await.unwrap().logs;
    let read = list(job.tenant, 0, 100).await;
    assert_eq!(read.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(), (0..5).map(line).collect::<Vec<_>>());
    assert!(read.is_sorted_by_key(|(position, _)| *position) && read[0].0 > 0);
    assert_eq!(list(job.tenant, read[1].0, 2).await, read[2..4]);
    assert_eq!(list(TenantId(2), 0, 100).await, []);
    let zombie = Extension { fence: Some(granted.fence.fence + 1), ..extension(5..6) };
    assert_eq!(extended(&store, zombie).await, Extended::Stale { state: State::Running });
    for from in (5..limits::LOG_LINES_MAX).step_by(1_000) {
        extended(&store, extension(from..from + 1_000)).await;
    }
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, later(50));
    let done = Completion { logs: vec![line(99_999)], ..done };
    assert_eq!(store.completed(done).await, Applied::Done);
    let read = list(job.tenant, 0, usize::MAX >> 1).await;
    assert_eq!(read.len(), limits::LOG_LINES_MAX);
    assert_eq!(read.last().unwrap().1, line(limits::LOG_LINES_MAX - 1), "the first ones are kept");
}

/// What is logged with the end of an attempt is kept with it.
pub async fn the_last_lines_come_with_the_completion(store: Fixture) {
    let (job, granted) = beating(&store, 1, 60_000, 5_000).await;
    let logs = vec![LogLine { at: later(9), level: "error".into(), message: "so long".into() }];
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, later(10));
    let done = Completion { logs: logs.clone(), ..done };
    for _ in 0..2 {
        assert_eq!(store.completed(done.clone()).await, Applied::Done);
        let read = store.reports(job.tenant, granted.fence.execution, 0, 10).await.unwrap().logs;
        assert_eq!(read.into_iter().map(|(_, line)| line).collect::<Vec<_>>(), logs, "once");
    }
}

/// By time for external workers only; a node's attempts are its own as long as it lives.
pub async fn leases_that_are_over_are_found(store: Fixture) {
    let mut granted = Vec::new();
    for (n, worker) in [(1, "worker-1"), (2, "node:a"), (3, "worker-3")] {
        let (_, id) = store.pending(n).await;
        let claim = g::claim_by(id, 0, DUE.saturating_add_ms(n as i64), worker);
        let Claimed::Granted(it) = store.claim(vec![claim]).await.unwrap().verdicts.remove(0) else {
            panic!("not granted")
        };
        granted.push(*it);
    }
    let expired = async |now, limit| -> Vec<AttemptFence> {
        store
            .load_running(&RunningQuery::Expired { now, limit })
            .await
            .unwrap()
            .into_iter()
            .map(|attempt| attempt.fence)
            .collect()
    };
    assert_eq!(expired(granted[0].lease_until, 10).await, [], "a lease includes its last instant");
    assert_eq!(expired(granted[0].lease_until.saturating_add_ms(1), 10).await, [granted[0].fence]);
    assert_eq!(expired(Timestamp::MAX, 10).await, [granted[0].fence, granted[2].fence]);
    assert_eq!(expired(Timestamp::MAX, 1).await, [granted[0].fence]);
    store.extend(vec![g::extension(granted[0].fence, DUE, granted[2].lease_until)]).await.unwrap();
    store.completed(g::complete(&granted[2], Event::Succeed, AttemptOutcome::Succeeded, DUE)).await;
    let end = granted[0].lease_until;
    let until = store.execution(granted[0].fence.execution).await.wake_at;
    assert!(until >= end, "{until}");
    assert_eq!(expired(Timestamp::MAX, 10).await, [granted[0].fence]);
}

/// By membership, whatever their leases say.
pub async fn attempts_of_nodes_that_are_gone_are_found(store: Fixture) {
    let mut granted = Vec::new();
    for (n, worker) in [(1, "worker-1"), (2, "node:a"), (3, "node:b")] {
        let (_, id) = store.pending(n).await;
        let claim = g::claim_by(id, 0, DUE.saturating_add_ms(n as i64), worker);
        let Claimed::Granted(it) = store.claim(vec![claim]).await.unwrap().verdicts.remove(0) else {
            panic!("not granted")
        };
        granted.push(*it);
    }
    let orphans = async |nodes: &[&str], limit| -> Vec<AttemptFence> {
        let live_nodes = nodes.iter().map(|&node| node.into()).collect();
        store
            .load_running(&RunningQuery::Orphans { live_nodes, limit })
            .await
            .unwrap()
            .into_iter()
            .map(|attempt| attempt.fence)
            .collect()
    };
    assert_eq!(orphans(&["a", "b"], 10).await, []);
    assert_eq!(orphans(&["a"], 10).await, [granted[2].fence]);
    assert_eq!(orphans(&["node:a"], 10).await, [granted[2].fence], "with the prefix of its name, or without");
    assert_eq!(orphans(&[], 10).await, [granted[1].fence, granted[2].fence]);
    assert_eq!(orphans(&[], 1).await, [granted[1].fence]);
}

/// All that is needed to end it for its runner.
pub async fn a_running_attempt_is_read_whole(store: Fixture) {
    let (job, granted) = beating(&store, 1, 60_000, 5_000).await;
    let id = granted.fence.execution;
    let (_, waiting) = store.pending(2).await;
    let of = RunningQuery::Of(vec![waiting, id, ExecutionId::floor(DUE)]);
    let mut read = store.load_running(&of).await.unwrap();
    assert_eq!(read.len(), 1, "the others do not run");
    let attempt = read.remove(0);
    assert_eq!((attempt.fence, attempt.dispatch.job_version), (granted.fence, job.version));
    assert_eq!(attempt.retry, job.definition.retry);
    assert_eq!((attempt.timeout_ms, attempt.started_at, &*attempt.worker), (60_000, DUE, "worker-1"));
    assert_eq!((attempt.lease_until, attempt.attempts_from, attempt.losses), (later(5_000), 0, 0));
    assert_eq!((attempt.first_started_at, attempt.cancel_requested), (DUE, None));
    assert_eq!((attempt.dispatch.execution, attempt.dispatch.attempt, attempt.dispatch.job), (id, 1, job.id));
    let ask = CancelBatch { grace_ms: Some(1_000), ..g::cancel(&[id], later(7)) };
    store.cancel(ask).await.unwrap();
    let attempt = store.load_running(&of).await.unwrap().remove(0);
    assert_eq!(attempt.cancel_requested, Some((later(7), Reason::CancelledByUser)));
    assert_eq!(attempt.lease_until, later(1_007));
    assert_eq!(
        store.load_running(&RunningQuery::Expired { now: later(1_008), limit: 10 }).await.unwrap(),
        [attempt],
        "and its lease ends early"
    );
}

/// A waiting execution is put off, with the reason; by whoever knows how often it was tried.
pub async fn what_waits_can_be_put_off(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let wake_at = later(5_000);
    let defer = async |execution, attempt| {
        let deferral = Deferral { execution, attempt, wake_at, reason: Reason::RateLimited };
        store.defer(vec![deferral]).await.unwrap().remove(0)
    };
    let before = store.execution(id).await;
    assert_eq!(defer(id, 1).await, Applied::Stale { state: State::Pending });
    assert_eq!(defer(ExecutionId::floor(DUE), 0).await, Applied::Gone);
    assert_eq!(store.execution(id).await, before);
    assert_eq!(defer(id, 0).await, Applied::Done);
    let put_off = store.execution(id).await;
    assert_eq!((put_off.state, put_off.wake_at, put_off.reason), (State::Pending, wake_at, Some(Reason::RateLimited)));
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Early { wake_at });
    let waiting = WaitingQuery {
        shards: Vec::new(),
        before: Timestamp::MAX,
        fired_until: Timestamp::MAX,
        after: None,
        limit: 10,
    };
    assert_eq!(store.load_waiting(&waiting).await.unwrap()[0].wake_at, wake_at);
    let granted = store.granted(id, 0, wake_at).await;
    assert_eq!(store.execution(id).await.reason, None, "the reason is gone when it starts");
    assert_eq!(defer(id, 1).await, Applied::Stale { state: State::Running });
    store.completed(g::complete(&granted, Event::FailRetryable, AttemptOutcome::Failed, wake_at)).await;
    assert_eq!(defer(id, 1).await, Applied::Done);
    assert_eq!(store.execution(id).await.state, State::Retrying);
}

/// A newer version takes its instant over, put off or not.
pub async fn what_was_put_off_can_be_refired(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let deferral = Deferral { execution: id, attempt: 0, wake_at: later(5_000), reason: Reason::NoWorker };
    store.defer(vec![deferral]).await.unwrap();
    let newer = store.change(&job, g::at(40_000), g::define(&job, |_| ())).await;
    assert_eq!(store.fired(vec![g::fire(&newer, DUE)]).await, [campanile_model::store::Fired::New]);
    let taken = store.execution(id).await;
    assert_eq!((taken.job_version, taken.wake_at, taken.reason), (2, DUE, None));
}
