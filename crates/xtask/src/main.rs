//! Checks and generated documents, for people who work on Campanile.
//!
//! `cargo xtask test` is what CI runs, and all of it. Plain std: whoever has a Rust toolchain and a C compiler can run
//! it. Reading order: [`steps`] (the checks, one after the other), [`suite`] (the tests, side by side) with [`binaries`] and [`wait`], [`docs`] (pages written by programs), [`states`] (and SQL), [`made_up`] (what a new state takes), [`links`]
//! (names in pages that must exist), [`path`] (the order of the engine's modules), [`zoo`] (bugs that tests must catch), [`postgres`] (the database that tests use), [`tools`]
//! (other programs that they use), [`chaos`] (faults on real nodes).

mod steps;
mod suite;
mod binaries;
mod wait;
mod docs;
mod states;
mod made_up;
mod links;
mod path;
mod zoo;
mod postgres;
mod tools;
mod chaos;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <task>

  test           everything CI checks: check-links, check-path, fmt, clippy, doc, test, docs --check, zoo, made-up-state; tests use the PostgreSQL
                 that CAMPANILE_TEST_POSTGRES names, or a private one, which is installed first if need be
  chaos [--seed <number>] [--minutes <number>|--seconds <number>] [--postgres|--embedded]
                 faults on real nodes, judged by the checker; needs root, and installs what it needs
  docs           write the generated pages under docs/, and what SQL knows of states
  docs --states  write only what follows from the states
  docs --check   verify that the committed pages equal the generated ones
  check-links    verify that every link and every file named in *.md exists
  check-path     verify that the engine's modules are the steps of the path, numbered alike, and that none uses an earlier one
  made-up-state  add a state to a copy of the sources, and see that nothing else has to be written by hand
  zoo [<bug>]    plant bugs of other schedulers, or one of them, and see that the tests catch them
  postgres       run a private PostgreSQL and say where, until Ctrl-C or the end of the input
  postgres -- <command> [<argument>...]
                 run a command with a private PostgreSQL in CAMPANILE_TEST_POSTGRES";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["test"] => steps::run(),
        ["chaos", ref order @ ..] => chaos::run(order),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["docs", "--states"] => docs::write_states(),
        ["made-up-state"] => made_up::run(None),
        ["check-links"] => links::check(),
        ["check-path"] => path::check(),
        ["zoo"] => zoo::run(None),
        ["zoo", bug] => zoo::run(Some(bug)),
        ["postgres"] => postgres::run(&[]),
        ["postgres", "--", ref command @ ..] if !command.is_empty() => postgres::run(command),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The text of a file of the checkout.
fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("cannot read {path}: {error}"))
}
