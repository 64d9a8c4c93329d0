//! What everything in one simulation shares: time, chance, faults, the trace, and what was seen.

use crate::monitor::Monitor;
use crate::switch::NodeClock;
use crate::time::Time;
use campanile_model::random::{Random, SplitMix};
use campanile_store::sqlite::SqliteStore;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::Notify;
use xxhash_rust::xxh3::Xxh3;

/// What everything in one simulation shares.
pub struct World {
    /// Which one it is.
    pub seed: u64,
    pub time: Arc<Time>,
    /// The truth, shared by all nodes.
    pub store: Arc<SqliteStore>,
    /// What goes wrong by chance.
    pub odds: Mutex<Odds>,
    /// What must hold at every moment.
    pub monitor: Mutex<Monitor>,
    /// Rung when jobs were written.
    pub rung: Notify,
    random: SplitMix,
    trace: Mutex<Trace>,
    seen: Mutex<BTreeMap<&'static str, u64>>,
    violations: Mutex<Vec<String>>,
}

/// What goes wrong by chance, in thousandths.
#[derive(Clone, Debug, Default)]
pub struct Odds {
    /// A call of the store is refused.
    pub refused: u64,
    /// A write happens, and nobody learns that.
    pub unknown_done: u64,
    /// A write does not happen, and nobody learns that.
    pub unknown_undone: u64,
    /// A call takes seconds.
    pub slow: u64,
    /// A message is lost.
    pub lost: u64,
    /// A message comes twice.
    pub twice: u64,
    /// A message comes late.
    pub late: u64,
    /// A publication is refused.
    pub unpublished: u64,
    /// A bell is not heard.
    pub unheard: u64,
    /// A target fails and may be tried again.
    pub failing: u64,
    /// A target fails for good.
    pub refusing: u64,
    /// A target takes longer than it may.
    pub hanging: u64,
}

#[derive(Default)]
struct Trace {
    hash: Xxh3,
    events: u64,
    line: String,
    shown: bool,
}

impl World {
    /// A world with nothing in it.
    pub fn new(seed: u64, shown: bool) -> Arc<Self> {
        let time = Arc::new(Time::default());
        let store = SqliteStore::inline().expect("a database in memory opens");
        // The store says when a change counts, and its clock is right.
        let true_clock = NodeClock::new(time.clone(), Arc::default(), Arc::default());
        Arc::new(Self {
            seed,
            store: Arc::new(store.with_clock(Arc::new(true_clock))),
            time,
            odds: Mutex::default(),
            monitor: Mutex::default(),
            rung: Notify::new(),
            random: SplitMix::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5349_4d00),
            trace: Mutex::new(Trace { shown, ..Trace::default() }),
            seen: Mutex::default(),
            violations: Mutex::default(),
        })
    }

    pub fn draw(&self) -> u64 {
        self.random.next()
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        from + self.draw() % (to - from + 1)
    }

    /// Whether something happens that does in so many of a thousand cases. Draws a number whatever the odds.
    pub fn chance(&self, thousandths: u64) -> bool {
        self.draw() % 1_000 < thousandths
    }

    /// Writes into the trace, which is hashed, and shown where somebody wants to see it.
    pub fn note(&self, who: &str, what: fmt::Arguments<'_>) {
        let mut trace = self.trace.lock();
        let Trace { hash, events, line, shown } = &mut *trace;
        line.clear();
        let _ = write!(line, "{:>9.3} {who:<10} {what}", self.time.ms() as f64 / 1_000.0);
        hash.update(line.as_bytes());
        *events += 1;
        if *shown {
            println!("{line}");
        }
    }

    /// The hash of the trace, and how many events it has.
    pub fn digest(&self) -> (u64, u64) {
        let trace = self.trace.lock();
        (trace.hash.digest(), trace.events)
    }

    /// Counts that something rare was reached.
    pub fn sometimes(&self, what: &'static str) {
        *self.seen.lock().entry(what).or_default() += 1;
    }

    /// What was reached, and how often.
    pub fn seen(&self) -> BTreeMap<&'static str, u64> {
        self.seen.lock().clone()
    }

    /// Something that must not happen did.
    pub fn violated(&self, what: String) {
        self.note("VIOLATED", format_args!("{what}"));
        self.violations.lock().push(what);
    }

    /// Whether nothing has happened that must not.
    pub fn is_fine(&self) -> bool {
        self.violations.lock().is_empty()
    }

    /// What has happened that must not.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }
}
