//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn list(pool: &Pool, query: &StatsQuery) -> Done<Vec<Rollup>> {
    Err(Failure::corrupt("not written yet"))
}

