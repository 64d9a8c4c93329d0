//! `campanile exec cancel`: executions, or one fire of a job that may not have come yet.

use super::exec::{check_ids, print, print_several};
use super::exit::Failure;
use super::job::{self, each};
use super::output::{Output, clean};
use super::{duration_ms, when};
use campanile_client::wire::{CancelFireRequest, CancelRequest, Execution};
use campanile_client::{Client, WriteOptions};
use campanile_model::Timestamp;

/// What to cancel.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile exec cancel exe_01J9ZC0000000000000000TEST --note 'wrong month'
  campanile exec cancel --job invoices --at '2026-12-24 03:00 Europe/Berlin'

What has not started will not. A worker's running attempt is asked to stop, and loses its execution after
the grace period; anything else that runs ends at once.")]
pub struct Args {
    /// The executions
    #[arg(value_name = "ID", required_unless_present = "job")]
    ids: Vec<String>,
    /// Instead: a fire of this job, which may not have come yet
    #[arg(long, value_name = "JOB", requires = "at", conflicts_with = "ids")]
    job: Option<String>,
    /// The instant of that fire
    #[arg(long, value_name = "WHEN", requires = "job", allow_hyphen_values = true, value_parser = when::instant)]
    at: Option<Timestamp>,
    /// How long a worker's attempt gets to stop by itself; 0 ends it at once [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = grace)]
    grace: Option<u64>,
    /// Why, for whoever looks later
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Only check
    #[arg(long, conflicts_with = "job")]
    dry_run: bool,
}

fn grace(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { duration_ms(text) }
}

/// Cancels.
pub async fn run(client: &Client, args: Args, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    if let (Some(job), Some(at)) = (&args.job, args.at) {
        let request = CancelFireRequest { at: at.to_string(), grace_ms: args.grace, note: args.note };
        let execution = client.cancel_fire(&job::key(job), &request, options).await?;
        tell(&execution, out);
        return print(&execution, out);
    }
    check_ids(&args.ids)?;
    let options = &WriteOptions { dry_run: args.dry_run, ..options.clone() };
    let request = CancelRequest { grace_ms: args.grace, note: args.note };
    let many = each(&args.ids, async |id| client.cancel_execution(id, &request, options).await).await;
    let data: Vec<&Execution> = many.done.iter().map(|(_, execution)| execution).collect();
    match args.dry_run {
        true => out.chat(&format!("{} would be cancelled, or asked to stop", data.len())),
        false => data.iter().for_each(|execution| tell(execution, out)),
    }
    print_several(&data, out)?;
    many.end()
}

/// One that runs is not cancelled yet.
fn tell(execution: &Execution, out: &Output) {
    if !execution.is_final {
        let worker = execution.worker.as_deref().map(clean).unwrap_or_else(|| "its worker".into());
        out.chat(&format!("{} runs; {worker} is asked to stop it", execution.id));
    }
}
