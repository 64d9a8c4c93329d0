//! Walks THE table: every state × every event that a verb stands for.
//!
//! Legal pairs apply and lead where the table says. Illegal ones are answered with the state, and leave the execution and
//! its attempts exactly as they were. States are reached through verbs only ([`bring`]); `Blocked` and the events of its
//! parents, and `Replay`, have no verb yet.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::job::{Job, JobState};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{Applied, AttemptFence, Claimed, Extension, Fired, JobKey, Put};
use campanile_model::{ExecutionId, Timestamp};

/// Late enough for every backoff of the walk.
const LATER: Timestamp = g::at(600_000);

/// Events that a verb stands for.
const EVENTS: [Event; 8] = [
    Event::Claim,
    Event::Succeed,
    Event::FailRetryable,
    Event::FailFinal,
    Event::Snooze,
    Event::Discard,
    Event::Refire,
    Event::Cancel,
];

/// Brings a new execution, of job `n`, into a state; `None` where no verb leads there.
pub async fn bring(store: &Fixture, n: u64, state: State) -> Option<(Job, ExecutionId)> {
    if state == State::Blocked {
        return None;
    }
    let (job, id) = store.pending(n).await;
    let complete = async |event, outcome| {
        let granted = store.granted(id, 0, DUE).await;
        let verdicts = store.complete(vec![g::complete(&granted, event, outcome, DUE)]).await.unwrap();
        assert_eq!(verdicts, [Applied::Done]);
    };
    match state {
        State::Blocked | State::Pending => {}
        State::Running => drop(store.granted(id, 0, DUE).await),
        State::Retrying => complete(Event::FailRetryable, AttemptOutcome::Failed).await,
        State::Succeeded => complete(Event::Succeed, AttemptOutcome::Succeeded).await,
        State::Dead => complete(Event::FailFinal, AttemptOutcome::Failed).await,
        State::Cancelled => {
            assert_eq!(store.cancel(job.tenant, vec![id], DUE, None).await.unwrap(), [Applied::Done]);
        }
        State::Skipped => {
            store.change(&job, g::at(55_000), |_| ()).await;
            assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::StaleVersion));
        }
    }
    assert_eq!(store.execution(id).await.state, state);
    Some((store.get_job(job.id).await?, id))
}

/// Tries an event by its verb, with the row's own attempt and fence. Answers the state that a refusal told.
async fn attempt(store: &Fixture, job: &Job, id: ExecutionId, event: Event) -> Result<(), Option<State>> {
    let row = store.execution(id).await;
    let fence = AttemptFence { execution: id, attempt: row.attempt, fence: row.fence };
    let applied = |verdict| match verdict {
        Applied::Done => Ok(()),
        Applied::Stale { state } => Err(Some(state)),
        Applied::Gone => panic!("{id} is there"),
    };
    let end = async |outcome| {
        let completion = g::complete_fence(fence, event, outcome, LATER);
        applied(store.complete(vec![completion]).await.unwrap()[0])
    };
    match event {
        Event::Claim => match store.claimed(id, row.attempt, LATER).await {
            Claimed::Granted(_) => Ok(()),
            Claimed::Stale { state } => Err(Some(state)),
            other => panic!("{other:?}"),
        },
        Event::Succeed => end(AttemptOutcome::Succeeded).await,
        Event::FailRetryable | Event::FailFinal => end(AttemptOutcome::Failed).await,
        Event::Snooze => end(AttemptOutcome::Snoozed).await,
        Event::Discard => {
            // A job that is gone takes what waits with it, tried or not.
            let gone = g::change(job, g::at(55_500), |job| job.state = JobState::Deleted);
            assert_eq!(store.put(gone).await, Put::Done);
            match store.claimed(id, row.attempt, LATER).await {
                Claimed::Discarded(Reason::JobDeleted) => Ok(()),
                Claimed::Stale { state } => Err(Some(state)),
                other => panic!("{other:?}"),
            }
        }
        Event::Refire => {
            let newer = Job { version: row.job_version + 5, ..job.clone() };
            match store.fired(vec![g::fire(&newer, DUE)]).await[0] {
                Fired::New => Ok(()),
                Fired::Exists => Err(None),
            }
        }
        Event::Cancel => applied(store.cancel(job.tenant, vec![id], LATER, None).await.unwrap()[0]),
        Event::ParentsDone | Event::ParentFailed | Event::Replay => unreachable!("no verb stands for {event:?}"),
    }
}

/// I5: only table transitions.
pub async fn legal_events_apply_and_illegal_ones_change_nothing(store: Fixture) {
    let mut n = 0;
    let mut legal = 0;
    for state in State::ALL {
        for event in EVENTS {
            n += 1;
            let Some((job, id)) = bring(&store, n, state).await else { continue };
            let before = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
            let verdict = attempt(&store, &job, id, event).await;
            let after = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
            match lifecycle::apply(state, event) {
                Ok(target) => {
                    assert_eq!(verdict, Ok(()), "{state:?} {event:?} is legal");
                    assert_eq!(after.0.state, target, "{state:?} {event:?}");
                    legal += 1;
                }
                Err(_) => {
                    assert!(verdict == Err(Some(state)) || verdict == Err(None), "{state:?} {event:?}: {verdict:?}");
                    assert_eq!(after, before, "{state:?} {event:?} is illegal and changes nothing");
                }
            }
        }
    }
    let expected =
        lifecycle::TRANSITIONS.iter().filter(|(from, event, _)| *from != State::Blocked && EVENTS.contains(event));
    assert_eq!(legal, expected.count(), "every transition that a verb stands for was walked");
}

/// Fences of earlier attempts, of none, and of nobody: nothing happens in any state.
pub async fn old_fences_lose_in_every_state(store: Fixture) {
    for (n, state) in (1..).zip(State::ALL) {
        let Some((job, id)) = bring(&store, n, state).await else { continue };
        let row = store.execution(id).await;
        let current = AttemptFence { execution: id, attempt: row.attempt, fence: row.fence };
        let before = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
        for fence in [
            AttemptFence { fence: current.fence + 1, ..current },
            AttemptFence { fence: current.fence.wrapping_sub(1) & (u64::MAX >> 1), ..current },
            AttemptFence { attempt: current.attempt + 1, ..current },
            AttemptFence { attempt: current.attempt.wrapping_sub(1), ..current },
        ] {
            for event in [Event::Succeed, Event::FailRetryable, Event::FailFinal, Event::Snooze, Event::Cancel] {
                let completion = g::complete_fence(fence, event, AttemptOutcome::Failed, LATER);
                let verdict = store.complete(vec![completion]).await.unwrap().remove(0);
                assert_eq!(verdict, Applied::Stale { state }, "{state:?} {event:?} {fence:?}");
            }
            let extension = Extension { fence, lease_until: Timestamp::LATEST };
            assert_eq!(store.extend(vec![extension]).await.unwrap(), [Applied::Stale { state }]);
        }
        let after = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
        assert_eq!(after, before, "{state:?}");
        assert!(store.get_jobs(job.tenant, &[JobKey::Id(job.id)]).await.unwrap()[0].is_some());
    }
}
