//! How much may run at the same time, and how fast: pools and targets.
//!
//! A *pool* is capacity that jobs name; its slots are counted in the store, so that they hold for all runners together. A
//! *target* is whom an action is done to (a worker's handler, the origin of a URL); what it can bear is a matter of the
//! node that does it. Without a row there is no limit.

use crate::ids::TenantId;
use crate::time::Timestamp;

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    Pool,
    Target,
}

impl Scope {
    /// All scopes, in the order of their codes.
    pub const ALL: [Scope; 2] = [Scope::Pool, Scope::Target];

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The scope with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// The limits of one pool or target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capacity {
    pub tenant: TenantId,
    pub scope: Scope,
    pub name: String,
    /// At most this many attempts run at the same time.
    pub slots: Option<u32>,
    /// At most this many attempts start per second, in thousandths. Only for targets.
    pub per_second_milli: Option<u64>,
    /// Nothing starts until it is resumed.
    pub paused: bool,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// How many executions of a pool are in a state: kept by the state machine, never by counting rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Count {
    pub tenant: TenantId,
    pub pool: std::sync::Arc<str>,
    pub state: crate::lifecycle::State,
    pub executions: u64,
}
