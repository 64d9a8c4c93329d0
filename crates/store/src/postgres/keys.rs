//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

/// A key that was used before.
pub(super) enum Used {
    /// For the same request: this was the answer.
    Same(Answer),
    /// For another request.
    Other,
}

/// Finds which of these keys were used before and have not expired at `now`: one answer per key.
pub(super) async fn find(tx: &Tx<'_>, keys: &[(TenantId, &Idempotency)], now: Timestamp) -> Done<Vec<Option<Used>>> {
    Err(Failure::corrupt("not written yet"))
}

/// Remembers keys; expired ones of the same name give way.
pub(super) async fn remember(tx: &Tx<'_>, keys: &[(TenantId, &Idempotency)]) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn recall(pool: &Pool, tenant: TenantId, scope: &str, key: &str, now: Timestamp) -> Done<Option<(u128, Answer)>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn forget(pool: &Pool, now: Timestamp, limit: usize) -> Done<usize> {
    Err(Failure::corrupt("not written yet"))
}

