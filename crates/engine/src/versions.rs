//! Which version of a job governs an instant: asked by whoever is told of an instant, and not by the path, which has an execution
//! with its version.

use crate::context::Context;
use campanile_model::job::Job;
use campanile_model::store::JobVersion;
use campanile_model::{Result, Timestamp};

/// Versions that are looked through for the one that governs an instant; about an older one nothing is known.
const VERSIONS_MAX: usize = 10_000;
/// Versions that are read at once: each has a whole definition.
const PAGE: usize = 50;

/// The versions that govern instants in `(after, to]`, earliest first; the earliest that is kept, where that is too late.
pub async fn governing(ctx: &Context, newest: Job, after: Timestamp, to: Timestamp) -> Result<Vec<JobVersion>> {
    let (tenant, id) = (newest.tenant, newest.id);
    let mut version = JobVersion { job: newest, ended_at: None };
    let mut governing = Vec::new();
    let mut older = Vec::new();
    for _ in 0..VERSIONS_MAX {
        let (number, effective_at) = (version.job.version, version.job.effective_at);
        if number == 1 || effective_at < to {
            governing.push(version.clone());
        }
        if number == 1 || effective_at <= after {
            break;
        }
        if older.is_empty() {
            let page = ctx.store.list_versions(tenant, id, Some(number), PAGE).await?;
            older = page.items;
            older.reverse();
        }
        match older.pop() {
            Some(next) => version = next,
            None => break,
        }
    }
    if governing.is_empty() {
        governing.push(version);
    }
    governing.reverse();
    Ok(governing)
}
