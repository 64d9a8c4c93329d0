//! What must be true in the end, when everything was healed and had time: read from the store itself.

use crate::clients::{Answer, Asked};
use crate::target::Sink;
use crate::world::World;
use campanile_model::catch_up::CatchUpMode;
use campanile_model::execution::{Execution, Reason};
use campanile_model::filter::Filter;
use campanile_model::ids::FireKind;
use campanile_model::job::{Job, JobState, next_fire};
use campanile_model::lifecycle::State;
use campanile_model::schedule::Plan;
use campanile_model::store::{ExecutionQuery, JobKey, Path, Reads, Skip, WaitingQuery};
use campanile_model::{TenantId, Timestamp};
use std::collections::BTreeMap;

const TENANT: TenantId = TenantId::DEFAULT;
/// More than any simulation has of anything.
const ALL: usize = 100_000;

/// How many executions have no outcome yet.
pub async fn open(world: &World) -> u64 {
    let counts = world.store.counts(Some(TENANT)).await.unwrap_or_default();
    counts.iter().filter(|count| !count.state.is_final()).map(|count| count.executions).sum()
}

/// When the last execution that waits may start.
pub async fn last_wake(world: &World) -> Timestamp {
    let (before, fired_until) = (Timestamp::MAX, Timestamp::MAX);
    let query = WaitingQuery { shards: Vec::new(), before, fired_until, after: None, limit: ALL };
    let waiting = world.store.load_waiting(&query).await.unwrap_or_default();
    waiting.iter().map(|waiting| waiting.wake_at).max().unwrap_or(Timestamp::MIN)
}

/// What is wrong, and how many executions there are.
pub async fn judge(world: &World, asked: &[Asked], sink: &Sink) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut executions = 0;
    for asked in asked {
        let name = &asked.draft.name;
        let key = match &asked.answer {
            Answer::Accepted(job) => JobKey::Id(job.id),
            Answer::Unknown | Answer::Refused => JobKey::Name(name.clone()),
        };
        let found = world.store.get_jobs(TENANT, &[key]).await.ok().and_then(|mut jobs| jobs.pop().flatten());
        match (found, &asked.answer) {
            (None, Answer::Accepted(_)) => wrong.push(format!("{name} was acknowledged and is not there")),
            (Some(_), Answer::Refused) => wrong.push(format!("{name} was refused and is there")),
            (Some(job), _) => executions += judge_job(world, asked, &job, sink, &mut wrong).await,
            (None, _) => {}
        }
    }
    let drift = world.store.reconcile().await.unwrap_or(u64::MAX);
    if drift != 0 {
        wrong.push(format!("the counters have drifted by {drift}"));
    }
    (wrong, executions)
}

async fn judge_job(world: &World, asked: &Asked, job: &Job, sink: &Sink, wrong: &mut Vec<String>) -> usize {
    let name = &job.name;
    let query = ExecutionQuery {
        tenant: TENANT,
        job: Some(job.id),
        states: Vec::new(),
        from: None,
        to: None,
        filter: Filter::default(),
        before: None,
        limit: ALL,
    };
    let executions = world.store.list_executions(&query).await.map(|page| page.items).unwrap_or_default();
    let skips = world.store.list_skips(TENANT, job.id, None, ALL).await.unwrap_or_default();
    let mut by_instant: BTreeMap<Timestamp, &Execution> = BTreeMap::new();
    for execution in &executions {
        if by_instant.insert(execution.fire_at, execution).is_some() {
            wrong.push(format!("{name} has two executions for {}", execution.fire_at));
        }
        judge_execution(asked, execution, sink, wrong);
    }
    let expected = expected(job);
    for (at, execution) in &by_instant {
        if execution.kind != FireKind::Schedule || expected.binary_search(at).is_err() {
            wrong.push(format!("{name} has {}, which nobody expects", execution.id));
        }
    }
    let changes_at = if job.state == JobState::Active { Timestamp::MAX } else { job.updated_at };
    let strict = asked.draft.catch_up.mode == CatchUpMode::All && !asked.is_moved;
    // A caller whose node's clock was ahead may have asked for an instant that is still to come.
    let until = changes_at.min(world.time.now());
    for at in expected.iter().filter(|&&at| at <= until) {
        let is_skipped = skips.iter().any(|skip: &Skip| skip.from <= *at && *at <= skip.to);
        if !by_instant.contains_key(at) && (strict || !is_skipped) {
            wrong.push(format!("{name} has neither execution nor skip for {at}"));
        }
    }
    executions.len()
}

/// The instants of a job from its acceptance on.
fn expected(job: &Job) -> Vec<Timestamp> {
    let Ok(plan) = Plan::decode(&job.plan) else { return Vec::new() };
    let mut after = job.created_at;
    if plan.is_one_off() {
        // One that lay in the past when it was accepted fires all the same.
        after = Timestamp::from_millis(0);
    }
    let mut instants = Vec::new();
    while let Some(at) = next_fire(&plan, 0, after).filter(|&at| job.window.ends_at.is_none_or(|end| at <= end)) {
        instants.push(at);
        after = at;
    }
    instants
}

fn judge_execution(asked: &Asked, execution: &Execution, sink: &Sink, wrong: &mut Vec<String>) {
    let what = format!("{} of {} for {}", execution.id, execution.job_name, execution.fire_at);
    match execution.state {
        State::Succeeded if !sink.has(execution.id) => wrong.push(format!("{what} succeeded and never arrived")),
        State::Succeeded | State::Cancelled => {}
        State::Dead if execution.attempt == 0 => wrong.push(format!("{what} is dead and was never tried")),
        State::Dead => {}
        State::Skipped => {
            let overlaps = [Some(Reason::OverlapForbidden), Some(Reason::OverlapReplaced)];
            if !asked.is_moved && !overlaps.contains(&execution.reason) {
                wrong.push(format!("{what} was skipped: {:?}", execution.reason));
            }
        }
        state => wrong.push(format!("{what} is {state:?} under {:?}, wakes {}", execution.worker, execution.wake_at)),
    }
}
