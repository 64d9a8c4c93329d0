//! An operation: work on many executions that takes a while, can be watched, stopped, and goes on after a crash.
//!
//! The store keeps what to do and how far it got as JSON text that only the engine understands.

use crate::ids::TenantId;
use crate::time::Timestamp;

/// What an operation does.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum OperationKind {
    /// Runs dead executions again.
    Replay,
    /// Fires a past range of a job.
    Backfill,
}

/// Where an operation is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum OperationState {
    Running,
    Done,
    /// Too much of it failed.
    Stopped,
    Cancelled,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    pub id: OperationId,
    pub tenant: TenantId,
    pub kind: OperationKind,
    pub state: OperationState,
    /// What to do, as JSON text.
    pub spec: String,
    /// How far it got, as JSON text.
    pub progress: String,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last moved.
    pub updated_at: Timestamp,
}

pub use crate::ids::OperationId;

impl OperationKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [OperationKind; 2] = [OperationKind::Replay, OperationKind::Backfill];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationKind::Replay => "REPLAY",
            OperationKind::Backfill => "BACKFILL",
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

impl OperationState {
    /// All states, in the order of their codes.
    pub const ALL: [OperationState; 4] =
        [OperationState::Running, OperationState::Done, OperationState::Stopped, OperationState::Cancelled];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationState::Running => "RUNNING",
            OperationState::Done => "DONE",
            OperationState::Stopped => "STOPPED",
            OperationState::Cancelled => "CANCELLED",
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
