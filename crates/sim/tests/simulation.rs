//! Seeds: 200 of them, and the same one twice. The bug zoo has bugs that they must find.
//!
//! `CAMPANILE_SIM_SEEDS=from..to` runs others, `CAMPANILE_SIM_SEED=n` runs one and shows its trace.

use campanile_sim::{Report, run};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What every commit runs.
const SEEDS: Range<u64> = 0..200;

/// What must be reached by these seeds: a simulation that never gets there proves nothing.
const SOMETIMES: [&str; 30] = [
    "attempt failed and tried again",
    "attempt lost with its node",
    "bell not heard",
    "claim given back",
    "claim was early",
    "clock jumped",
    "completion repeated",
    "coordinator lied",
    "duplicate lost its claim",
    "execution died",
    "instant taken over by a newer version",
    "message late",
    "message lost",
    "message repeated",
    "messages reordered",
    "node cut off",
    "node killed",
    "node paused",
    "node stopped in good order",
    "publication refused",
    "run discarded",
    "run held by an overlap",
    "store refused a call",
    "target never answered",
    "target saw an execution again",
    "unknown commit that did not happen",
    "unknown commit that happened",
    "write done after its node had died",
    "zombie refused to complete",
    "zombie refused to fire",
];

/// So many that fail are enough; of a planted bug, one.
fn failed_max() -> usize {
    if set("CAMPANILE_BUG").is_some() { 1 } else { 4 }
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn range(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").expect("CAMPANILE_SIM_SEEDS=from..to");
    from.parse().expect("from is a number")..to.parse().expect("to is a number")
}

fn replay(seed: u64) -> String {
    let bug = set("CAMPANILE_BUG").map(|bug| format!("CAMPANILE_BUG={bug} ")).unwrap_or_default();
    format!("{bug}CAMPANILE_SIM_SEED={seed} cargo test -p campanile-sim --test simulation seeds -- --nocapture")
}

/// Runs seeds on as many threads as there are cores, until some have failed.
fn run_all(seeds: Range<u64>) -> Vec<Report> {
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicUsize::new(0));
    let reports = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) < failed_max() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = run(seed, false);
                    failed.fetch_add(usize::from(!report.violations.is_empty()), Ordering::Relaxed);
                    reports.lock().unwrap().push(report);
                }
            });
        }
    });
    reports.into_inner().unwrap()
}

#[test]
fn seeds() {
    if let Some(seed) = set("CAMPANILE_SIM_SEED") {
        let report = run(seed.parse().expect("CAMPANILE_SIM_SEED is a number"), true);
        println!("{report:#?}");
        assert_eq!(report.violations, [""; 0]);
        return;
    }
    let seeds = set("CAMPANILE_SIM_SEEDS").map(|text| range(&text));
    let reports = run_all(seeds.clone().unwrap_or(SEEDS));
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for report in &reports {
        report.seen.iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);
        if !report.violations.is_empty() {
            let shown: Vec<&String> = report.violations.iter().take(10).collect();
            println!("seed {} is violated: {shown:#?}\nreplay: {}", report.seed, replay(report.seed));
        }
    }
    let executions: usize = reports.iter().map(|report| report.executions).sum();
    let hours = reports.iter().map(|report| report.ms).sum::<u64>() / 3_600_000;
    println!("{} seeds, {hours} simulated hours, {executions} executions; {seen:#?}", reports.len());
    assert!(reports.iter().all(|report| report.violations.is_empty()), "see above");
    if seeds.is_none() {
        let missing: Vec<_> = SOMETIMES.iter().filter(|what| !seen.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never reached: {missing:?}");
        assert!(executions > 12_000, "only {executions} executions");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..8 {
        let first = run(seed, false);
        // On another thread, whose hash tables have other keys.
        let second = std::thread::spawn(move || run(seed, false)).join().unwrap();
        assert_eq!(first, second, "seed {seed}");
    }
    assert_ne!(run(0, false).hash, run(1, false).hash);
}
