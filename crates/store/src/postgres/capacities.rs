//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn put(tx: &Tx<'_>, capacity: &Capacity) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn delete(tx: &Tx<'_>, tenant: TenantId, scope: Scope, name: &str) -> Done<bool> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list(pool: &Pool, tenant: Option<TenantId>) -> Done<Vec<Capacity>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn counts(pool: &Pool, tenant: Option<TenantId>) -> Done<Vec<Count>> {
    Err(Failure::corrupt("not written yet"))
}

