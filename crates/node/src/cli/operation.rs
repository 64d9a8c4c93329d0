//! `campanile op`: replays and backfills at work.

use super::exit::{Code, Failure};
use super::job::each;
use super::output::{Output, clean};
use super::{Globals, duration_ms, pages, when};
use crate::clock::{self, SystemClock};
use campanile_client::Client;
use campanile_client::wire::{Operation, OperationProgress};
use campanile_model::schedule::format_duration_ms;
use campanile_model::{Clock, OperationId};
use std::time::Duration;

/// What to do with operations.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List operations, newest first
    #[command(after_help = "Example:\n  campanile op ls --limit 10")]
    Ls {
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show an operation
    #[command(after_help = "Example:\n  campanile op get op_01J9ZC0000000000000000TEST")]
    Get {
        /// The operation
        id: String,
    },
    /// Watch an operation until it is over; exit code 8 if some of it failed, 10 if it was stopped
    #[command(after_help = "Example:\n  campanile op watch op_01J9ZC0000000000000000TEST --timeout 10m")]
    Watch {
        /// The operation
        id: String,
        /// How long to wait at most; then exit code 6
        #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
        timeout: Option<u64>,
    },
    /// Let operations start nothing more; what they started goes on
    #[command(after_help = "Example:\n  campanile op cancel op_01J9ZC0000000000000000TEST")]
    Cancel {
        /// The operations
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

/// How often an operation that is watched is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// Runs a command about operations.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    match &command {
        Command::Get { id } | Command::Watch { id, .. } => check_ids([id])?,
        Command::Cancel { ids } => check_ids(ids)?,
        Command::Ls { .. } => {}
    }
    match command {
        Command::Ls { limit } => {
            let all = pages::collect(limit as usize, out, async |limit, cursor| {
                client.list_operations(Some(limit), cursor.as_deref()).await
            });
            let all = all.await?;
            let data: Vec<&Operation> = all.data.iter().collect();
            let ids = || all.data.iter().map(|operation| operation.id.clone()).collect();
            out.print(&all, ids, |out| rows(&data, out))?;
            pages::tell(&all, "no operations", out);
            Ok(())
        }
        Command::Get { id } => {
            let operation = client.get_operation(&id).await?;
            out.print(&operation, || vec![operation.id.clone()], |out| details(&operation, out))
        }
        Command::Watch { id, timeout } => {
            let operation = client.get_operation(&id).await?;
            watch(&client, operation, timeout, out).await
        }
        Command::Cancel { ids } => {
            let (client, options) = (&client, &globals.write());
            let many = each(&ids, async |id| client.cancel_operation(id, options).await).await;
            let data: Vec<&Operation> = many.done.iter().map(|(_, operation)| operation).collect();
            out.several(&data, |operation| operation.id.clone(), rows)?;
            many.end()
        }
    }
}

/// What is no id cannot name an operation.
fn check_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    for id in ids {
        if let Err(error) = id.parse::<OperationId>() {
            let failure = Failure::new(Code::NotFound, error.to_string());
            return Err(failure.hint("`campanile op ls` lists the operations"));
        }
    }
    Ok(())
}

/// What happens after an operation was accepted: it is shown, or watched to its end.
pub async fn accepted(
    client: &Client,
    operation: Operation,
    wait: Option<Option<u64>>,
    out: &Output,
) -> Result<(), Failure> {
    let id = operation.id.clone();
    match wait {
        Some(timeout) => {
            out.chat(&format!("{id}: Ctrl-C detaches, and `campanile op watch {id}` comes back"));
            watch(client, operation, timeout, out).await
        }
        None => {
            out.chat(&format!("accepted; `campanile op watch {id}` shows how it goes"));
            print(&operation, out)
        }
    }
}

/// Watches an operation until it is over, shows it, and fails where it did.
async fn watch(client: &Client, mut operation: Operation, timeout: Option<u64>, out: &Output) -> Result<(), Failure> {
    let clock = SystemClock::new();
    let bar = out.progress(operation.progress.total, "");
    while !operation.is_final {
        bar.set_message(in_short(&operation.progress));
        bar.set_position(over(&operation.progress));
        if let Some(timeout) = timeout.filter(|&timeout| clock.monotonic_ms() >= timeout) {
            bar.finish_and_clear();
            print(&operation, out)?;
            let message = format!("{} is still at work after {}", operation.id, format_duration_ms(timeout));
            return Err(Failure::new(Code::TimedOut, message)
                .hint("it goes on; watch it again, or stop it with `campanile op cancel`"));
        }
        tokio::time::sleep(LOOK).await;
        operation = client.get_operation(&operation.id).await?;
    }
    bar.finish_and_clear();
    print(&operation, out)?;
    let Operation { id, state, message, progress, .. } = &operation;
    match (state.as_str(), progress.failed) {
        ("DONE", 0) => Ok(()),
        ("DONE", failed) => {
            let (started, kind) = (progress.started, operation.kind.to_ascii_lowercase());
            Err(Failure::new(Code::Partial, format!("{failed} of {started} executions of the {kind} failed"))
                .hint("`campanile dead groups` shows what they died of"))
        }
        _ => {
            let why = if message.is_empty() { String::new() } else { format!(": {message}") };
            Err(Failure::new(Code::NotSucceeded, format!("{id} is {state}{why}")))
        }
    }
}

fn over(progress: &OperationProgress) -> u64 {
    progress.succeeded + progress.failed + progress.passed_over
}

fn in_short(progress: &OperationProgress) -> String {
    let OperationProgress { succeeded, failed, open, passed_over, .. } = progress;
    let passed = if *passed_over > 0 { format!("  passed over {passed_over}") } else { String::new() };
    format!("ok {succeeded}  failed {failed}  open {open}{passed}")
}

/// One operation.
pub fn print(operation: &Operation, out: &Output) -> Result<(), Failure> {
    out.print(operation, || vec![operation.id.clone()], |out| rows(&[operation], out))
}

fn rows(operations: &[&Operation], out: &Output) -> String {
    let now = clock::now();
    let rows = operations.iter().map(|operation| {
        let progress = &operation.progress;
        let total = progress.total.map_or("?".into(), |total| total.to_string());
        vec![
            operation.id.clone(),
            operation.kind.clone(),
            operation.state.clone(),
            format!("{}/{total}", over(progress)),
            progress.succeeded.to_string(),
            progress.failed.to_string(),
            progress.open.to_string(),
            out.instant(Some(&operation.created_at), now),
        ]
    });
    out.table(&["ID", "KIND", "STATE", "OVER", "OK", "FAILED", "OPEN", "CREATED"], rows)
}

fn details(operation: &Operation, out: &Output) -> String {
    let (spec, progress) = (&operation.spec, &operation.progress);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut pairs = vec![
        ("id", operation.id.clone()),
        ("kind", operation.kind.clone()),
        ("state", operation.state.clone()),
        ("", clean(&operation.message)),
        ("job", text(&spec.job_id)),
        ("from", text(&spec.from)),
        ("to", text(&spec.to)),
        ("reprocess", text(&spec.reprocess)),
        ("executions", spec.executions.join(", ")),
        ("filter", spec.filter.clone().filter(|_| spec.executions.is_empty()).unwrap_or_default()),
        ("rate", spec.per_second.map(when::show_rate).unwrap_or_default()),
        ("parallel", number(spec.max_parallel)),
        ("canary", number(spec.canary)),
        ("stops at", spec.stop_if_failing_percent.map(|share| format!("{share} % failures")).unwrap_or_default()),
        ("set out for", number(progress.total)),
        ("started", progress.started.to_string()),
        ("succeeded", progress.succeeded.to_string()),
        ("failed", progress.failed.to_string()),
        ("open", progress.open.to_string()),
        ("passed over", progress.passed_over.to_string()),
        ("created", operation.created_at.clone()),
        ("moved", operation.updated_at.clone()),
    ];
    pairs.retain(|(_, value)| !value.is_empty());
    out.pairs(&pairs)
}
