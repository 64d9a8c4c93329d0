//! Notifications: who wants to hear of what, and what a job is expected to do.
//!
//! An *endpoint* names a URL and kinds of events. An event is written to the outbox in the transaction of the state change
//! that it tells of, once per endpoint that wants it; a *delivery* is that row, tried until the URL takes it.
//! *Expectations* are instants by which something must have happened: the store keeps them as *watches*, and a watch that
//! is still there at its instant is broken.

use crate::ids::{EndpointId, ExecutionId, JobId, TenantId};
use crate::time::Timestamp;

/// What may be told.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventKind {
    Succeeded,
    /// An attempt failed, and there will be another.
    /// Given up: it is not tried again.
    Failed,
    /// An execution is dead.
    Dead,
    /// An expectation was broken.
    Late,
    /// A job that was dead or late has succeeded again.
    Recovered,
}

impl EventKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [EventKind; 5] =
        [EventKind::Succeeded, EventKind::Failed, EventKind::Dead, EventKind::Late, EventKind::Recovered];

    /// The word used in the API; `dev.campanile.execution.{word}.v1` is the type in an envelope.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Succeeded => "succeeded",
            EventKind::Failed => "failed",
            EventKind::Dead => "dead",
            EventKind::Late => "late",
            EventKind::Recovered => "recovered",
        }
    }

    /// The number used in the store; never reused. Bit n of a mask stands for code n.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// Who wants to hear of what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub id: EndpointId,
    pub tenant: TenantId,
    pub url: String,
    /// Which kinds; in the order of their codes.
    pub events: Vec<EventKind>,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only of jobs with this tag.
    pub tag: Option<String>,
    /// Nothing is sent while it is set; events are kept.
    pub paused: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What a job is expected to do. Each is a width in milliseconds.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Expectation {
    /// From due to the first start.
    pub start_within_ms: Option<u64>,
    /// From due to the end.
    pub finish_within_ms: Option<u64>,
    /// At least one success in every such period.
    pub success_every_ms: Option<u64>,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum WatchKind {
    /// The first start of an execution.
    Start,
    /// The end of an execution.
    Finish,
    /// The next success of a job.
    Success,
}

impl WatchKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [WatchKind; 3] = [WatchKind::Start, WatchKind::Finish, WatchKind::Success];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            WatchKind::Start => "start_within",
            WatchKind::Finish => "finish_within",
            WatchKind::Success => "success_every",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// An expectation that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    pub tenant: TenantId,
    pub job: JobId,
    /// Of which execution; `None` for `WatchKind::Success`.
    pub execution: Option<ExecutionId>,
    pub kind: WatchKind,
    pub due_at: Timestamp,
}

/// Where a delivery is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum DeliveryState {
    /// To be tried, or tried again.
    Waiting,
    /// The endpoint took it.
    Delivered,
    Failed,
}

impl DeliveryState {
    /// All states, in the order of their codes.
    pub const ALL: [DeliveryState; 3] = [DeliveryState::Waiting, DeliveryState::Delivered, DeliveryState::Failed];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Waiting => "WAITING",
            DeliveryState::Delivered => "DELIVERED",
            DeliveryState::Failed => "FAILED",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The state with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// An event on its way to an endpoint: what it says is fixed when it happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Position in the outbox; also the identity of the event towards this endpoint.
    pub seq: u64,
    pub tenant: TenantId,
    pub endpoint: EndpointId,
    pub kind: EventKind,
    pub job: JobId,
    pub execution: Option<ExecutionId>,
    pub at: Timestamp,
    /// The facts, as JSON text: the `data` of the envelope.
    pub data: String,
    pub state: DeliveryState,
    /// Tries so far.
    pub tries: u32,
    /// When it is tried next.
    pub next_at: Timestamp,
    /// HTTP status of the last try.
    pub status: Option<u16>,
    /// What went wrong in it.
    pub error: Option<String>,
}

/// What became of one try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    pub seq: u64,
    /// Where it is now.
    pub state: DeliveryState,
    /// When it is tried next, while it waits.
    pub next_at: Timestamp,
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// Sends events to endpoints.
#[async_trait::async_trait]
pub trait Sender: Send + Sync + 'static {
    /// Checks that `url` may be sent to at all, without I/O.
    fn check(&self, url: &str) -> Result<(), String>;
    /// Posts a CloudEvents envelope, signed. `id` is the same for every try. Returns the HTTP status, or what went wrong;
    /// ends by itself within a minute.
    async fn send(&self, url: &str, id: &str, body: String) -> Result<u16, String>;
}
