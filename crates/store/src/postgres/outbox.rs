//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn load(pool: &Pool, now: Timestamp, except: &[EndpointId], limit: usize) -> Done<Vec<(Delivery, Endpoint)>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn settle(tx: &Tx<'_>, tried: &[Tried]) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list(pool: &Pool, tenant: TenantId, endpoint: EndpointId, before: Option<u64>, limit: usize) -> Done<Page<Delivery>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn replay(tx: &Tx<'_>, tenant: TenantId, endpoint: EndpointId, seq: u64, now: Timestamp) -> Done<bool> {
    Err(Failure::corrupt("not written yet"))
}

