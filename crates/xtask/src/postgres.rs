//! The PostgreSQL that tests use: the one that the environment names, else a private one that lives as long as we do.
//!
//! Reading order: this file (which server it is, and what is left on it), [`search`] (programs that are installed, or
//! can be), [`private`] (a server of our own).

mod search;
mod private;

use private::Private;
pub use private::is_root;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The variable by which tests find the server; `campanile_testkit::postgres` reads it.
pub const VARIABLE: &str = "CAMPANILE_TEST_POSTGRES";

/// Drops what tests that were killed have left, unless somebody is connected whose tests may still run.
const SWEEP: &str = r"
SELECT count(*) > 0 AS used FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'campanile %' \gset
\if :used
  \echo others are at work on this server: schemas of tests are left as they are
\else
  SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace WHERE nspname LIKE 'campanile\_test\_%' \gexec
\endif
";

/// A server for tests. A private one ends when it is dropped.
pub enum Server {
    /// Somebody else's, by its URL: only what tests have made there is ours.
    Given(String),
    /// Our own.
    Private(Private),
}

impl Server {
    /// The one that the environment names, or a private one.
    pub fn get() -> Result<Self, String> {
        if let Some(url) = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty()) {
            eprintln!("using the PostgreSQL that {VARIABLE} names");
            return Ok(Server::Given(url));
        }
        Self::private().map(Server::Private)
    }

    fn private() -> Result<Private, String> {
        let programs = search::programs()?;
        eprintln!("starting a private PostgreSQL with the programs in {}", programs.display());
        let private = Private::start(&programs)?;
        eprintln!("it listens at {}", private.url());
        Ok(private)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        match self {
            Server::Given(url) => url,
            Server::Private(private) => private.url(),
        }
    }

    /// Leaves a server as it was found: a private one is stopped, of another's the schemas of tests are dropped.
    pub fn leave(self) {
        let Server::Given(url) = self else { return };
        let Some(psql) = search::psql() else {
            eprintln!("no psql: schemas campanile_test_* that tests have left stay where they are");
            return;
        };
        if let Err(message) = sweep(&psql, &url) {
            eprintln!("cannot drop the schemas campanile_test_* that tests have left: {message}");
        }
    }
}

fn sweep(psql: &PathBuf, url: &str) -> Result<(), String> {
    let mut child = Command::new(psql)
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url])
        // Every object that a cascade takes with it would be a notice.
        .env("PGOPTIONS", "-c client_min_messages=warning")
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", psql.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(SWEEP.as_bytes()).map_err(|error| format!("cannot talk to psql: {error}"))?;
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("psql ended with {status}")),
        Err(error) => Err(format!("cannot wait for psql: {error}")),
    }
}

/// Runs a private server while a command runs with the variable set; without a command, until the end of the input or
/// Ctrl-C.
pub fn run(command: &[&str]) -> Result<(), String> {
    let private = Server::private()?;
    let Some((program, arguments)) = command.split_first() else {
        println!("export {VARIABLE}={}", private.url());
        eprintln!("until Ctrl-C, or the end of the input");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        return Ok(());
    };
    let ended = Command::new(program).args(arguments).env(VARIABLE, private.url()).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{program}` ended with {status}")),
        Err(error) => Err(format!("cannot run `{program}`: {error}")),
    }
}
