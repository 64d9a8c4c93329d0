//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn open(tx: &Tx<'_>, shards: &[ShardId], owner: &str) -> Done<Vec<ShardFence>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list(pool: &Pool) -> Done<Vec<ShardOwner>> {
    Err(Failure::corrupt("not written yet"))
}

/// Those of `shards` for which `fences` do not hold the current epoch; their rows are locked against a take-over until the end of the transaction.
pub(super) async fn lost(tx: &Tx<'_>, shards: &[ShardId], fences: &[ShardFence]) -> Done<Vec<ShardId>> {
    Err(Failure::corrupt("not written yet"))
}

