//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn claim(tx: &Tx<'_>, locks: Locks, claims: &[Claim]) -> Done<(Vec<Claimed>, Vec<Waiting>)> {
    Err(Failure::corrupt("not written yet"))
}

