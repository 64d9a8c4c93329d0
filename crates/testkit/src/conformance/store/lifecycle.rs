//! Walks THE table: every state × every event that a verb stands for.
//!
//! Legal pairs apply and lead where the table says. Illegal ones are answered with the state, and leave the execution and
//! its attempts exactly as they were. States are reached through verbs ([`bring`]); those of parents, and their events, have
//! no verb yet, and neither has what somebody adds to the table.

use super::lives::{all, counted, counts, pages};
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::filter::Filter;
use campanile_model::job::Job;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::{
    Applied, AttemptFence, CancelVerdict, Claimed, ExecutionQuery, Extended, Fired, JobKey, Resolve, WaitingQuery,
};
use campanile_model::{ExecutionId, Timestamp};

/// Late enough for every backoff of the walk.
const LATER: Timestamp = g::at(600_000);

/// Events that a verb stands for.
const EVENTS: [Event; 13] = [
    Event::Claim,
    Event::Succeed,
    Event::FailRetryable,
    Event::FailFinal,
    Event::Snooze,
    Event::Discard,
    Event::Refire,
    Event::Release,
    Event::Hold,
    Event::Unhold,
    Event::Replay,
    Event::Bury,
    Event::Cancel,
];

/// Brings a new execution, of job `n`, into a state. Runs of that job wait for each other.
pub async fn bring(store: &Fixture, n: u64, state: State) -> (Job, ExecutionId) {
    let job = g::job_with(n, |d| d.overlap = Overlap::BufferAll);
    store.done(g::create(&job)).await;
    let fire = g::fire(&job, DUE);
    let id = fire.dispatch.execution;
    assert_eq!(store.fired(vec![fire]).await, [Fired::New]);
    let complete = async |event, outcome| {
        let granted = store.granted(id, 0, DUE).await;
        assert_eq!(store.completed(g::complete(&granted, event, outcome, DUE)).await, Applied::Done);
    };
    match state {
        State::Pending => {}
        State::Held => {
            let by = rival(store, &job).await;
            assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Held { by, cancel: false });
        }
        State::Running => drop(store.granted(id, 0, DUE).await),
        State::Retrying => complete(Event::FailRetryable, AttemptOutcome::Failed).await,
        State::Succeeded => complete(Event::Succeed, AttemptOutcome::Succeeded).await,
        State::Dead => complete(Event::FailFinal, AttemptOutcome::Failed).await,
        State::Cancelled => assert_eq!(store.cancelled(id, DUE).await, CancelVerdict::Done),
        State::Skipped => {
            store.change(&job, g::at(55_000), g::define(&job, |_| ())).await;
            assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::StaleVersion));
        }
        _ => store.place(id, state).await,
    }
    assert_eq!(store.execution(id).await.state, state);
    (store.get_job(job.id).await.expect("the job is there"), id)
}

/// Starts another run of the job, which fired a second earlier.
async fn rival(store: &Fixture, job: &Job) -> ExecutionId {
    let fire = g::fire(job, DUE.saturating_add_ms(-1_000));
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    store.granted(id, 0, DUE).await;
    id
}

/// Ends whichever other run of the job runs.
async fn end_rival(store: &Fixture, job: &Job, id: ExecutionId) {
    let query = ExecutionQuery { job: Some(job.id), states: vec![State::Running], ..all(10) };
    for other in pages(store, query).await.into_iter().filter(|other| other.id != id) {
        let fence = AttemptFence { execution: other.id, attempt: other.attempt, fence: other.fence };
        let done = g::complete_fence(fence, Event::Succeed, AttemptOutcome::Succeeded, LATER);
        assert_eq!(store.completed(done).await, Applied::Done);
    }
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
        applied(store.completed(completion).await)
    };
    let claim = async |wanted: fn(&Claimed) -> bool| match store.claimed(id, row.attempt, LATER).await {
        Claimed::Stale { state } => Err(Some(state)),
        claimed if wanted(&claimed) => Ok(()),
        other => panic!("{other:?}"),
    };
    match event {
        Event::Claim => claim(|claimed| matches!(claimed, Claimed::Granted(_))).await,
        Event::Succeed => end(AttemptOutcome::Succeeded).await,
        Event::FailRetryable | Event::FailFinal => end(AttemptOutcome::Failed).await,
        Event::Snooze => end(AttemptOutcome::Snoozed).await,
        Event::Release => end(AttemptOutcome::Released).await,
        Event::Discard => {
            // A job that is gone takes what waits with it, tried or not; what waits for another run, when that is over.
            store.change(job, g::at(55_500), g::Change::Delete).await;
            let verdict = claim(|claimed| *claimed == Claimed::Discarded(Reason::JobDeleted)).await;
            end_rival(store, job, id).await;
            if row.state == State::Held { Ok(()) } else { verdict }
        }
        Event::Refire => {
            let newer = Job { version: row.job_version + 5, ..job.clone() };
            match store.fired(vec![g::fire(&newer, DUE)]).await[0] {
                Fired::New => Ok(()),
                Fired::Exists => Err(None),
            }
        }
        Event::Hold => {
            if row.state == State::Pending {
                rival(store, job).await;
            }
            claim(|claimed| matches!(claimed, Claimed::Held { .. })).await
        }
        Event::Unhold => {
            end_rival(store, job, id).await;
            if store.execution(id).await.state == row.state { Err(None) } else { Ok(()) }
        }
        Event::Replay => {
            let replays = vec![Resolve::Replay { execution: id, wake_at: LATER }];
            applied(store.resolve_dead(job.tenant, replays, LATER).await.unwrap().verdicts[0])
        }
        Event::Bury => {
            applied(store.resolve_dead(job.tenant, g::discard(vec![id], "enough"), LATER).await.unwrap().verdicts[0])
        }
        Event::Cancel => match store.cancelled(id, LATER).await {
            CancelVerdict::Done => Ok(()),
            CancelVerdict::Stale { state } => Err(Some(state)),
            other => panic!("{other:?}"),
        },
        _ => unreachable!("no verb stands for {event:?}"),
    }
}

/// I5: only table transitions.
pub async fn legal_events_apply_and_illegal_ones_change_nothing(store: Fixture) {
    let mut n = 0;
    let mut legal = 0;
    for state in State::ALL {
        for event in EVENTS {
            // What may be claimed but not held has the turn, such as what waits for its backoff: no verb can try.
            let may = |event| lifecycle::sources(event).contains(state);
            if event == Event::Hold && may(Event::Claim) && !may(Event::Hold) {
                continue;
            }
            n += 1;
            let (job, id) = bring(&store, n, state).await;
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
    let expected = lifecycle::TRANSITIONS.iter().filter(|(_, event, _)| EVENTS.contains(event));
    assert_eq!(legal, expected.count(), "every transition that a verb stands for was walked");
}

/// Fences of earlier attempts, of none, and of nobody: nothing happens in any state.
pub async fn old_fences_lose_in_every_state(store: Fixture) {
    for (n, state) in (1..).zip(State::ALL) {
        let (job, id) = bring(&store, n, state).await;
        let row = store.execution(id).await;
        let current = AttemptFence { execution: id, attempt: row.attempt, fence: row.fence };
        let before = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
        for fence in [
            AttemptFence { fence: current.fence + 1, ..current },
            AttemptFence { fence: current.fence.wrapping_sub(1) & (u64::MAX >> 1), ..current },
            AttemptFence { attempt: current.attempt + 1, ..current },
            AttemptFence { attempt: current.attempt.wrapping_sub(1), ..current },
        ] {
            for event in
                [Event::Succeed, Event::FailRetryable, Event::FailFinal, Event::Snooze, Event::Release, Event::Cancel]
            {
                let completion = g::complete_fence(fence, event, AttemptOutcome::Failed, LATER);
                assert_eq!(
                    store.completed(completion).await,
                    Applied::Stale { state },
                    "{state:?} {event:?} {fence:?}"
                );
            }
            if fence.fence != current.fence {
                let extension = g::extension(fence, DUE, Timestamp::LATEST);
                assert_eq!(store.extend(vec![extension]).await.unwrap(), [Extended::Stale { state }]);
            }
        }
        let after = (store.execution(id).await, store.list_attempts(job.tenant, id).await.unwrap());
        assert_eq!(after, before, "{state:?}");
        assert!(store.get_jobs(job.tenant, &[JobKey::Id(job.id)]).await.unwrap()[0].is_some());
    }
}

/// Lists, filters and counts know every state of the table, and only what may be claimed is handed out.
pub async fn every_state_is_listed_counted_and_handed_out_by_the_table(store: Fixture) {
    for (n, state) in (1..).zip(State::ALL) {
        bring(&store, n, state).await;
    }
    let rows = pages(&store, all(100)).await;
    for state in State::ALL {
        let expected: Vec<_> = rows.iter().filter(|row| row.state == state).cloned().collect();
        assert!(!expected.is_empty(), "{state:?}");
        let listed = pages(&store, ExecutionQuery { states: vec![state], ..all(2) }).await;
        assert_eq!(listed, expected, "{state:?}");
        let filter = Filter::parse(&format!("state:{}", state.as_str()), LATER).unwrap();
        let meant = State::meant_by(state.as_str()).unwrap();
        let expected: Vec<_> = rows.iter().filter(|row| meant.contains(row.state)).cloned().collect();
        assert_eq!(pages(&store, ExecutionQuery { filter, ..all(3) }).await, expected, "state:{}", state.as_str());
    }
    for set in [lifecycle::OPEN, lifecycle::WAITS, lifecycle::FINAL, lifecycle::UNHAPPY] {
        let expected: Vec<_> = rows.iter().filter(|row| set.contains(row.state)).cloned().collect();
        assert_eq!(pages(&store, ExecutionQuery { states: set.iter().collect(), ..all(4) }).await, expected, "{set:?}");
    }
    assert_eq!(counts(&store).await, counted(&store).await);
    assert_eq!(store.reconcile().await.unwrap(), 0);
    let (before, fired_until) = (Timestamp::MAX, Timestamp::MAX);
    let query = WaitingQuery { shards: Vec::new(), before, fired_until, after: None, limit: 100 };
    let mut waiting: Vec<_> =
        store.load_waiting(&query).await.unwrap().iter().map(|it| it.dispatch.execution).collect();
    waiting.sort_unstable();
    let claimable = rows.iter().filter(|row| lifecycle::sources(Event::Claim).contains(row.state));
    let mut expected: Vec<_> = claimable.map(|row| row.id).collect();
    expected.sort_unstable();
    assert_eq!(waiting, expected);
}
