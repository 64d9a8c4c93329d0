//! A job's past made up for: the fires of a range that have not succeeded.
//!
//! A fire that has no execution gets the one that its schedule would have given it. One that is dead is replayed, one that
//! was skipped or cancelled gets another execution, both only where that is asked for; one that succeeded is passed over
//! (`DEDUPLICATED`) unless everything is to be done again.

use super::{Progress, Terms, note, parse};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::jobs;
use campanile_model::execution::{Execution, Reason};
use campanile_model::ids::FireKind;
use campanile_model::job::{Blackout, Job, next_fire};
use campanile_model::lifecycle::State;
use campanile_model::notify::Expectation;
use campanile_model::operation::Operation;
use campanile_model::overlap::Overlap;
use campanile_model::schedule::Plan;
use campanile_model::store::{Applied, Fire, FireBatch, FireVerdict, Fired, JobKey, Resolve, Waiting};
use campanile_model::{Error, ExecutionId, FieldError, JobId, Kind, OperationId, Result, TenantId, Timestamp, limits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which fires that have an execution are done again.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Reprocess {
    /// None.
    #[default]
    None,
    /// Those that did not succeed.
    Failed,
    All,
}

/// What to fill in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackfillSpec {
    pub job: String,
    /// From this instant, inclusive, in milliseconds.
    pub from_ms: i64,
    /// To this instant, exclusive.
    pub to_ms: i64,
    /// What is done again.
    #[serde(default)]
    pub reprocess: Reprocess,
    #[serde(flatten)]
    pub terms: Terms,
}

/// A fire that a backfill would look at.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFire {
    /// When it was due.
    pub fire_at: Timestamp,
    /// What became of it.
    pub state: Option<State>,
    /// Whether the backfill starts it.
    pub starts: bool,
}

impl PlannedFire {
    /// Why it is not started, where that is because it succeeded already.
    pub fn reason(&self) -> Option<Reason> {
        (!self.starts && self.state == Some(State::Succeeded)).then_some(Reason::Deduplicated)
    }
}

/// What a backfill would do.
#[derive(Clone, Debug, PartialEq)]
pub struct BackfillPlan {
    /// Fires in the range.
    pub fires: u64,
    /// Of these, those that it starts.
    pub starts: u64,
    /// Of these, those of which nobody knows whether they ran: they are older than what is kept. Started only when everything is
    /// to be done again.
    pub unknown: u64,
    /// The first few and the last.
    pub samples: Vec<PlannedFire>,
}

/// Fires looked at together.
const CHUNK: usize = 256;
/// Samples of a plan.
const SAMPLES: usize = 10;

/// What a backfill would do, and whether it can be done at all.
pub async fn preview(ctx: &Context, tenant: TenantId, spec: &BackfillSpec) -> Result<BackfillPlan> {
    let (job, plan) = job(ctx, tenant, &spec.job).await?;
    let invalid = |field: &str, message: &str| {
        Err(Error::invalid(vec![FieldError::new(format!("/{field}"), "range_invalid", message)]))
    };
    if spec.from_ms >= spec.to_ms {
        return invalid("to", "the range is empty: `to` must lie after `from`");
    }
    if Timestamp::from_millis(spec.to_ms) > ctx.clock.now().saturating_add_ms(1) {
        return invalid("to", "a backfill ends in the past; what is to come fires by itself");
    }
    let mut planned = BackfillPlan { fires: 0, starts: 0, unknown: 0, samples: Vec::new() };
    let mut from = Timestamp::from_millis(spec.from_ms);
    let mut last = None;
    loop {
        let fires = fires(&job, &plan, from, Timestamp::from_millis(spec.to_ms), CHUNK);
        let Some(&end) = fires.last() else { break };
        for (fire_at, record) in fires.iter().copied().zip(lookup(ctx, &job, &fires).await?) {
            let state = record.execution.as_ref().map(|execution| execution.state);
            let starts = !matches!(decide(&record, spec.reprocess), Todo::Pass);
            planned.fires += 1;
            planned.starts += u64::from(starts);
            planned.unknown += u64::from(record.is_unknown());
            last = Some(PlannedFire { fire_at, state, starts });
            if planned.samples.len() < SAMPLES {
                planned.samples.extend(last.take());
            }
        }
        if planned.fires > limits::BACKFILL_FIRES_MAX as u64 {
            let message = format!("the range holds more than {} fires; fill it in pieces", limits::BACKFILL_FIRES_MAX);
            return invalid("to", &message);
        }
        from = end.saturating_add_ms(1);
    }
    planned.samples.extend(last);
    Ok(planned)
}

/// What is done about a fire.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Todo {
    /// It gets the execution of its schedule.
    Fire,
    /// Its dead execution is replayed.
    Replay,
    /// It gets another execution beside the one it has.
    Again,
    Pass,
}

/// What is known of a fire.
struct Record {
    execution: Option<Execution>,
    /// It was never run: it was skipped, or lies before the job's creation, or within what is kept.
    never_ran: bool,
}

impl Record {
    fn is_unknown(&self) -> bool {
        self.execution.is_none() && !self.never_ran
    }
}

fn decide(record: &Record, reprocess: Reprocess) -> Todo {
    decide_by(record.execution.as_ref().map(|execution| execution.state), record.never_ran, reprocess)
}

fn decide_by(state: Option<State>, never_ran: bool, reprocess: Reprocess) -> Todo {
    match (state, reprocess) {
        (None, Reprocess::None | Reprocess::Failed) if !never_ran => Todo::Pass,
        (None, _) => Todo::Fire,
        (Some(state), _) if !state.is_final() => Todo::Pass,
        (Some(State::Dead), Reprocess::Failed | Reprocess::All) => Todo::Replay,
        (Some(State::Skipped | State::Cancelled), Reprocess::Failed) | (Some(_), Reprocess::All) => Todo::Again,
        (Some(_), Reprocess::None | Reprocess::Failed) => Todo::Pass,
    }
}

/// Starts up to `room` more.
pub(super) async fn start(
    ctx: &Context,
    dispatcher: &Dispatcher,
    operation: &Operation,
    progress: &mut Progress,
    room: usize,
) -> Result<()> {
    let spec: BackfillSpec = parse(&operation.spec)?;
    let (job, plan) = match job(ctx, operation.tenant, &spec.job).await {
        Ok(found) => found,
        Err(error) if error.kind() == Kind::NotFound => {
            progress.exhausted = true;
            progress.message = "the job was deleted".into();
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let cursor = progress.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(spec.from_ms);
    let to = Timestamp::from_millis(spec.to_ms);
    let fires = fires(&job, &plan, Timestamp::from_millis(cursor), to, CHUNK);
    if fires.is_empty() {
        progress.exhausted = true;
        return Ok(());
    }
    let found = lookup(ctx, &job, &fires).await?;
    let now = ctx.clock.now();
    let mut last = Timestamp::from_millis(cursor);
    let (mut inserts, mut replays) = (Vec::new(), Vec::new());
    for (fire_at, record) in fires.into_iter().zip(found) {
        if inserts.len() + replays.len() == room {
            break;
        }
        last = fire_at;
        match (decide(&record, spec.reprocess), record.execution) {
            (Todo::Replay, Some(execution)) => replays.push(Resolve::Replay { execution: execution.id, wake_at: now }),
            (Todo::Again, _) => inserts.push(fire(&job, again_id(&job, fire_at, operation.id), fire_at, now)),
            (Todo::Fire, _) => {
                inserts.push(fire(&job, ExecutionId::scheduled(job.tenant, job.id, fire_at), fire_at, now));
            }
            (Todo::Pass | Todo::Replay, _) => progress.passed_over += 1,
        }
    }
    let ids: Vec<ExecutionId> = replays.iter().map(Resolve::execution).collect();
    let moved = ctx.store.resolve_dead(operation.tenant, replays, now).await?;
    note(progress, &ids, &moved.verdicts);
    dispatcher.send(moved.ready);
    insert(ctx, dispatcher, progress, inserts, now).await?;
    progress.cursor = Some(last.saturating_add_ms(1).millis().to_string());
    Ok(())
}

async fn insert(
    ctx: &Context,
    dispatcher: &Dispatcher,
    progress: &mut Progress,
    fires: Vec<Fire>,
    now: Timestamp,
) -> Result<()> {
    let ids: Vec<ExecutionId> = fires.iter().map(|fire| fire.dispatch.execution).collect();
    let batch = FireBatch { fences: Arc::new([]), fires: fires.clone(), skips: Vec::new(), now, idempotency: None };
    let FireVerdict::Fired(fired) = ctx.store.fire(batch).await? else {
        return Err(Error::new(Kind::Bug, "the store refused a backfill"));
    };
    // One that exists was inserted a moment ago by somebody else: either way it will run.
    note(progress, &ids, &vec![Applied::Done; ids.len()]);
    let new = fires.into_iter().zip(fired.verdicts).filter(|(_, verdict)| *verdict == Fired::New);
    let new = new.map(|(fire, _)| Waiting { dispatch: fire.dispatch, wake_at: now });
    dispatcher.send(new.chain(fired.ready).collect());
    Ok(())
}

/// A past fire. It has its own concurrency, so its job's policy for overlaps does not apply; and nobody expects it to be
/// on time.
fn fire(job: &Job, execution: ExecutionId, fire_at: Timestamp, now: Timestamp) -> Fire {
    let dispatch = job.dispatch(execution, fire_at);
    let (kind, overlap) = (FireKind::Backfill, Overlap::Allow);
    Fire { dispatch, kind, wake_at: now, overlap, covers_from: None, expect: Expectation::default() }
}

/// The id of a fire that is done again: the same each time this operation comes by.
fn again_id(job: &Job, fire_at: Timestamp, operation: OperationId) -> ExecutionId {
    ExecutionId::manual(job.tenant, job.id, fire_at, operation.as_bytes())
}

/// What is known of fires that follow one another.
async fn lookup(ctx: &Context, job: &Job, fires: &[Timestamp]) -> Result<Vec<Record>> {
    let (Some(&first), Some(&last)) = (fires.first(), fires.last()) else { return Ok(Vec::new()) };
    let ids: Vec<ExecutionId> = fires.iter().map(|&at| ExecutionId::scheduled(job.tenant, job.id, at)).collect();
    let executions = ctx.store.get_executions(job.tenant, &ids).await?;
    let skips = ctx.store.list_skips(job.tenant, job.id, Some((first, last)), limits::PAGE_ITEMS_MAX).await?;
    let kept_from = kept_from(ctx);
    let records = fires.iter().zip(executions).map(|(&at, execution)| {
        let skipped = skips.items.iter().any(|skip| skip.from <= at && at <= skip.to);
        let never_ran = skipped || at < job.created_at || at >= kept_from;
        Record { execution, never_ran: never_ran && !skips.pruned.contains(&at) }
    });
    Ok(records.collect())
}

/// From when on every success is still recorded.
fn kept_from(ctx: &Context) -> Timestamp {
    let keep = ctx.retention.states.iter().find(|keep| keep.state == State::Succeeded);
    let age_ms = keep.and_then(|keep| keep.age_ms);
    age_ms.map_or(Timestamp::MIN, |age| ctx.clock.now().saturating_add_ms(-i64::try_from(age).unwrap_or(i64::MAX)))
}

/// Up to `max` fires of a job in `[from, to)`, within its window and outside its blackouts.
fn fires(job: &Job, plan: &Plan, from: Timestamp, to: Timestamp, max: usize) -> Vec<Timestamp> {
    let offset_ms = job.spread_offset_ms();
    let from = job.definition.window.starts_at.map_or(from, |start| start.max(from));
    let next = |after| {
        let fire = next_fire(plan, offset_ms, after)?;
        (fire < to && job.definition.window.ends_at.is_none_or(|end| fire <= end)).then_some(fire)
    };
    let all = std::iter::successors(next(from.saturating_add_ms(-1)), |&at| next(at));
    all.filter(|&at| !Blackout::covers(&job.definition.blackouts, at)).take(max).collect()
}

async fn job(ctx: &Context, tenant: TenantId, id: &str) -> Result<(Job, Plan)> {
    let id: JobId = id.parse().map_err(|_| Error::new(Kind::Corrupt, "a stored operation names no job"))?;
    let job = jobs::find(ctx, tenant, &JobKey::Id(id)).await?;
    let plan = jobs::decode(&job.plan)?;
    Ok((job, plan))
}

#[cfg(test)]
mod tests {
    use super::Reprocess::{All, Failed, None as Nothing};
    use super::*;

    #[test]
    fn what_succeeded_is_passed_over_unless_all_is_done_again() {
        let cases = [
            (State::Succeeded, Nothing, Todo::Pass),
            (State::Succeeded, Failed, Todo::Pass),
            (State::Succeeded, All, Todo::Again),
            (State::Dead, Nothing, Todo::Pass),
            (State::Dead, Failed, Todo::Replay),
            (State::Dead, All, Todo::Replay),
            (State::Skipped, Nothing, Todo::Pass),
            (State::Skipped, Failed, Todo::Again),
            (State::Cancelled, Failed, Todo::Again),
            (State::Running, All, Todo::Pass),
            (State::Pending, Failed, Todo::Pass),
        ];
        for (state, reprocess, todo) in cases {
            assert_eq!(decide_by(Some(state), true, reprocess), todo, "{state:?} {reprocess:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_run_again_by_chance() {
        for reprocess in [Nothing, Failed, All] {
            assert_eq!(decide_by(None, true, reprocess), Todo::Fire, "it never ran");
        }
        assert_eq!(decide_by(None, false, Nothing), Todo::Pass);
        assert_eq!(decide_by(None, false, Failed), Todo::Pass);
        assert_eq!(decide_by(None, false, All), Todo::Fire);
    }
}
