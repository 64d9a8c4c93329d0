//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn fire(tx: &Tx<'_>, locks: Locks, batch: &FireBatch) -> Done<(FireVerdict, Vec<Waiting>)> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load_waiting(pool: &Pool, query: &WaitingQuery) -> Done<Vec<Waiting>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn get(pool: &Pool, tenant: TenantId, ids: &[ExecutionId]) -> Done<Vec<Option<Execution>>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list_attempts(pool: &Pool, tenant: TenantId, execution: ExecutionId) -> Done<Vec<Attempt>> {
    Err(Failure::corrupt("not written yet"))
}

