//! Jobs that are there: found by what a caller calls them, and changed. Shared by all who change jobs.

use crate::context::Context;
use campanile_model::job::version::Change;
use campanile_model::job::{Job, JobState};
use campanile_model::schedule::Plan;
use campanile_model::store::{Answer, CallerKey, JobKey, JobWrite, Keyed, Put};
use campanile_model::{Error, FieldError, JobId, Kind, Result, TenantId, Timestamp};

/// Under which conditions something is changed.
#[derive(Default)]
pub struct Conditions {
    /// Only in this version.
    pub if_match: Option<u32>,
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

/// Pauses, resumes or deletes a job.
pub async fn set_state(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    change: Change,
    conditions: Conditions,
) -> Result<Accepted> {
    let checked = async {
        check_pause(&change, ctx.clock.now())?;
        current(ctx, tenant, key, &conditions).await
    };
    match checked.await {
        Ok(old) => put(ctx, &old, change, conditions.if_match, conditions.keyed).await,
        Err(refusal) => recall(ctx, tenant, conditions.keyed.as_ref(), refusal).await,
    }
}

/// The job that is to be changed, if it is in the version that the caller wants.
pub(crate) async fn current(ctx: &Context, tenant: TenantId, key: &JobKey, conditions: &Conditions) -> Result<Job> {
    let job = find(ctx, tenant, key).await?;
    match conditions.if_match {
        Some(version) if version != job.version => Err(version_mismatch(job.version)),
        _ => Ok(job),
    }
}

pub(crate) async fn put(
    ctx: &Context,
    job: &Job,
    change: Change,
    expected: Option<u32>,
    keyed: Option<Keyed>,
) -> Result<Accepted> {
    let name = name_of(&change).to_owned();
    let write = JobWrite { id: job.id, tenant: job.tenant, change, expected, keyed };
    let put = ctx.store.put_jobs(vec![write]).await?.pop().expect("one verdict per write");
    verdict(put, job.id, &name)
}

/// The answer that a refused request got the first time, if it is a repetition; the refusal otherwise. Its first time may
/// well be the reason for the refusal: the job is deleted, its version has grown, its instant has passed.
pub(crate) async fn recall(ctx: &Context, tenant: TenantId, keyed: Option<&Keyed>, refusal: Error) -> Result<Accepted> {
    let Some(Keyed { key, .. }) = keyed else { return Err(refusal) };
    let CallerKey { fingerprint, .. } = *key;
    match ctx.store.recall(tenant, key, ctx.clock.now()).await? {
        Some((same, answer)) if same == fingerprint => Ok(Accepted::Replayed(answer)),
        Some(_) => Err(key_reused()),
        None => Err(refusal),
    }
}

/// Refuses a pause that would be over before it begins.
pub(crate) fn check_pause(change: &Change, now: Timestamp) -> Result<()> {
    match change {
        Change::Pause(Some(until)) if *until <= now => {
            let error = FieldError::new("/until", "until_in_the_past", "the end of the pause lies in the past");
            Err(Error::invalid(vec![error]))
        }
        _ => Ok(()),
    }
}

/// The name that a change wants.
pub(crate) fn name_of(change: &Change) -> &str {
    match change {
        Change::Create { resolved, .. } | Change::Define(resolved) => &resolved.definition.name,
        _ => "",
    }
}

pub(crate) fn verdict(put: Put, id: JobId, name: &str) -> Result<Accepted> {
    match put {
        Put::Done(job) => Ok(Accepted::Job(job)),
        Put::Replayed(answer) => Ok(Accepted::Replayed(answer)),
        Put::NameTaken { id } => {
            let message = format!("the name `{name}` is taken by {id}");
            Err(Error::new(Kind::Conflict, message).with_code("name_taken"))
        }
        Put::Stale { version } => Err(version_mismatch(version)),
        Put::Gone => Err(Error::new(Kind::NotFound, format!("no job has the id {id}")).with_code("job_not_found")),
        Put::KeyReused => Err(key_reused()),
    }
}

fn key_reused() -> Error {
    Error::new(Kind::Invalid, "the Idempotency-Key was used before for another request").with_code("key_reused")
}

pub(crate) const VERSION_MISMATCH: &str = "version_mismatch";

fn version_mismatch(version: u32) -> Error {
    Error::new(Kind::Conflict, format!("the job is in version {version} now")).with_code(VERSION_MISMATCH)
}

/// The plan that a job's row holds.
pub(crate) fn decode(plan: &str) -> Result<Plan> {
    Plan::decode(plan).map_err(|e| Error::new(Kind::Corrupt, format!("stored plan `{plan}` cannot be read: {e}")))
}
