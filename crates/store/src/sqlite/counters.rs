//! Numbers that grow, taken inside the writer's transaction: with a single writer, their order is the order of commits.

use super::failure::Done;
use rusqlite::Connection;

/// Order of job writes.
pub(super) const CHANGE_SEQ: &str = "change_seq";
/// The last of them that changed a job which was there.
pub(super) const LAST_CHANGE: &str = "last_change";
pub(super) const FENCE: &str = "fence";
/// Count of jobs that are not deleted.
pub(super) const LIVE_JOBS: &str = "live_jobs";

/// Writes of limits, and not how many there are.
pub(super) const LIMITS: &str = "limits";

/// Takes `count` numbers and returns the first of them.
pub(super) fn take(connection: &Connection, name: &str, count: usize) -> Done<u64> {
    let last = add(connection, name, count as i64)?;
    Ok((last - count as i64 + 1) as u64)
}

/// Adds to a counter and returns its new value.
pub(super) fn add(connection: &Connection, name: &str, by: i64) -> Done<i64> {
    let mut statement = connection.prepare_cached(include_str!("sql/counters/take.sql"))?;
    Ok(statement.query_row((name, by), |row| row.get(0))?)
}

pub(super) fn set(connection: &Connection, name: &str, value: u64) -> Done<()> {
    connection.prepare_cached(include_str!("sql/counters/set.sql"))?.execute((name, value as i64))?;
    Ok(())
}

pub(super) fn get(connection: &Connection, name: &str) -> Done<u64> {
    let mut statement = connection.prepare_cached(include_str!("sql/counters/get.sql"))?;
    Ok(statement.query_row([name], |row| row.get::<_, i64>(0))? as u64)
}
