//! An execution (one fire of one job), its attempts, and what came back from them.

use crate::action::ActionKind;
use crate::ids::{ExecutionId, FireKind, JobId, TenantId};
use crate::job::Priority;
use crate::lifecycle::State;
use crate::overlap::Overlap;
use crate::time::Timestamp;
use std::sync::Arc;

/// One fire of one job. The last attempt is part of it; earlier ones are rows of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Identity: derived from (tenant, job, fire_at, kind).
    pub id: ExecutionId,
    pub tenant: TenantId,
    pub job: JobId,
    /// The job's name, for people.
    pub job_name: String,
    /// The job's version that it was fired under.
    pub job_version: u32,
    /// The instant it was due.
    pub fire_at: Timestamp,
    pub kind: FireKind,
    /// Where it is in its life.
    pub state: State,
    /// Why it is there, where that is not plain.
    pub reason: Option<Reason>,
    /// Tries so far, the running one included.
    pub attempt: u32,
    /// The fence of the newest attempt; 0 before the first.
    pub fence: u64,
    pub priority: Priority,
    /// The capacity it needs.
    pub pool: Arc<str>,
    pub action: ActionKind,
    /// Whom it is done to: a worker's handler, or the origin of a URL.
    pub target: Arc<str>,
    /// What it does about another run of its job.
    pub overlap: Overlap,
    /// The first of the missed fires that this run stands for, itself excluded.
    pub covers_from: Option<Timestamp>,
    /// When somebody should look at it next: due, backoff over, or lease over. Meaningless in a final state.
    pub wake_at: Timestamp,
    /// When its row became durable.
    pub fired_at: Timestamp,
    /// When the newest attempt was released to the queue.
    pub queued_at: Option<Timestamp>,
    /// When the newest attempt was claimed.
    pub claimed_at: Option<Timestamp>,
    /// When the first attempt started, once there was another.
    pub first_started_at: Option<Timestamp>,
    /// When the newest attempt started.
    pub started_at: Option<Timestamp>,
    /// When it reached its final state, or the newest attempt ended.
    pub finished_at: Option<Timestamp>,
    /// Who runs or ran the newest attempt.
    pub worker: Option<String>,
    /// How the newest attempt ended.
    pub outcome: Option<AttemptOutcome>,
    /// What went wrong in it.
    pub error: Option<AttemptError>,
    /// `fingerprint` of that, while it is dead.
    pub fingerprint: Option<u64>,
    /// How often it was handed to a runner.
    pub deliveries: u32,
    /// Attempts that were lost with their runner since it was fired or last replayed.
    pub losses: u32,
    /// Attempts before its last replay; the retry policy counts from there.
    pub attempts_from: u32,
    /// When its running attempt was asked to stop.
    pub cancel_requested_at: Option<Timestamp>,
    /// What the operator said who cancelled or discarded it.
    pub note: Option<String>,
}

impl Execution {
    /// When its first attempt started.
    pub fn first_start(&self) -> Option<Timestamp> {
        self.first_started_at.or(self.started_at)
    }
}

/// What a running attempt last told about itself.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: Option<f64>,
    pub message: Option<String>,
    /// JSON text that the next attempt is given.
    pub checkpoint: Option<Arc<str>>,
    /// When it was told.
    pub at: Timestamp,
}

/// A line that an attempt logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When, by the worker's clock, or when it arrived.
    pub at: Timestamp,
    /// Such as `info`; short.
    pub level: String,
    pub message: String,
}

/// One try of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    pub fence: u64,
    pub worker: Option<String>,
    pub started_at: Timestamp,
    /// When it ended; `None` while it runs.
    pub finished_at: Option<Timestamp>,
    /// How it ended; `None` while it runs.
    pub outcome: Option<AttemptOutcome>,
    pub error: Option<AttemptError>,
    /// What the target answered.
    pub response: Option<Response>,
}

/// How an attempt ended.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum AttemptOutcome {
    /// It did what it should.
    Succeeded,
    Failed,
    /// It ran out of time.
    TimedOut,
    /// Its lease ended, or its node died.
    WorkerLost,
    Cancelled,
    /// It asked to be tried later, which burns no attempt.
    Snoozed,
    /// It was given back before it started, which burns no attempt either.
    Released,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptError {
    /// Short and stable, such as `http_503` or `timeout`.
    pub kind: String,
    /// For people; at most `limits::ERROR_BYTES_MAX` bytes.
    pub message: String,
}

/// What a target answered; at most `limits::RESPONSE_BYTES_MAX` bytes of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Body, cut at the limit.
    pub body: Vec<u8>,
    /// Whether it was cut.
    pub truncated: bool,
}

/// What came back from an action.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It did what it should.
    Succeeded {
        /// What the target answered.
        response: Option<Response>,
    },
    Failed {
        error: AttemptError,
        /// Whether trying again can help.
        retryable: bool,
        /// The target's wish: not before this many milliseconds.
        retry_after_ms: Option<u64>,
        /// The target is gone for good: pause the job.
        pause_job: bool,
        /// What the target answered.
        response: Option<Response>,
    },
    /// It ran out of time.
    TimedOut { error: AttemptError },
    /// Its lease ended, or its node died.
    Lost,
    /// It was cancelled while it ran.
    Cancelled,
    /// It asked to be tried later.
    Snoozed { for_ms: u64 },
    /// It was given back before it started.
    Released,
}

/// Why a fire did not become a run, has not yet, or an execution ended without one. A closed set.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The job was paused at that instant.
    Paused,
    /// Missed, and the catch-up policy discards it.
    MisfireDiscarded,
    /// Missed, and one later fire stands for it.
    MisfireCoalesced,
    /// The job was changed before that instant.
    StaleVersion,
    /// The job was deleted.
    JobDeleted,
    /// Missed by more than the catch-up policy's `max_age`.
    Expired,
    CancelledByUser,
    /// The last allowed attempt failed.
    AttemptsExhausted,
    /// The failure was permanent.
    PermanentFailure,
    /// No fire of the job lies at that instant.
    NotDue,
    /// A blackout of the job covers that instant.
    Blackout,
    /// An earlier run of the job was not over.
    OverlapForbidden,
    /// A later run of the job took its place.
    OverlapReplaced,
    /// Its pool or its target has no free slot.
    QuotaDeferred,
    /// Its target takes no more per second.
    RateLimited,
    /// Its target keeps failing; a probe will tell when it is back.
    CircuitOpen,
    /// It waits for another execution to end: an earlier run of its job.
    DependencyWaiting,
    /// That fire has succeeded already.
    Deduplicated,
    /// Nobody fires for its shard yet.
    NoLeader,
    /// No worker asks for its pool and handler.
    NoWorker,
    /// It was lost with its runner too often.
    Poison,
    /// All its attempts together ran out of time.
    TotalTimeout,
    /// Somebody discarded it when it was dead.
    DiscardedByUser,
}

impl AttemptOutcome {
    /// All outcomes, in the order of their codes.
    pub const ALL: [AttemptOutcome; 7] = [
        AttemptOutcome::Succeeded,
        AttemptOutcome::Failed,
        AttemptOutcome::TimedOut,
        AttemptOutcome::WorkerLost,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Snoozed,
        AttemptOutcome::Released,
    ];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttemptOutcome::Succeeded => "SUCCEEDED",
            AttemptOutcome::Failed => "FAILED",
            AttemptOutcome::TimedOut => "TIMED_OUT",
            AttemptOutcome::WorkerLost => "WORKER_LOST",
            AttemptOutcome::Cancelled => "CANCELLED",
            AttemptOutcome::Snoozed => "SNOOZED",
            AttemptOutcome::Released => "RELEASED",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The outcome with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl Reason {
    /// All reasons, in the order of their codes.
    pub const ALL: [Reason; 23] = [
        Reason::Paused,
        Reason::MisfireDiscarded,
        Reason::MisfireCoalesced,
        Reason::StaleVersion,
        Reason::JobDeleted,
        Reason::Expired,
        Reason::CancelledByUser,
        Reason::AttemptsExhausted,
        Reason::PermanentFailure,
        Reason::NotDue,
        Reason::Blackout,
        Reason::OverlapForbidden,
        Reason::OverlapReplaced,
        Reason::QuotaDeferred,
        Reason::RateLimited,
        Reason::CircuitOpen,
        Reason::DependencyWaiting,
        Reason::Deduplicated,
        Reason::NoLeader,
        Reason::NoWorker,
        Reason::Poison,
        Reason::TotalTimeout,
        Reason::DiscardedByUser,
    ];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Paused => "PAUSED",
            Reason::MisfireDiscarded => "MISFIRE_DISCARDED",
            Reason::MisfireCoalesced => "MISFIRE_COALESCED",
            Reason::StaleVersion => "STALE_VERSION",
            Reason::JobDeleted => "JOB_DELETED",
            Reason::Expired => "EXPIRED",
            Reason::CancelledByUser => "CANCELLED_BY_USER",
            Reason::AttemptsExhausted => "ATTEMPTS_EXHAUSTED",
            Reason::PermanentFailure => "PERMANENT_FAILURE",
            Reason::NotDue => "NOT_DUE",
            Reason::Blackout => "BLACKOUT",
            Reason::OverlapForbidden => "OVERLAP_FORBIDDEN",
            Reason::OverlapReplaced => "OVERLAP_REPLACED",
            Reason::QuotaDeferred => "QUOTA_DEFERRED",
            Reason::RateLimited => "RATE_LIMITED",
            Reason::CircuitOpen => "CIRCUIT_OPEN",
            Reason::DependencyWaiting => "DEPENDENCY_WAITING",
            Reason::Deduplicated => "DEDUPLICATED",
            Reason::NoLeader => "NO_LEADER",
            Reason::NoWorker => "NO_WORKER",
            Reason::Poison => "POISON",
            Reason::TotalTimeout => "TOTAL_TIMEOUT",
            Reason::DiscardedByUser => "DISCARDED_BY_USER",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl Outcome {
    /// How the attempt ended.
    pub const fn attempt_outcome(&self) -> AttemptOutcome {
        match self {
            Outcome::Succeeded { .. } => AttemptOutcome::Succeeded,
            Outcome::Failed { .. } => AttemptOutcome::Failed,
            Outcome::TimedOut { .. } => AttemptOutcome::TimedOut,
            Outcome::Lost => AttemptOutcome::WorkerLost,
            Outcome::Cancelled => AttemptOutcome::Cancelled,
            Outcome::Snoozed { .. } => AttemptOutcome::Snoozed,
            Outcome::Released => AttemptOutcome::Released,
        }
    }
}
