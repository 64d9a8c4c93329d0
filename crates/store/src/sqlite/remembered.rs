//! What the writer remembers of executions that it has just written: those that fired and have not begun, and those that run.
//!
//! Nearly every execution is ended soon after it fired or was claimed, and what follows from its end depends on facts that
//! have not changed since. Reading them again would cost as much as the write itself. So they are kept for a while, within
//! bounds; what is not here is read.
//!
//! It is safe because the write is guarded all the same: a row that has the state, the attempts and the fence that belong to
//! what is remembered has the same facts, since whatever changes these is noted here too. It belongs to the thread,
//! because a store has one thread that writes; and a transaction that is rolled back makes it forget everything.

use super::effects::Subject;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::overlap::Overlap;
use campanile_model::time::Timestamp;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::default();
}

/// Executions that are remembered at least, as long as none ends; twice as many at most.
const GENERATION: usize = 32 * 1_024;

/// Two generations: when the younger one is full, the older one is forgotten.
#[derive(Default)]
struct Remembered {
    young: Generation,
    old: Generation,
}

type Generation = HashMap<ExecutionId, Kept, BuildHasherDefault<OfHash>>;

/// A `Subject` whose id is known and whose runs may overlap.
struct Kept {
    /// Of the attempt that runs; 0 before the first.
    fence: u64,
    tenant: TenantId,
    job: JobId,
    pool: Arc<str>,
    target: Arc<str>,
    watched: u8,
    fire_at: Timestamp,
    first_started_at: Option<Timestamp>,
}

/// An execution has fired (`fence` is 0), or an attempt of it runs. Those that may have to wait for others are not remembered:
/// too much happens to them.
pub(super) fn note(fence: u64, of: Subject) {
    REMEMBERED.with_borrow_mut(|remembered| {
        let Subject { id, tenant, job, pool, target, overlap, watched, fire_at, first_started_at } = of;
        if overlap != Overlap::Allow {
            remembered.take(id);
            return;
        }
        if remembered.young.len() >= GENERATION {
            remembered.old = std::mem::take(&mut remembered.young);
            remembered.young.reserve(GENERATION);
        }
        remembered.young.insert(id, Kept { fence, tenant, job, pool, target, watched, fire_at, first_started_at });
    });
}

/// What is remembered of an execution under this fence; it is forgotten now.
pub(super) fn take(id: ExecutionId, fence: u64) -> Option<Subject> {
    let kept = REMEMBERED.with_borrow_mut(|remembered| remembered.take(id)).filter(|kept| kept.fence == fence)?;
    let Kept { tenant, job, pool, target, watched, fire_at, first_started_at, .. } = kept;
    Some(Subject { id, tenant, job, pool, target, overlap: Overlap::Allow, watched, fire_at, first_started_at })
}

/// A transaction was rolled back.
pub(super) fn forget() {
    REMEMBERED.take();
}

impl Remembered {
    fn take(&mut self, id: ExecutionId) -> Option<Kept> {
        // One that was fired in an older generation and claimed in this one is in both.
        let young = self.young.remove(&id);
        let old = if self.old.is_empty() { None } else { self.old.remove(&id) };
        young.or(old)
    }
}

/// The last half of an execution's id is a hash already.
#[derive(Default)]
struct OfHash(u64);

impl Hasher for OfHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk() {
            self.0 = u64::from_le_bytes(*last);
        }
    }
}
