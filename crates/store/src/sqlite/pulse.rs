//! The pulse: one short look at what there is to do.

use super::failure::Done;
use super::rows::Columns;
use campanile_model::action::NODE_PREFIX;
use campanile_model::job::JobState;
use campanile_model::store::{ChangeSeq, Pulse};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, params};

/// What there is to do at `now`.
pub(super) fn get(connection: &Connection, now: Timestamp) -> Done<Pulse> {
    let mut get = connection.prepare_cached(include_str!("sql/pulse/get.sql"))?;
    let mut found = get.query(params![now.millis(), NODE_PREFIX, JobState::Paused.code()])?;
    let Some(row) = found.next()? else { return Ok(Pulse::default()) };
    let mut columns = Columns::of(row);
    Ok(Pulse {
        changes: ChangeSeq(columns.number()?),
        limits: columns.number()?,
        expired: columns.next()?,
        resumable: columns.next()?,
        watches: columns.next()?,
        operations: columns.next()?,
        deliveries: columns.next()?,
    })
}
