//! Faults for tests: points in the path where the process can be made to end, wait or stand still, and bugs of other
//! schedulers that can be planted here again, to see that a test catches them.
//!
//! Both are chosen by the environment and exist only with the feature `faults`, which nothing but the test kit asks
//! for: in the product every call is an empty function.

/// A point of the path, before or after a step.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Point(pub &'static str);

/// A durable step of the store, by its short name. It has two points: `store.<step>.before_commit`, when its
/// transaction has done all but commit, and `store.<step>.after_commit`, when it is on disk and nobody was told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Step(pub &'static str);

/// A bug that can be planted, by its short name.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Bug(pub &'static str);

impl Step {
    /// A write that is no step of the path, such as a migration: it has no points.
    pub const NONE: Self = Self("");

    /// Its transaction is about to commit.
    #[inline(always)]
    pub fn before_commit(self) {
        reach_step(self, "before_commit");
    }

    /// Its transaction is on disk, and nobody was told.
    #[inline(always)]
    pub fn after_commit(self) {
        reach_step(self, "after_commit");
    }
}

/// Both points of every step, then those beside the store.
macro_rules! points {
    ($($step:literal)* ; $($point:literal)*) => {
        &[
            $(concat!("store.", $step, ".before_commit"), concat!("store.", $step, ".after_commit"),)*
            $($point,)*
        ]
    };
}

/// Every point there is, so that a test can end the process at each. A test compares this list with the code.
///
/// One durable step is missing: the correction of counters that have drifted, which only a bug makes happen.
pub const POINTS: &[&str] = points! {
    "put_jobs" "open_shards" "fire" "advance" "claim" "defer" "extend" "complete" "release" "cancel" "resolve_dead"
    "prune" "put_operation" "put_capacity" "delete_capacity" "put_endpoint" "delete_endpoint" "put_zone_database"
    "put_deliveries" "break_watches"
    ;
    "queue.publish.before" "queue.publish.after" "queue.take.before" "queue.take.after"
    "action.run.before" "action.run.after" "event.send.before" "event.send.after"
    "cluster.beat.before" "cluster.beat.after" "cluster.take.before" "cluster.take.after"
    "cluster.release.before" "cluster.release.after" "cluster.evict.before" "cluster.evict.after"
};

#[cfg(not(feature = "faults"))]
mod imp {
    #[inline(always)]
    pub fn reach(_: super::Point) {}

    /// Nothing happens here either.
    #[inline(always)]
    pub(super) fn reach_step(_: super::Step, _: &str) {}

    #[inline(always)]
    pub const fn planted(_: super::Bug) -> bool {
        false
    }
}

#[cfg(feature = "faults")]
mod imp {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// What happens at a point: `CAMPANILE_FAILPOINT=point=action`, `point=action@n` at the n-th time only.
    struct Armed {
        point: String,
        action: Action,
        /// At which time; every time if 0.
        at: u64,
        reached: AtomicU64,
    }

    enum Action {
        /// The process ends at once, as by kill -9: nothing is written any more, and nobody is told.
        Abort,
        Sleep(Duration),
    }

    fn armed() -> Option<&'static Armed> {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let read = |text: String| {
            // A test that arms nothing must not pass.
            parse(&text).unwrap_or_else(|| panic!("CAMPANILE_FAILPOINT: cannot read {text:?}"))
        };
        ARMED.get_or_init(|| std::env::var("CAMPANILE_FAILPOINT").ok().map(read)).as_ref()
    }

    fn parse(text: &str) -> Option<Armed> {
        let (point, rest) = text.split_once('=')?;
        let (action, at) = rest.split_once('@').unwrap_or((rest, "0"));
        let action = match action.split_once(':') {
            None if action == "abort" => Action::Abort,
            Some(("sleep", ms)) => Action::Sleep(Duration::from_millis(ms.parse().ok()?)),
            _ => return None,
        };
        Some(Armed { point: point.to_owned(), action, at: at.parse().ok()?, reached: AtomicU64::new(0) })
    }

    /// The path has come to this point.
    pub fn reach(point: super::Point) {
        if let Some(armed) = armed().filter(|armed| armed.point == point.0) {
            armed.happen();
        }
    }

    /// The path has come to this point of a step.
    pub(super) fn reach_step(step: super::Step, side: &str) {
        let is_it = |point: &str| {
            let rest = point.strip_prefix("store.").and_then(|rest| rest.strip_prefix(step.0));
            rest.and_then(|rest| rest.strip_prefix('.')) == Some(side)
        };
        if let Some(armed) = armed().filter(|armed| is_it(&armed.point)) {
            armed.happen();
        }
    }

    impl Armed {
        #[allow(clippy::disallowed_methods, reason = "the point of a fault is real time")]
        fn happen(&self) {
            let reached = self.reached.fetch_add(1, Ordering::Relaxed) + 1;
            if self.at != 0 && self.at != reached {
                return;
            }
            match self.action {
                Action::Abort => {
                    // Whoever armed it must be able to tell this end from others.
                    eprintln!("fault: abort at {}, time {reached}", self.point);
                    std::process::abort()
                }
                Action::Sleep(time) => std::thread::sleep(time),
            }
        }
    }

    /// Whether this bug is planted: `CAMPANILE_BUG` names it.
    pub fn planted(bug: super::Bug) -> bool {
        static BUG: OnceLock<Option<String>> = OnceLock::new();
        BUG.get_or_init(|| std::env::var("CAMPANILE_BUG").ok()).as_deref() == Some(bug.0)
    }
}

use imp::reach_step;
pub use imp::{planted, reach};
