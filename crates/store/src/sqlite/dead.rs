//! Dead executions: their groups, and the two ways out: `replay` and `bury`.

use super::effects::{Effects, Transition};
use super::executions::{self, Found};
use super::failure::{Done, expect_one};
use super::overlaps;
use super::rows::{Columns, Texts};
use crate::sums::Grown;
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::job::JobState;
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, DeadGroup, Moved, Replay};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

/// Runs dead executions again. The last attempt gets a row of its own, since the execution's row will hold the next one; and
/// the retry policy counts from here.
pub(super) fn replay(connection: &Connection, tenant: TenantId, replays: &[Replay], now: Timestamp) -> Done<Moved> {
    let mut effects = Effects::new(connection);
    let mut moved = Moved::default();
    for &Replay { execution, wake_at } in replays {
        let found = match dead(connection, tenant, execution, Event::Replay)? {
            Ok(found) => found,
            Err(verdict) => {
                moved.verdicts.push(verdict);
                continue;
            }
        };
        let mut replay = connection.prepare_cached(include_str!("sql/dead/replay.sql"))?;
        // It waits for other runs of its job, whatever the policy says: neither must a replay be skipped, nor end what runs.
        let overlap = if found.of.overlap == Overlap::Allow { Overlap::Allow } else { Overlap::BufferAll };
        connection.prepare_cached(include_str!("sql/attempts/keep_newest.sql"))?.execute([execution.as_bytes()])?;
        let pool = replay.query_row(
            params![
                execution.as_bytes(),
                lifecycle::target(Event::Replay).code(),
                wake_at.millis(),
                lifecycle::sources(Event::Replay).mask(),
                overlap.code(),
                JobState::Deleted.code(),
            ],
            |row| row.get::<_, String>(0),
        );
        let Some(pool) = pool.optional()? else {
            // Its job is deleted: there is nothing to run it by.
            moved.verdicts.push(Applied::Stale { state: found.state });
            continue;
        };
        left(&mut effects, &found, Event::Replay, now)?;
        if *pool != *found.of.pool {
            let target = Some(lifecycle::target(Event::Replay));
            effects.count(tenant, &found.of.pool, target, None);
            effects.count(tenant, &pool.into(), None, target);
        }
        moved.verdicts.push(Applied::Done);
        moved.ready.push(overlaps::waiting(connection, execution)?);
    }
    effects.apply()?;
    Ok(moved)
}

/// Gives dead executions up.
pub(super) fn bury(
    connection: &Connection,
    tenant: TenantId,
    executions: &[ExecutionId],
    note: &str,
    now: Timestamp,
) -> Done<Vec<Applied>> {
    let mut effects = Effects::new(connection);
    let mut verdicts = Vec::with_capacity(executions.len());
    for &execution in executions {
        let found = match dead(connection, tenant, execution, Event::Bury)? {
            Ok(found) => found,
            Err(verdict) => {
                verdicts.push(verdict);
                continue;
            }
        };
        let changed = connection.prepare_cached(include_str!("sql/dead/bury.sql"))?.execute(params![
            execution.as_bytes(),
            lifecycle::target(Event::Bury).code(),
            Reason::DiscardedByUser.code(),
            note,
            lifecycle::sources(Event::Bury).mask(),
        ])?;
        expect_one(changed, execution)?;
        left(&mut effects, &found, Event::Bury, now)?;
        verdicts.push(Applied::Done);
    }
    effects.apply()?;
    Ok(verdicts)
}

/// An execution that `event` may happen to, or the verdict.
fn dead(connection: &Connection, tenant: TenantId, id: ExecutionId, event: Event) -> Done<Result<Found, Applied>> {
    let found = executions::find(connection, id, &mut Texts::default())?.filter(|found| found.of.tenant == tenant);
    Ok(match found {
        None => Err(Applied::Gone),
        Some(found) if !lifecycle::sources(event).contains(found.state) => Err(Applied::Stale { state: found.state }),
        Some(found) => Ok(found),
    })
}

/// An execution is dead no more.
fn left(effects: &mut Effects<'_>, found: &Found, event: Event, now: Timestamp) -> Done<()> {
    let change = Transition { of: &found.of, from: Some(found.state), event, at: now, reason: None, attempt: None };
    effects.note(&change)?;
    match found.fingerprint {
        Some(fingerprint) => shrink(effects.connection(), found.of.tenant, fingerprint, found.of.id),
        None => Ok(()),
    }
}

/// Writes what a batch adds to a group.
pub(super) fn grow(connection: &Connection, tenant: TenantId, fingerprint: u64, grown: &Grown) -> Done<()> {
    connection.prepare_cached(include_str!("sql/dead/grow.sql"))?.execute(params![
        tenant.0,
        fingerprint as i64,
        &*grown.target,
        grown.kind,
        grown.message,
        grown.count,
        grown.first_at.millis(),
        grown.last_at.millis(),
        grown.sample.as_bytes(),
    ])?;
    Ok(())
}

/// One of a group is dead no more, and its row says so already. The last one takes the group with it.
pub(super) fn shrink(connection: &Connection, tenant: TenantId, fingerprint: u64, left: ExecutionId) -> Done<()> {
    let key = (tenant.0, fingerprint as i64);
    let mut shrink = connection.prepare_cached(include_str!("sql/dead/shrink.sql"))?;
    let shrunk = shrink.query_row(key, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?))).optional()?;
    let Some((count, sample)) = shrunk else { return Ok(()) };
    if count > 0 && sample != *left.as_bytes() {
        return Ok(());
    }
    let mut newest = connection.prepare_cached(include_str!("sql/dead/newest.sql"))?;
    let newest = newest.query_row(key, |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, Option<String>>(1)?)));
    match newest.optional()?.filter(|_| count > 0) {
        Some((sample, message)) => {
            let mut resample = connection.prepare_cached(include_str!("sql/dead/resample.sql"))?;
            resample.execute(params![key.0, key.1, sample, message.unwrap_or_default()])?;
        }
        None => {
            connection.prepare_cached(include_str!("sql/dead/drop.sql"))?.execute(key)?;
        }
    }
    Ok(())
}

/// Lists the groups, most recently grown first.
pub(super) fn groups(connection: &Connection, tenant: TenantId, limit: usize) -> Done<Vec<DeadGroup>> {
    let mut list = connection.prepare_cached(include_str!("sql/dead/list.sql"))?;
    let mut found = list.query(params![tenant.0, limit as i64])?;
    let mut groups = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        groups.push(DeadGroup {
            fingerprint: columns.number()?,
            target: columns.next()?,
            kind: columns.next()?,
            message: columns.next()?,
            count: columns.number()?,
            first_at: columns.instant()?,
            last_at: columns.instant()?,
            sample: columns.execution_id()?,
        });
    }
    Ok(groups)
}
