//! What a new state takes: `made-up-state.patch` adds one to `lifecycle.rs`, in a copy of the sources. There `cargo xtask docs`
//! writes what follows, and the tests of the life cycle are run as they are. So whoever adds a real one knows that
//! guards, indexes, lists, counts and the diagram follow by themselves.
//!
//! The copy shares the target folder: only our own crates are built again, and these as quickly as can be.

use crate::postgres::{self, Server};
use crate::root;
use crate::steps::{cargo_command, perform};
use std::path::{Path, PathBuf};
use std::process::Command;

const PATCH: &str = include_str!("../made-up-state.patch");
/// The word of the state that the patch adds.
const WORD: &str = "PARKED";
/// What is copied: all that cargo and the tests read.
const COPIED: [&str; 5] = ["Cargo.toml", "Cargo.lock", ".cargo", "crates", "docs"];
/// The one file that a person edits.
const EDITED: &str = "crates/model/src/lifecycle.rs";
/// Our crates that the tests need.
const BUILT: [&str; 4] = ["campanile-model", "campanile-testkit", "campanile-pg", "campanile-store"];
/// What is written from it.
const WRITTEN: [&str; 3] =
    ["crates/store/src/postgres/states.sql", "crates/store/src/sqlite/states.sql", "docs/internals/state-machine.md"];

/// Applies the patch to a copy, writes what follows, and runs the tests; those of PostgreSQL where there is a server.
pub fn run(server: Option<&Server>) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let copy = target.join("made-up-state");
    let failed = |error: std::io::Error| format!("cannot copy the sources: {error}");
    if copy.exists() {
        std::fs::remove_dir_all(&copy).map_err(failed)?;
    }
    std::fs::create_dir_all(&copy).map_err(failed)?;
    for name in COPIED {
        copy_all(&root().join(name), &copy.join(name)).map_err(failed)?;
    }
    apply(&copy)?;
    let cargo = |arguments: &[&str], after: &[&str]| {
        let mut command = cargo_command(arguments);
        for name in BUILT {
            command.arg("--config").arg(format!("profile.dev.package.{name}.opt-level=0"));
            command.arg("--config").arg(format!("profile.dev.package.{name}.debug=false"));
        }
        command.args(after).current_dir(&copy).env("CARGO_TARGET_DIR", &target);
        if let Some(server) = server {
            command.env(postgres::VARIABLE, server.url());
        }
        perform(&mut command)
    };
    cargo(&["run", "--quiet", "--package", "xtask"], &["--", "docs", "--states"])?;
    check(&copy)?;
    let mut tests = vec!["test", "--package", "campanile-store", "--test", "conformance"];
    if server.is_some() || std::env::var_os(postgres::VARIABLE).is_some() {
        tests.extend(["--test", "conformance_postgres"]);
    }
    cargo(&tests, &["lifecycle"])?;
    std::fs::remove_dir_all(&copy).map_err(|error| format!("cannot remove {}: {error}", copy.display()))
}

fn apply(copy: &Path) -> Result<(), String> {
    let patch = copy.join("made-up-state.patch");
    std::fs::write(&patch, PATCH).map_err(|error| format!("cannot write the patch: {error}"))?;
    let mut git = Command::new("git");
    // The copy lies within a checkout, which is none of its business.
    git.args(["apply", "made-up-state.patch"]).current_dir(copy).env("GIT_CEILING_DIRECTORIES", copy.join(".."));
    match git.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("the patch does not apply to {EDITED} any more: make it anew")),
        Err(error) => Err(format!("cannot run git: {error}")),
    }
}

/// Nothing but the table was edited, and what was written knows the state.
fn check(copy: &Path) -> Result<(), String> {
    let edited: Vec<&str> = PATCH.lines().filter_map(|line| line.strip_prefix("+++ b/")).collect();
    if edited != [EDITED] {
        return Err(format!("the patch edits {}", edited.join(", ")));
    }
    for path in WRITTEN {
        let text = std::fs::read_to_string(copy.join(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
        if !text.contains(WORD) {
            return Err(format!("{path} does not know {WORD}"));
        }
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return std::fs::copy(from, to).map(|_| ());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name() != "target" {
            copy_all(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
