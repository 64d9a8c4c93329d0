//! Executions in every state, made by random lives: for lists, pruning and counters, which must be right whatever happened before.

use super::{Fixture, batch};
use crate::generate as g;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::execution::{AttemptError, AttemptOutcome, Execution, Reason};
use campanile_model::filter::Filter;
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::random::{Random, SplitMix};
use campanile_model::store::{
    CancelBatch, CancelTarget, Claim, Claimed, Completion, ExecutionQuery, Fire, FireVerdict, Fired, Granted, Put,
    Verdicts,
};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use std::collections::HashMap;

/// The same numbers in every run.
pub struct Dice(SplitMix);

impl Dice {
    /// The dice of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.0.next() % end
    }

    pub fn of<'a, T>(&self, some: &'a [T]) -> &'a T {
        &some[self.below(some.len() as u64) as usize]
    }
}

/// Jobs that differ in what lists ask for. Their cursors have passed everything that is fired here.
pub async fn jobs(store: &Fixture, count: u64) -> Vec<Job> {
    let jobs: Vec<Job> = (0..count)
        .map(|n| {
            let job = g::job_with(n + 1, |d| {
                d.name = format!("{}-{n}", if n % 2 == 0 { "even" } else { "odd" });
                d.pool = ["short", "long", "narrow"][n as usize % 3].into();
                d.action = ActionSpec { kind: ActionKind::Worker, config: "{}".into() };
                d.tags = vec![format!("team=t{}", n % 3), "all".into()];
                d.window.starts_at = Some(g::at(1_000_000_000));
            });
            Job { target: format!("handler-{}", n % 4).into(), ..job }
        })
        .collect();
    let verdicts = store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_))));
    jobs
}

/// Fires every job so many times, a second apart from `from` on, and has everything happen to the executions. In their order.
pub async fn live(store: &Fixture, jobs: &[Job], from: Timestamp, fires: i64, dice: &Dice) -> Vec<ExecutionId> {
    let fires: Vec<Fire> =
        (0..fires).flat_map(|i| jobs.iter().map(move |job| g::fire(job, from.saturating_add_ms(i * 1_000)))).collect();
    let fences = store.open_all().await;
    let verdict = store.fire(batch(fences, fires.clone())).await.unwrap();
    assert_eq!(verdict, FireVerdict::Fired(Verdicts::of(vec![Fired::New; fires.len()])));
    // One in ten is never looked at, one in ten is cancelled before it starts.
    let mut claims = Vec::new();
    let mut cancelled = Vec::new();
    for fire in &fires {
        let due = fire.dispatch.fire_at;
        match dice.below(10) {
            0 => {}
            1 => cancelled.push(CancelTarget::Execution(fire.dispatch.execution)),
            _ => claims.push(claim(fire.dispatch.execution, 0, due, dice)),
        }
    }
    cancel(store, cancelled, from).await;
    // First attempts: one in ten goes on for ever, the others end somehow.
    let mut again = Vec::new();
    let ends = endings(granted(store, claims).await, dice, &mut again);
    store.complete(ends).await.unwrap();
    // Of those that wait for another attempt, half get it.
    let claims = again.into_iter().filter(|_| dice.below(2) == 0).collect();
    let ends = endings(granted(store, claims).await, dice, &mut Vec::new());
    store.complete(ends).await.unwrap();
    let mut ids: Vec<ExecutionId> = fires.iter().map(|fire| fire.dispatch.execution).collect();
    ids.sort_unstable();
    ids
}

fn claim(id: ExecutionId, attempt: u32, not_before: Timestamp, dice: &Dice) -> Claim {
    let worker: &&str = dice.of(&["worker-1", "worker-2", "other"]);
    g::claim_by(id, attempt, not_before.saturating_add_ms(dice.below(8_000) as i64), worker)
}

pub async fn cancel(store: &Fixture, targets: Vec<CancelTarget>, now: Timestamp) {
    let tenant = TenantId::DEFAULT;
    store.cancel(CancelBatch { tenant, targets, note: None, now, grace_ms: None, idempotency: None }).await.unwrap();
}

async fn granted(store: &Fixture, claims: Vec<Claim>) -> Vec<(Granted, Timestamp)> {
    let instants: Vec<Timestamp> = claims.iter().map(|claim| claim.now).collect();
    let verdicts = store.claim(claims).await.unwrap().verdicts;
    let one = |(verdict, now)| match verdict {
        Claimed::Granted(granted) => (*granted, now),
        other => panic!("not granted: {other:?}"),
    };
    verdicts.into_iter().zip(instants).map(one).collect()
}

/// How attempts end, and the claims of those that may go on.
fn endings(granted: Vec<(Granted, Timestamp)>, dice: &Dice, again: &mut Vec<Claim>) -> Vec<Completion> {
    let mut ends = Vec::new();
    for (granted, now) in granted {
        let end = now.saturating_add_ms(dice.below(3_000) as i64);
        let done = |event, outcome| Completion { started_at: now, ..g::complete(&granted, event, outcome, end) };
        let error = || {
            let kind = *dice.of(&["http_503", "http_500", "timeout"]);
            Some(AttemptError { kind: kind.into(), message: format!("it said \"{kind}\"\n") })
        };
        ends.push(match dice.below(10) {
            0 => continue,
            1..4 => {
                let failed = Completion { error: error(), ..done(Event::FailRetryable, AttemptOutcome::Failed) };
                again.push(claim(granted.fence.execution, granted.fence.attempt, failed.wake_at, dice));
                failed
            }
            4..6 => {
                let reason = Some(*dice.of(&[Reason::AttemptsExhausted, Reason::PermanentFailure]));
                Completion { error: error(), reason, ..done(Event::FailFinal, AttemptOutcome::Failed) }
            }
            _ => done(Event::Succeed, AttemptOutcome::Succeeded),
        });
    }
    ends
}

pub fn all(limit: usize) -> ExecutionQuery {
    ExecutionQuery {
        tenant: TenantId::DEFAULT,
        job: None,
        states: Vec::new(),
        from: None,
        to: None,
        filter: Filter::default(),
        before: None,
        limit,
    }
}

/// Reads every page of a query.
pub async fn pages(store: &Fixture, mut query: ExecutionQuery) -> Vec<Execution> {
    let mut items = Vec::new();
    loop {
        let page = store.list_executions(&query).await.unwrap();
        assert!(page.items.len() <= query.limit);
        let before = query.before;
        items.extend(page.items);
        let Some(next) = page.next else { return items };
        assert!(before.is_none_or(|before| next < before), "pages go on");
        query.before = Some(next);
    }
}

/// How many executions of the default tenant are in which state and pool, by looking at each.
pub async fn counted(store: &Fixture) -> Vec<(String, State, u64)> {
    let mut counts = HashMap::new();
    for execution in pages(store, all(500)).await {
        *counts.entry((execution.pool.to_string(), execution.state)).or_insert(0) += 1;
    }
    in_order(counts.into_iter().map(|((pool, state), count)| (pool, state, count)).collect())
}

/// The same, as the store counts them.
pub async fn counts(store: &Fixture) -> Vec<(String, State, u64)> {
    let counts = store.counts(Some(TenantId::DEFAULT)).await.unwrap();
    let some = counts.into_iter().filter(|count| count.executions > 0);
    in_order(some.map(|count| (count.pool.to_string(), count.state, count.executions)).collect())
}

fn in_order(mut counts: Vec<(String, State, u64)>) -> Vec<(String, State, u64)> {
    counts.sort_by(|a, b| (&a.0, a.1.as_str()).cmp(&(&b.0, b.1.as_str())));
    counts
}
