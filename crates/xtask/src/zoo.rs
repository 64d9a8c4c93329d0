//! The bug zoo: bugs of other schedulers, planted here again, each caught by a test that is named beside it.
//!
//! A test that has never failed proves little. So each of these is run twice: without the bug it must pass (which it has
//! shown, where all tests were run before), and alone with the bug it must fail, by its own judgement: neither by running out of
//! time nor by not being there. Bugs are in the
//! test builds only (`campanile_model::fault`), and chosen by `CAMPANILE_BUG`, so that one build serves all.
//!
//! Reading order: [`rows`] (the table), this file (how it is run), [`page`] (the table for readers).

mod rows;
pub mod page;

use crate::binaries::{self, Binaries};
use crate::postgres::{self, Server};
use crate::suite::Passed;
use crate::{root, wait};
use rows::{Catcher, Row, ZOO, package_in};
use std::collections::BTreeSet;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Tests that run at the same time.
const SIDE_BY_SIDE: usize = 2;
/// A test that takes longer has hung. They take a second or two.
const LONGEST: Duration = Duration::from_secs(90);
/// By what a test learns which bug it has.
const VARIABLE: &str = "CAMPANILE_BUG";

/// Runs the bug of this name, or all.
pub fn run(name: Option<&str>) -> Result<(), String> {
    let rows: Vec<&Row> = ZOO.iter().filter(|row| name.is_none_or(|name| row.bug == name)).collect();
    if rows.is_empty() {
        let known: Vec<&str> = ZOO.iter().map(|row| row.bug).collect();
        return Err(format!("no bug of that name; there are: {}", known.join(", ")));
    }
    let server = if rows.iter().flat_map(|row| row.catchers()).any(|test| test.needs_postgres()) {
        Some(Server::get()?)
    } else {
        None
    };
    let built = if name.is_none() { binaries::of_workspace() } else { of_rows(&rows) };
    let judged = built.and_then(|binaries| judge(&rows, &binaries, server.as_ref(), &Passed::new()));
    if let Some(server) = server {
        server.leave();
    }
    judged
}

/// Runs all, with the programs that the tests of the whole workspace have built. What has `passed` there is not run again without
/// a bug.
pub fn run_all(server: Option<&Server>, passed: &Passed) -> Result<(), String> {
    judge(&ZOO.iter().collect::<Vec<_>>(), &binaries::of_workspace()?, server, passed)
}

/// Builds the tests that these rows name. The packages are always the same, so that what they have in common is built
/// once whichever bug is asked for; the test kit is among them, because it asks for the bugs.
fn of_rows(rows: &[&Row]) -> Result<Binaries, String> {
    let packages: BTreeSet<&str> = ZOO.iter().map(|row| row.package).chain(["testkit"]).collect();
    let mut selected: Vec<String> =
        packages.iter().map(|package| format!("--package={}", package_in(package))).collect();
    let targets: BTreeSet<&str> = rows.iter().flat_map(|row| row.catchers()).map(|test| test.target).collect();
    selected.extend(targets.iter().map(|target| match *target {
        "lib" => "--lib".to_owned(),
        file => format!("--test={file}"),
    }));
    binaries::build(selected)
}

/// A test to run, with or without a bug.
struct Trial<'r> {
    row: &'r Row,
    test: Catcher,
    with_bug: bool,
}

/// What came of it.
struct Ended {
    verdict: Result<(), String>,
    took: Duration,
}

fn judge(rows: &[&Row], binaries: &Binaries, server: Option<&Server>, passed: &Passed) -> Result<(), String> {
    let folder = root().join("target/zoo");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut trials: Vec<Trial<'_>> = Vec::new();
    for (row, test) in rows.iter().flat_map(|row| row.catchers().into_iter().map(move |test| (*row, test))) {
        // Several bugs may have one catcher, which is run without a bug only once.
        let name = (package_in(test.package), test.target.to_owned(), test.test.clone());
        if !passed.contains(&name) && !trials.iter().any(|trial| !trial.with_bug && trial.test == test) {
            trials.push(Trial { row, test: test.clone(), with_bug: false });
        }
        trials.push(Trial { row, test, with_bug: true });
    }
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (took, verdict) = crate::steps::timed(|| attempt(trial, binaries, server, &folder));
                    report(trial, &Ended { verdict: verdict.clone(), took });
                    ended.lock().unwrap_or_else(|poison| poison.into_inner()).push((trial.row.bug, verdict));
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap_or_else(|poison| poison.into_inner());
    let escaped: Vec<&str> = ended.iter().filter(|(_, verdict)| verdict.is_err()).map(|(bug, _)| *bug).collect();
    match &escaped[..] {
        [] => {
            let bugs: BTreeSet<&str> = rows.iter().map(|row| row.bug).collect();
            let caught = trials.iter().filter(|trial| trial.with_bug).count();
            eprintln!("{} bugs, caught {caught} times, each by its tests", bugs.len());
            Ok(())
        }
        escaped => Err(format!("not as it should be: {}; the output is in {}", escaped.join(", "), folder.display())),
    }
}

fn report(trial: &Trial<'_>, ended: &Ended) {
    let (bug, Catcher { package, test, .. }) = (trial.row.bug, &trial.test);
    let what = match (trial.with_bug, &ended.verdict) {
        (true, Ok(())) => format!("{bug:<30} caught by {package}: {test}"),
        (true, Err(why)) => format!("{bug:<30} NOT CAUGHT by {package}: {test}: {why}"),
        (false, Ok(())) => return,
        (false, Err(why)) => format!("{bug:<30} its test fails WITHOUT the bug: {package}: {test}: {why}"),
    };
    eprintln!("{:>6.1} s  {what}", ended.took.as_secs_f64());
}

/// Runs a test; says why it did not end as it should have.
fn attempt(
    trial: &Trial<'_>,
    binaries: &Binaries,
    server: Option<&Server>,
    folder: &std::path::Path,
) -> Result<(), String> {
    let (bug, test) = (trial.row.bug, &trial.test);
    let program = binaries.find(&package_in(test.package), test.target)?;
    let name = format!("{bug}.{}.{}", test.target, test.test.replace("::", "."));
    let log = folder.join(format!("{name}{}.log", if trial.with_bug { "" } else { ".without" }));
    let mut command = Command::new(program);
    // Nothing that somebody has set for a server of his, and nothing that makes a failing test write into the sources.
    for name in std::env::vars_os().map(|(name, _)| name) {
        if name.to_string_lossy().starts_with("CAMPANILE_") {
            command.env_remove(&name);
        }
    }
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").env("PROPTEST_MAX_SHRINK_ITERS", "0");
    if trial.with_bug {
        command.env(VARIABLE, bug);
    }
    if let Some(server) = server {
        command.env(postgres::VARIABLE, server.url());
    }
    command.args(["--exact", &test.test]).current_dir(root().join("crates").join(test.package));
    let status = wait::for_end(&mut command, &log, LONGEST)?;
    let output = std::fs::read_to_string(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    verdict(trial.with_bug, status, &output)
}

/// Whether a test ended as it should have.
fn verdict(with_bug: bool, status: Option<ExitStatus>, output: &str) -> Result<(), String> {
    let Some(status) = status else {
        return Err(format!("it did not end within {} s", LONGEST.as_secs()));
    };
    let passed = output.contains("test result: ok. 1 passed; 0 failed");
    let failed = output.contains("test result: FAILED. 0 passed; 1 failed");
    match (with_bug, passed, failed) {
        (false, true, false) | (true, false, true) => Ok(()),
        (true, true, false) => Err("it passes".into()),
        (false, false, true) => Err("it fails".into()),
        _ if output.contains("running 0 tests") => Err("there is no such test".into()),
        _ => Err(format!("it ended with {status}, and without a result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn only_a_failure_of_the_test_itself_is_a_catch() {
        let status = |code: i32| Some(ExitStatus::from_raw(code << 8));
        let (ok, failed) = ("test result: ok. 1 passed; 0 failed; 0", "test result: FAILED. 0 passed; 1 failed; 0");
        assert_eq!(verdict(false, status(0), ok), Ok(()));
        assert_eq!(verdict(true, status(101), failed), Ok(()));
        assert!(verdict(true, status(0), ok).is_err());
        assert!(verdict(false, status(101), failed).is_err());
        assert!(verdict(true, None, failed).is_err(), "it ran out of time");
        assert!(verdict(true, status(134), "").is_err(), "it crashed");
        assert!(verdict(false, status(0), "running 0 tests\ntest result: ok. 0 passed; 0 failed").is_err());
    }

    #[test]
    fn the_table_has_every_bug_that_is_planted_and_no_other() {
        let mut planted = BTreeSet::new();
        let mut folders = vec![root().join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.ends_with("crates/xtask") {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let source = std::fs::read_to_string(path).unwrap();
                    let names = source.split("Bug(\"").skip(1).filter_map(|rest| rest.split_once('"'));
                    planted.extend(names.map(|(name, _)| name.to_owned()).filter(|name| name != "..."));
                }
            }
        }
        let listed: BTreeSet<String> = ZOO.iter().map(|row| row.bug.to_owned()).collect();
        assert_eq!(planted, listed, "left: planted in the sources; right: rows in crates/xtask/src/zoo/rows.rs");
    }
}
