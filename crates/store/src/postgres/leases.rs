//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn defer(tx: &Tx<'_>, deferrals: &[Deferral]) -> Done<Vec<Applied>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn extend(tx: &Tx<'_>, extensions: &[Extension]) -> Done<Vec<Extended>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load_running(pool: &Pool, ids: &[ExecutionId]) -> Done<Vec<Option<RunningAttempt>>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load_expired(pool: &Pool, now: Timestamp, limit: usize) -> Done<Vec<RunningAttempt>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load_orphans(pool: &Pool, live_nodes: &[String], limit: usize) -> Done<Vec<RunningAttempt>> {
    Err(Failure::corrupt("not written yet"))
}

