//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn list(pool: &Pool, query: &ExecutionQuery, rows_max: usize) -> Done<ExecutionPage> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list_skips(pool: &Pool, tenant: TenantId, job: JobId, within: Option<(Timestamp, Timestamp)>, limit: usize) -> Done<Vec<Skip>> {
    Err(Failure::corrupt("not written yet"))
}

