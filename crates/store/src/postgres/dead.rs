//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn replay(tx: &Tx<'_>, locks: Locks, tenant: TenantId, replays: &[Replay], now: Timestamp) -> Done<Moved> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn bury(tx: &Tx<'_>, tenant: TenantId, executions: &[ExecutionId], note: &str, now: Timestamp) -> Done<Vec<Applied>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn groups(pool: &Pool, tenant: TenantId, limit: usize) -> Done<Vec<DeadGroup>> {
    Err(Failure::corrupt("not written yet"))
}

