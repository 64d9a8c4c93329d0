//! The pulse: one short look at what there is to do.

use super::rows::Columns;
use campanile_model::action::NODE_PREFIX;
use campanile_model::job::JobState;
use campanile_model::store::{ChangeSeq, Pulse};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool};

/// What there is to do at `now`.
pub(super) async fn get(pool: &Pool, now: Timestamp) -> Done<Pulse> {
    let paused = i16::from(JobState::Paused.code());
    let found = pool.query(include_str!("sql/pulse/get.sql"), &[&now.millis(), &NODE_PREFIX, &paused]).await?;
    let Some(row) = found.first() else { return Ok(Pulse::default()) };
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
