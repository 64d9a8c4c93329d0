//! The binary: what it reads, writes and answers.

mod common;

use campanile_check::event::{Event, Record};
use common::{SMALL, generate};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

/// One file per process, as a harness writes them.
fn write(folder: &Path, records: &[Record]) {
    for record in records {
        let path = folder.join(format!("{}.ndjson", record.node));
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
        writeln!(file, "{}", serde_json::to_string(record).expect("JSON")).expect("a line");
    }
}

fn check(folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile-check"));
    command.arg(folder).args(["--min-jobs", "100"]).args(more).output().expect("it runs")
}

#[test]
fn a_folder_is_judged_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut records = generate(3, SMALL);
    write(folder.path(), &records);
    let (json, svg) = (folder.path().join("verdict.json"), folder.path().join("run.svg"));
    let files = ["--json", json.to_str().expect("text"), "--svg", svg.to_str().expect("text")];
    let output = check(folder.path(), &files);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let verdict: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    assert_eq!(verdict["valid"], "passed");
    let picture = std::fs::read_to_string(&svg).expect("written");
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("kill_all") && picture.contains("#4caf72") && !picture.contains("#8b0000"));

    // An effect that counted twice: the first violation tells all that is known of it.
    let spoilt = tempfile::tempdir().expect("a folder");
    let is_duplicate =
        |event: &Event| matches!(event, Event::Effect(effect) if effect.status == 200 && !effect.accepted);
    let record = records.iter_mut().find(|record| is_duplicate(&record.event)).expect("a duplicate");
    let Event::Effect(effect) = &mut record.event else { panic!("an effect") };
    effect.accepted = true;
    let id = effect.execution;
    write(spoilt.path(), &records);
    let output = check(spoilt.path(), &files);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let verdict: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    assert_eq!((&verdict["valid"], &verdict["first"]["violation"]["invariant"]), (&"failed".into(), &"I3".into()));
    assert_eq!(verdict["first"]["violation"]["execution"], id.as_str());
    let timeline = verdict["first"]["timeline"].as_array().expect("a timeline");
    let at: Vec<&str> = timeline.iter().map(|moment| moment["at"].as_str().expect("an instant")).collect();
    assert!(timeline.len() > 8 && at.is_sorted(), "{timeline:?}");
    let picture = std::fs::read_to_string(&svg).expect("written");
    assert!(picture.contains("#d64545") && picture.contains("#8b0000"));
}

#[test]
fn what_cannot_be_read_is_said_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |more: &[&str], part: &str| {
        let output = check(folder.path(), more);
        let text = String::from_utf8(output.stderr.clone()).expect("text");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text.contains(part) && text.lines().count() == 1, "{text}");
    };
    refused(&[], "no *.ndjson file");
    refused(&["--late-ms", "soon"], "`soon` is not a number");
    refused(&["--late"], "--late needs a value");
    refused(&["--later", "1"], "there is no option --later");
    refused(&["another"], "one folder at a time");
    let path = folder.path().join("a.ndjson");
    std::fs::write(&path, "{\"ev\":\"nothing\"}\n").expect("written");
    refused(&[], "a.ndjson: line 1");
    std::fs::write(&path, "{\"ev\":\"run\",\"mono_ns\":1,\"wall_ns\":1,\"node\":\"a\",\"seq\":1,\"schema\":9}\n")
        .expect("written");
    refused(&[], "schema 9");
    // Half a line at the end is what a killed process leaves. What is left proves nothing.
    std::fs::write(
        &path,
        "{\"ev\":\"run\",\"mono_ns\":1,\"wall_ns\":1,\"node\":\"a\",\"seq\":1,\"schema\":1}\n{\"ev\":",
    )
    .expect("written");
    refused(&[], "invalid: ");
}
