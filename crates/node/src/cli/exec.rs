//! `campanile exec`: executions and how they went.

use super::exit::{Code, Failure};
use super::job::{self, each};
use super::output::{Output, clean};
use super::{Globals, duration_ms};
use crate::clock::{self, SystemClock};
use campanile_client::wire::{Attempt, Execution, Page};
use campanile_client::{Client, ExecutionFilter};
use campanile_model::schedule::format_duration_ms;
use campanile_model::{Clock, ExecutionId, Timestamp};
use serde::Serialize;
use std::time::Duration;

/// What to do with executions.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List executions, newest first
    #[command(after_help = "Example:\n  campanile exec ls --job invoices --state dead,retrying --since 24h")]
    Ls(Ls),
    /// Show an execution with its attempts, and where its time went
    #[command(after_help = "Example:\n  campanile exec get exe_01J9ZC0000000000000000TEST")]
    Get {
        /// The execution
        id: String,
    },
    /// Cancel executions; one that has not started will not
    #[command(after_help = "Example:\n  campanile exec cancel exe_01J9ZC0000000000000000TEST")]
    Cancel {
        /// The executions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
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
    /// Only due in this last stretch of time
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    since: Option<u64>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

const PAGE: u32 = campanile_model::limits::PAGE_ITEMS_MAX as u32;
/// One long poll; the server allows twice as much.
const POLL_MS: u64 = 30_000;

/// Runs a command about executions.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    match &command {
        Command::Get { id } | Command::Wait { id, .. } => check_ids([id])?,
        Command::Cancel { ids } => check_ids(ids)?,
        Command::Ls(_) => {}
    }
    match command {
        Command::Ls(args) => ls(&client, args, out).await,
        Command::Get { id } => get(&client, &id, out).await,
        Command::Cancel { ids } => {
            let client = &client;
            let many = each(&ids, async |id| client.cancel_execution(id).await).await;
            let data: Vec<&Execution> = many.done.iter().map(|(_, execution)| execution).collect();
            match data.as_slice() {
                [] => {}
                [one] => print(one, out)?,
                _ => out.print(&data, || ids_of(&data), |out| rows(&data, out))?,
            }
            many.end()
        }
        Command::Wait { id, timeout } => wait(&client, &id, timeout, out).await,
    }
}

/// What is no id cannot name an execution: there is nothing to ask a server.
fn check_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    for id in ids {
        if let Err(error) = id.parse::<ExecutionId>() {
            return Err(
                Failure::new(Code::NotFound, error.to_string()).hint("`campanile exec ls` lists the executions")
            );
        }
    }
    Ok(())
}

async fn ls(client: &Client, args: Ls, out: &Output) -> Result<(), Failure> {
    let since = args.since.map(|ms| clock::now().saturating_add_ms(-i64::try_from(ms).unwrap_or(i64::MAX)));
    let mut filter = ExecutionFilter {
        job: args.job.map(|job| job::key(&job)),
        state: args.state.map(|state| state.to_ascii_uppercase()),
        scheduled_after: since.map(|at| at.max(Timestamp::from_millis(0)).to_string()),
        scheduled_before: None,
        limit: Some(PAGE.min(args.limit)),
        cursor: None,
    };
    let wanted = args.limit as usize;
    let mut all = Page { data: Vec::new(), has_more: false, next_cursor: None };
    loop {
        let page = client.list_executions(&filter).await?;
        all.data.extend(page.data);
        (all.has_more, all.next_cursor) = (page.has_more, page.next_cursor);
        if !all.has_more || all.data.len() >= wanted {
            break;
        }
        filter.cursor = all.next_cursor.clone();
        filter.limit = Some(PAGE.min((wanted - all.data.len()).try_into().unwrap_or(PAGE)));
    }
    let data: Vec<&Execution> = all.data.iter().collect();
    out.print(&all, || ids_of(&data), |out| rows(&data, out))?;
    if all.data.is_empty() {
        out.chat("no executions");
    } else if all.has_more && out.is_table() {
        out.chat(&format!("the newest {}; there are more: --limit", all.data.len()));
    }
    Ok(())
}

async fn get(client: &Client, id: &str, out: &Output) -> Result<(), Failure> {
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

fn ids_of(executions: &[&Execution]) -> Vec<String> {
    executions.iter().map(|execution| execution.id.clone()).collect()
}

fn rows(executions: &[&Execution], out: &Output) -> String {
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
    let mut pairs = vec![
        ("id", e.id.clone()),
        ("job", format!("{} v{} ({})", e.job_name, e.job_version, e.job_id)),
        ("state", format!("{}{why}", e.state)),
        ("kind", format!("{} {} in pool {}, priority {}", e.kind, e.action, e.pool, e.priority)),
        ("due", e.fire_at.clone()),
        ("fired", step(&e.fire_at, Some(&e.fired_at), "durable")),
        (
            "started",
            step(
                &e.fire_at,
                attempts.first().map(|first| &first.started_at).or(e.started_at.as_ref()),
                "first attempt",
            ),
        ),
        ("finished", step(&e.fire_at, e.finished_at.as_ref().filter(|_| e.is_final), "final")),
        ("next try", e.next_attempt_at.clone().unwrap_or_default()),
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

/// An instant with its distance from the one that was due: where the time went.
fn step(due: &str, at: Option<&String>, what: &str) -> String {
    let Some(at) = at else { return String::new() };
    match (due.parse::<Timestamp>(), at.parse::<Timestamp>()) {
        (Ok(due), Ok(then)) if then >= due => format!("{at}  +{}ms  {what}", then.ms_since(due)),
        (Ok(due), Ok(then)) => format!("{at}  {}ms ahead  {what}", due.ms_since(then)),
        _ => clean(at),
    }
}
