//! Faults for tests: points in the path where the process can be made to end, wait or stand still, and bugs of other
//! schedulers that can be planted here again, to see that a test catches them.
//!
//! Both are chosen by the environment and exist only with the feature `faults`, which nothing but the test kit asks for: in
//! the product every call is an empty function.

/// A point of the path, before or after a durable step.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Point(pub &'static str);

/// A bug that can be planted, by its short name.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Bug(pub &'static str);

#[cfg(not(feature = "faults"))]
mod imp {
    /// Nothing happens here.
    #[inline(always)]
    pub fn reach(_: super::Point) {}

    /// No.
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
        /// This thread waits.
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
    #[allow(clippy::disallowed_methods, reason = "the point of a fault is real time")]
    pub fn reach(point: super::Point) {
        let Some(armed) = armed().filter(|armed| armed.point == point.0) else { return };
        let reached = armed.reached.fetch_add(1, Ordering::Relaxed) + 1;
        if armed.at != 0 && armed.at != reached {
            return;
        }
        match armed.action {
            Action::Abort => std::process::abort(),
            Action::Sleep(time) => std::thread::sleep(time),
        }
    }

    /// Whether this bug is planted: `CAMPANILE_BUG` names it.
    pub fn planted(bug: super::Bug) -> bool {
        static BUG: OnceLock<Option<String>> = OnceLock::new();
        BUG.get_or_init(|| std::env::var("CAMPANILE_BUG").ok()).as_deref() == Some(bug.0)
    }
}

pub use imp::{planted, reach};
