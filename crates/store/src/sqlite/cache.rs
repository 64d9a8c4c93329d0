//! Records of executions that are not over, as the writer has left them: a write-through cache, so that what was just fired or
//! claimed is not read again to be completed. Reading it would cost as much as the write itself.
//!
//! It is exact: only the writer changes executions that are not over, always through a working set, and what leaves a set comes
//! back here with the transaction. It belongs to the thread, because a store has one thread that writes; and a transaction that
//! is rolled back makes it forget everything. Should it be wrong one day, writes fail: they are guarded by the
//! state and the fence that were loaded; and test builds compare it with the row at each use.

use super::rows::Texts;
use crate::core::record::Record;
use crate::core::set::IdMap;
use campanile_model::ids::ExecutionId;
use campanile_model::store::Fire;
use campanile_model::time::Timestamp;
use std::cell::RefCell;

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// Records that are kept at least, as long as none ends; twice as many at most.
const GENERATION: usize = 32 * 1_024;

/// Two generations: when the younger one is full, the older one is forgotten.
#[derive(Default)]
struct Cache {
    young: IdMap<ExecutionId, Box<Record>>,
    old: IdMap<ExecutionId, Box<Record>>,
    texts: Texts,
}

/// Keeps an execution that has fired. Its texts are shared among what is kept, and not with whoever fired it: there, other
/// threads count their uses, and to join in would cost more than to compare.
pub(super) fn put_fired(fire: &Fire, now: Timestamp) {
    CACHE.with_borrow_mut(|cache| {
        let pool = cache.texts.share(&fire.dispatch.pool);
        let target = cache.texts.share(&fire.dispatch.target);
        cache.put(Box::new(Record::fired(fire, now, pool, target)));
    });
}

/// Keeps what a batch leaves, as it is stored by now. What is over is not kept, nor what has failed and waits for its next
/// attempt: that is long, and the texts of errors would fill the memory while a target is away.
pub(super) fn put(records: impl Iterator<Item = Box<Record>>) {
    CACHE.with_borrow_mut(|cache| {
        for mut record in records.filter(|record| !record.state.is_final() && record.error.is_none()) {
            record.set_stored();
            cache.put(record);
        }
    });
}

/// Takes an execution out, if it is here.
pub(super) fn take(id: ExecutionId) -> Option<Box<Record>> {
    CACHE.with_borrow_mut(|cache| cache.take(id))
}

/// A transaction was rolled back.
pub(super) fn forget() {
    CACHE.take();
}

impl Cache {
    fn put(&mut self, record: Box<Record>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.young.reserve(GENERATION);
        }
        self.young.insert(record.of.id, record);
    }

    fn take(&mut self, id: ExecutionId) -> Option<Box<Record>> {
        self.young.remove(&id).or_else(|| if self.old.is_empty() { None } else { self.old.remove(&id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::lifecycle::State;
    use campanile_testkit::generate as g;

    fn record(n: i64) -> Box<Record> {
        let fire = g::fire(&g::job(1), Timestamp::from_millis(n));
        Box::new(Record::fired(&fire, Timestamp::from_millis(n), "short".into(), "".into()))
    }

    #[test]
    fn what_is_over_is_not_kept_and_what_is_taken_is_gone() {
        let (open, mut over) = (record(1), record(2));
        let ids = (open.of.id, over.of.id);
        over.state = State::Succeeded;
        put([open, over].into_iter());
        assert!(take(ids.0).is_some() && take(ids.0).is_none());
        assert!(take(ids.1).is_none());
        put([record(1)].into_iter());
        forget();
        assert!(take(ids.0).is_none());
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let many = GENERATION as i64 * 5 / 2;
        put((0..many).map(record));
        let kept = CACHE.with_borrow(|cache| cache.young.len() + cache.old.len());
        assert!((GENERATION..=2 * GENERATION).contains(&kept), "{kept}");
        assert!(take(record(0).of.id).is_none());
        for n in many - GENERATION as i64..many {
            assert!(take(record(n).of.id).is_some(), "{n}");
        }
    }
}
