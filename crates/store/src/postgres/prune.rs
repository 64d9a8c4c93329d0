//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

#[derive(Default)]
pub(super) struct Progress {}

pub(super) async fn prune(pool: &Pool, locks: Locks, progress: &Mutex<Progress>, retention: &Retention, now: Timestamp, limit: usize) -> Result<Pruned> {
    Err(Failure::corrupt("not written yet").into_error(""))
}

