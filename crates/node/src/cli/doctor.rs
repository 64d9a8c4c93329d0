//! `campanile doctor`: checks the server and this machine, with a fix for what is wrong.
//!
//! Exit code 0 when nothing fails (warnings are fine), 1 when something does. A server that does not answer is one failed
//! check among others, hence 1 and not 7: the command did its work.

mod cluster;
mod work;

use super::Globals;
use super::cluster::has_role;
use super::exit::{Code, Failure};
use super::output::{Output, Paint, bytes, clean};
use crate::clock;
use campanile_client::Error;
use campanile_client::wire::{Cluster, Status};
use campanile_model::Timestamp;
use campanile_model::schedule::zone_database_version;
use serde::Serialize;
use std::path::Path;

/// What a check found.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Level {
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
struct Check {
    level: Level,
    name: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Serialize)]
struct Report {
    checks: Vec<Check>,
}

/// A clock that is off by more than this fires jobs at moments that people notice.
const CLOCK_MS_WARN: u64 = 1_000;
const CLOCK_MS_FAIL: u64 = 60_000;
/// Less free space than this is little; less than that is none.
const DISK_BYTES_WARN: u64 = 2 << 30;
const DISK_BYTES_FAIL: u64 = 100 << 20;
/// Sockets and files that a busy node needs.
const OPEN_FILES_WARN: u64 = 16_384;
/// More executions than this in the queue, and something does not keep up.
const QUEUE_WARN: u64 = 100_000;
/// More cursors than this behind, and the flusher does not keep up.
const CURSORS_WARN: u64 = 1_000_000;
const LATE_MS_WARN: u64 = 1_000;

/// Checks everything that can be checked.
pub async fn run(globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let mut report = Report { checks: Vec::new() };
    let before = clock::now();
    match client.status().await {
        Ok(status) => {
            let after = clock::now();
            let cluster = client.cluster().await;
            report.server(&status, globals);
            report.ready(&status, cluster.as_ref().ok());
            let answers = cluster.as_ref().map_or(true, answers_api);
            match cluster {
                Ok(cluster) => report.cluster(&cluster),
                Err(error) => report.cannot("cluster", error),
            }
            report.clock(&status, before, after);
            report.zones(&status);
            report.store(&status, globals);
            report.load(&status);
            match answers {
                true => report.work(&client).await,
                false => report.add(
                    Level::Warn,
                    "work",
                    "this node does not have the role api: the work was not looked at",
                    Some("ask one that has it; `campanile cluster status` lists the nodes"),
                ),
            }
        }
        Err(error) => {
            report.no_status(error, globals);
            report.add(Level::Ok, "zones", format!("zone database {} in this binary", zone_database_version()), None);
        }
    }
    report.open_files();
    let names = || report.checks.iter().map(|check| check.name.to_owned()).collect();
    out.print(&report, names, |out| report.text(out))?;
    match report.checks.iter().filter(|check| check.level == Level::Fail).count() {
        0 => Ok(()),
        failed => Err(Failure::new(Code::Failed, format!("{failed} of {} checks failed", report.checks.len()))),
    }
}

/// Whether the node that answered has the API.
fn answers_api(cluster: &Cluster) -> bool {
    let me = cluster.nodes.iter().find(|node| node.node == cluster.node);
    me.is_none_or(|me| has_role(me, "api"))
}

impl Report {
    fn add(&mut self, level: Level, name: &'static str, message: impl Into<String>, fix: Option<&str>) {
        let fix = fix.filter(|_| level != Level::Ok).map(str::to_owned);
        self.checks.push(Check { level, name, message: message.into(), fix });
    }

    fn server(&mut self, status: &Status, globals: &Globals) {
        let here = env!("CARGO_PKG_VERSION");
        let (level, other) = if status.version == here {
            (Level::Ok, String::new())
        } else {
            (Level::Warn, format!(", this binary is {here}"))
        };
        let message = format!("server {} at {}{other}", status.version, globals.url);
        self.add(level, "server", message, Some("use the same release on both sides"));
    }

    /// Why the server does not say how it is.
    fn no_status(&mut self, error: Error, globals: &Globals) {
        let code = error.problem().map(|problem| problem.code.clone());
        let unreachable = error.is_unreachable();
        let failure = Failure::from(error);
        match code {
            Some(code) if code.starts_with("store_") => {
                self.add(Level::Ok, "server", format!("a server answers at {}", globals.url), None);
                let fix =
                    "mend the store; nodes find it again by themselves, and nothing that was acknowledged is lost";
                let message = format!("its store does not answer ({code}): {}", failure.message());
                self.add(Level::Fail, "store", message, Some(fix));
            }
            Some(code) => {
                let message = format!("the server at {} refuses ({code}): {}", globals.url, failure.message());
                self.add(Level::Fail, "server", message, Some("see its log"));
            }
            None => {
                let fix = match unreachable {
                    true => "start one with `campanile dev` or `campanile server`, or name it with --url",
                    false => "is this a Campanile server? check --url",
                };
                self.add(Level::Fail, "server", failure.message(), Some(fix));
            }
        }
    }

    fn clock(&mut self, status: &Status, before: Timestamp, after: Timestamp) {
        let Ok(theirs) = status.now.parse::<Timestamp>() else {
            self.add(Level::Warn, "clock", format!("the server's clock shows `{}`", clean(&status.now)), None);
            return;
        };
        // Somewhere between asking and the answer the server looked at its clock.
        let offset = theirs.ms_since(after).max(before.ms_since(theirs));
        let level = match offset {
            0..CLOCK_MS_WARN => Level::Ok,
            CLOCK_MS_WARN..CLOCK_MS_FAIL => Level::Warn,
            _ => Level::Fail,
        };
        let message = match offset {
            0 => "the server's clock agrees with this one".into(),
            _ => format!("the server's clock is {offset}ms off this one"),
        };
        self.add(level, "clock", message, Some("synchronise both with NTP"));
    }

    fn zones(&mut self, status: &Status) {
        let here = zone_database_version();
        if status.zone_database == here {
            self.add(Level::Ok, "zones", format!("zone database {here}"), None);
        } else {
            let message = format!("zone database {} on the server, {here} here", status.zone_database);
            self.add(
                Level::Warn,
                "zones",
                message,
                Some("previews made here may differ; use the same release on both sides"),
            );
        }
    }

    fn store(&mut self, status: &Status, globals: &Globals) {
        let store = &status.store;
        let message =
            format!("{} store of {} with {} jobs, schema {}", store.kind, bytes(store.bytes), store.jobs, store.schema);
        self.add(Level::Ok, "store", message, None);
        // Only a store on this machine has a disk that can be looked at.
        if !["//127.", "//localhost", "//[::1]"].iter().any(|host| globals.url.contains(host)) {
            return;
        }
        let Some(dir) = Path::new(&store.location).parent().filter(|dir| dir.is_dir()) else { return };
        let Ok(disk) = rustix::fs::statvfs(dir) else { return };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let level = match free {
            0..DISK_BYTES_FAIL => Level::Fail,
            DISK_BYTES_FAIL..DISK_BYTES_WARN => Level::Warn,
            _ => Level::Ok,
        };
        let message = format!("{} free at {}", bytes(free), dir.display());
        self.add(level, "disk", message, Some("make room: a full disk stops all writes"));
    }

    fn load(&mut self, status: &Status) {
        let depth = status.queue_depth;
        let level = if depth > QUEUE_WARN { Level::Warn } else { Level::Ok };
        let message = format!("{depth} executions wait in the queue, {} run", status.running);
        self.add(level, "queue", message, Some("more slots, faster targets, or fewer fires"));
        let late = &status.lateness;
        let level = if late.p99_ms > LATE_MS_WARN { Level::Warn } else { Level::Ok };
        let message =
            format!("late by p50 {}ms, p99 {}ms, max {}ms since the start", late.p50_ms, late.p99_ms, late.max_ms);
        self.add(level, "lateness", message, Some("`campanile exec get` shows where the time goes"));
        let dirty = status.cursors_dirty;
        let level = if dirty > CURSORS_WARN { Level::Warn } else { Level::Ok };
        let message = format!("{dirty} cursors wait to be written");
        self.add(
            level,
            "cursors",
            message,
            Some("a restart now would look at those fires again; the disk may be slow"),
        );
    }

    fn open_files(&mut self) {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let (level, text) = match limit {
            Some(limit) if limit < OPEN_FILES_WARN => (Level::Warn, limit.to_string()),
            Some(limit) => (Level::Ok, limit.to_string()),
            None => (Level::Ok, "no limit".into()),
        };
        let message = format!("open files: a server started here may have {text}");
        self.add(level, "files", message, Some("raise it: `ulimit -Hn 65536`, or LimitNOFILE= of the service"));
    }

    fn text(&self, out: &Output) -> String {
        let lines = self.checks.iter().map(|check| {
            let level = match check.level {
                Level::Ok => out.paint(Paint::Good, "ok  "),
                Level::Warn => out.paint(Paint::Odd, "warn"),
                Level::Fail => out.paint(Paint::Bad, "fail"),
            };
            let fix = check.fix.as_ref().map(|fix| format!(" -> {fix}")).unwrap_or_default();
            format!("{level}  {}{fix}", clean(&check.message))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_store_that_is_away_is_not_a_server_that_is_not_there() {
        let globals = crate::cli::Cli::try_parse_from(["campanile", "doctor"]).unwrap().globals;
        let found = |error| {
            let mut report = Report { checks: Vec::new() };
            report.no_status(error, &globals);
            report.checks.pop().map(|check| (check.name, check.message, check.fix.unwrap_or_default())).unwrap()
        };
        let problem = serde_json::json!({"title": "Not available now", "status": 503, "code": "store_unreachable",
            "detail": "cannot reach postgres://db.example", "retryable": true});
        let (name, message, fix) = found(Error::Refused(Box::new(serde_json::from_value(problem).unwrap())));
        assert_eq!(name, "store");
        assert!(message.contains("store_unreachable") && message.contains("db.example"), "{message}");
        assert!(!fix.contains("campanile dev"), "{fix}");
        let (name, _, fix) = found(Error::Unreachable { url: "http://x".into(), message: "refused".into() });
        assert!(name == "server" && fix.contains("campanile dev"), "{fix}");
    }
}
