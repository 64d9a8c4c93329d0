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
use super::rows::Texts;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::overlap::Overlap;
use campanile_model::store::Fire;
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
    texts: Texts,
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

/// An execution has fired. Its texts are shared among what is remembered, and not with whoever fired it: there, other threads count
/// their uses, and to join in would cost more than to compare.
pub(super) fn fired(fire: &Fire) {
    let (pool, target) = REMEMBERED.with_borrow_mut(|remembered| {
        (remembered.texts.share(&fire.dispatch.pool), remembered.texts.share(&fire.dispatch.target))
    });
    note(0, Subject::fired(fire, pool, target));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(n: u64, overlap: Overlap) -> Subject {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&n.to_be_bytes());
        Subject {
            id: ExecutionId::from_bytes(id),
            tenant: TenantId::DEFAULT,
            job: JobId::from_bytes(id),
            pool: "short".into(),
            target: "".into(),
            overlap,
            watched: 0,
            fire_at: Timestamp::from_millis(n as i64),
            first_started_at: None,
        }
    }

    #[test]
    fn only_the_newest_is_remembered_and_only_once() {
        let of = subject(1, Overlap::Allow);
        note(0, of.clone());
        note(7, of.clone());
        assert!(take(of.id, 0).is_none(), "an attempt runs, and asking has made it forget");
        note(7, of.clone());
        assert_eq!(take(of.id, 7).map(|of| of.fire_at), Some(of.fire_at));
        assert!(take(of.id, 7).is_none());
        note(0, of.clone());
        note(0, subject(1, Overlap::Skip));
        assert!(take(of.id, 0).is_none(), "runs that may have to wait are not remembered");
        note(0, of.clone());
        forget();
        assert!(take(of.id, 0).is_none());
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let many = GENERATION as u64 * 5 / 2;
        (0..many).for_each(|n| note(0, subject(n, Overlap::Allow)));
        let kept = REMEMBERED.with_borrow(|remembered| remembered.young.len() + remembered.old.len());
        assert!((GENERATION..=2 * GENERATION).contains(&kept), "{kept}");
        assert!(take(subject(0, Overlap::Allow).id, 0).is_none());
        for n in many - GENERATION as u64..many {
            assert!(take(subject(n, Overlap::Allow).id, 0).is_some(), "{n}");
        }
        // Fired in the older generation and claimed in the younger one: neither is left.
        let of = subject(many - GENERATION as u64 - 1, Overlap::Allow);
        note(9, of.clone());
        assert!(take(of.id, 9).is_some());
        assert!(take(of.id, 0).is_none());
    }
}
