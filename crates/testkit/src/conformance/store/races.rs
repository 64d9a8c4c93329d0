//! Real concurrency: many callers, one winner.

use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::execution::AttemptOutcome;
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::shard::shard_of;
use campanile_model::store::{
    Answer, Applied, Claimed, ExecutionQuery, Fire, FireVerdict, Idempotency, JobQuery, Put, Store,
};
use campanile_model::{ExecutionId, TenantId};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Runs `n` calls at once and collects what they answer.
async fn together<T, F>(store: &Fixture, n: u64, call: impl Fn(u64, Arc<dyn Store>) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut set = JoinSet::new();
    for i in 0..n {
        set.spawn(call(i, Arc::clone(store)));
    }
    set.join_all().await
}

async fn many_pending(store: &Fixture, n: u64) -> Vec<ExecutionId> {
    let jobs = store.jobs(n).await;
    let fires: Vec<Fire> = jobs.iter().map(|job| g::fire(job, DUE)).collect();
    store.fired(fires.clone()).await;
    fires.iter().map(|fire| fire.dispatch.execution).collect()
}

/// Eight claimers of the same three hundred: three hundred grants.
pub async fn one_claimer_wins(store: Fixture) {
    let ids = many_pending(&store, 300).await;
    let grants = together(&store, 8, |i, store| {
        let mut ids = ids.clone();
        ids.rotate_left(i as usize * 37);
        async move {
            let mut granted = Vec::new();
            for part in ids.chunks(20) {
                let worker = format!("w{i}");
                let claims = part.iter().map(|&id| g::claim_by(id, 0, DUE, &worker)).collect();
                for claimed in store.claim(claims).await.unwrap() {
                    match claimed {
                        Claimed::Granted(it) => granted.push((it.fence.execution, it.fence.fence)),
                        other => assert_eq!(other, Claimed::Stale { state: State::Running }),
                    }
                }
            }
            granted
        }
    });
    let mut grants: Vec<_> = grants.await.into_iter().flatten().collect();
    assert_eq!(grants.len(), 300);
    grants.sort_by_key(|(_, fence)| *fence);
    assert!(grants.windows(2).all(|pair| pair[0].1 < pair[1].1), "no fence twice");
    grants.sort_by_key(|(id, _)| *id);
    assert!(grants.windows(2).all(|pair| pair[0].0 < pair[1].0), "no execution twice");
}

/// I7: claim, cancel and complete of an execution are linearizable.
pub async fn cancel_or_start_but_not_both(store: Fixture) {
    let ids = many_pending(&store, 200).await;
    let answers = together(&store, 2, |i, store| {
        let ids = ids.clone();
        async move {
            let mut won = Vec::new();
            for &id in &ids {
                won.push(if i == 0 {
                    store.cancel(TenantId::DEFAULT, vec![id], DUE, None).await.unwrap()[0] == Applied::Done
                } else {
                    let unclaimed = g::complete_unclaimed(g::claim(id, 0, DUE));
                    store.complete(vec![unclaimed]).await.unwrap()[0] == Applied::Done
                });
            }
            (i, won)
        }
    });
    let mut answers = answers.await;
    answers.sort();
    for (n, &id) in ids.iter().enumerate() {
        let (cancelled, completed) = (answers[0].1[n], answers[1].1[n]);
        assert!(cancelled != completed, "one of the two: {cancelled} {completed}");
        let state = store.execution(id).await.state;
        assert_eq!(state, if cancelled { State::Cancelled } else { State::Succeeded });
    }
}

/// The runner, the reaper and an operator end the same attempt.
pub async fn one_completion_wins(store: Fixture) {
    let ids = many_pending(&store, 100).await;
    let claims = ids.iter().map(|&id| g::claim(id, 0, DUE)).collect();
    let fences = store.claim(claims).await.unwrap().into_iter().map(|claimed| match claimed {
        Claimed::Granted(granted) => granted.fence,
        other => panic!("{other:?}"),
    });
    let fences: Vec<_> = fences.collect();
    let wins = together(&store, 4, |i, store| {
        let (fences, ids) = (fences.clone(), ids.clone());
        async move {
            if i == 3 {
                let verdicts = store.cancel(TenantId::DEFAULT, ids, DUE, None).await.unwrap();
                return verdicts.into_iter().filter(|verdict| *verdict == Applied::Done).count();
            }
            let (event, outcome) = [
                (Event::Succeed, AttemptOutcome::Succeeded),
                (Event::FailFinal, AttemptOutcome::Failed),
                (Event::FailFinal, AttemptOutcome::WorkerLost),
            ][i as usize];
            let mut won = 0;
            for part in fences.chunks(7) {
                let completions = part.iter().map(|&fence| g::complete_fence(fence, event, outcome, DUE)).collect();
                let verdicts = store.complete(completions).await.unwrap();
                won += verdicts.into_iter().filter(|verdict| *verdict == Applied::Done).count();
            }
            won
        }
    });
    assert_eq!(wins.await.into_iter().sum::<usize>(), 100);
}

/// Names are unique under concurrency too.
pub async fn one_creator_of_a_name_wins(store: Fixture) {
    let verdicts = together(&store, 16, |i, store| async move {
        let job = Job { name: "same".into(), ..g::job(i + 1) };
        store.put_jobs(vec![g::create(job)]).await.unwrap().remove(0)
    });
    let verdicts = verdicts.await;
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Put::Done).count(), 1);
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done | Put::NameTaken { .. })));
}

/// I15: many callers with the same key make one job.
pub async fn one_key_makes_one_job(store: Fixture) {
    let verdicts = together(&store, 100, |i, store| async move {
        let key = Idempotency {
            scope: "s".into(),
            key: "k".into(),
            fingerprint: 1,
            answer: Answer { status: 201, body: i.to_string() },
            expires_at: g::at(1_000),
        };
        let write = g::with_key(g::create(g::job(i + 1)), key);
        (i, store.put_jobs(vec![write]).await.unwrap().remove(0))
    });
    let verdicts = verdicts.await;
    let winner = verdicts.iter().find(|(_, verdict)| *verdict == Put::Done).unwrap().0;
    let answer = Answer { status: 201, body: winner.to_string() };
    let replayed = verdicts.iter().filter(|(_, verdict)| *verdict == Put::Replayed(answer.clone())).count();
    assert_eq!(replayed, 99);
    assert_eq!(store.list_jobs(&JobQuery { limit: 10, ..JobQuery::default() }).await.unwrap().items.len(), 1);
}

/// Once a take-over is answered, the old owner has fired its last.
pub async fn a_takeover_cuts_the_old_owner_off(store: Fixture) {
    let job = store.job(1).await;
    let old = store.open_all().await;
    let firing = {
        let (store, old, job) = (Arc::clone(&store), old.clone(), job.clone());
        tokio::spawn(async move {
            for ms in 0.. {
                let fires = vec![g::fire(&job, g::at(ms))];
                if store.fire(batch(old.clone(), fires)).await.unwrap()
                    != FireVerdict::Fired(vec![campanile_model::store::Fired::New])
                {
                    return ms;
                }
            }
            unreachable!()
        })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.open_shards(&[shard_of(job.id)], "new").await.unwrap();
    let query = ExecutionQuery {
        tenant: job.tenant,
        job: Some(job.id),
        states: Vec::new(),
        from: None,
        to: None,
        before: None,
        limit: usize::MAX >> 1,
    };
    let fired = store.list_executions(&query).await.unwrap().items.len();
    assert_eq!(firing.await.unwrap() as usize, fired, "nothing was fired after the take-over");
}

/// Callers that give up at random moments: what they asked for happens whole or not at all, and nothing is stuck.
pub async fn abandoned_calls_leave_the_store_working(store: Fixture) {
    for round in 0..50u64 {
        let jobs: Vec<Job> = (0..20).map(|n| g::job(1 + round * 20 + n)).collect();
        let put = store.put_jobs(jobs.iter().cloned().map(g::create).collect());
        let _ = tokio::time::timeout(Duration::from_micros(round * 20), put).await;
        let query = JobQuery { limit: 1_000, ..JobQuery::default() };
        let _ = tokio::time::timeout(Duration::from_micros(round * 5), store.list_jobs(&query)).await;
    }
    // A write that waits behind all that were abandoned.
    store.job(1_000_000).await;
    let count = store.list_jobs(&JobQuery { limit: 10_000, ..JobQuery::default() }).await.unwrap().items.len();
    assert_eq!(count % 20, 1, "batches are whole");
    assert_eq!(store.status().await.unwrap().jobs as usize, count);
}
