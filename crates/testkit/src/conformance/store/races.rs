//! Real concurrency: many callers, one winner.

use super::histories::{self, Call, What};
use super::lives::Dice;
use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::execution::AttemptOutcome;
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::shard::shard_of;
use campanile_model::store::{
    Answer, Applied, AttemptFence, CallerKey, CancelBatch, CancelVerdict, Claimed, Completion, ExecutionQuery, Fire,
    FireVerdict, JobQuery, Put, Store, Verdicts,
};
use campanile_model::{ExecutionId, TenantId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};

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
                for claimed in store.claim(claims).await.unwrap().verdicts {
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
                    store.cancel(g::cancel(&[id], DUE)).await.unwrap().verdicts == [CancelVerdict::Done]
                } else {
                    let unclaimed = g::complete_unclaimed(g::claim(id, 0, DUE));
                    store.complete(vec![unclaimed]).await.unwrap().verdicts == [Applied::Done]
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

/// Executions of [`histories_are_linearizable`]; each is raced for three times.
const RACED: usize = 34_000;
/// Executions that one call names.
const WINDOW: usize = 100;

/// I7, at length: cancel, claim and complete of the same executions, a hundred thousand times, from several tasks. What all
/// callers saw of an execution can have happened one after the other; so a cancel that was acknowledged before a claim was sent
/// means no start, and a completion that came first makes the cancel stale.
pub async fn histories_are_linearizable(store: Fixture) {
    let jobs = store.jobs(10).await;
    let fences = store.open_all().await;
    let mut lanes = JoinSet::new();
    let race = Arc::new(Race { store: Arc::clone(&store), clock: AtomicU64::new(1) });
    for lane in 0..4 {
        let (race, jobs, fences) = (race.clone(), jobs.clone(), fences.clone());
        lanes.spawn(async move {
            let mut reached = [0; 6];
            for round in 0..RACED / WINDOW / 4 {
                let from = (lane * RACED / WINDOW + round) as i64 * WINDOW as i64;
                let fires: Vec<Fire> =
                    (0..WINDOW as i64).map(|i| g::fire(&jobs[i as usize % jobs.len()], g::at(from + i))).collect();
                let ids: Vec<ExecutionId> = fires.iter().map(|fire| fire.dispatch.execution).collect();
                race.store.fire(batch(fences.clone(), fires)).await.unwrap();
                for history in race.window(ids, (lane * 1_000 + round) as u64).await {
                    assert!(histories::linearizable(&history), "{history:#?}");
                    for (i, case) in cases(&history).into_iter().enumerate() {
                        reached[i] += usize::from(case);
                    }
                }
            }
            reached
        });
    }
    let reached = lanes.join_all().await.into_iter().reduce(|a, b| std::array::from_fn(|i| a[i] + b[i])).unwrap();
    assert!(reached.iter().all(|&count| count > 0), "every case was reached: {reached:?}");
    assert_eq!(super::lives::counts(&store).await.iter().map(|(.., count)| count).sum::<u64>(), RACED as u64);
}

/// Which cases a history shows: cancelled before any start, cancelled while it ran, asked to stop, completed before the cancel,
/// a completion that came too late, a second claim that lost.
fn cases(history: &[Call]) -> [bool; 6] {
    let any = |test: &dyn Fn(&What) -> bool| history.iter().any(|call| test(&call.what));
    let started = any(&|what| matches!(what, What::Claim { answer: Ok(_), .. }));
    let cancelled = any(&|what| matches!(what, What::Cancel { answer: CancelVerdict::Done, .. }));
    let stale_cancel = CancelVerdict::Stale { state: State::Succeeded };
    [
        cancelled && !started,
        cancelled && started,
        any(&|what| matches!(what, What::Cancel { answer: CancelVerdict::Asked { .. }, .. })),
        any(&|what| matches!(what, What::Cancel { answer, .. } if *answer == stale_cancel)),
        any(&|what| matches!(what, What::Complete { answer: Applied::Stale { .. }, .. })),
        any(&|what| matches!(what, What::Claim { answer: Err(_), .. })),
    ]
}

/// Calls, and the moments at which they are sent and answered.
struct Race {
    store: Arc<dyn Store>,
    clock: AtomicU64,
}

/// What one caller saw: of some executions, by their place in the window.
type Seen = Vec<(usize, Call)>;

impl Race {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Races for the executions of a window three times, and answers what everybody saw of each.
    async fn window(self: &Arc<Self>, ids: Vec<ExecutionId>, seed: u64) -> Vec<Vec<Call>> {
        let dice = Dice::new(seed);
        let ids = Arc::new(ids);
        let mut histories = vec![Vec::new(); ids.len()];
        let all: Vec<usize> = (0..ids.len()).collect();
        let some = |one_in: u64| all.iter().copied().filter(|_| dice.below(one_in) == 0).collect::<Vec<usize>>();
        // Two runners and an operator.
        let callers = [
            self.spawn(&dice, &ids, Verb::Claim(0, "node:a"), all.clone()),
            self.spawn(&dice, &ids, Verb::Claim(0, "worker-1"), all.clone()),
            self.spawn(&dice, &ids, Verb::Cancel(None), some(4)),
        ];
        let granted = note(&mut histories, join(callers).await);
        // The runner, the reaper and an operator who gives time to stop.
        let fences: Vec<(usize, u64)> = granted.iter().map(|&(i, fence)| (i, fence)).collect();
        let callers = [
            self.spawn(&dice, &ids, Verb::Complete(0, Event::Succeed, fences.clone()), some(2)),
            self.spawn(&dice, &ids, Verb::Complete(0, Event::FailRetryable, fences.clone()), some(2)),
            self.spawn(&dice, &ids, Verb::Cancel(Some(5_000)), some(3)),
        ];
        note(&mut histories, join(callers).await);
        // The next attempt, the same reaper too late, and an operator who gives none.
        let callers = [
            self.spawn(&dice, &ids, Verb::Claim(1, "worker-2"), all.clone()),
            self.spawn(&dice, &ids, Verb::Complete(0, Event::FailFinal, fences), some(2)),
            self.spawn(&dice, &ids, Verb::Cancel(None), some(2)),
        ];
        note(&mut histories, join(callers).await);
        let rows = self.store.get_executions(TenantId::DEFAULT, &ids).await.unwrap();
        for (history, row) in histories.iter_mut().zip(rows) {
            let row = row.expect("it was fired");
            let (sent, answered) = (self.tick(), self.tick());
            let what = What::Read { state: row.state, attempt: row.attempt, fence: row.fence };
            history.push(Call { sent, answered, what });
        }
        histories
    }

    fn spawn(
        self: &Arc<Self>,
        dice: &Dice,
        ids: &Arc<Vec<ExecutionId>>,
        verb: Verb,
        of: Vec<usize>,
    ) -> JoinHandle<Seen> {
        let (race, ids, wait) = (self.clone(), ids.clone(), dice.below(4));
        tokio::spawn(async move {
            for _ in 0..wait {
                tokio::task::yield_now().await;
            }
            race.call(&ids, verb, of).await
        })
    }

    /// Calls a verb for some executions of a window, in two calls.
    async fn call(&self, ids: &[ExecutionId], verb: Verb, of: Vec<usize>) -> Seen {
        let mut seen = Vec::new();
        for of in of.chunks(WINDOW / 2) {
            let sent = self.tick();
            let (of, answers): (Vec<usize>, Vec<What>) = match &verb {
                Verb::Claim(attempt, worker) => {
                    let claims = of.iter().map(|&i| g::claim_by(ids[i], *attempt, RACED_AT, worker)).collect();
                    let answers = self.store.claim(claims).await.unwrap().verdicts;
                    let node = worker.starts_with("node:");
                    let what = |claimed| What::Claim { attempt: *attempt, node, answer: answer(claimed) };
                    (of.to_vec(), answers.into_iter().map(what).collect())
                }
                Verb::Cancel(grace_ms) => {
                    let named: Vec<ExecutionId> = of.iter().map(|&i| ids[i]).collect();
                    let batch = CancelBatch { grace_ms: *grace_ms, ..g::cancel(&named, RACED_AT) };
                    let answers = self.store.cancel(batch).await.unwrap().verdicts;
                    let what = |answer| What::Cancel { grace: grace_ms.is_some(), answer };
                    (of.to_vec(), answers.into_iter().map(what).collect())
                }
                Verb::Complete(attempt, event, fences) => {
                    let fences: Vec<_> = fences.iter().copied().filter(|(i, _)| of.contains(i)).collect();
                    let completions = fences.iter().map(|&(i, fence)| {
                        let fence = AttemptFence { execution: ids[i], attempt: attempt + 1, fence };
                        let outcome = match event {
                            Event::Succeed => AttemptOutcome::Succeeded,
                            _ => AttemptOutcome::WorkerLost,
                        };
                        let completion = g::complete_fence(fence, *event, outcome, RACED_AT);
                        Completion { wake_at: RACED_AT, ..completion }
                    });
                    let answers = self.store.complete(completions.collect()).await.unwrap().verdicts;
                    let what = |((_, fence), answer): (&(usize, u64), Applied)| What::Complete {
                        fence: *fence,
                        event: *event,
                        answer,
                    };
                    let whats = fences.iter().zip(answers).map(what).collect();
                    (fences.iter().map(|&(i, _)| i).collect(), whats)
                }
            };
            let answered = self.tick();
            seen.extend(of.into_iter().zip(answers).map(|(i, what)| (i, Call { sent, answered, what })));
        }
        seen
    }
}

/// Later than all of them are due.
const RACED_AT: campanile_model::Timestamp = g::at(100_000_000);

enum Verb {
    /// After so many attempts, by this runner.
    Claim(u32, &'static str),
    Cancel(Option<u64>),
    /// Of the attempt after so many, by this event, under these fences.
    Complete(u32, Event, Vec<(usize, u64)>),
}

fn answer(claimed: Claimed) -> Result<u64, State> {
    match claimed {
        Claimed::Granted(granted) => Ok(granted.fence.fence),
        Claimed::Stale { state } => Err(state),
        other => panic!("{other:?}"),
    }
}

async fn join(callers: [JoinHandle<Seen>; 3]) -> Seen {
    let mut seen = Vec::new();
    for caller in callers {
        seen.extend(caller.await.unwrap());
    }
    seen
}

/// Adds what was seen to the histories, and answers the fences that were granted.
fn note(histories: &mut [Vec<Call>], seen: Seen) -> Vec<(usize, u64)> {
    let mut granted = Vec::new();
    for (i, call) in seen {
        if let What::Claim { answer: Ok(fence), .. } = call.what {
            granted.push((i, fence));
        }
        histories[i].push(call);
    }
    granted
}

/// The runner, the reaper and an operator end the same attempt.
pub async fn one_completion_wins(store: Fixture) {
    let ids = many_pending(&store, 100).await;
    let claims = ids.iter().map(|&id| g::claim(id, 0, DUE)).collect();
    let fences = store.claim(claims).await.unwrap().verdicts.into_iter().map(|claimed| match claimed {
        Claimed::Granted(granted) => granted.fence,
        other => panic!("{other:?}"),
    });
    let fences: Vec<_> = fences.collect();
    let wins = together(&store, 4, |i, store| {
        let (fences, ids) = (fences.clone(), ids.clone());
        async move {
            if i == 3 {
                let verdicts = store.cancel(g::cancel(&ids, DUE)).await.unwrap().verdicts;
                return verdicts.into_iter().filter(|verdict| *verdict == CancelVerdict::Done).count();
            }
            let (event, outcome) = [
                (Event::Succeed, AttemptOutcome::Succeeded),
                (Event::FailFinal, AttemptOutcome::Failed),
                (Event::FailFinal, AttemptOutcome::WorkerLost),
            ][i as usize];
            let mut won = 0;
            for part in fences.chunks(7) {
                let completions = part.iter().map(|&fence| g::complete_fence(fence, event, outcome, DUE)).collect();
                let verdicts = store.complete(completions).await.unwrap().verdicts;
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
        let job = g::job_with(i + 1, |d| d.name = "same".into());
        store.put_jobs(vec![g::create(&job)]).await.unwrap().remove(0)
    });
    let verdicts = verdicts.await;
    assert_eq!(verdicts.iter().filter(|verdict| matches!(verdict, Put::Done(_))).count(), 1);
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_) | Put::NameTaken { .. })));
}

/// I15: many callers with the same key make one job.
pub async fn one_key_makes_one_job(store: Fixture) {
    let verdicts = together(&store, 100, |i, store| async move {
        let key = CallerKey { scope: "s".into(), text: "k".into(), fingerprint: 1 };
        let write = g::with_key(g::create(&g::job(i + 1)), key, Answer { status: 201, body: i.to_string() });
        (i, store.put_jobs(vec![write]).await.unwrap().remove(0))
    });
    let verdicts = verdicts.await;
    let winner = verdicts.iter().find(|(_, verdict)| matches!(verdict, Put::Done(_))).unwrap().0;
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
                    != FireVerdict::Fired(Verdicts::of(vec![campanile_model::store::Fired::New]))
                {
                    return ms;
                }
            }
            unreachable!()
        })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.seize_shards(&[shard_of(job.id)], "new").await.unwrap();
    let query = ExecutionQuery { job: Some(job.id), ..super::lives::all(usize::MAX >> 1) };
    let fired = store.list_executions(&query).await.unwrap().items.len();
    assert_eq!(firing.await.unwrap() as usize, fired, "nothing was fired after the take-over");
}

/// Callers that give up at random moments: what they asked for happens whole or not at all, and nothing is stuck.
pub async fn abandoned_calls_leave_the_store_working(store: Fixture) {
    for round in 0..50u64 {
        let jobs: Vec<Job> = (0..20).map(|n| g::job(1 + round * 20 + n)).collect();
        let put = store.put_jobs(jobs.iter().map(g::create).collect());
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
