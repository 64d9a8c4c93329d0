//! Histories that a healthy Campanile could leave behind pass; one in which nothing happened is invalid.

mod common;

use campanile_check::judge::judge;
use campanile_check::limits::Limits;
use campanile_check::log::Log;
use campanile_check::verdict::Valid;
use common::{LARGE, SMALL, Size, generate};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};

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

/// For a measurement by hand: writes about a million events to the folder that `CAMPANILE_CHECK_FOLDER` names.
#[test]
#[ignore = "writes 300 MB for a measurement by hand"]
fn write_a_million() {
    let folder = std::path::PathBuf::from(std::env::var("CAMPANILE_CHECK_FOLDER").expect("CAMPANILE_CHECK_FOLDER"));
    let records = generate(1, Size { recurring: 2_400, one_offs: 20_000, load_ms: 150_000 });
    eprintln!("{} events", records.len());
    let mut files: HashMap<String, BufWriter<File>> = HashMap::new();
    for record in &records {
        let path = folder.join(format!("{}.ndjson", record.node));
        let file =
            files.entry(record.node.clone()).or_insert_with(|| BufWriter::new(File::create(path).expect("a file")));
        writeln!(file, "{}", serde_json::to_string(record).expect("JSON")).expect("a line");
    }
}
