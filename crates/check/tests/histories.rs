//! Histories that a healthy Campanile could leave behind pass; one in which nothing happened is invalid.

mod common;

use campanile_check::judge::judge;
use campanile_check::limits::Limits;
use campanile_check::log::Log;
use campanile_check::verdict::Valid;
use common::{LARGE, SMALL, generate};

#[test]
fn a_valid_history_passes() {
    for seed in 0..8 {
        let limits = Limits { min_jobs: 100, ..Limits::default() };
        let judged = judge(Log::new(generate(seed, SMALL)), &limits);
        let verdict = &judged.verdict;
        let shown = || serde_json::to_string_pretty(verdict).expect("JSON");
        assert_eq!(verdict.valid, Valid::Passed, "seed {seed}: {}", shown());
    }
}

#[test]
fn a_large_one_passes_by_the_defaults_and_has_met_everything() {
    let all =
        ["duplicate", "refused", "takeover", "unknown", "cancel", "cancel_too_late", "key_replayed", "lost", "retry"];
    let sometimes = all.into_iter().chain(["dead", "skip"]).map(str::to_owned).collect();
    let judged = judge(Log::new(generate(99, LARGE)), &Limits { sometimes, ..Limits::default() });
    let verdict = &judged.verdict;
    assert_eq!(verdict.valid, Valid::Passed, "{}", serde_json::to_string_pretty(verdict).expect("JSON"));
    assert!(verdict.counts.jobs >= 3_300 && verdict.counts.fires > 10_000, "{:?}", verdict.counts);
}
