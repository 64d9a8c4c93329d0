//! What CI checks, in this order; the first failure ends it.
//!
//! Every step streams its output. At the end, or at the failure, a line per step says how long it took, so that a slow
//! check is seen before it is a habit. PostgreSQL comes early: where there is none, nobody waits long to be told.

use crate::postgres::{self, Server};
use crate::{docs, links, made_up, root, tools, zoo};
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

/// A check: its name, and what it does, with the database that tests use.
type Step = (&'static str, fn(&mut Option<Server>) -> Result<(), String>);

const STEPS: &[Step] = &[
    ("check-links", |_| links::check()),
    ("fmt", |_| cargo(&["fmt", "--all", "--check"])),
    ("postgres", |server| {
        *server = Some(Server::get()?);
        Ok(())
    }),
    ("tools", |_| tools::get()),
    ("clippy", |_| cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("doc", |_| perform(cargo_command(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))),
    ("test", |server| test(server.as_ref())),
    ("made-up-state", |server| made_up::run(server.as_ref())),
    ("zoo", |server| zoo::run_all(server.as_ref())),
    ("docs --check", |_| docs::check()),
];

/// Runs all steps.
pub fn run() -> Result<(), String> {
    let mut server = None;
    let done = run_all(&mut server);
    if let Some(server) = server {
        server.leave();
    }
    done
}

fn run_all(server: &mut Option<Server>) -> Result<(), String> {
    let mut times = Vec::new();
    for (name, step) in STEPS {
        eprintln!("\n==> {name}");
        let (took, done) = timed(|| step(server));
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

fn test(server: Option<&Server>) -> Result<(), String> {
    let mut command = cargo_command(&["test", "--workspace"]);
    if let Some(server) = server {
        command.env(postgres::VARIABLE, server.url());
    }
    perform(&mut command)
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
