//! `campanile exec`: executions and how they went.

use super::exit::{Code, Failure};
use super::job::{self, each};
use super::output::{Output, clean};
use super::{Globals, duration_ms, exec_cancel, exec_logs, pages};
use crate::clock::{self, SystemClock};
use campanile_client::wire::{Attempt, Execution, Page};
use campanile_client::{Client, ExecutionFilter, WriteOptions};
use campanile_model::filter::Filter;
use campanile_model::schedule::format_duration_ms;
use campanile_model::{Clock, ExecutionId, Timestamp};
use serde::Serialize;
use std::time::Duration;

/// What to do with executions.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List executions, newest first
    #[command(after_help = "\
Examples:
  campanile exec ls --job invoices --state dead,retrying --since 24h
  campanile exec ls --filter 'pool:long late:>5s -tag:test scheduled:-24h..now'")]
    Ls(Ls),
    /// Show an execution with its attempts, and where its time went
    #[command(after_help = "Example:\n  campanile exec get exe_01J9ZC0000000000000000TEST")]
    Get {
        /// The execution
        id: String,
    },
    /// Show what the attempts of an execution logged
    Logs(exec_logs::Args),
    /// Run dead executions again, at once; their attempts so far are kept
    #[command(after_help = "Example:\n  campanile exec replay exe_01J9ZC0000000000000000TEST")]
    Replay {
        /// The executions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Only check
        #[arg(long)]
        dry_run: bool,
    },
    /// Cancel executions, or a fire that has not come; what has not started will not
    Cancel(exec_cancel::Args),
    /// Wait until an execution has ended; exit code 10 if it did not succeed
    #[command(after_help = "Example:\n  campanile exec wait exe_01J9ZC0000000000000000TEST --timeout 60s")]
    Wait {
        /// The execution
        id: String,
        /// How long to wait at most; then exit code 6
        #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
        timeout: Option<u64>,
    },
}

/// Which executions to list.
#[derive(clap::Args)]
pub struct Ls {
    /// Only of this job: its name or id
    #[arg(long)]
    job: Option<String>,
    /// Only in these states, separated by commas
    #[arg(long)]
    state: Option<String>,
    /// Only those that match, such as 'handler:send_* error:Timeout* late:>5s'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Only due in this last stretch of time
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    since: Option<u64>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// One long poll; the server allows twice as much.
const POLL_MS: u64 = 30_000;

/// Runs a command about executions.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    match &command {
        Command::Get { id } | Command::Wait { id, .. } => check_ids([id])?,
        Command::Replay { ids, .. } => check_ids(ids)?,
        Command::Ls(_) | Command::Logs(_) | Command::Cancel(_) => {}
    }
    match command {
        Command::Ls(args) => ls(&client, args, out).await,
        Command::Get { id } => get(&client, &id, out).await,
        Command::Logs(args) => exec_logs::run(&client, args, out).await,
        Command::Replay { ids, dry_run } => {
            let (client, options) = (&client, &WriteOptions { dry_run, ..globals.write() });
            let many = each(&ids, async |id| client.replay_execution(id, options).await).await;
            let data: Vec<&Execution> = many.done.iter().map(|(_, execution)| execution).collect();
            print_several(&data, out)?;
            many.end()
        }
        Command::Cancel(args) => exec_cancel::run(&client, args, &globals.write(), out).await,
        Command::Wait { id, timeout } => wait(&client, &id, timeout, out).await,
    }
}

/// What is no id cannot name an execution: there is nothing to ask a server.
pub fn check_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    for id in ids {
        if let Err(error) = id.parse::<ExecutionId>() {
            return Err(
                Failure::new(Code::NotFound, error.to_string()).hint("`campanile exec ls` lists the executions")
            );
        }
    }
    Ok(())
}

/// A filter is read by the same rules as on the server, so that what is wrong with it is shown where it is.
pub fn check_filter(filter: Option<&str>) -> Result<(), Failure> {
    let Some(text) = filter else { return Ok(()) };
    match Filter::parse(text, clock::now()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::filter(text, &error)),
    }
}

async fn ls(client: &Client, args: Ls, out: &Output) -> Result<(), Failure> {
    check_filter(args.filter.as_deref())?;
    let since = args.since.map(|ms| clock::now().saturating_add_ms(-i64::try_from(ms).unwrap_or(i64::MAX)));
    let filter = ExecutionFilter {
        job: args.job.map(|job| job::key(&job)),
        q: args.filter,
        state: args.state.map(|state| state.to_ascii_uppercase()),
        scheduled_after: since.map(|at| at.max(Timestamp::from_millis(0)).to_string()),
        ..ExecutionFilter::default()
    };
    let all = pages::collect(args.limit as usize, out, async |limit, cursor| {
        client.list_executions(&ExecutionFilter { limit: Some(limit), cursor, ..filter.clone() }).await
    });
    print_page(&all.await?, "no executions", out)
}

/// One page of executions, and a word where there are none or more.
pub fn print_page(page: &Page<Execution>, none: &str, out: &Output) -> Result<(), Failure> {
    let data: Vec<&Execution> = page.data.iter().collect();
    out.print(page, || ids_of(&data), |out| rows(&data, out))?;
    pages::tell(page, none, out);
    Ok(())
}

/// Shows an execution with its attempts.
pub async fn get(client: &Client, id: &str, out: &Output) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Detailed<'a> {
        #[serde(flatten)]
        execution: &'a Execution,
        attempts: &'a [Attempt],
    }
    let execution = client.get_execution(id).await?;
    let attempts = client.list_attempts(id).await?.data;
    let detailed = Detailed { execution: &execution, attempts: &attempts };
    out.print(&detailed, || vec![execution.id.clone()], |out| details(&execution, &attempts, out))
}

/// Waits until an execution has ended, shows it, and fails if it did not succeed.
pub async fn wait(client: &Client, id: &str, timeout_ms: Option<u64>, out: &Output) -> Result<(), Failure> {
    let clock = SystemClock::new();
    let bar = out.progress(None, "waiting");
    let execution = loop {
        let left = timeout_ms.map_or(POLL_MS, |timeout| timeout.saturating_sub(clock.monotonic_ms()).min(POLL_MS));
        let asked_at = clock.monotonic_ms();
        let execution = client.wait_for_execution(id, Duration::from_millis(left)).await?;
        if execution.is_final {
            break execution;
        }
        bar.set_message(format!("{} (attempt {})", execution.state, execution.attempt));
        if timeout_ms.is_some_and(|timeout| clock.monotonic_ms() >= timeout) {
            bar.finish_and_clear();
            print(&execution, out)?;
            let waited = format_duration_ms(timeout_ms.unwrap_or_default());
            return Err(Failure::new(Code::TimedOut, format!("{id} is still {} after {waited}", execution.state))
                .hint("it goes on; wait again, or cancel it with `campanile exec cancel`"));
        }
        // A server that does not wait must not be asked in a tight loop.
        if clock.monotonic_ms() - asked_at < 50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    bar.finish_and_clear();
    print(&execution, out)?;
    if execution.state == "SUCCEEDED" {
        return Ok(());
    }
    let why = match (&execution.error, &execution.reason) {
        (Some(error), _) => format!(": {}", error.message),
        (None, Some(reason)) => format!(": {reason}"),
        (None, None) => String::new(),
    };
    Err(Failure::new(Code::NotSucceeded, format!("{} ended {}{why}", execution.id, execution.state))
        .hint(format!("`campanile exec get {}` shows its attempts", execution.id)))
}

/// One execution.
pub fn print(execution: &Execution, out: &Output) -> Result<(), Failure> {
    out.print(execution, || vec![execution.id.clone()], |out| rows(&[execution], out))
}

/// Several, or one as it is.
pub fn print_several(executions: &[&Execution], out: &Output) -> Result<(), Failure> {
    out.several(executions, |execution| execution.id.clone(), rows)
}

/// Their ids.
pub fn ids_of(executions: &[&Execution]) -> Vec<String> {
    executions.iter().map(|execution| execution.id.clone()).collect()
}

/// As a table.
pub fn rows(executions: &[&Execution], out: &Output) -> String {
    let now = clock::now();
    let rows = executions.iter().map(|e| {
        let why = e.error.as_ref().map(|error| error.kind.clone()).or_else(|| e.reason.clone());
        vec![
            e.id.clone(),
            e.job_name.clone(),
            out.instant(Some(&e.fire_at), now),
            e.state.clone(),
            e.attempt.to_string(),
            e.late_ms.map_or("-".into(), |ms| format!("{ms}ms")),
            e.duration_ms.map_or("-".into(), |ms| format!("{ms}ms")),
            why.unwrap_or_else(|| "-".into()),
        ]
    });
    out.table(&["ID", "JOB", "DUE", "STATE", "ATTEMPT", "LATE", "TOOK", "WHY"], rows)
}

fn details(e: &Execution, attempts: &[Attempt], out: &Output) -> String {
    let why = e.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let target = e.target.as_ref().map(|target| format!(" {target}")).unwrap_or_default();
    let first_started = e.first_started_at.as_ref().or(attempts.first().map(|first| &first.started_at));
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut pairs = vec![
        ("id", e.id.clone()),
        ("job", format!("{} v{} ({})", e.job_name, e.job_version, e.job_id)),
        ("state", format!("{}{why}", e.state)),
        ("note", text(&e.note)),
        ("kind", format!("{} {}{target} in pool {}, priority {}", e.kind, e.action, e.pool, e.priority)),
        ("overlap", Some(e.overlap.clone()).filter(|overlap| overlap != "ALLOW").unwrap_or_default()),
        ("due", e.fire_at.clone()),
        ("covers", e.covers_from.as_ref().map(|from| format!("missed fires since {from}")).unwrap_or_default()),
        ("fired", step(&e.fire_at, Some(&e.fired_at), "durable")),
        ("queued", step(&e.fire_at, e.queued_at.as_ref(), "released to the queue")),
        ("claimed", step(&e.fire_at, e.claimed_at.as_ref(), "taken by a runner")),
        ("started", step(&e.fire_at, first_started.or(e.started_at.as_ref()), "first attempt")),
        ("finished", step(&e.fire_at, e.finished_at.as_ref().filter(|_| e.is_final), "final")),
        ("late by", lateness(e)),
        ("next try", text(&e.next_attempt_at)),
        ("asked to stop", text(&e.cancel_requested_at)),
        ("progress", progress(e)),
        ("deliveries", Some(e.deliveries).filter(|count| *count > 0).map(|n| n.to_string()).unwrap_or_default()),
        ("fingerprint", text(&e.fingerprint)),
    ];
    pairs.retain(|(_, value)| !value.is_empty());
    let mut text = out.pairs(&pairs);
    if !attempts.is_empty() {
        let rows = attempts.iter().map(|a| {
            let error = a.error.as_ref().map(|error| format!("{}: {}", error.kind, error.message));
            let answer = a.response.as_ref().map(|response| format!("HTTP {}", response.status));
            vec![
                a.attempt.to_string(),
                a.started_at.clone(),
                a.duration_ms.map_or("-".into(), |ms| format!("{ms}ms")),
                a.outcome.clone().unwrap_or_else(|| "RUNNING".into()),
                a.fence_token.to_string(),
                a.worker.clone().unwrap_or_else(|| "-".into()),
                error.or(answer).unwrap_or_else(|| "-".into()),
            ]
        });
        text.push_str("\n\n");
        text.push_str(&out.table(&["ATTEMPT", "STARTED", "TOOK", "OUTCOME", "FENCE", "WORKER", "ANSWER"], rows));
    }
    text
}

/// How late, and whose part of it is whose.
fn lateness(e: &Execution) -> String {
    match (e.late_ms, &e.lateness) {
        (Some(late), Some(split)) => format!(
            "{late}ms: scheduler {}ms, queue {}ms, worker {}ms",
            split.scheduler_ms, split.queue_ms, split.worker_ms
        ),
        (Some(late), None) => format!("{late}ms"),
        (None, _) => String::new(),
    }
}

fn progress(e: &Execution) -> String {
    let Some(progress) = &e.progress else { return String::new() };
    let fraction = progress.fraction.map(|fraction| format!("{:.0} %", fraction * 100.0));
    let parts: Vec<String> = fraction.into_iter().chain(progress.message.clone()).collect();
    match parts.is_empty() {
        true => format!("a checkpoint, told at {}", progress.at),
        false => format!("{}, told at {}", parts.join("  "), progress.at),
    }
}

/// Text as it fits a line.
pub fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// An instant with its distance from the one that was due: where the time went.
fn step(due: &str, at: Option<&String>, what: &str) -> String {
    let Some(at) = at else { return String::new() };
    match (due.parse::<Timestamp>(), at.parse::<Timestamp>()) {
        (Ok(due), Ok(then)) if then >= due => format!("{at}  +{}ms  {what}", then.ms_since(due)),
        (Ok(due), Ok(then)) => format!("{at}  {}ms ahead  {what}", due.ms_since(then)),
        _ => clean(at),
    }
}
