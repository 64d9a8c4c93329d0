//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn put(tx: &Tx<'_>, operation: &Operation, expected: Option<OperationState>) -> Done<bool> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn get(pool: &Pool, tenant: TenantId, id: OperationId) -> Done<Option<Operation>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list(pool: &Pool, tenant: TenantId, before: Option<OperationId>, limit: usize) -> Done<Page<Operation>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load(pool: &Pool, limit: usize) -> Done<Vec<Operation>> {
    Err(Failure::corrupt("not written yet"))
}

