//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn break_due(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    Err(Failure::corrupt("not written yet"))
}

/// Jobs are written: their successes are watched as long as they are active.
pub(super) async fn jobs_written(tx: &Tx<'_>, jobs: &[&Job]) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

