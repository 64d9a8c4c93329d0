//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn reconcile(pool: &Pool) -> Result<u64> {
    Err(Failure::corrupt("not written yet").into_error(""))
}

