//! The catalogue of jobs: what accepting writes.

use crate::error::Result;
use crate::ids::{JobId, TenantId};
use crate::job::Job;
use crate::job::version::Change;
use crate::limits;
use crate::time::Timestamp;
use std::fmt;
use std::sync::Arc;

#[async_trait::async_trait]
pub trait Jobs: Send + Sync + 'static {
    /// Writes jobs. Each item is judged alone: one that loses leaves the others untouched.
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>>;
    /// Reads what was answered under a key that has not expired, with the fingerprint of its request. The write itself looks
    /// again; this is for repetitions that would not get so far, because their first time has changed what they refer to.
    async fn recall(&self, tenant: TenantId, key: &CallerKey, now: Timestamp) -> Result<Option<(u128, Answer)>>;
}

/// A change of one job. The store says since when it counts, by its own clock in the transaction of the change, and what
/// follows from it (`job::version`).
#[derive(Clone, Debug)]
pub struct JobWrite {
    pub id: JobId,
    pub tenant: TenantId,
    /// What is done to it. A new one needs that no live job has its name.
    pub change: Change,
    /// Only in this version; in whichever it is where nothing is said.
    pub expected: Option<u32>,
    /// Remembers the answer under the caller's key, in the same transaction.
    pub keyed: Option<Keyed>,
}

/// A caller's key: the same request under the same key is done once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerKey {
    /// Whose key, on which route: the namespace of the key.
    pub scope: String,
    pub text: String,
    /// Hash of the request; another request under the same key is refused.
    pub fingerprint: u128,
}

/// A caller's key for a change of a job. The answer is rendered for the job as it was written, so that both are stored together.
#[derive(Clone)]
pub struct Keyed {
    pub key: CallerKey,
    pub render: Arc<dyn Fn(&Job) -> Answer + Send + Sync>,
}

impl Keyed {
    /// What is remembered when the job was written, at `now`.
    pub fn answered(&self, job: &Job, now: Timestamp) -> Idempotency {
        let expires_at = now.saturating_add_ms(limits::IDEMPOTENCY_MS as i64);
        Idempotency { key: self.key.clone(), answer: (self.render)(job), expires_at }
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// What must be there for a write of a record to happen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// None of this name.
    Absent,
    /// This one in this version.
    Version(u32),
}

/// An answer that a caller's key gets again when it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: CallerKey,
    pub answer: Answer,
    /// When it may be forgotten.
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// The verdict on one job write.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    /// Written: the job as it is now.
    Done(Box<Job>),
    /// A live job has this name.
    NameTaken { id: JobId },
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
