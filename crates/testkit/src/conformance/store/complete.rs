//! Ending attempts.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::error::Kind;
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason, Response};
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{Applied, AttemptFence, Completion, CompletionOf};
use campanile_model::{ExecutionId, TenantId};

async fn complete(store: &Fixture, completion: Completion) -> Applied {
    store.completed(completion).await
}

fn error() -> Option<AttemptError> {
    Some(AttemptError { kind: "http_503".into(), message: "no\nway".into() })
}

fn response(status: u16) -> Option<Response> {
    Some(Response { status, body: vec![0, 255, 7], truncated: status == 503 })
}

/// State, times and outcome.
pub async fn a_success_ends_it(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let now = DUE.saturating_add_ms(40);
    let completion = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, now);
    assert_eq!(complete(&store, completion.clone()).await, Applied::Done);
    let done = store.execution(id).await;
    assert_eq!((done.state, done.attempt, done.outcome), (State::Succeeded, 1, Some(AttemptOutcome::Succeeded)));
    assert_eq!((done.started_at, done.finished_at), (Some(completion.started_at), Some(now)));
    assert_eq!((done.reason, done.error), (None, None));
}

/// It can be claimed again when the backoff is over, not before, as the next attempt.
pub async fn a_failure_waits_for_its_backoff(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let first = store.granted(id, 0, DUE).await;
    let failed =
        Completion { error: error(), ..g::complete(&first, Event::FailRetryable, AttemptOutcome::TimedOut, DUE) };
    let wake_at = failed.wake_at;
    assert_eq!(complete(&store, failed).await, Applied::Done);
    let waiting = store.execution(id).await;
    assert_eq!((waiting.state, waiting.attempt, waiting.wake_at), (State::Retrying, 1, wake_at));
    assert_eq!((waiting.outcome, &waiting.error), (Some(AttemptOutcome::TimedOut), &error()));
    let early = wake_at.saturating_add_ms(-1);
    assert_eq!(store.claimed(id, 1, early).await, campanile_model::store::Claimed::Early { wake_at });
    assert!(matches!(
        store.claimed(id, 0, wake_at).await,
        campanile_model::store::Claimed::Stale { state: State::Retrying }
    ));
    let second = store.granted(id, 1, wake_at).await;
    assert!(second.fence.attempt == 2 && second.fence.fence > first.fence.fence);
    let running = store.execution(id).await;
    assert_eq!(
        (running.state, running.outcome, running.error, running.finished_at),
        (State::Running, None, None, None)
    );
}

/// Dead, with reason and error.
pub async fn a_final_failure_says_why(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let failed = g::complete(&granted, Event::FailFinal, AttemptOutcome::Failed, DUE);
    let failed = Completion { reason: Some(Reason::PermanentFailure), error: error(), ..failed };
    assert_eq!(complete(&store, failed).await, Applied::Done);
    let dead = store.execution(id).await;
    assert_eq!((dead.state, dead.reason, dead.error), (State::Dead, Some(Reason::PermanentFailure), error()));
}

/// The attempt's number comes again, with another fence.
pub async fn a_snooze_burns_no_attempt(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let mut now = DUE;
    let mut fences = Vec::new();
    for _ in 0..3 {
        let granted = store.granted(id, 0, now).await;
        assert_eq!(granted.fence.attempt, 1);
        fences.push(granted.fence.fence);
        let snoozed = g::complete(&granted, Event::Snooze, AttemptOutcome::Snoozed, now);
        now = snoozed.wake_at;
        assert_eq!(complete(&store, snoozed.clone()).await, Applied::Done);
        assert_eq!(complete(&store, snoozed).await, Applied::Done, "again");
        let waiting = store.execution(id).await;
        assert_eq!((waiting.state, waiting.attempt), (State::Retrying, 0));
    }
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    let seen: Vec<_> = attempts.iter().map(|attempt| (attempt.number, attempt.fence, attempt.outcome)).collect();
    assert_eq!(seen, fences.iter().map(|&fence| (1, fence, Some(AttemptOutcome::Snoozed))).collect::<Vec<_>>());
}

/// Given back before it began: as if it had not been handed out, but for the count of that.
pub async fn a_release_burns_no_attempt_and_leaves_none(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let first = store.granted(id, 0, DUE).await;
    let back = g::complete(&first, Event::Release, AttemptOutcome::Released, DUE);
    let wake_at = back.wake_at;
    assert_eq!(complete(&store, back.clone()).await, Applied::Done);
    assert_eq!(complete(&store, back).await, Applied::Done, "again");
    let row = store.execution(id).await;
    assert_eq!((row.state, row.attempt, row.wake_at, row.deliveries), (State::Pending, 0, wake_at, 1));
    assert_eq!((row.started_at, row.worker, row.claimed_at), (None, None, None));
    assert_eq!(store.list_attempts(job.tenant, id).await.unwrap(), []);
    let late = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, DUE);
    assert_eq!(complete(&store, late).await, Applied::Stale { state: State::Pending });
    // After an attempt that did begin.
    let second = store.granted(id, 0, wake_at).await;
    assert_eq!((second.fence.attempt, second.first_started_at), (1, wake_at), "what was given back never started");
    let failed = g::complete(&second, Event::FailRetryable, AttemptOutcome::Failed, wake_at);
    let wake_at = failed.wake_at;
    complete(&store, failed).await;
    let third = store.granted(id, 1, wake_at).await;
    let back = g::complete(&third, Event::Release, AttemptOutcome::Released, wake_at);
    let wake_at = back.wake_at;
    complete(&store, back).await;
    let row = store.execution(id).await;
    assert_eq!((row.state, row.attempt, row.deliveries), (State::Pending, 1, 3));
    assert_eq!(store.list_attempts(job.tenant, id).await.unwrap().len(), 1);
    let fourth = store.granted(id, 1, wake_at).await;
    assert_eq!(fourth.fence.attempt, 2);
    complete(&store, g::complete(&fourth, Event::Succeed, AttemptOutcome::Succeeded, wake_at)).await;
    let numbers: Vec<u32> = store.list_attempts(job.tenant, id).await.unwrap().iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2]);
}

/// Only attempts that were lost with their runner count as losses.
pub async fn losses_are_counted(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let mut now = DUE;
    for (i, outcome) in
        [AttemptOutcome::WorkerLost, AttemptOutcome::Failed, AttemptOutcome::TimedOut, AttemptOutcome::WorkerLost]
            .into_iter()
            .enumerate()
    {
        let granted = store.granted(id, i as u32, now).await;
        let failed = g::complete(&granted, Event::FailRetryable, outcome, now);
        now = failed.wake_at;
        complete(&store, failed).await;
    }
    let row = store.execution(id).await;
    assert_eq!((row.losses, row.deliveries, row.attempt), (2, 4, 4));
}

/// After an answer that was lost, the caller sends it again.
pub async fn the_same_completion_again_is_done(store: Fixture) {
    for (n, event, outcome) in [
        (1, Event::Succeed, AttemptOutcome::Succeeded),
        (2, Event::FailRetryable, AttemptOutcome::Failed),
        (3, Event::FailFinal, AttemptOutcome::Failed),
        (4, Event::Snooze, AttemptOutcome::Snoozed),
        (5, Event::Cancel, AttemptOutcome::Cancelled),
    ] {
        let (job, id) = store.pending(n).await;
        let granted = store.granted(id, 0, DUE).await;
        let completion = g::complete(&granted, event, outcome, DUE);
        assert_eq!(complete(&store, completion.clone()).await, Applied::Done);
        let after = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
        assert_eq!(complete(&store, completion).await, Applied::Done, "{event:?}");
        assert_eq!((store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap()), after);
        assert_eq!(after.1.len(), 1);
    }
    let (_, id) = store.pending(6).await;
    let completion = g::complete_unclaimed(g::claim(id, 0, DUE));
    assert_eq!(complete(&store, completion.clone()).await, Applied::Done);
    assert_eq!(complete(&store, completion).await, Applied::Done);
}

/// The runner and the reaper hold the same fence; whoever is second is told so.
pub async fn another_completion_of_the_same_attempt_is_stale(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let lost = g::complete(&granted, Event::FailRetryable, AttemptOutcome::WorkerLost, DUE);
    assert_eq!(complete(&store, lost).await, Applied::Done);
    let before = store.execution(id).await;
    let retrying = Applied::Stale { state: State::Retrying };
    for (event, outcome) in [
        (Event::Succeed, AttemptOutcome::Succeeded),
        (Event::FailRetryable, AttemptOutcome::Failed),
        (Event::FailFinal, AttemptOutcome::Failed),
        (Event::Snooze, AttemptOutcome::Snoozed),
        (Event::Cancel, AttemptOutcome::Cancelled),
    ] {
        assert_eq!(complete(&store, g::complete(&granted, event, outcome, DUE)).await, retrying, "{event:?}");
    }
    assert_eq!(store.execution(id).await, before);
}

/// S12: the zombie of an earlier attempt.
pub async fn an_older_attempt_cannot_complete(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let first = store.granted(id, 0, DUE).await;
    let failed = g::complete(&first, Event::FailRetryable, AttemptOutcome::WorkerLost, DUE);
    complete(&store, failed.clone()).await;
    store.granted(id, 1, failed.wake_at).await;
    let before = store.execution(id).await;
    let late = g::complete(&first, Event::Succeed, AttemptOutcome::Succeeded, failed.wake_at);
    assert_eq!(complete(&store, late).await, Applied::Stale { state: State::Running });
    assert_eq!(complete(&store, failed).await, Applied::Stale { state: State::Running });
    assert_eq!(store.execution(id).await, before);
}

/// Number, fence and execution must all fit.
pub async fn a_wrong_fence_cannot_complete(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let (_, other) = store.pending(2).await;
    let granted = store.granted(id, 0, DUE).await.fence;
    let before = (store.execution(id).await, store.execution(other).await);
    let running = Applied::Stale { state: State::Running };
    for (fence, verdict) in [
        (AttemptFence { fence: granted.fence + 1, ..granted }, running),
        (AttemptFence { fence: 0, ..granted }, running),
        (AttemptFence { attempt: 0, ..granted }, running),
        (AttemptFence { attempt: 2, ..granted }, running),
        (AttemptFence { execution: other, ..granted }, Applied::Stale { state: State::Pending }),
        (AttemptFence { execution: ExecutionId::floor(DUE), ..granted }, Applied::Gone),
    ] {
        let completion = g::complete_fence(fence, Event::Succeed, AttemptOutcome::Succeeded, DUE);
        assert_eq!(complete(&store, completion).await, verdict, "{fence:?}");
    }
    assert_eq!((store.execution(id).await, store.execution(other).await), before);
}

/// Claim and completion together leave what both would have left.
pub async fn an_unclaimed_success_is_one_write(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let completion = Completion { response: response(200), ..g::complete_unclaimed(g::claim_by(id, 0, DUE, "node:a")) };
    assert_eq!(complete(&store, completion).await, Applied::Done);
    let done = store.execution(id).await;
    assert_eq!((done.state, done.attempt, done.outcome), (State::Succeeded, 1, Some(AttemptOutcome::Succeeded)));
    assert_eq!((done.started_at, done.finished_at), (Some(DUE), Some(DUE)));
    assert!(done.fence > 0 && done.worker.as_deref() == Some("node:a"));
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].number, attempts[0].fence, &attempts[0].response), (1, done.fence, &response(200)));
}

/// Early, doubled, cancelled, changed, missing.
pub async fn an_unclaimed_success_respects_the_guards_of_a_claim(store: Fixture) {
    let unclaimed = |id, now| g::complete_unclaimed(g::claim(id, 0, now));
    let (_, early) = store.pending(1).await;
    let early_verdict = complete(&store, unclaimed(early, DUE.saturating_add_ms(-1))).await;
    assert_eq!(early_verdict, Applied::Stale { state: State::Pending });
    let (_, running) = store.pending(2).await;
    store.granted(running, 0, DUE).await;
    assert_eq!(complete(&store, unclaimed(running, DUE)).await, Applied::Stale { state: State::Running });
    let (_, cancelled) = store.pending(3).await;
    store.cancelled(cancelled, DUE).await;
    assert_eq!(complete(&store, unclaimed(cancelled, DUE)).await, Applied::Stale { state: State::Cancelled });
    let (job, changed) = store.pending(4).await;
    store.change(&job, g::at(55_000), g::define(&job, |_| ())).await;
    assert_eq!(complete(&store, unclaimed(changed, DUE)).await, Applied::Stale { state: State::Skipped });
    assert_eq!(store.execution(changed).await.reason, Some(Reason::StaleVersion));
    assert_eq!(complete(&store, unclaimed(ExecutionId::floor(DUE), DUE)).await, Applied::Gone);
    let (_, twice) = store.pending(5).await;
    assert_eq!(complete(&store, unclaimed(twice, DUE)).await, Applied::Done);
    let other = g::complete_unclaimed(g::claim_by(twice, 0, DUE, "somebody else"));
    assert_eq!(complete(&store, other).await, Applied::Stale { state: State::Succeeded });
}

/// Only successes may skip the durable claim; the rest of a batch is not hurt by a caller's mistake.
pub async fn an_unclaimed_failure_is_refused(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let before = store.execution(id).await;
    let wrong = Completion { event: Event::FailFinal, ..g::complete_unclaimed(g::claim(id, 0, DUE)) };
    assert_eq!(store.complete(vec![wrong]).await.unwrap_err().kind(), Kind::Bug);
    assert_eq!(store.execution(id).await, before);
}

/// Small ones may stand elsewhere than large ones; of none is anything lost.
pub async fn responses_of_every_size_are_kept(store: Fixture) {
    let bodies = [0, 1, 255, 256, 257, 10_000].map(|bytes| vec![7; bytes]);
    let truncated = [false, true];
    let events = [(Event::Succeed, AttemptOutcome::Succeeded), (Event::FailFinal, AttemptOutcome::Failed)];
    let mut number = 0;
    for (body, truncated, (event, outcome)) in bodies
        .iter()
        .flat_map(|body| truncated.map(|cut| (body, cut)))
        .flat_map(|(body, cut)| events.map(|event| (body, cut, event)))
    {
        number += 1;
        let (job, id) = store.pending(number).await;
        let granted = store.granted(id, 0, DUE).await;
        let response = Some(Response { status: 200, body: body.clone(), truncated });
        let done = g::complete(&granted, event, outcome, DUE);
        assert_eq!(complete(&store, Completion { response: response.clone(), ..done }).await, Applied::Done);
        let attempts = store.list_attempts(job.tenant, id).await.unwrap();
        assert_eq!((attempts.len(), &attempts[0].response), (1, &response), "{} bytes, {event:?}", body.len());
    }
}

/// I8: attempts are append-only; each keeps its own answer.
pub async fn attempts_are_listed_with_their_responses(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let first = store.granted(id, 0, DUE).await;
    let failed = g::complete(&first, Event::FailRetryable, AttemptOutcome::Failed, DUE);
    let failed = Completion { error: error(), response: response(503), ..failed };
    complete(&store, failed.clone()).await;
    let early = store.list_attempts(job.tenant, id).await.unwrap();
    let second = store.granted(id, 1, failed.wake_at).await;
    assert_eq!(store.list_attempts(job.tenant, id).await.unwrap().len(), 2);
    let done = g::complete(&second, Event::Succeed, AttemptOutcome::Succeeded, failed.wake_at);
    complete(&store, Completion { response: response(200), ..done.clone() }).await;
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!(attempts[..1], early[..]);
    assert_eq!(attempts.len(), 2);
    assert_eq!((attempts[0].number, attempts[0].outcome), (1, Some(AttemptOutcome::Failed)));
    assert_eq!((&attempts[0].error, &attempts[0].response), (&error(), &response(503)));
    assert_eq!((attempts[0].finished_at, attempts[0].worker.as_deref()), (Some(DUE), Some("worker-1")));
    assert_eq!((attempts[1].number, attempts[1].fence), (2, second.fence.fence));
    assert_eq!((&attempts[1].error, &attempts[1].response), (&None, &response(200)));
    assert!(matches!(done.of, CompletionOf::Running(_)));
    assert_eq!(store.list_attempts(TenantId(2), id).await.unwrap(), []);
}
