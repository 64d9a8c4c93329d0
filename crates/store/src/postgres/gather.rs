//! Not written yet.
#![allow(unused, reason = "not written yet")]
use super::*;
use campanile_pg::{Failure, Tx};
use campanile_model::store::Idempotency;

pub(super) struct Gather { pool: Pool, locks: Locks }
impl Gather {
    pub(super) fn start(pool: Pool, locks: Locks) -> Self { Self { pool, locks } }
    pub(super) async fn put(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>> {
        let what = (self.locks, writes);
        self.pool.write(&what, |tx, (locks, writes)| Box::pin(super::jobs::put(tx, *locks, writes))).await
    }
}

