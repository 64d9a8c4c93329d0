//! The tests of the whole workspace: built at once, programs that mostly wait run side by side, the slowest tests named.
//!
//! `cargo test --workspace` runs one program after the other, and most of that time both cores wait for a lease to end or a node to
//! come back. Here two run at a time: one from the beginning of the list, where the tests are that start and kill real nodes, and one
//! from its end, a test at a time, so that it leaves the other one room. So the first of the list, which measures, has the short ones
//! beside it. All are run, also when one fails.

use crate::binaries::{self, Binary};
use crate::postgres::{self, Server};
use crate::steps::{cargo_command, perform, timed};
use crate::{root, wait};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// A program that takes longer has hung.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The tests that are named at the end.
const SLOWEST: usize = 20;
/// The package whose tests take longest, and the program of it that measures how late real nodes are.
const FIRST: (&str, &str) = ("campanile", "cluster");

/// A test that passed: its package, program and name.
pub type Passed = BTreeSet<(String, String, String)>;

/// What a program did.
struct Ended {
    program: String,
    took: Duration,
    /// Each test with its result and its seconds.
    tests: Vec<(String, String, f64)>,
    verdict: Result<(), String>,
}

/// Builds and runs all. Returns what passed.
pub fn run(server: Option<&Server>) -> Result<Passed, String> {
    let mut binaries = binaries::of_workspace()?.all();
    binaries.sort_by_key(|binary| (binary.package != FIRST.0, binary.target != FIRST.1));
    let folder = root().join("target/tests");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let (waiting, ended) = (Mutex::new(VecDeque::from(binaries)), Mutex::new(Vec::new()));
    let lane = |take: fn(&mut VecDeque<Binary>) -> Option<Binary>, words: &[&str]| {
        loop {
            let next = take(&mut waiting.lock().unwrap_or_else(|poison| poison.into_inner()));
            let Some(binary) = next else { return };
            let done = run_one(&binary, words, server, &folder);
            report(&done);
            ended.lock().unwrap_or_else(|poison| poison.into_inner()).push((binary, done));
        }
    };
    let (took, ()) = timed(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| lane(VecDeque::pop_front, &[]));
            scope.spawn(|| lane(VecDeque::pop_back, &["--test-threads=1"]));
        });
    });
    let ended = ended.into_inner().unwrap_or_else(|poison| poison.into_inner());
    report_slowest(ended.iter().map(|(_, done)| done), took);
    let failed: Vec<&str> =
        ended.iter().filter(|(_, done)| done.verdict.is_err()).map(|(_, done)| &*done.program).collect();
    if !failed.is_empty() {
        return Err(format!("tests failed in {}", failed.join(", ")));
    }
    let mut documented = cargo_command(&["test", "--workspace", "--doc", "--quiet"]);
    perform(with_server(&mut documented, server))?;
    let passed = |(binary, done): (Binary, Ended)| {
        let (package, target) = (binary.package, binary.target);
        let ok = done.tests.into_iter().filter(|(_, result, _)| result == "ok");
        ok.map(move |(name, ..)| (package.clone(), target.clone(), name)).collect::<Vec<_>>()
    };
    Ok(ended.into_iter().flat_map(passed).collect())
}

fn with_server<'c>(command: &'c mut Command, server: Option<&Server>) -> &'c mut Command {
    if let Some(server) = server {
        command.env(postgres::VARIABLE, server.url());
    }
    command
}

fn run_one(binary: &Binary, words: &[&str], server: Option<&Server>, folder: &Path) -> Ended {
    let program = format!("{} {}", binary.package, binary.target);
    let log: PathBuf = folder.join(format!("{}.{}.log", binary.package, binary.target));
    let mut command = Command::new(&binary.program);
    // How long each test took is told by no other option; the variable is for the program of the tests alone.
    command.args(["-Zunstable-options", "--report-time"]).args(words).env("RUSTC_BOOTSTRAP", "1");
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    with_server(&mut command, server);
    let (took, status) = timed(|| wait::for_end(&mut command, &log, LONGEST));
    let output = std::fs::read_to_string(&log).unwrap_or_default();
    let verdict = match status {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("it ended with {status}")),
        Ok(None) => Err(format!("it did not end within {} minutes", LONGEST.as_secs() / 60)),
        Err(why) => Err(why),
    };
    let verdict = verdict.map_err(|why| format!("{why}\n{output}"));
    Ended { program, took, tests: output.lines().filter_map(read).collect(), verdict }
}

/// `test name ... ok <1.234s>`
fn read(line: &str) -> Option<(String, String, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (result, time) = rest.split_once(" <")?;
    Some((name.to_owned(), result.to_owned(), time.strip_suffix("s>")?.parse().ok()?))
}

fn report(done: &Ended) {
    let counted = |result: &str| done.tests.iter().filter(|(_, of, _)| of == result).count();
    let (seconds, ok, failed) = (done.took.as_secs_f64(), counted("ok"), counted("FAILED"));
    match &done.verdict {
        Ok(()) => eprintln!("{seconds:>7.1} s  {:<44}{ok:>5} passed", done.program),
        Err(why) => eprintln!("{seconds:>7.1} s  {:<44}{failed:>5} FAILED: {why}", done.program),
    }
}

fn report_slowest<'e>(ended: impl Iterator<Item = &'e Ended>, took: Duration) {
    let mut tests: Vec<(f64, &str, &str)> = Vec::new();
    for done in ended {
        tests.extend(done.tests.iter().map(|(name, _, seconds)| (*seconds, &*done.program, &**name)));
    }
    tests.sort_by(|one, other| other.0.total_cmp(&one.0));
    eprintln!("\n{} tests in {:.0} s; the slowest:", tests.len(), took.as_secs_f64());
    tests.iter().take(SLOWEST).for_each(|(seconds, program, name)| eprintln!("{seconds:>7.1} s  {program}: {name}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_with_their_times() {
        let read = |line| read(line).map(|(name, result, seconds)| format!("{name} {result} {seconds}"));
        assert_eq!(read("test a::b ... ok <1.250s>").as_deref(), Some("a::b ok 1.25"));
        assert_eq!(read("test c ... FAILED <0.001s>").as_deref(), Some("c FAILED 0.001"));
        assert_eq!(read("test chaos ... ignored, needs root"), None);
        assert_eq!(read("running 3 tests"), None);
    }
}
