//! Histories that a healthy Campanile could leave behind pass; one in which nothing happened is invalid.

mod common;

use campanile_check::event::{Dump, Event, Record};
use campanile_check::judge::judge;
use campanile_check::limits::Limits;
use campanile_check::log::Log;
use campanile_check::text::Text;
use campanile_check::verdict::Valid;
use common::{LARGE, SMALL, Size, generate};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};

const TEN_MILLION: Size = Size { recurring: 19_200, one_offs: 160_000, load_ms: 150_000 };

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

/// For a measurement by hand: writes about ten million events to the folder that `CAMPANILE_CHECK_FOLDER` names.
#[test]
#[ignore = "writes 3 GB for a measurement by hand"]
fn write_ten_million() {
    let folder = std::path::PathBuf::from(std::env::var("CAMPANILE_CHECK_FOLDER").expect("CAMPANILE_CHECK_FOLDER"));
    let mut files: HashMap<Text, BufWriter<File>> = HashMap::new();
    let mut count = 0;
    for record in generate(1, TEN_MILLION).into_iter().flat_map(pieces) {
        let path = folder.join(format!("{}.ndjson", record.node));
        let file = files.entry(record.node).or_insert_with(|| BufWriter::new(File::create(path).expect("a file")));
        writeln!(file, "{}", serde_json::to_string(&record).expect("JSON")).expect("a line");
        count += 1;
    }
    eprintln!("{count} events");
}

/// A dump is written in pieces, as a harness does that reads the store page by page; any other line as it is.
fn pieces(mut record: Record) -> Vec<Record> {
    let Event::Dump(dump) = &mut record.event else { return vec![record] };
    let rows = std::mem::take(&mut dump.executions);
    let mut pieces = vec![record];
    for part in rows.chunks(1_000) {
        let (first, seq) = (&pieces[0], pieces[0].seq + pieces.len() as u64);
        let event = Event::Dump(Box::new(Dump { executions: part.to_vec(), ..Dump::default() }));
        pieces.push(Record { seq, event, node: first.node, ..*first });
    }
    pieces
}
