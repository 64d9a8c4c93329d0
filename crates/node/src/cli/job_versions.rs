//! `campanile job history`, `diff` and `revert`: what a job was, what changed, and going back.
//!
//! Versions are compared as JSON text, member by member: numbers keep their digits.

use super::Globals;
use super::exit::{Code, Failure};
use super::job::{describe, key, print_job};
use super::output::{Output, Paint, clean};
use super::pages;
use crate::clock;
use campanile_client::wire::{Job, Page, json};
use campanile_client::{Client, WriteOptions};
use serde::Serialize;
use serde_json::value::RawValue;

/// Which versions to list.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  campanile job history invoices")]
pub struct History {
    /// The job: its name or id; a deleted one by its id
    #[arg(value_name = "JOB")]
    job: String,
    /// At most so many, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Which versions to compare.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile job diff invoices          the newest version and the one before it
  campanile job diff invoices 3        version 3 and the newest
  campanile job diff invoices 3 5")]
pub struct Diff {
    /// The job: its name or id; a deleted one by its id
    #[arg(value_name = "JOB")]
    job: String,
    /// The earlier version; the one before the other where nothing is said
    #[arg(value_name = "FROM")]
    from: Option<u32>,
    /// The later version; the newest where nothing is said
    #[arg(value_name = "TO")]
    to: Option<u32>,
}

/// Which version to go back to.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  campanile job revert invoices --to 3 --dry-run")]
pub struct Revert {
    /// The job: its name or id
    #[arg(value_name = "JOB")]
    job: String,
    /// The version whose definition it gets; see `campanile job history`
    #[arg(long, value_name = "VERSION")]
    to: u32,
    /// Only if the job is in this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u32>,
    /// Only check, and show what would be
    #[arg(long)]
    dry_run: bool,
}

/// Lists versions, each with what it changed.
pub async fn history(args: History, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let wanted = args.limit as usize;
    // One more than is shown: the last one is compared with it.
    let mut versions = read(&client, &key(&args.job), wanted.saturating_add(1), out).await?;
    let beyond = versions.data.split_off(versions.data.len().min(wanted));
    versions.has_more |= !beyond.is_empty();
    let names = || versions.data.iter().map(|version| version.version.to_string()).collect();
    out.print(&versions, names, |out| table(&versions.data, beyond.first(), out))?;
    pages::tell(&versions, "no versions", out);
    Ok(())
}

async fn read(client: &Client, job: &str, wanted: usize, out: &Output) -> Result<Page<Job>, Failure> {
    let page = async |limit, cursor: Option<String>| client.list_versions(job, Some(limit), cursor.as_deref()).await;
    pages::collect(wanted, out, page).await
}

fn table(versions: &[Job], before_last: Option<&Job>, out: &Output) -> String {
    let now = clock::now();
    let before = versions.iter().skip(1).map(Some).chain([before_last]);
    let rows = versions.iter().zip(before).map(|(version, before)| {
        let until = version.ended_at.as_deref().map_or_else(|| "now".to_owned(), |at| out.instant(Some(at), now));
        vec![
            format!("v{}", version.version),
            out.instant(Some(&version.effective_at), now),
            until,
            version.state.clone(),
            said(version, before),
        ]
    });
    out.table(&["VERSION", "SINCE", "UNTIL", "STATE", "CHANGED"], rows)
}

/// What a version changed, in a few words.
fn said(version: &Job, before: Option<&Job>) -> String {
    let Some(before) = before else {
        return if version.version == 1 { "created".into() } else { "(the version before is no longer kept)".into() };
    };
    let word = match (before.state.as_str(), version.state.as_str()) {
        (_, "DELETED") => Some("deleted"),
        ("PAUSED", "ACTIVE") => Some("resumed"),
        ("ACTIVE", "PAUSED") => Some("paused"),
        _ => None,
    };
    let mut fields: Vec<String> = Vec::new();
    for change in changes(before, version) {
        let field = change.path.split('/').nth(1).unwrap_or_default().to_owned();
        if field != "state" && !fields.contains(&field) {
            fields.push(field);
        }
    }
    let all: Vec<String> = word.map(str::to_owned).into_iter().chain(fields).collect();
    if all.is_empty() { "(nothing that is shown)".into() } else { all.join(", ") }
}

/// Two versions and what differs.
#[derive(Serialize)]
struct Compared {
    from: u32,
    to: u32,
    changes: Vec<Change>,
}

/// A place that differs; what is missing on a side is left out there.
#[derive(Serialize)]
struct Change {
    /// JSON pointer.
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Box<RawValue>>,
}

/// Shows what differs between two versions.
pub async fn diff(args: Diff, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let job = key(&args.job);
    let to = match args.to {
        Some(to) => client.get_version(&job, to).await?,
        None => {
            let newest = client.list_versions(&job, Some(1), None).await?.data.pop();
            newest.ok_or_else(|| Failure::new(Code::Failed, "the job has no versions"))?
        }
    };
    let from = match args.from {
        Some(from) => from,
        None if to.version > 1 => to.version - 1,
        None => return Err(Failure::usage("the job has one version, and nothing to compare it with")),
    };
    let from = client.get_version(&job, from).await?;
    let compared = Compared { from: from.version, to: to.version, changes: changes(&from, &to) };
    let paths = || compared.changes.iter().map(|change| change.path.clone()).collect();
    out.print(&compared, paths, |out| lines(&compared, out))?;
    if compared.changes.is_empty() {
        out.chat("nothing that is shown differs; secrets are not shown");
    }
    Ok(())
}

fn lines(compared: &Compared, out: &Output) -> String {
    let mut lines = vec![format!("version {} -> {}", compared.from, compared.to)];
    for Change { path, from, to } in &compared.changes {
        let side = |sign: &str, paint: Paint, value: &Option<Box<RawValue>>| {
            value.as_ref().map(|value| out.paint(paint, &clean(&format!("{sign} {path}  {}", value.get()))))
        };
        lines.extend(side("-", Paint::Bad, from));
        lines.extend(side("+", Paint::Good, to));
    }
    lines.join("\n")
}

/// What the server keeps itself, or what follows from the rest: no part of a change.
const NOT_COMPARED: [&str; 15] = [
    "id",
    "job_id",
    "tenant",
    "status",
    "target",
    "version",
    "next_fire_at",
    "next_run_at",
    "next_fires",
    "fires_left",
    "created_at",
    "updated_at",
    "effective_at",
    "ended_at",
    "dry_run",
];

fn changes(from: &Job, to: &Job) -> Vec<Change> {
    let text = |job: &Job| serde_json::to_string(job).unwrap_or_default();
    let mut changes = Vec::new();
    compare("", Some(&text(from)), Some(&text(to)), &mut changes);
    changes.retain(|change| !NOT_COMPARED.contains(&change.path.split('/').nth(1).unwrap_or_default()));
    changes
}

/// Notes where two JSON texts differ: objects member by member, everything else as a whole.
fn compare(path: &str, from: Option<&str>, to: Option<&str>, changes: &mut Vec<Change>) {
    if from == to {
        return;
    }
    let (before, after) = (from.and_then(json::members), to.and_then(json::members));
    let (Some(before), Some(after)) = (before, after) else {
        let raw = |text: Option<&str>| text.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        changes.push(Change { path: path.to_owned(), from: raw(from), to: raw(to) });
        return;
    };
    let find = |members: &[(String, &str)], name: &str| members.iter().position(|(other, _)| other == name);
    let step = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    for (name, value) in &before {
        compare(&step(name), Some(value), find(&after, name).map(|at| after[at].1), changes);
    }
    for (name, value) in after.iter().filter(|(name, _)| find(&before, name).is_none()) {
        compare(&step(name), None, Some(value), changes);
    }
}

/// Goes back.
pub async fn revert(args: Revert, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let options = WriteOptions { if_match: args.if_version, dry_run: args.dry_run, ..globals.write() };
    let job = client.revert_job(&key(&args.job), args.to, &options).await?;
    let verb = if args.dry_run { "would revert" } else { "reverted" };
    out.chat(&describe(&job, &format!("{verb} to version {}:", args.to)));
    print_job(&job, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(from: &str, to: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let mut changes = Vec::new();
        compare("", Some(from), Some(to), &mut changes);
        let text = |raw: Option<Box<RawValue>>| raw.map(|raw| raw.get().to_owned());
        changes.into_iter().map(|change| (change.path, text(change.from), text(change.to))).collect()
    }

    #[test]
    fn what_differs_is_named_by_its_place() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(differences(r#"{"a":1}"#, r#"{"a":1}"#), []);
        assert_eq!(
            differences(r#"{"a":{"b":1,"c/d":2},"e":[1]}"#, r#"{"a":{"b":1e400,"f":null},"e":[1,2]}"#),
            [
                ("/a/b".into(), some("1"), some("1e400")),
                ("/a/c~1d".into(), some("2"), None),
                ("/a/f".into(), None, some("null")),
                ("/e".into(), some("[1]"), some("[1,2]")),
            ]
        );
        assert_eq!(differences(r#"{"a":1}"#, r#"{"a":{"b":1}}"#), [("/a".into(), some("1"), some(r#"{"b":1}"#))]);
    }
}
