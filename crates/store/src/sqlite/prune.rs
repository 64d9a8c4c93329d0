//! Pruning: final executions beyond their retention, with everything that hangs on them; and old deliveries, rollups
//! and skips.
//!
//! A reader scans for what is beyond its retention (`crate::core::retention`), and the writer deletes what it found, if it
//! still is what it was.
//!
//! A superseded version of a job is kept while an execution of it is. An execution is kept, however old, while its job's cursor has
//! not passed it: a start from that cursor would find its instant without an execution, and run it again.

use super::dead;
use super::failure::Done;
use super::history;
use super::rows::Columns;
use super::skips;
use super::write::write_effects;
use crate::core::effects::Effects;
use crate::core::retention::{EXECUTIONS_OF_VERSION_MAX, OldVersion, Sweep, last_fire_of};
pub(super) use crate::core::retention::{Found, Order, Progress};
use crate::core::skips::stays_behind;
use campanile_model::ids::{ExecutionId, FireKind, JobId};
use campanile_model::lifecycle::{State, UNHAPPY};
use campanile_model::store::{Keep, Pruned};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

/// Finds executions to delete.
pub(super) fn find(connection: &Connection, order: &Order, progress: Progress) -> Done<Found> {
    let mut found = Found::new(order, progress);
    for keep in order.keeps() {
        scan(connection, order, keep, &mut found)?;
    }
    find_versions(connection, order, &mut found)?;
    found.finish();
    Ok(found)
}

/// Finds superseded versions that are old, and of which no execution is left.
fn find_versions(connection: &Connection, order: &Order, found: &mut Found) -> Done<()> {
    let mut scan = connection.prepare_cached(include_str!("sql/prune/scan_versions.sql"))?;
    let (ended_at, job, version) = found.progress.versions;
    let before = order.ago(order.retention.versions_ms).millis();
    let mut rows = scan.query(params![before, ended_at, job, version, found.versions_max() as i64])?;
    let mut looked: Vec<OldVersion> = Vec::new();
    while let Some(row) = rows.next()? {
        let old = (row.get(0)?, row.get(1)?, row.get(2)?);
        if !has_executions(connection, old)? {
            found.versions.push(old);
        }
        looked.push(old);
    }
    found.close_versions(&looked);
    Ok(())
}

/// Whether an execution of a version is kept.
fn has_executions(connection: &Connection, (ended_at, job, version): OldVersion) -> Done<bool> {
    let mut get = connection.prepare_cached(include_str!("sql/prune/version_of.sql"))?;
    let end = ExecutionId::floor(last_fire_of(Timestamp::from_millis(ended_at)));
    let (mut has, mut looked) = (false, 0);
    history::newest_first(connection, JobId::from_bytes(job), ([0; 16], *end.as_bytes()), |id| {
        looked += 1;
        let its_own = get.query_row([id.as_bytes()], |row| row.get::<_, u32>(0)).optional()?;
        has = its_own == Some(version) || looked == EXECUTIONS_OF_VERSION_MAX;
        Ok(!has)
    })?;
    Ok(has)
}

/// Goes on with the scan of one state.
fn scan(connection: &Connection, order: &Order, keep: &Keep, found: &mut Found) -> Done<()> {
    let in_state = keep.count.map_or(Ok(0), |_| in_state(connection, keep.state))?;
    let Some(mut sweep) = Sweep::new(order, keep, &found.progress, in_state) else { return Ok(()) };
    let mut scan = match UNHAPPY.contains(keep.state) {
        true => connection.prepare_cached(include_str!("sql/prune/scan_unhappy.sql"))?,
        false => connection.prepare_cached(include_str!("sql/prune/scan.sql"))?,
    };
    let mut rows = scan.query(params![sweep.range().0, sweep.range().1])?;
    let over = loop {
        if found.rows_left() == 0 {
            break false;
        }
        let Some(row) = rows.next()? else { break true };
        let mut columns = Columns::of(row);
        let which = (columns.execution_id()?, columns.state()?);
        if !sweep.look(found, which, columns.instant_or_none()?) {
            break true;
        }
    };
    found.close(&sweep, over);
    Ok(())
}

/// How many executions are in a state.
fn in_state(connection: &Connection, state: State) -> Done<u64> {
    let mut count = connection.prepare_cached(include_str!("sql/prune/count.sql"))?;
    Ok(count.query_row([state.code()], |row| row.get::<_, i64>(0))?.max(0) as u64)
}

/// Rows that hang on executions and are deleted by one transaction, about: one execution may have thousands of lines of
/// log.
const DEPENDENT_ROWS_MAX: usize = 16 * 1_024;

/// Deletes what was found, and other rows that are too old: as many rows as `limit` leaves. Says too whether all of
/// what was found is deleted, so that the next scan goes on behind it.
pub(super) fn delete(connection: &Connection, order: &Order, found: &Found) -> Done<(Pruned, bool)> {
    let mut effects = Effects::default();
    let (mut executions, mut dependent) = (0, 0);
    for &(id, state) in &found.victims {
        if dependent >= DEPENDENT_ROWS_MAX {
            break;
        }
        if let Some(rows) = delete_execution(connection, &mut effects, (id, state), order.now)? {
            executions += 1;
            dependent += rows;
        }
    }
    write_effects(connection, &effects)?;
    if let Some((newest, _)) = found.victims.iter().max_by_key(|(id, _)| *id) {
        history::note_pruned(connection, *newest)?;
    }
    let all = dependent < DEPENDENT_ROWS_MAX;
    let mut left = order.limit.saturating_sub(found.victims.len() + found.versions.len());
    let mut more = found.more || left == 0 || !all;
    let mut others = 0;
    for (_, job, version) in &found.versions {
        let mut delete = connection.prepare_cached(include_str!("sql/prune/version.sql"))?;
        others += delete.execute(params![job, version])?;
    }
    let retention = &order.retention;
    for (sql, age_ms) in [
        (include_str!("sql/prune/deliveries.sql"), retention.deliveries_ms),
        (include_str!("sql/prune/rollups.sql"), retention.rollups_ms),
        (include_str!("sql/prune/skips.sql"), retention.skips_ms),
        (include_str!("sql/prune/pruned_runs.sql"), retention.skips_ms),
    ] {
        let before = order.ago(age_ms).millis();
        let deleted = connection.prepare_cached(sql)?.execute(params![before, left as i64])?;
        others += deleted;
        left -= deleted;
        more |= left == 0;
    }
    Ok((Pruned { executions, others, more }, all))
}

/// Deletes one execution, if it is still in this state, and everything that hangs on it: so many rows.
fn delete_execution(
    connection: &Connection,
    effects: &mut Effects,
    (id, state): (ExecutionId, State),
    now: Timestamp,
) -> Done<Option<usize>> {
    let mut delete = connection.prepare_cached(include_str!("sql/prune/execution.sql"))?;
    let mut deleted = delete.query(params![id.as_bytes(), state.code()])?;
    let Some(row) = deleted.next()? else { return Ok(None) };
    let mut columns = Columns::of(row);
    let (tenant, pool) = (columns.tenant()?, columns.text()?.into());
    let job = columns.job_id()?;
    let fingerprint = columns.number_or_none()?;
    let (fire_at, kind) = (columns.instant()?, columns.code("kind", FireKind::from_code)?);
    let deliveries = columns.number()?;
    // The statement is done when it has no more rows.
    deleted.next()?;
    if stays_behind(kind, state, deliveries) {
        skips::leave_behind(connection, (tenant, job), fire_at, now)?;
    }
    effects.sums.count(tenant, &pool, Some(state), None);
    if let Some(fingerprint) = fingerprint.filter(|_| state == State::Dead) {
        dead::shrink(connection, tenant, fingerprint, id)?;
    }
    let mut rows = 0;
    for sql in [
        include_str!("sql/prune/attempts.sql"),
        include_str!("sql/prune/responses.sql"),
        include_str!("sql/prune/progress.sql"),
        include_str!("sql/prune/logs.sql"),
        include_str!("sql/prune/watches.sql"),
    ] {
        rows += connection.prepare_cached(sql)?.execute([id.as_bytes()])?;
    }
    let mut delete = connection.prepare_cached(include_str!("sql/prune/overlaps.sql"))?;
    rows += delete.execute([job.as_bytes(), id.as_bytes()])?;
    rows += history::remove(connection, job, id)?;
    Ok(Some(rows))
}
