//! What people read: pages, counts, history. Routes call these directly; nothing here writes, so that a cache or a replica may
//! stand before it.

use super::{Page, Skip};
use crate::capacity::Count;
use crate::error::Result;
use crate::execution::{Attempt, Execution, LogLine, Progress};
use crate::filter::Filter;
use crate::ids::{EndpointId, ExecutionId, JobId, TenantId};
use crate::job::{Job, JobState};
use crate::lifecycle::State;
use crate::notify::Delivery;
use crate::shard::ShardFence;
use crate::stats::{Rollup, StatsQuery};
use crate::time::Timestamp;

#[async_trait::async_trait]
pub trait Reads: Send + Sync + 'static {
    /// Reads jobs by id or name. Deleted ones are found by id only.
    async fn get_jobs(&self, tenant: TenantId, keys: &[JobKey]) -> Result<Vec<Option<Job>>>;
    /// Lists jobs that are not deleted, by name, or by the end of their pause.
    async fn list_jobs(&self, query: &JobQuery) -> Result<Page<Job>>;
    /// Lists the versions of a job, newest first, before version `before`. The newest one is the job as it is now.
    async fn list_versions(
        &self,
        tenant: TenantId,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Page<JobVersion>>;
    async fn get_executions(&self, tenant: TenantId, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>>;
    /// Lists executions, newest first. A page looks at no more than `limits::SCAN_ROWS_MAX` rows, and may be short or empty
    /// although there is more.
    async fn list_executions(&self, query: &ExecutionQuery) -> Result<ExecutionPage>;
    /// Lists the attempts of one execution, first one first; empty when there is none.
    async fn list_attempts(&self, tenant: TenantId, execution: ExecutionId) -> Result<Vec<Attempt>>;
    /// Reads what an execution's attempts reported about themselves; of the log what comes after position `after`.
    async fn reports(&self, tenant: TenantId, execution: ExecutionId, after: u64, limit: usize) -> Result<Reports>;
    /// Lists the skips of one job, newest first; only those that touch `[from, to]`, where that is given. What ran is in none.
    async fn list_skips(
        &self,
        tenant: TenantId,
        job: JobId,
        within: Option<(Timestamp, Timestamp)>,
        limit: usize,
    ) -> Result<Skips>;
    /// Lists the groups of dead executions, most recently grown first.
    async fn dead_groups(&self, tenant: TenantId, limit: usize) -> Result<Vec<DeadGroup>>;
    /// How many executions are in which state, by pool; of one tenant or of all. Kept by the writes, not counted.
    async fn counts(&self, tenant: Option<TenantId>) -> Result<Vec<Count>>;
    /// Reads rollups, oldest minute first.
    async fn stats(&self, query: &StatsQuery) -> Result<Vec<Rollup>>;
    /// Lists the deliveries to an endpoint, newest first, before position `before`.
    async fn list_deliveries(
        &self,
        tenant: TenantId,
        endpoint: EndpointId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Delivery>>;
    async fn status(&self) -> Result<StoreStatus>;
}

/// How a job is named by a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobKey {
    Id(JobId),
    Name(String),
}

/// A version of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobVersion {
    /// The job, as it was in that version.
    pub job: Job,
    /// The last instant that it governs, if another version has followed it.
    pub ended_at: Option<Timestamp>,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// Whose; `None` is the default tenant.
    pub tenant: Option<TenantId>,
    /// Only after this name.
    pub after: Option<String>,
    /// At most this many.
    pub limit: usize,
    /// Only in this state.
    pub state: Option<JobState>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only with names that start so.
    pub name_prefix: Option<String>,
    /// Only paused ones whose pause ends at or before this: the earliest ends first, and of every tenant where none is named.
    /// Goes with `tenant` and `limit` alone.
    pub pause_ends_by: Option<Timestamp>,
}

/// Which executions to list, newest first.
#[derive(Clone, Debug)]
pub struct ExecutionQuery {
    pub tenant: TenantId,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only in these states; empty means in any.
    pub states: Vec<State>,
    /// Only due at or after this.
    pub from: Option<Timestamp>,
    /// Only due before this.
    pub to: Option<Timestamp>,
    /// Only what matches this as well.
    pub filter: Filter,
    /// Only before this position.
    pub before: Option<ExecutionId>,
    /// At most this many.
    pub limit: usize,
}

/// One page of executions.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ExecutionPage {
    pub items: Vec<Execution>,
    /// Where the next page starts (`ExecutionQuery::before`); `None` when there is none.
    pub next: Option<ExecutionId>,
}

/// What the attempts of an execution reported about themselves.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reports {
    /// By the running or last attempt.
    pub progress: Option<Progress>,
    /// What they logged, in the order of arrival; with positions.
    pub logs: Vec<(u64, LogLine)>,
}

/// What a job passed over.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Skips {
    pub items: Vec<Skip>,
    /// Instants that ran, and whose executions are no longer kept, newest first: of those that the skips and pauses of the job
    /// would cover. All others that are accounted for have run, too.
    pub pruned: Vec<Timestamp>,
}

/// Dead executions that died of the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadGroup {
    /// `fingerprint` of target, kind and message.
    pub fingerprint: u64,
    /// Whom it happened to.
    pub target: String,
    /// Kind of the error.
    pub kind: String,
    /// Message of the newest one.
    pub message: String,
    /// How many there are now.
    pub count: u64,
    /// When the first one died, of those since the group was last empty.
    pub first_at: Timestamp,
    /// When the last one died.
    pub last_at: Timestamp,
    /// The newest one.
    pub sample: ExecutionId,
}

/// Who owns a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardOwner {
    /// Which shard, in which epoch.
    pub fence: ShardFence,
    /// Who opened it last; it may be gone.
    pub owner: String,
}

/// Facts about a store, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StoreStatus {
    /// What kind of store, such as `sqlite`.
    pub kind: String,
    pub location: String,
    /// Number of its newest migration.
    pub schema: u32,
    /// Its size on disk.
    pub bytes: u64,
    /// Jobs that are not deleted.
    pub jobs: u64,
    /// Who owns which shard, in their order; those that nobody has opened are missing.
    pub shards: Vec<ShardOwner>,
}
