//! Runs of one job that would overlap: each policy, who is released and in which order, and what others see of it.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::action::ActionKind;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::{
    Applied, CancelBatch, CancelVerdict, Claimed, Completion, Extended, Fire, Fired, Granted, Resolve, RunningQuery,
    Waiting,
};
use campanile_model::{ExecutionId, TenantId, Timestamp, limits};

/// A job of this policy and executions of it, a second apart from [`DUE`] on.
async fn runs(store: &Fixture, overlap: Overlap, count: usize) -> (Job, Vec<ExecutionId>) {
    runs_of(store, 1, overlap, count).await
}

/// The same, of job `n`.
async fn runs_of(store: &Fixture, n: u64, overlap: Overlap, count: usize) -> (Job, Vec<ExecutionId>) {
    let job = g::job_with(n, |d| (d.overlap, d.action.kind) = (overlap, ActionKind::Worker));
    store.create(&job).await;
    let fires: Vec<Fire> = (0..count).map(|i| g::fire(&job, at(i))).collect();
    store.fired(fires.clone()).await;
    (job, fires.iter().map(|fire| fire.dispatch.execution).collect())
}

fn at(i: usize) -> Timestamp {
    DUE.saturating_add_ms(i as i64 * 1_000)
}

/// Later than all of them are due.
const LATE: Timestamp = g::at(5_000_000);

async fn claimed_by(store: &Fixture, id: ExecutionId, attempt: u32, worker: &str) -> Claimed {
    store.claim(vec![g::claim_by(id, attempt, LATE, worker)]).await.unwrap().verdicts.remove(0)
}

fn granted(claimed: Claimed) -> Granted {
    match claimed {
        Claimed::Granted(granted) => *granted,
        other => panic!("not granted: {other:?}"),
    }
}

/// Ends an attempt and answers who may start.
async fn end(store: &Fixture, granted: &Granted, event: Event) -> Vec<ExecutionId> {
    let outcome = match event {
        Event::Succeed => AttemptOutcome::Succeeded,
        Event::Cancel => AttemptOutcome::Cancelled,
        _ => AttemptOutcome::Failed,
    };
    let moved = store.complete(vec![g::complete(granted, event, outcome, LATE)]).await.unwrap();
    assert_eq!(moved.verdicts, [Applied::Done]);
    ids(&moved.ready)
}

fn ids(ready: &[Waiting]) -> Vec<ExecutionId> {
    ready.iter().map(|waiting| waiting.dispatch.execution).collect()
}

async fn state(store: &Fixture, id: ExecutionId) -> (State, Option<Reason>) {
    let execution = store.execution(id).await;
    (execution.state, execution.reason)
}

const HELD: (State, Option<Reason>) = (State::Held, Some(Reason::DependencyWaiting));
const REPLACED: (State, Option<Reason>) = (State::Skipped, Some(Reason::OverlapReplaced));

pub async fn allowed_runs_run_side_by_side(store: Fixture) {
    let (_, ids) = runs(&store, Overlap::Allow, 3).await;
    for &id in &ids {
        granted(store.claimed(id, 0, LATE).await);
    }
    assert_eq!(store.execution(ids[2]).await.overlap, Overlap::Allow);
}

/// The new one never runs, whether the other one runs or waits for its backoff; once that is over, the next one does.
pub async fn skip_skips_while_another_run_is_not_over(store: Fixture) {
    let (_, ids) = runs(&store, Overlap::Skip, 5).await;
    let first = granted(store.claimed(ids[0], 0, LATE).await);
    let forbidden = Claimed::Discarded(Reason::OverlapForbidden);
    assert_eq!(store.claimed(ids[1], 0, LATE).await, forbidden);
    assert_eq!(state(&store, ids[1]).await, (State::Skipped, Some(Reason::OverlapForbidden)));
    end(&store, &first, Event::FailRetryable).await;
    assert_eq!(store.claimed(ids[2], 0, LATE).await, forbidden, "between two attempts it is not over");
    let again = granted(store.claimed(ids[0], 1, g::at(9_000_000)).await);
    assert_eq!(end(&store, &again, Event::Succeed).await, []);
    granted(store.claimed(ids[3], 0, LATE).await);
    // An instant action is a run like any other.
    let instant = g::complete_unclaimed(g::claim(ids[4], 0, LATE));
    assert_eq!(store.completed(instant).await, Applied::Stale { state: State::Skipped });
}

/// The clock went back after a run was held: it has its turn, and still waits for its instant.
pub async fn a_turn_does_not_start_a_run_before_its_instant(store: Fixture) {
    let (_, ids) = runs(&store, Overlap::BufferAll, 2).await;
    let first = granted(store.claimed(ids[0], 0, LATE).await);
    assert_eq!(store.claimed(ids[1], 0, LATE).await, Claimed::Held { by: ids[0], cancel: false });
    let done = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, at(0));
    let moved = store.complete(vec![done]).await.unwrap();
    assert_eq!(moved.ready[0].wake_at, at(1));
    assert_eq!(store.claimed(ids[1], 0, at(0)).await, Claimed::Early { wake_at: at(1) });
    granted(store.claimed(ids[1], 0, at(1)).await);
}

/// One waits, further ones are skipped; the end of the run releases the one.
pub async fn buffer_one_holds_one(store: Fixture) {
    let (job, ids) = runs(&store, Overlap::BufferOne, 5).await;
    let first = granted(store.claimed(ids[0], 0, LATE).await);
    assert_eq!(store.claimed(ids[2], 0, LATE).await, Claimed::Held { by: ids[0], cancel: false });
    assert_eq!(state(&store, ids[2]).await, HELD);
    assert_eq!(store.claimed(ids[1], 0, LATE).await, Claimed::Discarded(Reason::OverlapForbidden));
    assert_eq!(store.claimed(ids[2], 0, LATE).await, Claimed::Stale { state: State::Held });
    let done = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, LATE);
    let moved = store.complete(vec![done]).await.unwrap();
    let Waiting { dispatch, wake_at } = &moved.ready[0];
    assert_eq!((moved.ready.len(), dispatch.execution, *wake_at), (1, ids[2], LATE));
    assert_eq!((dispatch.job, dispatch.fire_at, dispatch.attempt, &dispatch.target), (job.id, at(2), 0, &job.target));
    assert_eq!(state(&store, ids[2]).await, (State::Pending, None));
    // It has its turn before it starts: who comes meanwhile waits for it.
    assert_eq!(store.claimed(ids[3], 0, LATE).await, Claimed::Held { by: ids[2], cancel: false });
    assert_eq!(store.claimed(ids[4], 0, LATE).await, Claimed::Discarded(Reason::OverlapForbidden));
    let second = granted(store.claimed(ids[2], 0, LATE).await);
    assert_eq!(end(&store, &second, Event::FailFinal).await, [ids[3]], "a death ends a run too");
    let third = granted(store.claimed(ids[3], 0, LATE).await);
    assert_eq!(end(&store, &third, Event::Succeed).await, []);
}

/// Each in its turn, in the order of their instants, whatever the order of their claims.
pub async fn buffer_all_holds_all_and_releases_in_order(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::BufferAll, 6).await;
    let mut running = granted(store.claimed(runs[0], 0, LATE).await);
    // In one batch, and in another order.
    let claims = [3, 1, 5, 2].map(|i| g::claim(runs[i], 0, LATE)).to_vec();
    let held = Claimed::Held { by: runs[0], cancel: false };
    assert_eq!(store.claim(claims).await.unwrap().verdicts, vec![held; 4]);
    for next in [1, 2, 3, 5] {
        assert_eq!(end(&store, &running, Event::Succeed).await, [runs[next]]);
        if next == 3 {
            // Earlier than the last one that waits, and yet it comes after the one whose turn it is.
            assert_eq!(store.claimed(runs[4], 0, LATE).await, Claimed::Held { by: runs[3], cancel: false });
            running = granted(store.claimed(runs[3], 0, LATE).await);
            assert_eq!(end(&store, &running, Event::Succeed).await, [runs[4]]);
            running = granted(store.claimed(runs[4], 0, LATE).await);
            continue;
        }
        running = granted(store.claimed(runs[next], 0, LATE).await);
    }
    assert_eq!(end(&store, &running, Event::Succeed).await, []);
    for id in runs {
        assert_eq!(state(&store, id).await, (State::Succeeded, None));
    }
}

/// Bounded: beyond the limit, new ones are skipped.
pub async fn no_more_wait_than_the_limit(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::BufferAll, limits::BUFFERED_MAX + 3).await;
    let claims = runs.iter().map(|&id| g::claim(id, 0, LATE)).collect();
    let claimed = store.claim(claims).await.unwrap().verdicts;
    assert!(matches!(claimed[0], Claimed::Granted(_)));
    let held = Claimed::Held { by: runs[0], cancel: false };
    assert!(claimed[1..=limits::BUFFERED_MAX].iter().all(|claimed| *claimed == held));
    assert_eq!(claimed[limits::BUFFERED_MAX + 1..], vec![Claimed::Discarded(Reason::OverlapForbidden); 2]);
}

/// One of a batch has the turn, the others see it: decided in the order of the batch.
pub async fn a_batch_is_judged_in_its_order(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::Skip, 3).await;
    let claims = [2, 0, 1].map(|i| g::claim(runs[i], 0, LATE)).to_vec();
    let claimed = store.claim(claims).await.unwrap().verdicts;
    assert!(matches!(&claimed[0], Claimed::Granted(granted) if granted.fence.execution == runs[2]));
    assert_eq!(claimed[1..], vec![Claimed::Discarded(Reason::OverlapForbidden); 2]);
}

/// An external worker's run is asked to stop; the new one waits for its end, and replaces those that waited before.
pub async fn cancel_other_asks_and_waits(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::CancelOther, 4).await;
    let first = granted(claimed_by(&store, runs[0], 0, "worker-1").await);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: true });
    let asked = store.execution(runs[0]).await;
    let until = LATE.saturating_add_ms(limits::CANCEL_GRACE_MS as i64);
    assert_eq!((asked.state, asked.cancel_requested_at, asked.wake_at), (State::Running, Some(LATE), until));
    let reason = Some(Reason::OverlapReplaced);
    let beat = g::extension(first.fence, LATE, Timestamp::LATEST);
    assert_eq!(store.extend(vec![beat]).await.unwrap(), [Extended::Cancel { until, reason }]);
    let running = store.load_running(&RunningQuery::Of(vec![runs[0]])).await.unwrap().remove(0);
    assert_eq!(running.cancel_requested, Some((LATE, Reason::OverlapReplaced)));
    // Another one comes before it has stopped.
    let later = LATE.saturating_add_ms(1_000);
    assert_eq!(store.claimed(runs[2], 0, later).await, Claimed::Held { by: runs[0], cancel: true });
    assert_eq!(state(&store, runs[1]).await, REPLACED);
    let asked_again = store.execution(runs[0]).await;
    assert_eq!((asked_again.cancel_requested_at, asked_again.wake_at), (Some(LATE), until), "the first one counts");
    assert_eq!(end(&store, &first, Event::Cancel).await, [runs[2]]);
    // Whose turn it is and was never handed out is skipped by the next, which starts at once.
    let third = granted(store.claimed(runs[3], 0, later).await);
    assert_eq!(third.terminated, Some(runs[2]));
    assert_eq!(state(&store, runs[2]).await, REPLACED);
    assert_eq!(end(&store, &third, Event::Succeed).await, []);
}

/// A node's run, and one that waits for its backoff, can be ended at once: the new one starts.
pub async fn cancel_other_ends_what_nobody_must_stop(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::CancelOther, 4).await;
    let first = granted(claimed_by(&store, runs[0], 0, "node:a").await);
    let second = granted(claimed_by(&store, runs[1], 0, "node:a").await);
    assert_eq!((first.terminated, second.terminated), (None, Some(runs[0])));
    let ended = store.execution(runs[0]).await;
    assert_eq!((ended.state, ended.reason), (State::Cancelled, Some(Reason::OverlapReplaced)));
    assert_eq!((ended.outcome, ended.finished_at), (Some(AttemptOutcome::Cancelled), Some(LATE)));
    let late = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, LATE);
    assert_eq!(store.completed(late).await, Applied::Stale { state: State::Cancelled });
    end(&store, &second, Event::FailRetryable).await;
    let third = granted(store.claimed(runs[2], 0, LATE).await);
    assert_eq!(third.terminated, Some(runs[1]));
    assert_eq!(state(&store, runs[1]).await, (State::Cancelled, Some(Reason::OverlapReplaced)));
    let attempts = store.list_attempts(TenantId::DEFAULT, runs[1]).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::Failed), "its attempt had ended before");
    // An instant one too.
    assert_eq!(end(&store, &third, Event::FailRetryable).await, []);
    assert_eq!(store.completed(g::complete_unclaimed(g::claim(runs[3], 0, LATE))).await, Applied::Done);
    assert_eq!(state(&store, runs[2]).await, (State::Cancelled, Some(Reason::OverlapReplaced)));
}

pub async fn terminate_other_ends_and_starts(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::TerminateOther, 3).await;
    let first = granted(claimed_by(&store, runs[0], 0, "worker-1").await);
    let second = granted(claimed_by(&store, runs[1], 0, "worker-2").await);
    assert_eq!(second.terminated, Some(runs[0]));
    assert_eq!(state(&store, runs[0]).await, (State::Cancelled, Some(Reason::OverlapReplaced)));
    let late = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, LATE);
    assert_eq!(store.completed(late).await, Applied::Stale { state: State::Cancelled });
    let beat = g::extension(first.fence, LATE, Timestamp::LATEST);
    assert_eq!(store.extend(vec![beat]).await.unwrap(), [Extended::Stale { state: State::Cancelled }]);
    assert_eq!(end(&store, &second, Event::Succeed).await, []);
    assert_eq!(granted(store.claimed(runs[2], 0, LATE).await).terminated, None);
}

/// A version of the job with another policy meets what earlier ones left: those that wait are replaced.
pub async fn policies_of_two_versions_meet(store: Fixture) {
    let (job, runs) = runs(&store, Overlap::BufferAll, 3).await;
    let first = granted(claimed_by(&store, runs[0], 0, "worker-1").await);
    for &id in &runs[1..] {
        assert_eq!(store.claimed(id, 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    }
    let newer = store.change(&job, LATE, g::define(&job, |d| d.overlap = Overlap::TerminateOther)).await;
    let fire = g::fire(&newer, LATE.saturating_add_ms(1));
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let now = LATE.saturating_add_ms(1);
    let granted = granted(store.claimed(id, 0, now).await);
    assert_eq!(granted.terminated, Some(runs[0]));
    for &id in &runs[1..] {
        assert_eq!(state(&store, id).await, REPLACED);
    }
    let late = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, now);
    assert_eq!(store.completed(late).await, Applied::Stale { state: State::Cancelled });
}

/// What waits for its turn, and has not begun, is taken over by a newer version that fires at its instant: it asks for the turn again.
pub async fn a_newer_version_takes_over_what_waits(store: Fixture) {
    let (job, runs) = runs(&store, Overlap::BufferAll, 2).await;
    let first = granted(store.claimed(runs[0], 0, LATE).await);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    // Changed before the instant of the second: that one was held by a clock that was ahead.
    let newer = store.change(&job, DUE, g::define(&job, |_| ())).await;
    assert_eq!(store.fired(vec![g::fire(&newer, at(1))]).await, [Fired::New]);
    assert_eq!(state(&store, runs[1]).await, (State::Pending, None));
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    assert_eq!(end(&store, &first, Event::Succeed).await, [runs[1]]);
    granted(store.claimed(runs[1], 0, LATE).await);

    // Until it has asked again, it is in nobody's way.
    let (job, runs) = runs_of(&store, 3, Overlap::BufferAll, 2).await;
    let first = granted(store.claimed(runs[0], 0, LATE).await);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    let newer = store.change(&job, DUE, g::define(&job, |_| ())).await;
    assert_eq!(store.fired(vec![g::fire(&newer, at(1))]).await, [Fired::New]);
    assert_eq!(end(&store, &first, Event::Succeed).await, []);
    granted(store.claimed(runs[1], 0, LATE).await);

    // A version that allows overlaps does not ask.
    let (job, runs) = runs_of(&store, 2, Overlap::BufferAll, 2).await;
    let first = granted(store.claimed(runs[0], 0, LATE).await);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    let newer = store.change(&job, DUE, g::define(&job, |d| d.overlap = Overlap::Allow)).await;
    assert_eq!(store.fired(vec![g::fire(&newer, at(1))]).await, [Fired::New]);
    granted(store.claimed(runs[1], 0, LATE).await);
    assert_eq!(end(&store, &first, Event::Succeed).await, []);
}

/// Cancelling: the running one releases, a waiting one does not.
pub async fn a_cancel_releases_who_waits(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::BufferAll, 4).await;
    granted(store.claimed(runs[0], 0, LATE).await);
    for &id in &runs[1..] {
        assert_eq!(store.claimed(id, 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    }
    let cancel = async |id| {
        let cancelled = store.cancel(g::cancel(&[id], LATE)).await.unwrap();
        assert_eq!(cancelled.verdicts, [CancelVerdict::Done]);
        ids(&cancelled.ready)
    };
    assert_eq!(cancel(runs[1]).await, [], "one that waits has no turn to give");
    assert_eq!(cancel(runs[0]).await, [runs[2]]);
    assert_eq!(cancel(runs[2]).await, [runs[3]], "one that has its turn and has not started gives it on");
    // Asked to stop, it keeps its turn until it has stopped.
    let last = granted(claimed_by(&store, runs[3], 0, "worker-1").await);
    let ask = CancelBatch { grace_ms: Some(1_000), ..g::cancel(&[runs[3]], LATE) };
    assert!(matches!(store.cancel(ask).await.unwrap().verdicts[..], [CancelVerdict::Asked { .. }]));
    assert_eq!(end(&store, &last, Event::Cancel).await, []);
}

/// Those whose job is gone or changed before their instant are skipped when their turn comes; and the next one gets it.
pub async fn a_turn_passes_over_those_that_must_not_run(store: Fixture) {
    let (job, runs) = runs(&store, Overlap::BufferAll, 3).await;
    let running = granted(store.claimed(runs[0], 0, LATE).await);
    store.claim(runs[1..].iter().map(|&id| g::claim(id, 0, LATE)).collect()).await.unwrap();
    // Accepted between the instants of the first and the second that wait.
    let changed = store.change(&job, at(1), g::define(&job, |_| ())).await;
    let done = g::complete(&running, Event::Succeed, AttemptOutcome::Succeeded, LATE);
    assert_eq!(ids(&store.complete(vec![done]).await.unwrap().ready), [runs[1]]);
    store.change(&changed, LATE, g::Change::Delete).await;
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Discarded(Reason::JobDeleted));
    assert_eq!(state(&store, runs[2]).await, (State::Skipped, Some(Reason::JobDeleted)), "nothing is left behind");
}

/// A claim may find that whoever has the turn must not run, and the one behind it may: it gets the turn, and the claim answers
/// so.
pub async fn a_claim_answers_whom_it_made_ready(store: Fixture) {
    let (job, runs) = runs(&store, Overlap::BufferAll, 2).await;
    let running = granted(store.claimed(runs[0], 0, LATE).await);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    let manual = g::manual_fire(&job, at(9), "x");
    store.fired(vec![manual.clone()]).await;
    let manual = manual.dispatch.execution;
    assert_eq!(store.claimed(manual, 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    assert_eq!(end(&store, &running, Event::Succeed).await, [runs[1]]);
    store.change(&job, at(0), g::define(&job, |_| ())).await;
    let claimed = store.claim(vec![g::claim(runs[1], 0, LATE)]).await.unwrap();
    assert_eq!(claimed.verdicts, [Claimed::Discarded(Reason::StaleVersion)]);
    assert_eq!(ids(&claimed.ready), [manual]);
    assert_eq!(state(&store, manual).await, (State::Pending, None));
    granted(store.claimed(manual, 0, LATE).await);
}

/// A dead run is over; replayed, it is a new one.
pub async fn a_replayed_run_waits_for_its_turn(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::BufferAll, 2).await;
    let first = granted(store.claimed(runs[0], 0, LATE).await);
    assert_eq!(end(&store, &first, Event::FailFinal).await, []);
    let second = granted(store.claimed(runs[1], 0, LATE).await);
    let replay = Resolve::Replay { execution: runs[0], wake_at: LATE };
    let moved = store.resolve_dead(TenantId::DEFAULT, vec![replay], LATE).await.unwrap();
    assert_eq!(ids(&moved.ready), [runs[0]]);
    assert_eq!(store.claimed(runs[0], 1, LATE).await, Claimed::Held { by: runs[1], cancel: false });
    assert_eq!(end(&store, &second, Event::Succeed).await, [runs[0]]);
    granted(store.claimed(runs[0], 1, LATE).await);
}

/// Given back, it keeps its turn.
pub async fn a_released_run_keeps_its_turn(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::Skip, 2).await;
    let first = granted(store.claimed(runs[0], 0, LATE).await);
    let back = g::complete(&first, Event::Release, AttemptOutcome::Released, LATE);
    let wake_at = back.wake_at;
    assert_eq!(store.completed(back).await, Applied::Done);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Discarded(Reason::OverlapForbidden));
    granted(store.claimed(runs[0], 0, wake_at).await);
}

/// A write that fails leaves nothing of itself: neither half of a hand-over.
pub async fn a_hand_over_is_whole_or_not_at_all(store: Fixture) {
    let (_, runs) = runs(&store, Overlap::BufferOne, 2).await;
    let first = granted(store.claimed(runs[0], 0, LATE).await);
    assert_eq!(store.claimed(runs[1], 0, LATE).await, Claimed::Held { by: runs[0], cancel: false });
    let (_, other) = store.pending(2).await;
    let done = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, LATE);
    let wrong = Completion { event: Event::FailFinal, ..g::complete_unclaimed(g::claim(other, 0, LATE)) };
    store.complete(vec![done.clone(), wrong]).await.unwrap_err();
    assert_eq!((state(&store, runs[0]).await.0, state(&store, runs[1]).await), (State::Running, HELD));
    assert_eq!(super::lives::counts(&store).await, super::lives::counted(&store).await);
    assert_eq!(ids(&store.complete(vec![done]).await.unwrap().ready), [runs[1]]);
}

/// Whatever was called in whatever order, everything that waits gets its turn and comes to its end.
pub async fn nobody_waits_for_ever_after_any_walk(store: Fixture) {
    let mut walk = super::walk::Walk::new(&store, super::lives::Dice::new(9)).await;
    for _ in 0..400 {
        walk.step(&store).await;
    }
    walk.check(&store).await;
    walk.finish(&store).await;
    walk.check(&store).await;
}
