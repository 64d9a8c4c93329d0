//! Step 1, accept: a request becomes a job row. After: shard.
//!
//! A draft is checked whole (every field at fault is reported at once), resolved (schedule to plan, `after` to an instant,
//! `H` to a value), written with the version that the writer believes is there, and only then acknowledged. A crash
//! before the commit leaves nothing, one after it leaves the job; the caller's idempotency key, stored in the same
//! transaction, tells which.

use crate::context::Context;
use campanile_model::action::ActionSpec;
use campanile_model::catch_up::CatchUp;
use campanile_model::execution::Reason;
use campanile_model::job::{Blackout, Cursor, Job, JobState, Priority, Window};
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::retry::RetryPolicy;
use campanile_model::schedule::{HashSeed, Plan, Schedule, ScheduleError};
use campanile_model::store::{Answer, Expected, Idempotency, JobKey, JobWrite, Put, Skip};
use campanile_model::{Error, FieldError, JobId, Kind, Result, TenantId, Timestamp, limits};
use std::sync::Arc;

/// Everything that a user may set on a job.
#[derive(Clone, Debug)]
pub struct JobDraft {
    /// Unique among the tenant's jobs.
    pub name: String,
    /// When.
    pub schedule: Schedule,
    /// Bounds on when.
    pub window: Window,
    /// An `at` in the past fires at once instead of being refused.
    pub allow_past: bool,
    /// Width within which its fires are moved.
    pub spread_ms: u64,
    /// What is done; the config as it came.
    pub action: ActionSpec,
    /// JSON text for the target.
    pub payload: Arc<str>,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// Time limit of one attempt.
    pub timeout_ms: u64,
    /// Who goes first.
    pub priority: Priority,
    /// Which capacity executes it.
    pub pool: Arc<str>,
    /// What happens to missed fires.
    pub catch_up: CatchUp,
    /// What happens to runs that would overlap.
    pub overlap: Overlap,
    /// What it is expected to do.
    pub expect: Expectation,
    /// When it does not fire.
    pub blackouts: Vec<Blackout>,
    /// Labels.
    pub tags: Vec<String>,
    /// Created paused.
    pub paused: bool,
}

/// A caller's idempotency key, and how the answer is rendered before the write, so that both are stored together.
pub struct Keyed {
    /// Whose key, on which route.
    pub scope: String,
    /// The key.
    pub key: String,
    /// Hash of the request.
    pub fingerprint: u128,
    /// Renders the answer for the job as it will be.
    pub render: Box<dyn Fn(&Job) -> Answer + Send>,
}

/// A key without what is answered under it.
struct KeyName {
    scope: String,
    key: String,
    fingerprint: u128,
}

impl Keyed {
    fn name(&self) -> KeyName {
        KeyName { scope: self.scope.clone(), key: self.key.clone(), fingerprint: self.fingerprint }
    }
}

/// A job to create.
pub struct Create {
    /// What it should be.
    pub draft: JobDraft,
    /// The caller's key.
    pub keyed: Option<Keyed>,
}

/// Conditions of a change.
#[derive(Default)]
pub struct Change {
    /// Only in this version.
    pub if_match: Option<u32>,
    /// The caller's key.
    pub keyed: Option<Keyed>,
}

/// What became of an accepted request.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// The job, as it is now.
    Job(Box<Job>),
    /// The key was used before: this was the answer.
    Replayed(Answer),
}

/// A change that loses its race this often is given up; the caller may try again.
const CHANGE_TRIES_MAX: usize = 8;

/// Checks and resolves a draft without writing anything.
pub fn check(ctx: &Context, tenant: TenantId, draft: &JobDraft) -> Result<Job> {
    build(ctx, tenant, draft, new_id(ctx), ctx.clock.now())
}

/// Creates jobs. Each is judged alone.
pub async fn create(ctx: &Context, tenant: TenantId, creates: Vec<Create>) -> Vec<Result<Accepted>> {
    let mut verdicts: Vec<Option<Result<Accepted>>> = Vec::with_capacity(creates.len());
    let mut writes = Vec::with_capacity(creates.len());
    for create in creates {
        match check(ctx, tenant, &create.draft) {
            Err(error) if create.keyed.is_some() => {
                verdicts.push(Some(recall(ctx, tenant, create.keyed.as_ref().map(Keyed::name), error).await));
            }
            Ok(job) => {
                let idempotency = create.keyed.map(|keyed| remember(&keyed, &job));
                writes.push(JobWrite { job, expected: Expected::Absent, skip: None, idempotency });
                verdicts.push(None);
            }
            Err(error) => verdicts.push(Some(Err(error))),
        }
    }
    let jobs: Vec<Job> = writes.iter().map(|w| w.job.clone()).collect();
    let mut puts = match ctx.store.put_jobs(writes).await {
        Ok(puts) => puts.into_iter().zip(jobs).map(|(put, job)| verdict(put, job)).collect::<Vec<_>>().into_iter(),
        Err(error) => vec![Err(error); jobs.len()].into_iter(),
    };
    let verdicts: Vec<Result<Accepted>> =
        verdicts.into_iter().map(|v| v.unwrap_or_else(|| puts.next().expect("one verdict per write"))).collect();
    ctx.metrics.jobs_accepted.add(verdicts.iter().filter(|v| matches!(v, Ok(Accepted::Job(_)))).count() as u64);
    verdicts
}

/// The job that `key` names.
pub async fn find(ctx: &Context, tenant: TenantId, key: &JobKey) -> Result<Job> {
    let mut jobs = ctx.store.get_jobs(tenant, std::slice::from_ref(key)).await?;
    match jobs.pop().flatten() {
        Some(job) if job.state != JobState::Deleted => Ok(job),
        _ => {
            let name = match key {
                JobKey::Id(id) => format!("no job has the id {id}"),
                JobKey::Name(name) => format!("no job is named `{name}`"),
            };
            Err(Error::new(Kind::NotFound, name).with_code("job_not_found"))
        }
    }
}

/// Gives a job another definition. Its fires go on where they stand, unless its schedule changed.
pub async fn replace(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    draft: JobDraft,
    change: Change,
) -> Result<Accepted> {
    update(ctx, tenant, key, change, |ctx, old| redefine(ctx, tenant, &draft, old)).await
}

/// The job that `replace` would make.
pub async fn preview_replace(ctx: &Context, tenant: TenantId, key: &JobKey, draft: JobDraft) -> Result<Job> {
    let old = find(ctx, tenant, key).await?;
    redefine(ctx, tenant, &draft, &old).map(|(job, _)| job)
}

/// Pauses, resumes or deletes a job.
pub async fn set_state(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    state: NewState,
    change: Change,
) -> Result<Accepted> {
    update(ctx, tenant, key, change, |ctx, old| in_state(ctx, old, state)).await
}

/// The job that `set_state` would make.
pub async fn preview_state(ctx: &Context, tenant: TenantId, key: &JobKey, state: NewState) -> Result<Job> {
    let old = find(ctx, tenant, key).await?;
    in_state(ctx, &old, state).map(|(job, _)| job)
}

/// What a job is to become.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum NewState {
    /// It fires.
    Active,
    /// It does not, until this instant or until it is resumed.
    Paused(Option<Timestamp>),
    /// It is gone.
    Deleted,
}

/// Resumes jobs whose pause is over. Their fires go on from the end of the pause, not from when somebody noticed it.
pub async fn resume_due(ctx: &Context, now: Timestamp) -> Result<usize> {
    let due = ctx.store.load_resumable(now, limits::BATCH_JOBS_MAX).await?;
    for job in &due {
        let change = Change { if_match: Some(job.version), keyed: None };
        match set_state(ctx, job.tenant, &JobKey::Id(job.id), NewState::Active, change).await {
            Ok(_) => tracing::info!(job = %job.id, "the pause is over"),
            // Somebody changed it meanwhile; if it is still due, the next look finds it.
            Err(error) => tracing::info!(%error, job = %job.id, "a pause could not be ended"),
        }
    }
    Ok(due.len())
}

/// The old job in another state, and what that does to fires that had no outcome yet.
fn in_state(ctx: &Context, old: &Job, new: NewState) -> Result<(Job, Option<Skip>)> {
    let (state, paused_until) = match new {
        NewState::Active => (JobState::Active, None),
        NewState::Paused(until) => (JobState::Paused, until),
        NewState::Deleted => (JobState::Deleted, None),
    };
    let updated_at = change_instant(ctx, old);
    if paused_until.is_some_and(|until| until <= updated_at) {
        let error = FieldError::new("/until", "until_in_the_past", "the end of the pause lies in the past");
        return Err(Error::invalid(vec![error]));
    }
    let mut job = Job { version: old.version + 1, updated_at, state, paused_until, ..old.clone() };
    let skip = match state {
        JobState::Paused => {
            job.cursor = Cursor { next_fire_at: None, fires_left: left_at_change(old, job.updated_at)? };
            owed(&job, old, Reason::Paused)
        }
        JobState::Deleted => {
            job.cursor.next_fire_at = None;
            owed(&job, old, Reason::JobDeleted)
        }
        // From now on: what came due meanwhile is not made up for.
        JobState::Active if old.state == JobState::Paused => {
            let end = old.paused_until.map_or(job.updated_at, |until| until.min(job.updated_at));
            job.cursor = job.cursor_after(&decode(&job.plan)?, end, old.cursor.fires_left);
            Some(Skip { to: end.max(old.updated_at), ..skipped(&job, old.updated_at, Reason::Paused) })
        }
        JobState::Active => None,
    };
    Ok((job, skip))
}

/// Reads, changes and writes a job under its version, again when somebody else was faster and the caller set no version.
async fn update(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    change: Change,
    new: impl Fn(&Context, &Job) -> Result<(Job, Option<Skip>)>,
) -> Result<Accepted> {
    let name = change.keyed.as_ref().map(Keyed::name);
    for _ in 0..CHANGE_TRIES_MAX {
        let old = match find(ctx, tenant, key).await {
            Ok(old) if change.if_match.is_some_and(|version| version != old.version) => {
                return recall(ctx, tenant, name, version_mismatch(old.version)).await;
            }
            Ok(old) => old,
            Err(error) => return recall(ctx, tenant, name, error).await,
        };
        let (job, skip) = match new(ctx, &old) {
            Ok(new) => new,
            Err(error) => return recall(ctx, tenant, name, error).await,
        };
        let idempotency = change.keyed.as_ref().map(|keyed| remember(keyed, &job));
        let write = JobWrite { job: job.clone(), expected: Expected::Version(old.version), skip, idempotency };
        let put = ctx.store.put_jobs(vec![write]).await?.pop().expect("one verdict per write");
        if matches!(put, Put::Stale { .. }) && change.if_match.is_none() {
            continue;
        }
        return verdict(put, job);
    }
    Err(Error::new(Kind::Unavailable, "the job is being changed too often; try again"))
}

/// The answer that a refused request got the first time, if it is a repetition; the refusal otherwise. Its first time may
/// well be the reason for the refusal: the job is deleted, its version has grown, its instant has passed.
async fn recall(ctx: &Context, tenant: TenantId, key: Option<KeyName>, refusal: Error) -> Result<Accepted> {
    let Some(key) = key else { return Err(refusal) };
    match ctx.store.recall(tenant, &key.scope, &key.key, ctx.clock.now()).await? {
        Some((fingerprint, answer)) if fingerprint == key.fingerprint => Ok(Accepted::Replayed(answer)),
        Some(_) => Err(key_reused()),
        None => Err(refusal),
    }
}

/// The old job with a new definition, and what that does to fires that had no outcome yet.
fn redefine(ctx: &Context, tenant: TenantId, draft: &JobDraft, old: &Job) -> Result<(Job, Option<Skip>)> {
    let same_schedule = draft.schedule == old.schedule;
    let draft = JobDraft { allow_past: draft.allow_past || same_schedule, ..draft.clone() };
    let mut job = build(ctx, tenant, &draft, old.id, ctx.clock.now())?;
    job.version = old.version + 1;
    job.created_at = old.created_at;
    job.updated_at = change_instant(ctx, old);
    if same_schedule && matches!(old.schedule, Schedule::At { .. } | Schedule::After { .. }) {
        // Its instant was fixed when the schedule was first accepted; saying the same again must neither move nor repeat it.
        job.plan = old.plan.clone();
        job.cursor = job.cursor_after(&decode(&job.plan)?, job.updated_at, job.window.max_fires);
    }
    if old.state == JobState::Paused {
        job.state = JobState::Paused;
        job.paused_until = old.paused_until;
        job.cursor = Cursor { next_fire_at: None, fires_left: job.window.max_fires };
    }
    let same_fires = (&job.plan, job.window, job.spread_ms) == (&old.plan, old.window, old.spread_ms);
    if same_fires && job.state == old.state {
        job.cursor = cursor_at_change(&job, old)?;
        let skip = owed(&job, old, Reason::StaleVersion).filter(|_| old.state == JobState::Paused);
        return Ok((job, skip));
    }
    let skip = owed(&job, old, Reason::StaleVersion);
    Ok((job, skip))
}

/// A checked and resolved job, version 1, with its cursor at the first fire after its acceptance.
fn build(ctx: &Context, tenant: TenantId, draft: &JobDraft, id: JobId, now: Timestamp) -> Result<Job> {
    let mut errors = Vec::new();
    let seed = HashSeed { tenant: TenantId::DEFAULT_NAME, job: &draft.name };
    let mut fault = |error: ScheduleError| {
        let pointer = schedule_pointer(&draft.schedule, error.code).into();
        let ScheduleError { message, position, hint, code } = error;
        errors.push(FieldError { pointer, code, message, hint, position });
    };
    let plan = effective(&draft.schedule, draft.allow_past, now).resolve(seed, now).map_err(&mut fault);
    let action = ctx.actions.validate(&draft.action).map_err(|fields| errors.extend(fields));
    let (action, target) = action.unwrap_or_else(|()| (draft.action.clone(), "".into()));
    let mut job = Job {
        id,
        tenant,
        name: draft.name.clone(),
        schedule: draft.schedule.clone(),
        plan: plan.as_ref().map(|plan| plan.encode()).unwrap_or_default().into(),
        window: draft.window,
        spread_ms: draft.spread_ms,
        action,
        target,
        payload: draft.payload.clone(),
        retry: draft.retry,
        timeout_ms: draft.timeout_ms,
        priority: draft.priority,
        pool: draft.pool.clone(),
        catch_up: draft.catch_up,
        overlap: draft.overlap,
        expect: draft.expect,
        blackouts: draft.blackouts.clone().into(),
        tags: draft.tags.clone(),
        state: if draft.paused { JobState::Paused } else { JobState::Active },
        paused_until: None,
        version: 1,
        created_at: now,
        updated_at: now,
        cursor: Cursor::default(),
    };
    errors.extend(job.check());
    if let Ok(plan) = &plan {
        job.cursor = first_cursor(&job, plan, now, &mut errors);
    }
    if errors.is_empty() { Ok(job) } else { Err(Error::invalid(errors)) }
}

/// The schedule to resolve: an instant in the past that is allowed means now.
fn effective(schedule: &Schedule, allow_past: bool, now: Timestamp) -> Schedule {
    match schedule {
        Schedule::At { at } if *at < now && allow_past => Schedule::At { at: now },
        other => other.clone(),
    }
}

/// Where a new job's fires begin; reports an instant in the past that was not asked for.
fn first_cursor(job: &Job, plan: &Plan, now: Timestamp, errors: &mut Vec<FieldError>) -> Cursor {
    // An instant that is now, by `allow_past` or a delay of zero, is due at once rather than never.
    let from = if plan.is_one_off() { now.saturating_add_ms(-1) } else { now };
    if plan.is_one_off() && plan.next(from).is_none() {
        errors.push(
            FieldError::new("/schedule/at", "at_in_the_past", "the instant lies in the past")
                .hint("set allow_past to fire it at once"),
        );
    }
    job.cursor_after(plan, from, job.window.max_fires)
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

/// When a change counts from: now, but never before the version that it replaces, should the clock have gone back.
fn change_instant(ctx: &Context, old: &Job) -> Timestamp {
    ctx.clock.now().max(old.updated_at)
}

/// The fires of the old version up to the change: those that have no execution will get none. Usually there is no such
/// fire, because the stored cursor merely lags. Of a paused job it is all since it was last written.
fn owed(job: &Job, old: &Job, reason: Reason) -> Option<Skip> {
    if old.state == JobState::Paused {
        return Some(skipped(job, old.updated_at, Reason::Paused));
    }
    let from = old.cursor.next_fire_at.filter(|&at| at <= job.updated_at)?;
    Some(skipped(job, from, reason))
}

/// The cursor of a job whose fires stay the same. It must not have passed the change, so that nothing after that is left
/// to the older version: see `shard`. The owner's clock decided about that, and may have been ahead of the one that says
/// when the change was; then it goes back to the first fire after the change. What has run by now exists, and does not
/// run again.
fn cursor_at_change(job: &Job, old: &Job) -> Result<Cursor> {
    let plan = decode(&job.plan)?;
    let Some(first) = job.cursor_after(&plan, job.updated_at, None).next_fire_at else { return Ok(old.cursor) };
    let Some(left) = old.cursor.fires_left else {
        let next = old.cursor.next_fire_at.map_or(first, |next| next.min(first));
        return Ok(Cursor { next_fire_at: Some(next), fires_left: None });
    };
    // Those that were counted too early count again. After the last one nobody knows how many that were.
    let Some(next) = old.cursor.next_fire_at.filter(|&next| next > first) else { return Ok(old.cursor) };
    let offset = job.spread_offset_ms() as i64;
    let (from, to) = (first.saturating_add_ms(-1 - offset), next.saturating_add_ms(-1 - offset));
    let counted = plan.count(from, to, limits::CATCH_UP_FIRES_MAX as u64) as u32;
    Ok(Cursor { next_fire_at: Some(first), fires_left: Some(left.saturating_add(counted)) })
}

/// Fires left under `max_fires` once those up to a change are counted, which the stored cursor may not have done yet.
fn left_at_change(old: &Job, at: Timestamp) -> Result<Option<u32>> {
    let (Some(left), Some(from)) = (old.cursor.fires_left, old.cursor.next_fire_at) else {
        return Ok(old.cursor.fires_left);
    };
    let offset = old.spread_offset_ms() as i64;
    let (from, to) = (from.saturating_add_ms(-1 - offset), at.saturating_add_ms(-offset));
    let passed = decode(&old.plan)?.count(from, to, left.into()) as u32;
    Ok(Some(left.saturating_sub(passed)))
}

fn skipped(job: &Job, from: Timestamp, reason: Reason) -> Skip {
    let to = job.updated_at.max(from);
    Skip { tenant: job.tenant, job: job.id, from, to, reason, recorded_at: job.updated_at }
}

fn remember(keyed: &Keyed, job: &Job) -> Idempotency {
    Idempotency {
        scope: keyed.scope.clone(),
        key: keyed.key.clone(),
        fingerprint: keyed.fingerprint,
        answer: (keyed.render)(job),
        expires_at: job.updated_at.saturating_add_ms(limits::IDEMPOTENCY_MS as i64),
    }
}

fn verdict(put: Put, job: Job) -> Result<Accepted> {
    match put {
        Put::Done => Ok(Accepted::Job(Box::new(job))),
        Put::Replayed(answer) => Ok(Accepted::Replayed(answer)),
        Put::NameTaken { id } => {
            let message = format!("the name `{}` is taken by {id}", job.name);
            Err(Error::new(Kind::Conflict, message).with_code("name_taken"))
        }
        Put::Stale { version } => Err(version_mismatch(version)),
        Put::Gone => {
            Err(Error::new(Kind::NotFound, format!("no job has the id {}", job.id)).with_code("job_not_found"))
        }
        Put::KeyReused => Err(key_reused()),
    }
}

fn key_reused() -> Error {
    Error::new(Kind::Invalid, "the Idempotency-Key was used before for another request").with_code("key_reused")
}

fn version_mismatch(version: u32) -> Error {
    Error::new(Kind::Conflict, format!("the job is in version {version} now")).with_code("version_mismatch")
}

/// The plan that a job's row holds.
pub(crate) fn decode(plan: &str) -> Result<Plan> {
    Plan::decode(plan).map_err(|e| Error::new(Kind::Corrupt, format!("stored plan `{plan}` cannot be read: {e}")))
}

fn new_id(ctx: &Context) -> JobId {
    let sequence = ctx.random.next();
    JobId::new(ctx.clock.now(), (sequence >> 48) as u16, ctx.random.next())
}
