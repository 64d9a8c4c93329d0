//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) async fn put(tx: &Tx<'_>, locks: Locks, writes: &[JobWrite]) -> Done<Vec<Put>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn get(pool: &Pool, tenant: TenantId, keys: &[JobKey]) -> Done<Vec<Option<Job>>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn list(pool: &Pool, query: &JobQuery) -> Done<Page<Job>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load_resumable(pool: &Pool, now: Timestamp, limit: usize) -> Done<Vec<Job>> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn load_changed(pool: &Pool, since: ChangeSeq, limit: usize) -> Done<Changes> {
    Err(Failure::corrupt("not written yet"))
}

pub(super) async fn advance(tx: &Tx<'_>, fences: &[ShardFence], cursors: &[CursorMove]) -> Done<()> {
    Err(Failure::corrupt("not written yet"))
}

