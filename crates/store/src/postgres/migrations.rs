//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn run(pool: &Pool) -> Result<()> {
    Err(Failure::corrupt("not written yet").into_error(""))
}

pub(super) async fn put_meta(pool: &Pool, key: &str, value: &str) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn status(pool: &Pool) -> Done<StoreStatus> {
    Err(Failure::corrupt("not written yet"))
}

