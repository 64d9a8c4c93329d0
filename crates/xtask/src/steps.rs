//! What CI checks, in this order; the first failure ends it.
//!
//! Every step streams its output. At the end, or at the failure, a line per step says how long it took, so that a slow
//! check is seen before it is a habit. PostgreSQL comes early: where there is none, nobody waits long to be told.

use crate::postgres::Server;
use crate::suite::{self, Passed};
use crate::{docs, links, made_up, path, root, tools, zoo};
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

/// What later steps have of earlier ones.
#[derive(Default)]
struct Run {
    /// The database that tests use.
    server: Option<Server>,
    /// The tests that passed.
    passed: Passed,
}

/// A check: its name, and what it does.
type Step = (&'static str, fn(&mut Run) -> Result<(), String>);

const STEPS: &[Step] = &[
    ("check-links", |_| links::check()),
    ("check-path", |_| path::check()),
    ("fmt", |_| cargo(&["fmt", "--all", "--check"])),
    ("postgres", |run| {
        run.server = Some(Server::get()?);
        Ok(())
    }),
    ("tools", |_| tools::get()),
    ("clippy", |_| cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("doc", |_| perform(cargo_command(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))),
    ("build tests", |_| perform(&mut cargo_command(&["test", "--workspace", "--no-run", "--quiet"]))),
    ("test", |run| {
        run.passed = suite::run(run.server.as_ref())?;
        Ok(())
    }),
    ("docs --check", |_| docs::check_built()),
    ("zoo", |run| zoo::run_all(run.server.as_ref(), &run.passed)),
    ("made-up-state", |run| made_up::run(run.server.as_ref())),
];

/// Runs all steps.
pub fn run() -> Result<(), String> {
    let mut run = Run::default();
    let done = run_all(&mut run);
    if let Some(server) = run.server {
        server.leave();
    }
    done
}

fn run_all(run: &mut Run) -> Result<(), String> {
    let mut times = Vec::new();
    for (name, step) in STEPS {
        eprintln!("\n==> {name}");
        let (took, done) = timed(|| step(run));
        times.push((name, took));
        if let Err(message) = done {
            report(&times);
            return Err(format!("step `{name}` failed: {message}"));
        }
    }
    report(&times);
    eprintln!("all {} steps passed", STEPS.len());
    Ok(())
}

/// How long something takes, and what comes of it.
#[allow(clippy::disallowed_methods, reason = "measures the machine that it runs on")]
pub fn timed<T>(step: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = step();
    (start.elapsed(), done)
}

fn report(times: &[(&&str, Duration)]) {
    eprintln!();
    for (name, took) in times {
        eprintln!("    {name:<14}{:>8.1} s", took.as_secs_f64());
    }
}

/// Runs cargo with these arguments, streaming its output.
pub fn cargo(arguments: &[&str]) -> Result<(), String> {
    perform(&mut cargo_command(arguments))
}

/// Runs cargo with these arguments, and answers what it prints; what it tells people is streamed.
pub fn cargo_output(arguments: &[&str]) -> Result<String, String> {
    let shown = format!("cargo {}", arguments.join(" "));
    let ended = cargo_command(arguments).stderr(std::process::Stdio::inherit()).output();
    match ended {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(format!("`{shown}` ended with {}", output.status)),
        Err(error) => Err(format!("cannot run `{shown}`: {error}")),
    }
}

/// The cargo that runs us, at the top of the checkout.
pub fn cargo_command(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    // `cargo run` has set these for us. Build scripts that watch them would see a change, and build their crate again.
    for name in std::env::vars_os().map(|(name, _)| name) {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a cargo command, and says what it was where it fails.
pub fn perform(command: &mut Command) -> Result<(), String> {
    let shown: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let shown = format!("cargo {}", shown.join(" "));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("cannot run `{shown}`: {error}")),
    }
}
