//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn get(pool: &Pool, tenant: TenantId, execution: ExecutionId) -> Done<Option<Progress>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list_logs(pool: &Pool, tenant: TenantId, execution: ExecutionId, after: u64, limit: usize) -> Done<Vec<(u64, LogLine)>> {
    Err(Failure::corrupt("not written yet"))
}

