//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn complete(tx: &Tx<'_>, locks: Locks, completions: &[Completion]) -> Done<Moved> {
    Err(Failure::corrupt("not written yet"))
}

