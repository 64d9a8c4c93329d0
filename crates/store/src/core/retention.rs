//! Which executions are beyond their retention, as far as that is the same in every store.
//!
//! There is no index by state that a success would be in, because every success would have to pay for it. So executions
//! are scanned from the oldest on, state by state, a bounded number of rows per call. Within one state the order of ids
//! is the order of age, so the scan of a state is over at the first row that is kept. What it passes on the way is kept
//! in other states; so that this is passed once and not with every call, the place is remembered until all scans are
//! over.

use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::State;
use campanile_model::limits;
use campanile_model::store::{Keep, Retention};
use campanile_model::time::Timestamp;

/// Where the scans stand: those of executions by the code of their state, and that of versions. In memory only: a new start scans
/// anew.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    states: [Scan; State::CODES],
    pub(crate) versions: OldVersion,
}

/// A superseded version, in the order of its end: when that was, which job, which version.
pub(crate) type OldVersion = (i64, [u8; 16], u32);

/// Superseded versions that one call looks at.
const VERSIONS_MAX: usize = 100;
/// Executions that are looked at to see whether one is of a version. Where there are more, the version is kept.
pub(crate) const EXECUTIONS_OF_VERSION_MAX: usize = 10_000;

#[derive(Copy, Clone, PartialEq)]
enum Scan {
    /// It goes on after this id.
    After([u8; 16]),
    /// It is over, and waits for the others.
    Over,
}

impl Default for Scan {
    fn default() -> Self {
        Scan::After([0; 16])
    }
}

pub(crate) struct Order {
    pub(crate) retention: Retention,
    pub(crate) now: Timestamp,
    /// Rows to delete at most.
    pub(crate) limit: usize,
    /// Rows to look at, at most.
    pub(crate) rows_max: usize,
}

impl Order {
    /// So many milliseconds before now.
    pub(crate) fn ago(&self, ms: u64) -> Timestamp {
        self.now.saturating_add_ms(-i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// The rules, of final states only: nothing else is ever deleted.
    pub(crate) fn keeps(&self) -> impl Iterator<Item = &Keep> {
        self.retention.states.iter().filter(|keep| keep.state.is_final())
    }
}

/// What a scan found.
pub(crate) struct Found {
    pub(crate) victims: Vec<(ExecutionId, State)>,
    /// Superseded versions to delete.
    pub(crate) versions: Vec<OldVersion>,
    /// Where the scans stand, once that is done.
    pub(crate) progress: Progress,
    /// Whether a scan is not over.
    pub(crate) more: bool,
    rows_left: usize,
    limit: usize,
}

impl Found {
    pub(crate) fn new(order: &Order, progress: Progress) -> Self {
        Self {
            victims: Vec::new(),
            versions: Vec::new(),
            progress,
            more: false,
            rows_left: order.rows_max,
            limit: order.limit,
        }
    }

    /// How many more rows may be looked at; none when there are enough to delete.
    pub(crate) fn rows_left(&self) -> usize {
        if self.victims.len() >= self.limit { 0 } else { self.rows_left }
    }

    /// The scan of a state is over, or goes on another time.
    pub(crate) fn close(&mut self, sweep: &Sweep, over: bool) {
        self.more |= !over;
        let place = if over { Scan::Over } else { Scan::After(sweep.after) };
        self.progress.states[usize::from(sweep.state.code())] = place;
    }

    /// How many superseded versions may be looked at; all of them may be deleted.
    pub(crate) fn versions_max(&self) -> usize {
        self.limit.saturating_sub(self.victims.len()).min(VERSIONS_MAX)
    }

    /// The scan of versions has come to these. If they are fewer than it might have looked at, it is over, and starts anew the
    /// next time.
    pub(crate) fn close_versions(&mut self, looked: &[OldVersion]) {
        let is_over = looked.len() < self.versions_max();
        self.progress.versions = match looked.last() {
            Some(last) if !is_over => *last,
            _ if is_over => OldVersion::default(),
            _ => self.progress.versions,
        };
        self.more |= !is_over;
    }

    /// All scans were visited. When all are over, the next call starts anew.
    pub(crate) fn finish(&mut self) {
        if !self.more {
            self.progress.states = Default::default();
        }
    }
}

/// The latest instant that an execution of a version can have which ended then: it was fired at most this long ahead.
pub(crate) fn last_fire_of(ended_at: Timestamp) -> Timestamp {
    ended_at.saturating_add_ms(limits::LEAD_MS_MAX as i64)
}

/// The scan of one state.
pub(crate) struct Sweep {
    state: State,
    /// Rows from here on are not old.
    aged: [u8; 16],
    /// So many are too many, however young.
    excess: u64,
    after: [u8; 16],
}

impl Sweep {
    /// The scan of a state in which so many executions are; none if it is over.
    pub(crate) fn new(order: &Order, keep: &Keep, progress: &Progress, in_state: u64) -> Option<Self> {
        let Scan::After(after) = progress.states[usize::from(keep.state.code())] else { return None };
        let aged = keep.age_ms.map_or([0; 16], |age_ms| *ExecutionId::floor(order.ago(age_ms)).as_bytes());
        Some(Self {
            state: keep.state,
            aged,
            excess: keep.count.map_or(0, |count| in_state.saturating_sub(count)),
            after,
        })
    }

    /// The ids to look at: after the first, before the second. Where there are too many, age does not matter.
    pub(crate) fn range(&self) -> ([u8; 16], [u8; 16]) {
        (self.after, if self.excess > 0 { [0xff; 16] } else { self.aged })
    }

    /// Looks at a row. Says whether the scan goes on.
    pub(crate) fn look(
        &mut self,
        found: &mut Found,
        (id, state): (ExecutionId, State),
        finished_at: Option<Timestamp>,
    ) -> bool {
        found.rows_left = found.rows_left.saturating_sub(1);
        if self.excess == 0 && *id.as_bytes() >= self.aged {
            return false;
        }
        // What ran long after its instant, because it was filled in or replayed, is as old as its end.
        let young = finished_at.is_some_and(|at| *ExecutionId::floor(at).as_bytes() >= self.aged);
        if state == self.state && (self.excess > 0 || !young) {
            self.excess = self.excess.saturating_sub(1);
            found.victims.push((id, state));
        }
        self.after = *id.as_bytes();
        true
    }
}
