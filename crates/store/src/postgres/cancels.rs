//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn cancel(tx: &Tx<'_>, locks: Locks, batch: &CancelBatch) -> Done<Cancelled> {
    Err(Failure::corrupt("not written yet"))
}

