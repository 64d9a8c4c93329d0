//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn put(tx: &Tx<'_>, endpoint: &Endpoint) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn delete(pool: &Pool, tenant: TenantId, id: EndpointId) -> Result<bool> {
    Err(Failure::corrupt("not written yet").into_error(""))
}

pub(super) async fn list(pool: &Pool, tenant: TenantId) -> Done<Vec<Endpoint>> {
    Err(Failure::corrupt("not written yet"))
}

