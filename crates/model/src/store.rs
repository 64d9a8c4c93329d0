//! The contract of a store: the truth. Everything else can be rebuilt from it.
//!
//! Verbs are listed in the order of the path. Every write takes a batch and answers one verdict per item: losing a race is
//! an answer, not an error. An answer comes only after the write is durable. An error means that nothing of the batch
//! happened, unless its kind is `OutcomeUnknown`. Batches are taken by value, because a store hands them to its
//! writer; callers keep what they need to try again.
//!
//! Guards come from outside: `lifecycle::sources(event)` for states, `ShardFence` for owners, `AttemptFence` for runners.

use crate::action::{ActionKind, ActionSpec};
use crate::catch_up::CatchUp;
use crate::error::Result;
use crate::execution::{Attempt, AttemptError, AttemptOutcome, Execution, Reason, Response};
use crate::ids::{ExecutionId, FireKind, JobId, TenantId};
use crate::job::{Cursor, Job, JobState, Priority};
use crate::lifecycle::{Event, State};
use crate::queue::Dispatch;
use crate::retry::RetryPolicy;
use crate::shard::{ShardFence, ShardId};
use crate::time::Timestamp;
use std::sync::Arc;

/// The truth.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    // The catalogue, by tenant.

    /// Writes jobs. Each item is judged alone: one that loses leaves the others untouched.
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>>;
    /// Reads jobs by id or name. Deleted ones are found by id only.
    async fn get_jobs(&self, tenant: TenantId, keys: &[JobKey]) -> Result<Vec<Option<Job>>>;
    /// Reads what was answered under a key that has not expired, with the fingerprint of its request. The write itself looks
    /// again; this is for repetitions that would not get so far, because their first time has changed what they refer to.
    async fn recall(&self, tenant: TenantId, scope: &str, key: &str, now: Timestamp) -> Result<Option<(u128, Answer)>>;
    /// Lists jobs that are not deleted, by name.
    async fn list_jobs(&self, query: &JobQuery) -> Result<Page<Job>>;

    // The owner of shards.

    /// Takes shards over: bumps their epochs, so that an earlier owner's writes are refused from now on.
    async fn open_shards(&self, shards: &[ShardId], owner: &str) -> Result<Vec<ShardFence>>;
    /// Reads active jobs whose cursor lies before `query.before`, in the order of (next_fire_at, id).
    async fn load_due(&self, query: &DueQuery) -> Result<Vec<PlannedJob>>;
    /// Reads the jobs written after `since`, in the order in which their writes committed; paused and deleted ones too.
    /// `upto` is the position of the last one read. With a limit of 0 nothing is read, and `upto` is the newest position.
    async fn load_changed(&self, since: ChangeSeq, limit: usize) -> Result<Changes>;
    /// Makes fires durable: inserts executions and skips, all or nothing. An execution that exists is left as it is, unless
    /// a newer version of the job claims its instant (`Event::Refire`).
    async fn fire(&self, batch: FireBatch) -> Result<FireVerdict>;
    /// Moves cursors forward; a cursor that is already further, or of another version, stays.
    async fn advance(&self, fences: Arc<[ShardFence]>, cursors: Vec<CursorMove>) -> Result<()>;
    /// Reads executions that wait (pending, retrying) with `wake_at` before `query.before`, in the order of (wake_at, id).
    async fn load_waiting(&self, query: &WaitingQuery) -> Result<Vec<Waiting>>;

    // Runners.

    /// Starts attempts: grants a fence and a lease, or says why not. Stale executions are discarded on the way.
    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>>;
    /// Prolongs leases of running attempts.
    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Applied>>;
    /// Ends attempts: state, attempt row, backoff, all in one transaction.
    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<Applied>>;
    /// Reads running attempts that nobody runs any more. A node runs its attempts as long as it lives, by its own monotonic
    /// clock, so those are lost when it is not in `live_nodes`; any other runner's when its lease ended before `now`.
    async fn load_expired(&self, now: Timestamp, live_nodes: &[String], limit: usize) -> Result<Vec<Expired>>;

    // Operators and history.

    /// Cancels executions. An answer to remember is remembered with it, if all of them are cancelled by this.
    async fn cancel(
        &self,
        tenant: TenantId,
        executions: Vec<ExecutionId>,
        now: Timestamp,
        idempotency: Option<Idempotency>,
    ) -> Result<Vec<Applied>>;
    /// Reads executions.
    async fn get_executions(&self, tenant: TenantId, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>>;
    /// Lists executions, newest first.
    async fn list_executions(&self, query: &ExecutionQuery) -> Result<Page<Execution>>;
    /// Lists the attempts of one execution, first one first; empty when there is none.
    async fn list_attempts(&self, tenant: TenantId, execution: ExecutionId) -> Result<Vec<Attempt>>;
    /// Lists the skips of one job, newest first.
    async fn list_skips(&self, tenant: TenantId, job: JobId, limit: usize) -> Result<Vec<Skip>>;
    /// Forgets idempotency keys that expired before `now`; at most `limit`.
    async fn forget_keys(&self, now: Timestamp, limit: usize) -> Result<usize>;
    /// Notes the version of the zone database that all cursors were computed with; `status` tells it.
    async fn mark_zone_database(&self, version: &str) -> Result<()>;
    /// Facts for operators.
    async fn status(&self) -> Result<StoreStatus>;
}

/// The answer to one item of a guarded write.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Applied {
    /// It happened.
    Done,
    /// It did not: the row is in this state, or the fence is not its newest.
    Stale {
        /// The state the row is in.
        state: State,
    },
    /// There is no such row.
    Gone,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
}

// ---- jobs ----

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

/// How a job is named by a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobKey {
    /// By id.
    Id(JobId),
    /// By name.
    Name(String),
}

/// Which jobs to list, by name.
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
}

// ---- shards, cursors, fires ----

/// A job as the wheel needs it: small, and without its payload.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedJob {
    /// Which job.
    pub id: JobId,
    /// Whose.
    pub tenant: TenantId,
    /// Its version.
    pub version: u32,
    /// Whether it fires.
    pub state: JobState,
    /// When its version was accepted.
    pub updated_at: Timestamp,
    /// `Plan::encode` of its schedule.
    pub plan: Arc<str>,
    /// Where its fires stand.
    pub cursor: Cursor,
    /// No fire after this.
    pub ends_at: Option<Timestamp>,
    /// Width of its spread.
    pub spread_ms: u64,
    /// Who goes first.
    pub priority: Priority,
    /// Which capacity executes it.
    pub pool: Arc<str>,
    /// What is done.
    pub action: ActionKind,
    /// What happens to missed fires.
    pub catch_up: CatchUp,
}

/// Which due jobs to load.
#[derive(Clone, Debug)]
pub struct DueQuery {
    /// Only of these shards; empty means of all.
    pub shards: Vec<ShardId>,
    /// Only with a cursor before this.
    pub before: Timestamp,
    /// Only after this position.
    pub after: Option<(Timestamp, JobId)>,
    /// At most this many.
    pub limit: usize,
}

/// A position in the order of job writes.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ChangeSeq(pub u64);

/// Jobs that were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The jobs, as they are now.
    pub jobs: Vec<PlannedJob>,
    /// Where to go on.
    pub upto: ChangeSeq,
}

/// Fires of one or more shards.
#[derive(Clone, Debug)]
pub struct FireBatch {
    /// The right to fire for their shards. Empty only for manual fires, which no schedule repeats.
    pub fences: Arc<[ShardFence]>,
    /// Executions to insert.
    pub fires: Vec<Fire>,
    /// Fires that will not run.
    pub skips: Vec<Skip>,
    /// The instant of the write, for `fired_at`.
    pub now: Timestamp,
    /// Remembers the answer under the caller's key, in the same transaction. Only for manual fires.
    pub idempotency: Option<Idempotency>,
}

/// A fire that becomes an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Fire {
    /// Its execution, as it will be dispatched; `attempt` is 0.
    pub dispatch: Dispatch,
    /// Why it exists.
    pub kind: FireKind,
}

/// Fires that did not become executions: every fire of the job in the range that has no execution was skipped, for this
/// reason. One row stands for any number of fires, so that an outage of a year costs a row per job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Whose.
    pub tenant: TenantId,
    /// Of which job.
    pub job: JobId,
    /// First instant, inclusive.
    pub from: Timestamp,
    /// Last instant, inclusive.
    pub to: Timestamp,
    /// Why.
    pub reason: Reason,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// The verdict on a batch of fires.
#[derive(Clone, Debug, PartialEq)]
pub enum FireVerdict {
    /// Durable; one answer per fire.
    Fired(Vec<Fired>),
    /// Nothing happened: these shards have another owner now.
    EpochLost(Vec<ShardId>),
    /// Nothing happened: the key was used before, for the same request. This was the answer.
    Replayed(Answer),
    /// Nothing happened: the key was used before, for another request.
    KeyReused,
}

/// The verdict on one fire.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fired {
    /// Inserted, or claimed by a newer version: dispatch it.
    New,
    /// It was there already.
    Exists,
}

/// A cursor to move forward.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CursorMove {
    /// Which job.
    pub job: JobId,
    /// In which version; another one has a cursor of its own.
    pub version: u32,
    /// Where its fires stand.
    pub cursor: Cursor,
}

/// Which waiting executions to load.
#[derive(Clone, Debug)]
pub struct WaitingQuery {
    /// Only of these shards; empty means of all.
    pub shards: Vec<ShardId>,
    /// Only with `wake_at` before this.
    pub before: Timestamp,
    /// Only after this position.
    pub after: Option<(Timestamp, ExecutionId)>,
    /// At most this many.
    pub limit: usize,
}

/// An execution that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// What to dispatch.
    pub dispatch: Dispatch,
    /// When.
    pub wake_at: Timestamp,
}

// ---- attempts ----

/// The right to write for an attempt.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct AttemptFence {
    /// Which execution.
    pub execution: ExecutionId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Its fence.
    pub fence: u64,
}

/// An attempt to start.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which execution.
    pub execution: ExecutionId,
    /// Attempts so far, as the claimer believes.
    pub attempt: u32,
    /// Who.
    pub worker: Arc<str>,
    /// Now.
    pub now: Timestamp,
    /// How long the lease lasts beyond the job's timeout.
    pub lease_ms: u64,
}

/// The verdict on one claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// The attempt may start.
    Granted(Box<Granted>),
    /// It must not run: the job was changed or deleted before its instant. It is skipped now.
    Discarded(Reason),
    /// Somebody else was first, or its time has not come.
    Stale {
        /// The state the row is in.
        state: State,
    },
    /// There is no such execution.
    Gone,
}

/// A granted attempt with everything that it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// The right to write for it.
    pub fence: AttemptFence,
    /// Whose.
    pub tenant: TenantId,
    /// Of which job.
    pub job: JobId,
    /// In which version; its definition is what the attempt runs by.
    pub job_version: u32,
    /// Its name.
    pub job_name: Arc<str>,
    /// What to do, by the job's current version.
    pub action: ActionSpec,
    /// JSON text for the target.
    pub payload: Arc<str>,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// Time limit of the attempt.
    pub timeout_ms: u64,
    /// The instant it was due.
    pub fire_at: Timestamp,
    /// When the lease ends.
    pub lease_until: Timestamp,
}

/// A lease to prolong.
#[derive(Copy, Clone, Debug)]
pub struct Extension {
    /// Whose.
    pub fence: AttemptFence,
    /// Until when.
    pub lease_until: Timestamp,
}

/// An attempt that ended.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which attempt.
    pub of: CompletionOf,
    /// What it means for the execution, by `lifecycle::settle`.
    pub event: Event,
    /// Why, where that is not plain.
    pub reason: Option<Reason>,
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// When the next attempt may start; only read for events that lead to `Retrying`.
    pub wake_at: Timestamp,
    /// What went wrong.
    pub error: Option<AttemptError>,
    /// What the target answered.
    pub response: Option<Response>,
}

impl Completion {
    /// Whose attempt ended.
    pub fn execution(&self) -> ExecutionId {
        match &self.of {
            CompletionOf::Running(fence) => fence.execution,
            CompletionOf::Unclaimed(claim) => claim.execution,
        }
    }
}

/// Why an execution must not start, by what it was fired under (kind, version, instant), its attempts so far, and its job as
/// it is now (state, version, when that version was accepted). An instant that came before the change belongs to the old
/// version and runs; and one that has been tried is tried again, whatever became of its job meanwhile, unless that is gone.
pub fn discard_reason(
    (kind, fired_version, fire_at, attempt): (FireKind, u32, Timestamp, u32),
    (state, version, updated_at): (JobState, u32, Timestamp),
) -> Option<Reason> {
    let changed_before = version != fired_version && fire_at > updated_at;
    let stale = changed_before && attempt == 0 && kind == FireKind::Schedule;
    match state {
        JobState::Deleted => Some(Reason::JobDeleted),
        JobState::Paused if stale => Some(Reason::Paused),
        JobState::Active if stale => Some(Reason::StaleVersion),
        JobState::Active | JobState::Paused => None,
    }
}

/// Which attempt ended.
#[derive(Clone, Debug)]
pub enum CompletionOf {
    /// One that was claimed.
    Running(AttemptFence),
    /// One that was not: claim and completion are one write. Only for instant actions, and only successes.
    Unclaimed(Claim),
}

/// A running attempt whose runner is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Expired {
    /// The right to end it; a runner that comes back has the same one, and one of the two is first.
    pub fence: AttemptFence,
    /// How it is dispatched again.
    pub dispatch: Dispatch,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// When it started.
    pub started_at: Timestamp,
}

// ---- history ----

/// Which executions to list, newest first.
#[derive(Clone, Debug)]
pub struct ExecutionQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only in these states; empty means in any.
    pub states: Vec<State>,
    /// Only due at or after this.
    pub from: Option<Timestamp>,
    /// Only due before this.
    pub to: Option<Timestamp>,
    /// Only before this position.
    pub before: Option<ExecutionId>,
    /// At most this many.
    pub limit: usize,
}

/// Facts about a store, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StoreStatus {
    /// What kind of store, such as `sqlite`.
    pub kind: String,
    /// Where it is.
    pub location: String,
    /// Number of its newest migration.
    pub schema: u32,
    /// Size on disk.
    pub bytes: u64,
    /// Live jobs.
    pub jobs: u64,
    /// Version of the zone database that the cursors were computed with.
    pub zone_database: String,
}
