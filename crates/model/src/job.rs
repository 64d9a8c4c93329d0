//! A job: a definition with versions, of which this is one.
//!
//! A job row is not written because it fired. Its `cursor` is a lower bound: every fire before it is accounted for. It
//! may lag behind what has fired (a new owner enumerates from it, and finds existing executions by their ids) but it
//! never leads.
//!
//! Reading order: `definition` (what a user may say), then `version` (what a change does, and which version governs an instant).

mod definition;
pub mod version;

pub use definition::*;

use crate::action::ActionKind;
use crate::catch_up::CatchUp;
use crate::fault::{Bug, planted};
use crate::ids::{ExecutionId, JobId, TenantId};
use crate::notify::Expectation;
use crate::overlap::Overlap;
use crate::queue::Dispatch;
use crate::schedule::Plan;
use crate::store::ChangeSeq;
use crate::time::Timestamp;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// One version of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Identity, for life.
    pub id: JobId,
    pub tenant: TenantId,
    /// Grows by one with every change; what an ETag shows.
    pub version: u32,
    /// Active, paused or deleted.
    pub state: JobState,
    /// When a pause ends by itself.
    pub paused_until: Option<Timestamp>,
    /// When its first version was accepted.
    pub created_at: Timestamp,
    /// Since when this version counts: it governs the instants after this. By the store's clock, in the transaction of the change.
    pub effective_at: Timestamp,
    /// How far its fires are accounted for.
    pub cursor: Cursor,
    /// When, resolved: `Plan::encode` of the schedule. Jobs with the same text share one parsed plan.
    pub plan: Arc<str>,
    /// Whom it is done to, by `Action::target`: a worker's handler, or the origin of a URL.
    pub target: Arc<str>,
    /// What the user said.
    pub definition: Arc<Definition>,
}

/// What a job's fires take along from its definition, and nothing else: what the wheel keeps of millions of jobs. Mostly many
/// jobs have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// No fire after this.
    pub ends_at: Option<Timestamp>,
    /// Width within which fires are moved.
    pub spread_ms: u64,
    pub priority: Priority,
    /// Which capacity executes it.
    pub pool: Arc<str>,
    pub action: ActionKind,
    /// Whom it is done to.
    pub target: Arc<str>,
    /// What happens to missed fires.
    pub catch_up: CatchUp,
    /// What happens to runs that would overlap.
    pub overlap: Overlap,
    /// What it is expected to do.
    pub expect: Expectation,
    /// When it does not fire.
    pub blackouts: Arc<[Blackout]>,
}

/// How far a job's fires are accounted for: a lower bound that may lag, never lead.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Every fire before this has its outcome. `None`: there is no further fire.
    pub next_fire_at: Option<Timestamp>,
    /// Fires left under `max_fires`.
    pub fires_left: Option<u32>,
}

/// Whether a job fires.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It fires by its schedule.
    Active,
    /// It does not fire until it is resumed.
    Paused,
    /// It is gone for users; the row stays for its history.
    Deleted,
}

impl JobState {
    /// All states, in the order of their codes.
    pub const ALL: [JobState; 3] = [JobState::Active, JobState::Paused, JobState::Deleted];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Active => "ACTIVE",
            JobState::Paused => "PAUSED",
            JobState::Deleted => "DELETED",
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

impl Job {
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// The fixed distance by which `spread` moves this job's fires; the same on every node and after every restart.
    pub fn spread_offset_ms(&self) -> u64 {
        spread_offset_ms(self.id, self.definition.spread_ms)
    }

    /// What its fires take along. Of blackouts, what lies before this version is not its own: a skip for them is drawn over the whole
    /// blackout, and would cover what ran under the version before.
    pub fn firing(&self) -> Firing {
        let definition = &*self.definition;
        Firing {
            ends_at: definition.window.ends_at,
            spread_ms: definition.spread_ms,
            priority: definition.priority,
            pool: definition.pool.clone(),
            action: definition.action.kind,
            target: self.target.clone(),
            catch_up: definition.catch_up,
            overlap: definition.overlap,
            expect: definition.expect,
            blackouts: self.own_blackouts(),
        }
    }

    fn own_blackouts(&self) -> Arc<[Blackout]> {
        let first = self.effective_at.saturating_add_ms(1);
        let blackouts = &self.definition.blackouts;
        if self.version == 1 || blackouts.iter().all(|blackout| first <= blackout.from) {
            return blackouts.clone();
        }
        let own = blackouts.iter().filter(|blackout| first < blackout.to);
        own.map(|blackout| Blackout { from: blackout.from.max(first), ..*blackout }).collect()
    }

    /// How an execution of this job for `fire_at` is dispatched, before its first attempt.
    pub fn dispatch(&self, execution: ExecutionId, fire_at: Timestamp) -> Dispatch {
        Dispatch {
            execution,
            job: self.id,
            fire_at,
            pool: self.definition.pool.clone(),
            tenant: self.tenant,
            job_version: self.version,
            attempt: 0,
            priority: self.definition.priority,
            action: self.definition.action.kind,
            target: self.target.clone(),
            queued_at: None,
            as_of: ChangeSeq::default(),
        }
    }
}

/// The fixed distance by which a spread of `spread_ms` moves the fires of `job`.
pub fn spread_offset_ms(job: JobId, spread_ms: u64) -> u64 {
    // test-infra#12148: everything at the full hour.
    if spread_ms == 0 || planted(Bug("no-spread")) { 0 } else { xxh3_64(job.as_bytes()) % spread_ms }
}

/// The first fire strictly after `after` of a plan whose fires are moved by `offset_ms`.
pub fn next_fire(plan: &Plan, offset_ms: u64, after: Timestamp) -> Option<Timestamp> {
    let offset = offset_ms as i64;
    plan.next(after.saturating_add_ms(-offset)).map(|at| at.saturating_add_ms(offset))
}

/// How many fires lie in `[from, to]` of a plan whose fires are moved by `offset_ms`; no more than `max` are counted.
pub fn count_fires(plan: &Plan, offset_ms: u64, from: Timestamp, to: Timestamp, max: u64) -> u64 {
    let offset = offset_ms as i64;
    plan.count(from.saturating_add_ms(-1 - offset), to.saturating_add_ms(-offset), max)
}
