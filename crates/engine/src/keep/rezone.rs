//! After a new zone database: jobs whose next fire moved.
//!
//! Cursors are instants, computed with the zone rules of their time. When the binary brings other rules, every active cron
//! job's next fire is computed again; those that moved get a new version, and are listed in the log. Runs once at
//! start, before anything fires; a crash half-way repeats it.

use crate::calls::persist;
use crate::context::Context;
use campanile_model::fault::{Bug, planted};
use campanile_model::job::version::{self, Change};
use campanile_model::job::{Job, JobState};
use campanile_model::schedule::{Schedule, zone_database_version};
use campanile_model::store::{JobQuery, JobWrite, ZoneDatabase};
use campanile_model::{Result, Timestamp, limits};

/// Recomputes cursors if the store's were computed with another zone database. Returns how many jobs moved.
pub async fn run(ctx: &Context) -> Result<usize> {
    let ours = zone_database_version();
    let noted = noted(ctx).await?;
    // balrog#1095: the instant is kept, though the zone has other rules now.
    if noted.as_deref() == Some(ours) || planted(Bug("old-zone-rules")) {
        return Ok(0);
    }
    let mut moved = 0;
    let mut after = None;
    // A new store has nothing to recompute, but gets its mark. One that has jobs and no mark is not believed.
    let mut has_more = noted.is_some() || ctx.store.status().await?.jobs > 0;
    while has_more {
        let query =
            JobQuery { after, limit: limits::PAGE_ITEMS_MAX, state: Some(JobState::Active), ..JobQuery::default() };
        let page = ctx.store.list_jobs(&query).await?;
        after = page.items.last().map(|job| job.name().to_owned());
        let now = ctx.clock.now();
        let mut writes: Vec<JobWrite> = Vec::new();
        for job in &page.items {
            let Some((write, next)) = rezoned(job, now) else { continue };
            let next = next.map(|at| at.to_string());
            tracing::warn!(job = job.name(), ?next, "the zone database moved this job's next fire");
            writes.push(write);
        }
        moved += writes.len();
        persist(ctx, "rezone", || ctx.store.put_jobs(writes.clone())).await?;
        has_more = page.has_more;
    }
    let mark = ZoneDatabase { version: ours.to_owned() };
    persist(ctx, "mark the zone database", || ctx.store.put_record(mark.clone().into(), None)).await?;
    tracing::info!(from = noted, to = ours, moved, "zone database noted");
    Ok(moved)
}

/// The zone database that the cursors were computed with; none in a new store.
pub async fn noted(ctx: &Context) -> Result<Option<String>> {
    let Some(stored) = ctx.store.get_record(&ZoneDatabase::key()).await? else { return Ok(None) };
    Ok(Some(stored.into_inner::<ZoneDatabase>()?.version))
}

/// The write that moves a job's next fire, and where to, if the rules of today put it elsewhere. Fires that are due already stay due.
fn rezoned(job: &Job, now: Timestamp) -> Option<(JobWrite, Option<Timestamp>)> {
    let Schedule::Cron { .. } = job.definition.schedule else { return None };
    let next = job.cursor.next_fire_at.filter(|&at| at > now)?;
    let moved = version::change(job, None, &Change::Replan, now).job.cursor.next_fire_at;
    let write =
        JobWrite { id: job.id, tenant: job.tenant, change: Change::Replan, expected: Some(job.version), keyed: None };
    (moved != Some(next)).then_some((write, moved))
}
