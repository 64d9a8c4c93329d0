//! The catalogue of jobs: what the intake writes.

use super::Skip;
use crate::error::Result;
use crate::ids::{JobId, TenantId};
use crate::job::Job;
use crate::time::Timestamp;

/// The catalogue.
#[async_trait::async_trait]
pub trait Jobs: Send + Sync + 'static {
    /// Writes jobs. Each item is judged alone: one that loses leaves the others untouched.
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>>;
    /// Reads what was answered under a key that has not expired, with the fingerprint of its request. The write itself looks
    /// again; this is for repetitions that would not get so far, because their first time has changed what they refer to.
    async fn recall(&self, tenant: TenantId, scope: &str, key: &str, now: Timestamp) -> Result<Option<(u128, Answer)>>;
    /// Reads paused jobs whose pause ends at or before `now`, at most `limit`.
    async fn load_resumable(&self, now: Timestamp, limit: usize) -> Result<Vec<Job>>;
    /// Notes the version of the zone database that all cursors were computed with; `status` tells it.
    async fn mark_zone_database(&self, version: &str) -> Result<()>;
}

/// One job to write, guarded by what the writer believes is there.
#[derive(Clone, Debug)]
pub struct JobWrite {
    /// The whole new row; `version` already grown.
    pub job: Job,
    /// What must be there.
    pub expected: Expected,
    /// Fires of the old definition that this write ends; recorded with it. Used when the schedule changes or a pause ends.
    pub skip: Option<Skip>,
    /// Remembers the answer under the caller's key, in the same transaction.
    pub idempotency: Option<Idempotency>,
}

/// What must be there for a write to happen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// No live job of this name.
    Absent,
    /// This job in this version.
    Version(u32),
}

/// A caller's key for a write, and the answer that it gets again when it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// Whose key, on which route: the namespace of the key.
    pub scope: String,
    /// The key.
    pub key: String,
    /// Hash of the request; another request under the same key is refused.
    pub fingerprint: u128,
    /// What is answered.
    pub answer: Answer,
    /// When it may be forgotten.
    pub expires_at: Timestamp,
}

/// A remembered answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: String,
}

/// The verdict on one job write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// Written.
    Done,
    /// A live job has this name.
    NameTaken {
        /// That job.
        id: JobId,
    },
    /// The job is in another version.
    Stale {
        /// The version it is in.
        version: u32,
    },
    /// There is no such job, or it is deleted.
    Gone,
    /// The key was used before, for the same request: this was the answer.
    Replayed(Answer),
    /// The key was used before, for another request.
    KeyReused,
}
