//! `campanile worker`: the workers that a server has heard of; and `run`, which is one.

use super::exit::Failure;
use super::job::each;
use super::output::Output;
use super::{Globals, worker};
use crate::clock;
use campanile_client::Client;
use campanile_client::wire::{Directive, WorkerStatus};

/// What to do with workers.
#[derive(clap::Subcommand)]
pub enum Command {
    #[command(flatten)]
    Be(worker::Command),
    /// List the workers heard of within the last hour
    #[command(after_help = "Example:\n  campanile worker ls")]
    Ls,
    /// Let workers take nothing new; they go on with what they have
    #[command(after_help = "Example:\n  campanile worker quiet w-42")]
    Quiet(Ids),
    /// Let workers take nothing new, finish, and end
    #[command(after_help = "Example:\n  campanile worker drain w-42")]
    Drain(Ids),
    /// Let quiet workers take work again
    #[command(after_help = "Example:\n  campanile worker resume w-42")]
    Resume(Ids),
}

/// Some workers.
#[derive(clap::Args)]
pub struct Ids {
    /// The workers, as `campanile worker ls` names them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Runs a command about workers.
pub fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    match command {
        // It has threads of its own, and handles signals itself.
        Command::Be(command) => worker::run(command, globals, out),
        command => super::ask(directed(command, globals, out)),
    }
}

async fn directed(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = &globals.client()?;
    let options = &globals.write();
    match command {
        Command::Be(_) => Ok(()),
        Command::Ls => ls(client, out).await,
        Command::Quiet(args) => direct(args, out, async |id| client.quiet_worker(id, options).await).await,
        Command::Drain(args) => direct(args, out, async |id| client.drain_worker(id, options).await).await,
        Command::Resume(args) => direct(args, out, async |id| client.resume_worker(id, options).await).await,
    }
}

async fn ls(client: &Client, out: &Output) -> Result<(), Failure> {
    let workers = client.list_workers().await?;
    let data: Vec<&WorkerStatus> = workers.data.iter().collect();
    let ids = || workers.data.iter().map(|worker| worker.id.clone()).collect();
    out.print(&workers, ids, |out| rows(&data, out))?;
    if data.is_empty() {
        out.chat("no worker has asked within the last hour; `campanile worker run` is one");
    }
    Ok(())
}

/// Directs several workers, and shows them as they are now.
async fn direct(
    args: Ids,
    out: &Output,
    call: impl AsyncFn(&str) -> Result<WorkerStatus, campanile_client::Error>,
) -> Result<(), Failure> {
    let many = each(&args.ids, call).await;
    let data: Vec<&WorkerStatus> = many.done.iter().map(|(_, worker)| worker).collect();
    out.several(&data, |worker| worker.id.clone(), rows)?;
    many.end()
}

fn rows(workers: &[&WorkerStatus], out: &Output) -> String {
    let now = clock::now();
    let names = |names: &[String]| if names.is_empty() { "any".into() } else { names.join(",") };
    let rows = workers.iter().map(|worker| {
        vec![
            worker.id.clone(),
            state(worker).into(),
            names(&worker.pools),
            names(&worker.handlers),
            worker.running.to_string(),
            worker.capacity.to_string(),
            out.instant(Some(&worker.last_seen_at), now),
            worker.sdk.clone().unwrap_or_else(|| "-".into()),
        ]
    });
    out.table(&["ID", "STATE", "POOLS", "HANDLERS", "HEARTBEATS FOR", "ASKS FOR", "LAST SEEN", "SDK"], rows)
}

fn state(worker: &WorkerStatus) -> &'static str {
    match (worker.present, worker.directive) {
        (false, _) => "GONE",
        (true, Directive::Run) => "ACTIVE",
        (true, Directive::Quiet) => "QUIET",
        (true, Directive::Drain) => "DRAINING",
    }
}
