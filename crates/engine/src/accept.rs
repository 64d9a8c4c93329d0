//! Step 1, accept: a request becomes a version of a job, or an execution at once. After: own.
//!
//! A draft is checked whole (every field at fault is reported at once) and resolved (schedule to plan, `H` to a value). The store
//! then says since when it counts, in the transaction that writes it, and what follows for the job's fires (`job::version`);
//! only after that it is acknowledged. A crash before the commit leaves nothing, one after it leaves the job; the caller's
//! idempotency key, stored in the same transaction, tells which.

/// Fires that somebody asks for.
pub mod manual;

pub use crate::jobs::set_state;

use crate::context::Context;
use crate::jobs::{
    Accepted, Conditions, VERSION_MISMATCH, check_pause, current, decode, find, name_of, put, recall, verdict,
};
use campanile_model::job::version::{self, Change, Resolved};
use campanile_model::job::{Definition, Job};
use campanile_model::schedule::{HashSeed, Schedule, ScheduleError};
use campanile_model::store::{JobKey, JobWrite, Keyed};
use campanile_model::{Error, FieldError, JobId, Kind, Result, TenantId, Timestamp};

/// What a user wants a job to be.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// What it is; the action's config as it came.
    pub definition: Definition,
    /// An `at` in the past fires at once instead of being refused.
    pub allow_past: bool,
    pub paused: bool,
}

/// A job to create.
pub struct Create {
    /// What it should be.
    pub draft: Draft,
    pub keyed: Option<Keyed>,
}

/// A change that loses its race this often is given up; the caller may try again.
const CHANGE_TRIES_MAX: usize = 8;

/// The job that `create` would make.
pub fn check(ctx: &Context, tenant: TenantId, draft: &Draft) -> Result<Job> {
    let now = ctx.clock.now();
    let resolved = resolve(ctx, draft, draft.allow_past, now)?;
    Ok(version::create(new_id(ctx), tenant, &resolved, draft.paused, now))
}

/// Creates jobs. Each is judged alone.
pub async fn create(ctx: &Context, tenant: TenantId, creates: Vec<Create>) -> Vec<Result<Accepted>> {
    let mut verdicts: Vec<Option<Result<Accepted>>> = Vec::with_capacity(creates.len());
    let mut writes = Vec::with_capacity(creates.len());
    for Create { draft, keyed } in creates {
        match resolve(ctx, &draft, draft.allow_past, ctx.clock.now()) {
            Ok(resolved) => {
                let change = Change::Create { resolved, paused: draft.paused };
                writes.push(JobWrite { id: new_id(ctx), tenant, change, expected: None, keyed });
                verdicts.push(None);
            }
            Err(error) => verdicts.push(Some(recall(ctx, tenant, keyed.as_ref(), error).await)),
        }
    }
    let names: Vec<String> = writes.iter().map(|write| name_of(&write.change).to_owned()).collect();
    let ids: Vec<JobId> = writes.iter().map(|write| write.id).collect();
    let mut puts = match ctx.store.put_jobs(writes).await {
        Ok(puts) => {
            let puts = puts.into_iter().zip(ids).zip(names);
            puts.map(|((put, id), name)| verdict(put, id, &name)).collect::<Vec<_>>().into_iter()
        }
        Err(error) => vec![Err(error); ids.len()].into_iter(),
    };
    let verdicts: Vec<Result<Accepted>> =
        verdicts.into_iter().map(|v| v.unwrap_or_else(|| puts.next().expect("one verdict per write"))).collect();
    ctx.metrics.jobs_accepted.add(verdicts.iter().filter(|v| matches!(v, Ok(Accepted::Job(_)))).count() as u64);
    verdicts
}

/// Gives a job another definition. Its fires go on where they stand, unless its schedule changed.
pub async fn replace(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    draft: Draft,
    conditions: Conditions,
) -> Result<Accepted> {
    for _ in 0..CHANGE_TRIES_MAX {
        let old = match current(ctx, tenant, key, &conditions).await {
            Ok(old) => old,
            Err(refusal) => return recall(ctx, tenant, conditions.keyed.as_ref(), refusal).await,
        };
        let change = match redefine(ctx, &draft, &old) {
            Ok(change) => change,
            Err(refusal) => return recall(ctx, tenant, conditions.keyed.as_ref(), refusal).await,
        };
        // It was checked against this version, so it must still be this one.
        let expected = conditions.if_match.unwrap_or(old.version);
        match put(ctx, &old, change, Some(expected), conditions.keyed.clone()).await {
            Err(error) if error.code() == VERSION_MISMATCH && conditions.if_match.is_none() => {}
            done => return done,
        }
    }
    Err(Error::new(Kind::Unavailable, "the job is being changed too often; try again"))
}

/// The job that `replace` would make.
pub async fn preview_replace(ctx: &Context, tenant: TenantId, key: &JobKey, draft: Draft) -> Result<Job> {
    let old = find(ctx, tenant, key).await?;
    let change = redefine(ctx, &draft, &old)?;
    Ok(version::change(&old, None, &change, ctx.clock.now()).job)
}

/// The job that `set_state` would make.
pub async fn preview_state(ctx: &Context, tenant: TenantId, key: &JobKey, change: Change) -> Result<Job> {
    let now = ctx.clock.now();
    check_pause(&change, now)?;
    Ok(version::change(&find(ctx, tenant, key).await?, None, &change, now).job)
}

/// Gives a job the definition that it had in an earlier version. Whether it is paused stays as it is.
pub async fn revert(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    to: u32,
    conditions: Conditions,
) -> Result<Accepted> {
    let checked = async {
        let old = current(ctx, tenant, key, &conditions).await?;
        let change = earlier(ctx, &old, to).await?;
        Ok((old, change))
    };
    match checked.await {
        Ok((old, change)) => put(ctx, &old, change, conditions.if_match, conditions.keyed).await,
        Err(refusal) => recall(ctx, tenant, conditions.keyed.as_ref(), refusal).await,
    }
}

/// The job that `revert` would make.
pub async fn preview_revert(ctx: &Context, tenant: TenantId, key: &JobKey, to: u32) -> Result<Job> {
    let old = find(ctx, tenant, key).await?;
    let change = earlier(ctx, &old, to).await?;
    Ok(version::change(&old, None, &change, ctx.clock.now()).job)
}

/// Another definition for a job that is there. Saying the same instant again is no instant in the past.
fn redefine(ctx: &Context, draft: &Draft, old: &Job) -> Result<Change> {
    let allow_past = draft.allow_past || draft.definition.schedule == old.definition.schedule;
    resolve(ctx, draft, allow_past, ctx.clock.now()).map(Change::Define)
}

/// The definition of an earlier version, with the plan that it had: the instant of a one-off neither moves nor repeats.
async fn earlier(ctx: &Context, job: &Job, to: u32) -> Result<Change> {
    let refused =
        |code: &'static str, message: String| Err(Error::invalid(vec![FieldError::new("/version", code, message)]));
    if to == job.version {
        return refused("version_current", format!("version {to} is the current one"));
    }
    let found = ctx.store.list_versions(job.tenant, job.id, to.checked_add(1), 1).await?.items.pop();
    let Some(earlier) = found.filter(|found| found.job.version == to && to < job.version) else {
        return refused("version_unknown", format!("the job has no version {to}, or it is no longer kept"));
    };
    let Job { plan, target, definition, .. } = earlier.job;
    Ok(Change::Define(Resolved { definition, plan: decode(&plan)?, target, allow_past: false, kept: true }))
}

/// A checked and resolved definition.
fn resolve(ctx: &Context, draft: &Draft, allow_past: bool, now: Timestamp) -> Result<Resolved> {
    let mut definition = draft.definition.clone();
    let mut errors = Vec::new();
    let seed = HashSeed { tenant: TenantId::DEFAULT_NAME, job: &definition.name };
    let plan = definition.schedule.resolve(seed, now).map_err(|error| {
        let pointer = schedule_pointer(&definition.schedule, error.code).into();
        let ScheduleError { message, position, hint, code } = error;
        errors.push(FieldError { pointer, code, message, hint, position });
    });
    let validated = ctx.actions.validate(&definition.action).map_err(|fields| errors.extend(fields));
    let (action, target) = validated.unwrap_or_else(|()| (definition.action.clone(), "".into()));
    definition.action = action;
    errors.extend(definition.check());
    if let Ok(plan) = &plan
        && plan.is_one_off()
        && !allow_past
        && plan.first_at_or_after(now).is_none()
    {
        errors.push(
            FieldError::new("/schedule/at", "at_in_the_past", "the instant lies in the past")
                .hint("set allow_past to fire it at once"),
        );
    }
    match plan {
        Ok(plan) if errors.is_empty() => {
            Ok(Resolved { definition: definition.into(), plan, target, allow_past, kept: false })
        }
        _ => Err(Error::invalid(errors)),
    }
}

fn schedule_pointer(schedule: &Schedule, code: &str) -> &'static str {
    match schedule {
        Schedule::Cron { .. } if code.starts_with("zone") => "/schedule/timezone",
        Schedule::Cron { .. } => "/schedule/cron",
        Schedule::Every { .. } => "/schedule/every",
        Schedule::At { .. } => "/schedule/at",
        Schedule::After { .. } => "/schedule/after",
        Schedule::None => "/schedule",
    }
}

fn new_id(ctx: &Context) -> JobId {
    let sequence = ctx.random.next();
    JobId::new(ctx.clock.now(), (sequence >> 48) as u16, ctx.random.next())
}
