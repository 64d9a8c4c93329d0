//! What the owners of shards and the runners do, in the order of the path; then operators, notifications, keeping house.

use super::{Answer, Applied, Idempotency, Verdicts};
use crate::error::Result;
use crate::execution::{AttemptError, AttemptOutcome, LogLine, Progress, Reason, Response};
use crate::ids::{EndpointId, ExecutionId, FireKind, JobId, TenantId};
use crate::job::{Cursor, Definition, Firing, JobState};
use crate::lifecycle::{Event, State};
use crate::notify::{Broken, Delivery, Endpoint, Expectation, Tried};
use crate::overlap::Overlap;
use crate::queue::Dispatch;
use crate::retry::RetryPolicy;
use crate::shard::{self, ShardFence, ShardId};
use crate::time::Timestamp;
use std::sync::Arc;

/// The path of an execution, from the job that is due to the row that is pruned.
#[async_trait::async_trait]
pub trait Path: Send + Sync + 'static {
    /// Claims or outcomes in one write: so many that each costs little, and so few that nobody waits long for the write.
    fn write_rows_max(&self) -> usize;

    // The owner of shards.

    /// What there is to do at `now`: one short look, so that a node with nothing to do asks for nothing else.
    async fn pulse(&self, now: Timestamp) -> Result<Pulse>;
    /// Waits until another node may have written jobs. A doorbell: it may ring for nothing, and may be missed. Never, where there
    /// is no other node.
    async fn wait_for_remote_change(&self);
    /// Reads the epochs of the shards that were ever opened.
    async fn load_shards(&self) -> Result<Vec<ShardFence>>;
    /// Takes shards over whose epochs are still those that were `seen` (`shard::seen`): bumps them, so that an earlier owner's
    /// writes are refused from now on. Answers with what it took. So an opening that is late takes nothing from whoever has opened
    /// since.
    async fn open_shards(&self, seen: &[ShardFence], owner: &str) -> Result<Vec<ShardFence>>;
    /// Takes shards from whoever has them. For tools and tests: a node looks, and asks itself once more whether it should.
    async fn seize_shards(&self, shards: &[ShardId], owner: &str) -> Result<Vec<ShardFence>> {
        self.open_shards(&shard::seen(shards, &self.load_shards().await?), owner).await
    }
    /// Reads versions that fire and whose cursor lies before `query.before`, in the order of (next_fire_at, id): active jobs, and
    /// superseded versions for what they still owe.
    async fn load_due(&self, query: &DueQuery) -> Result<Vec<PlannedJob>>;
    /// Reads the jobs written after `since`, in the order in which their writes committed; paused and deleted ones too. Each
    /// comes after those of its superseded versions that still owe something.
    /// `upto` is the position of the last one read. With a limit of 0 nothing is read, and `upto` is the newest position.
    async fn load_changed(&self, since: ChangeSeq, limit: usize) -> Result<Changes>;
    /// Makes fires durable: inserts executions and skips, all or nothing. An execution that exists is left as it is, unless
    /// a newer version of the job claims its instant (`Event::Refire`).
    async fn fire(&self, batch: FireBatch) -> Result<FireVerdict>;
    /// Moves cursors of versions forward; a cursor that is already further stays.
    async fn advance(&self, fences: Arc<[ShardFence]>, cursors: Vec<CursorMove>) -> Result<()>;
    /// Reads executions that wait (pending, retrying) with `wake_at` before `query.before`, in the order of (wake_at, id).
    async fn load_waiting(&self, query: &WaitingQuery) -> Result<Vec<Waiting>>;

    // Runners.

    /// Starts attempts: grants a fence and a lease, or says why not. Stale executions are discarded on the way, overlaps
    /// decided (`overlap::decide`), slots of pools counted; all in one transaction, judged in the order of the batch.
    async fn claim(&self, claims: Vec<Claim>) -> Result<Verdicts<Claimed>>;
    /// Moves the wake-up of waiting executions, with the reason.
    async fn defer(&self, deferrals: Vec<Deferral>) -> Result<Vec<Applied>>;
    /// Prolongs leases of running attempts, and keeps what they tell about themselves.
    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>>;
    /// Ends attempts: state, attempt row, backoff, counters, events, and whoever waited for them, all in one transaction.
    /// An event that leads to another attempt is refused (`Stale` in `Running`) when the attempt was asked to stop meanwhile:
    /// the caller had not seen that, and reads again.
    async fn complete(&self, completions: Vec<Completion>) -> Result<Verdicts<Applied>>;
    /// Reads running attempts, with what is needed to end them.
    async fn load_running(&self, query: &RunningQuery) -> Result<Vec<RunningAttempt>>;

    // Operators.

    /// Cancels executions and fires that have not come. An answer to remember is remembered with it, if every one of them
    /// is cancelled or asked to stop by this.
    async fn cancel(&self, batch: CancelBatch) -> Result<Verdicts<CancelVerdict>>;
    /// Takes executions out of the dead ones: runs them again, or gives them up.
    async fn resolve_dead(&self, tenant: TenantId, dead: Vec<Resolve>, now: Timestamp) -> Result<Verdicts<Applied>>;

    // Notifications.

    /// Ends watches whose instant has come: one transaction writes their events and answers with them.
    async fn break_watches(&self, now: Timestamp, limit: usize) -> Result<Vec<Broken>>;
    /// Reads deliveries that wait and are due, with their endpoints that are not paused and not in `except`, in the order of
    /// `next_at`.
    async fn load_deliveries(
        &self,
        now: Timestamp,
        except: &[EndpointId],
        limit: usize,
    ) -> Result<Vec<(Delivery, Endpoint)>>;
    /// Writes what became of deliveries, or that they are tried again; says of each whether it was there.
    async fn put_deliveries(&self, writes: Vec<DeliveryWrite>) -> Result<Vec<bool>>;

    // Upkeep.

    /// Deletes what is older than its retention, in short transactions of at most `limit` rows, and says whether there is
    /// more: final executions, with everything that hangs on them; rollups, skips, deliveries; idempotency keys that have
    /// expired. A store that keeps a day's executions together may drop all of them at once. An execution is kept while
    /// its job's cursor has not passed it: a start from there would make it again.
    async fn prune(&self, retention: &Retention, now: Timestamp, limit: usize) -> Result<Pruned>;
    /// Compares the counters with the rows, in one snapshot, and corrects what has drifted; says by how much in all.
    async fn reconcile(&self) -> Result<u64>;
}

/// What there is to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pulse {
    /// The newest change of a job.
    pub changes: ChangeSeq,
    /// Another number whenever limits of pools or targets were written.
    pub limits: u64,
    /// Leases of external workers have ended: `load_running`.
    pub expired: bool,
    /// Pauses are over: `list_jobs`.
    pub resumable: bool,
    /// The instants of watches have come: `break_watches`.
    pub watches: bool,
    /// Operations are at work: `list_records`.
    pub operations: bool,
    /// Deliveries wait and are due: `load_deliveries`. Endpoints that are paused may be among them.
    pub deliveries: bool,
}

/// A position in the order of job writes.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ChangeSeq(pub u64);

impl ChangeSeq {
    /// Whether whoever has seen everything up to here knows the newest versions of all jobs, where `last` was the last write that
    /// changed a job which was there. Zero is nobody's knowledge.
    pub fn covers(self, last: ChangeSeq) -> bool {
        self.0 > 0 && self >= last
    }
}

/// Jobs that were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The jobs as they are now, and what their superseded versions owe.
    pub jobs: Vec<PlannedJob>,
    /// How many jobs that are.
    pub count: usize,
    /// Where to go on.
    pub upto: ChangeSeq,
}

/// A version of a job as the wheel needs it: small, and without its payload.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedJob {
    pub id: JobId,
    pub tenant: TenantId,
    /// Which version of it.
    pub version: u32,
    pub state: JobState,
    /// The last instant that it governs, if another version has followed it: it is here for what it still owes.
    pub ended_at: Option<Timestamp>,
    /// Where its fires stand.
    pub cursor: Cursor,
    /// `Plan::encode` of its schedule.
    pub plan: Arc<str>,
    /// What its fires take along.
    pub firing: Arc<Firing>,
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

/// Fires of one or more shards.
#[derive(Clone, Debug)]
pub struct FireBatch {
    /// The right to fire for their shards. Empty only for manual fires and backfills, which no schedule repeats.
    pub fences: Arc<[ShardFence]>,
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
    pub kind: FireKind,
    /// When it may start: its instant, or later where it is caught up or filled in.
    pub wake_at: Timestamp,
    /// What it does about another run of its job.
    pub overlap: Overlap,
    /// The first missed fire that it stands for.
    pub covers_from: Option<Timestamp>,
    /// What its job is expected to do; becomes watches.
    pub expect: Expectation,
}

/// Fires that did not become executions: every fire of the job in the range that has no execution was skipped, for this
/// reason. One row stands for any number of fires, so that an outage of a year costs a row per job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub tenant: TenantId,
    pub job: JobId,
    /// First instant, inclusive.
    pub from: Timestamp,
    /// Last instant, inclusive.
    pub to: Timestamp,
    pub reason: Reason,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// The verdict on a batch of fires.
#[derive(Clone, Debug, PartialEq)]
pub enum FireVerdict {
    /// Durable; one verdict per fire.
    Fired(Verdicts<Fired>),
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
    pub job: JobId,
    /// In which version; another one has a cursor of its own.
    pub version: u32,
    /// Whether the mover knows that another version has followed it. Who does not may have decided about instants behind its end:
    /// such a move is refused, and what the version owes is decided anew.
    pub superseded: bool,
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
    /// Only those that were fired at or before this.
    pub fired_until: Timestamp,
    /// Only after this position.
    pub after: Option<(Timestamp, ExecutionId)>,
    /// At most this many.
    pub limit: usize,
}

/// An execution that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    pub dispatch: Dispatch,
    pub wake_at: Timestamp,
}

/// An attempt to start.
#[derive(Clone, Debug)]
pub struct Claim {
    pub execution: ExecutionId,
    /// The version that fired it, as the claimer believes: what it was sent for is not what another version says.
    pub job_version: u32,
    /// Attempts so far, as the claimer believes.
    pub attempt: u32,
    pub worker: Arc<str>,
    pub now: Timestamp,
    /// How long the lease lasts.
    pub lease: Lease,
    /// When it was released to the queue.
    pub queued_at: Option<Timestamp>,
    /// What its dispatch says.
    pub as_of: ChangeSeq,
}

/// How long an attempt keeps its execution.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Lease {
    /// This much beyond the time limit of the attempt: for runners that are bound by it themselves.
    BeyondTimeout(u64),
    /// This long, from claim to heartbeat and from heartbeat to heartbeat: for runners that may vanish.
    Beats(u64),
}

/// The right to write for an attempt.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct AttemptFence {
    pub execution: ExecutionId,
    /// Which attempt, from 1.
    pub attempt: u32,
    pub fence: u64,
}

/// The verdict on one claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// The attempt may start.
    Granted(Box<Granted>),
    /// It must not run: the job was changed or deleted before its instant, or another run forbids it. It is skipped now.
    Discarded(Reason),
    /// It waits for another run of its job, which was asked to stop where `cancel` is set; the end of that releases it.
    Held {
        /// Whom it waits for.
        by: ExecutionId,
        /// Whether that one was asked to stop.
        cancel: bool,
    },
    /// It cannot start now, and waits as before: its pool is paused (`PAUSED`) or has no free slot (`QUOTA_DEFERRED`).
    Deferred(Reason),
    /// Its time has not come, by the claimer's clock: that went back since it was dispatched.
    Early { wake_at: Timestamp },
    /// Somebody else was first.
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
    pub tenant: TenantId,
    pub job: JobId,
    /// In which version: the execution's own.
    pub job_version: u32,
    /// What the attempt runs by, in whole.
    pub definition: Arc<Definition>,
    /// Time limit of the attempt.
    pub timeout_ms: u64,
    /// The instant it was due.
    pub fire_at: Timestamp,
    /// When the lease ends.
    pub lease_until: Timestamp,
    /// The first missed fire that this run stands for.
    pub covers_from: Option<Timestamp>,
    /// Attempts before its last replay.
    pub attempts_from: u32,
    /// Attempts that were lost with their runner.
    pub losses: u32,
    /// When the first attempt started: this one, if it is the first.
    pub first_started_at: Timestamp,
    /// The checkpoint of an earlier attempt, JSON text.
    pub checkpoint: Option<Arc<str>>,
    /// Another run of the job that was ended so that this one may start.
    pub terminated: Option<ExecutionId>,
}

/// A waiting execution that is not to start yet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Deferral {
    pub execution: ExecutionId,
    /// Attempts so far, as the writer believes.
    pub attempt: u32,
    /// When to look again.
    pub wake_at: Timestamp,
    pub reason: Reason,
}

/// A lease to prolong, with what the attempt tells about itself.
#[derive(Clone, Debug)]
pub struct Extension {
    pub execution: ExecutionId,
    /// Its fence; `None` is checked by `worker` (for callers that know no fences).
    pub fence: Option<u64>,
    pub worker: Arc<str>,
    pub now: Timestamp,
    /// Until when. Never past the attempt's time limit and `limits::TIMEOUT_GRACE_MS`, and not at all once it was asked to stop.
    pub lease_until: Timestamp,
    /// What it tells about itself; `fraction`, `message` and `checkpoint` replace what was there one by one.
    pub progress: Option<Progress>,
    pub logs: Vec<LogLine>,
}

/// The verdict on one extension.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Extended {
    /// It goes on: the lease lasts until then.
    Until(Timestamp),
    /// It was asked to stop, or its time is up: the lease ends at this instant whatever it does.
    Cancel {
        until: Timestamp,
        /// `CANCELLED_BY_USER`, `OVERLAP_REPLACED`; `None` when its time limit is over.
        reason: Option<Reason>,
    },
    /// It is not the running attempt: the row is in this state.
    Stale {
        /// The state the row is in.
        state: State,
    },
    /// There is no such execution.
    Gone,
}

/// An attempt that ended.
#[derive(Clone, Debug)]
pub struct Completion {
    pub of: CompletionOf,
    /// What it means for the execution, by `lifecycle::settle`.
    pub event: Event,
    /// Why, where that is not plain.
    pub reason: Option<Reason>,
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    /// When the next attempt may start; only read for events that lead to one.
    pub wake_at: Timestamp,
    /// Attempts that count after this, by `lifecycle::settle`.
    pub attempt: u32,
    pub error: Option<AttemptError>,
    /// What the target answered.
    pub response: Option<Response>,
    /// What it logged at last.
    pub logs: Vec<LogLine>,
}

impl Completion {
    pub fn execution(&self) -> ExecutionId {
        match &self.of {
            CompletionOf::Running(fence) => fence.execution,
            CompletionOf::Unclaimed(claim) => claim.execution,
        }
    }
}

#[derive(Clone, Debug)]
pub enum CompletionOf {
    /// One that was claimed.
    Running(AttemptFence),
    /// One that was not: claim and completion are one write. Only for instant actions, and only successes.
    Unclaimed(Claim),
}

/// Which running attempts to load.
#[derive(Clone, Debug)]
pub enum RunningQuery {
    /// Those of these executions, in their order; what does not run is missing.
    Of(Vec<ExecutionId>),
    /// Those of runners that are no nodes, and whose lease ended before `now`; earliest first.
    Expired {
        now: Timestamp,
        /// At most this many.
        limit: usize,
    },
    /// Those of nodes that are not in `live_nodes`. A node runs its attempts as long as it lives, by its own monotonic clock,
    /// whatever their lease says.
    Orphans {
        live_nodes: Arc<[String]>,
        /// At most this many.
        limit: usize,
    },
}

/// A running attempt, with what is needed to end it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningAttempt {
    /// The right to end it; a runner that comes back has the same one, and one of the two is first.
    pub fence: AttemptFence,
    /// How it is dispatched again.
    pub dispatch: Dispatch,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// Time limit of the attempt.
    pub timeout_ms: u64,
    pub started_at: Timestamp,
    pub worker: Arc<str>,
    /// When its lease ends.
    pub lease_until: Timestamp,
    /// Attempts before its last replay.
    pub attempts_from: u32,
    /// Attempts that were lost with their runner.
    pub losses: u32,
    /// When the first attempt started.
    pub first_started_at: Timestamp,
    /// When it was asked to stop, and why.
    pub cancel_requested: Option<(Timestamp, Reason)>,
}

/// Executions and fires to cancel.
#[derive(Clone, Debug)]
pub struct CancelBatch {
    pub tenant: TenantId,
    pub targets: Vec<CancelTarget>,
    pub note: Option<String>,
    pub now: Timestamp,
    /// How long an attempt of an external worker gets to stop by itself; `None` ends it at once. A node's attempt always ends
    /// at once.
    pub grace_ms: Option<u64>,
    /// An answer to remember.
    pub idempotency: Option<Idempotency>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CancelTarget {
    Execution(ExecutionId),
    /// A fire that may not have come: where it has no execution yet, one is made that is cancelled already.
    Fire(Box<Fire>),
}

/// The verdict on one cancel.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CancelVerdict {
    Done,
    /// Its attempt was asked to stop, and loses its lease at this instant.
    Asked {
        until: Timestamp,
    },
    /// It is in a final state already.
    Stale {
        state: State,
    },
    /// There is no such execution.
    Gone,
}

/// What is done about a dead execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolve {
    /// It runs again (`Event::Replay`); the attempts so far are kept.
    Replay {
        execution: ExecutionId,
        /// When it may start.
        wake_at: Timestamp,
    },
    /// It is given up (`Event::Bury`).
    Discard { execution: ExecutionId, note: Arc<str> },
}

impl Resolve {
    pub fn execution(&self) -> ExecutionId {
        match self {
            Resolve::Replay { execution, .. } | Resolve::Discard { execution, .. } => *execution,
        }
    }
}

/// A change of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryWrite {
    /// A try has ended. One that does not wait any more was settled by somebody else.
    Tried(Tried),
    /// It is tried again from the start, as long as its endpoint is there.
    Replay { tenant: TenantId, endpoint: EndpointId, seq: u64, now: Timestamp },
}

/// How long what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Per final state: how long after its instant, and how many at most.
    pub states: Vec<Keep>,
    /// How long rollups are kept.
    pub rollups_ms: u64,
    /// How long ended deliveries are kept.
    pub deliveries_ms: u64,
    /// How long skips are kept.
    pub skips_ms: u64,
    /// How long versions of jobs are kept after another one has followed them; longer, while an execution of them is kept.
    pub versions_ms: u64,
}

/// How long executions in one state are kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Which state; a final one.
    pub state: State,
    /// How long after their instant.
    pub age_ms: Option<u64>,
    /// How many, newest ones first.
    pub count: Option<u64>,
}

/// What a pruning deleted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Pruned {
    pub executions: usize,
    /// Other rows that are not part of these.
    pub others: usize,
    /// Whether there is more.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_knows_nothing() {
        assert!(
            ChangeSeq(3).covers(ChangeSeq(3)) && ChangeSeq(4).covers(ChangeSeq(3)) && ChangeSeq(1).covers(ChangeSeq(0))
        );
        assert!(!ChangeSeq(2).covers(ChangeSeq(3)) && !ChangeSeq(0).covers(ChangeSeq(0)));
    }
}
