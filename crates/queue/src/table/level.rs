//! How full the queue is: an estimate, since every node puts and takes.
//!
//! It is counted now and then, when somebody asks, and what this node itself puts and takes is added and subtracted in
//! between. A count shows the table at some moment while it ran; so it is only believed where it differs by more than
//! what this node moved meanwhile. Where one node is alone, the estimate is therefore exact.

use campanile_model::queue::Depth;
use std::time::Duration;
use tokio::time::Instant;

/// A count is at least so old before the next one,
const COUNT_EVERY: Duration = Duration::from_millis(1_000);
/// and so many times older than it took, so that counting costs the database little;
const COUNT_SHARE: u32 = 30;
/// but no older than that: what took long may have been the network, and a wrong depth refuses what there is room for.
const COUNT_EVERY_MAX: Duration = Duration::from_millis(10_000);
/// One that is so much older than that is worth waiting for another. One that runs for so long may never end.
const COUNT_LATE: Duration = Duration::from_millis(3_000);

/// How full the queue is, for one kind of runner.
#[derive(Default)]
pub(super) struct Level {
    /// Less than nothing for a moment, where rows were taken before their putting was answered; or where others put
    /// them, until the next count.
    waiting: i64,
    taken: usize,
    /// Rows that this node has put and taken, ever.
    moved: u64,
    /// Rows that it is about to put or take, at most.
    moving: u64,
    counted: Option<Counted>,
    /// When the latest count that still runs began.
    counting_since: Option<Instant>,
}

#[derive(Copy, Clone)]
struct Counted {
    at: Instant,
    took: Duration,
}

/// A count that runs.
pub(super) struct Counting {
    began: Instant,
    moved: u64,
}

/// What is to be done about the estimate.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Age {
    Fresh,
    /// Good enough; count meanwhile.
    Stale,
    Unknown,
}

impl Level {
    pub fn depth(&self) -> Depth {
        Depth { waiting: usize::try_from(self.waiting).unwrap_or(0), taken: self.taken }
    }

    /// That many were put into the table; or taken out of it, if less than 0.
    pub fn change(&mut self, rows: i64) {
        self.waiting += rows;
        self.moved += rows.unsigned_abs();
    }

    /// A statement that puts or takes up to so many rows begins,
    pub fn begin(&mut self, rows: usize) {
        self.moving += rows as u64;
    }

    /// and ends.
    pub fn end(&mut self, rows: usize) {
        self.moving = self.moving.saturating_sub(rows as u64);
    }

    /// That many were laid down for receivers.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// That many of the taken ones were decided, or come back.
    pub fn settle(&mut self, count: usize) {
        self.taken = self.taken.saturating_sub(count);
    }

    pub fn age(&self, now: Instant) -> Age {
        let Some(counted) = self.counted else { return Age::Unknown };
        let every = (counted.took * COUNT_SHARE).clamp(COUNT_EVERY, COUNT_EVERY_MAX);
        if self.counting_since.is_some_and(|began| now - began <= COUNT_LATE) {
            return Age::Fresh;
        }
        match now - counted.at {
            age if age > every + COUNT_LATE => Age::Unknown,
            age if age > every => Age::Stale,
            _ => Age::Fresh,
        }
    }

    pub fn begin_count(&mut self, now: Instant) -> Counting {
        self.counting_since = Some(now);
        Counting { began: now, moved: self.moved }
    }

    /// What a count found; nothing, if it failed.
    pub fn end_count(&mut self, counting: Counting, rows: Option<i64>, now: Instant) {
        self.counting_since = None;
        let Some(rows) = rows else { return };
        self.counted = Some(Counted { at: now, took: now - counting.began });
        let moved = self.moved - counting.moved + self.moving;
        if self.waiting.abs_diff(rows) > moved {
            self.waiting = rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_counted_now_and_then_and_only_when_asked() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut level = Level::default();
        assert_eq!(level.age(start), Age::Unknown);
        let counting = level.begin_count(start);
        level.end_count(counting, Some(7), after(100));
        assert_eq!((level.age(after(100)), level.depth().waiting), (Age::Fresh, 7));
        assert_eq!(level.age(after(3_000)), Age::Fresh, "a slow count is rare");
        assert_eq!(level.age(after(3_200)), Age::Stale);
        let counting = level.begin_count(after(3_200));
        assert_eq!(level.age(after(3_300)), Age::Fresh, "somebody counts");
        level.end_count(counting, None, after(3_300));
        assert_eq!(level.age(after(3_300)), Age::Stale);
        assert_eq!(level.age(after(6_200)), Age::Unknown);
        let counting = level.begin_count(after(7_000));
        level.end_count(counting, Some(7), after(9_000));
        assert_eq!(level.age(after(19_000)), Age::Fresh);
        assert_eq!(level.age(after(19_001)), Age::Stale, "a network that stood still for 2 s does not cost a minute");
        let _hangs = level.begin_count(after(22_500));
        assert_eq!(level.age(after(25_500)), Age::Fresh, "nobody else counts meanwhile");
        assert_eq!(level.age(after(25_501)), Age::Unknown, "it may never end");
    }

    #[test]
    fn rows_may_be_taken_before_their_putting_was_answered() {
        let mut level = Level::default();
        level.change(-2);
        assert_eq!(level.depth().waiting, 0);
        level.change(2);
        assert_eq!(level.depth().waiting, 0);
    }

    #[test]
    fn a_count_is_believed_beyond_what_was_moved_meanwhile() {
        let now = Instant::now();
        let mut level = Level::default();
        level.change(100);
        let counting = level.begin_count(now);
        level.change(10);
        level.begin(5);
        level.end_count(counting, Some(100), now);
        assert_eq!(level.depth().waiting, 110, "ten more came while it was counted");
        let counting = level.begin_count(now);
        level.end_count(counting, Some(114), now);
        assert_eq!(level.depth().waiting, 110, "five are on their way");
        level.end(5);
        let counting = level.begin_count(now);
        level.change(-30);
        level.end_count(counting, Some(40), now);
        assert_eq!(level.depth().waiting, 40, "others took some");
        level.change(-50);
        assert_eq!(level.depth().waiting, 0);
    }
}
