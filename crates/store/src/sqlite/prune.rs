//! Pruning: final executions beyond their retention, with everything that hangs on them; and old deliveries, rollups and skips.
//!
//! There is no index by state that a success would be in, because every success would have to pay for it. So a reader
//! scans from the oldest execution on, state by state, a bounded number of rows per call; and the writer deletes what it
//! found, if it still is what it was. Within one state the order of ids is the order of age, so the scan of a state is
//! over at the first row that is kept. What it passes on the way is kept in other states; so that this is passed once
//! and not with every call, the place is remembered until all scans are over.
//!
//! An execution is kept, however old, while its job's cursor has not passed it: a start from that cursor would find its instant
//! without an execution, and run it again.

use super::dead;
use super::effects::Effects;
use super::failure::Done;
use super::history;
use super::rows::Columns;
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::State;
use campanile_model::store::{Keep, Pruned, Retention};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, params};

/// Where the scans stand, by the code of the state. In memory only: a new start scans anew.
#[derive(Clone, Default)]
pub(super) struct Progress([Scan; State::ALL.len()]);

#[derive(Copy, Clone, PartialEq)]
enum Scan {
    /// It goes on after this id.
    After([u8; 16]),
    /// It is over, and waits for the others.
    Over,
}

impl Default for Scan {
    fn default() -> Self {
        Scan::After([0; 16])
    }
}

/// What to prune.
pub(super) struct Order {
    pub(super) retention: Retention,
    pub(super) now: Timestamp,
    /// Rows to delete at most.
    pub(super) limit: usize,
    /// Rows to look at, at most.
    pub(super) rows_max: usize,
}

impl Order {
    /// So many milliseconds before now.
    fn ago(&self, ms: u64) -> Timestamp {
        self.now.saturating_add_ms(-i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

/// What the reader found.
pub(super) struct Found {
    /// What to delete.
    victims: Vec<(ExecutionId, State)>,
    /// Where the scans stand, once that is done.
    pub(super) progress: Progress,
    /// Whether a scan is not over.
    pub(super) more: bool,
}

/// Finds executions to delete.
pub(super) fn find(connection: &Connection, order: &Order, progress: Progress) -> Done<Found> {
    let mut found = Found { victims: Vec::new(), progress, more: false };
    let mut rows_left = order.rows_max;
    for keep in order.retention.states.iter().filter(|keep| keep.state.is_final()) {
        found.scan(connection, order, keep, &mut rows_left)?;
    }
    if !found.more {
        found.progress = Progress::default();
    }
    Ok(found)
}

impl Found {
    /// Goes on with the scan of one state.
    fn scan(&mut self, connection: &Connection, order: &Order, keep: &Keep, rows_left: &mut usize) -> Done<()> {
        let Scan::After(mut after) = self.progress.0[usize::from(keep.state.code())] else { return Ok(()) };
        let aged = keep.age_ms.map_or([0; 16], |age_ms| *ExecutionId::floor(order.ago(age_ms)).as_bytes());
        let mut excess = match keep.count {
            Some(count) => in_state(connection, keep.state)?.saturating_sub(count),
            None => 0,
        };
        // Beyond this, nothing is old enough; where there are too many, age does not matter.
        let end = if excess > 0 { [0xff; 16] } else { aged };
        let mut scan = match keep.state {
            State::Succeeded => connection.prepare_cached(include_str!("sql/prune/scan.sql"))?,
            _ => connection.prepare_cached(include_str!("sql/prune/scan_unhappy.sql"))?,
        };
        let mut rows = scan.query(params![after, end])?;
        let over = loop {
            if *rows_left == 0 || self.victims.len() >= order.limit {
                break false;
            }
            let Some(row) = rows.next()? else { break true };
            *rows_left -= 1;
            let mut columns = Columns::of(row);
            let (id, state) = (columns.execution_id()?, columns.state()?);
            // What ran long after its instant, because it was filled in or replayed, is as old as its end.
            let finished_at = columns.instant_or_none()?;
            if excess == 0 && *id.as_bytes() >= aged {
                break true;
            }
            let young = finished_at.is_some_and(|at| *ExecutionId::floor(at).as_bytes() >= aged);
            if state == keep.state && (excess > 0 || !young) {
                excess = excess.saturating_sub(1);
                self.victims.push((id, state));
            }
            after = *id.as_bytes();
        };
        self.more |= !over;
        self.progress.0[usize::from(keep.state.code())] = if over { Scan::Over } else { Scan::After(after) };
        Ok(())
    }
}

/// How many executions are in a state.
fn in_state(connection: &Connection, state: State) -> Done<u64> {
    let mut count = connection.prepare_cached(include_str!("sql/prune/count.sql"))?;
    Ok(count.query_row([state.code()], |row| row.get::<_, i64>(0))?.max(0) as u64)
}

/// Rows that hang on executions and are deleted by one transaction, about: one execution may have thousands of lines of log.
const DEPENDENT_ROWS_MAX: usize = 16 * 1_024;

/// Deletes what was found, and other rows that are too old: as many rows as `limit` leaves. Says too whether all of what was found
/// is deleted, so that the next scan goes on behind it.
pub(super) fn delete(connection: &Connection, order: &Order, found: &Found) -> Done<(Pruned, bool)> {
    let mut effects = Effects::new(connection);
    let (mut executions, mut dependent) = (0, 0);
    for &(id, state) in &found.victims {
        if dependent >= DEPENDENT_ROWS_MAX {
            break;
        }
        if let Some(rows) = delete_execution(connection, &mut effects, id, state)? {
            executions += 1;
            dependent += rows;
        }
    }
    effects.apply()?;
    if let Some((newest, _)) = found.victims.iter().max_by_key(|(id, _)| *id) {
        history::note_pruned(connection, *newest)?;
    }
    let all = dependent < DEPENDENT_ROWS_MAX;
    let mut left = order.limit.saturating_sub(found.victims.len());
    let mut more = found.more || left == 0 || !all;
    let mut others = 0;
    let retention = &order.retention;
    for (sql, age_ms) in [
        (include_str!("sql/prune/deliveries.sql"), retention.deliveries_ms),
        (include_str!("sql/prune/rollups.sql"), retention.rollups_ms),
        (include_str!("sql/prune/skips.sql"), retention.skips_ms),
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
    effects: &mut Effects<'_>,
    id: ExecutionId,
    state: State,
) -> Done<Option<usize>> {
    let mut delete = connection.prepare_cached(include_str!("sql/prune/execution.sql"))?;
    let mut deleted = delete.query(params![id.as_bytes(), state.code()])?;
    let Some(row) = deleted.next()? else { return Ok(None) };
    let mut columns = Columns::of(row);
    let (tenant, pool) = (columns.tenant()?, columns.text()?.into());
    let job = columns.job_id()?;
    let fingerprint = columns.number_or_none()?;
    // The statement is done when it has no more rows.
    deleted.next()?;
    effects.count(tenant, &pool, Some(state), None);
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
