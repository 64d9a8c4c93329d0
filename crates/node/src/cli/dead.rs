//! `campanile dead`: executions that failed for good, and what to do about them.
//!
//! What names its executions one by one is done as it is said. What selects them (a filter, a group, all) is first
//! looked at, and a person is asked; without one, `--yes` must have been said.

use super::confirm::{self, ask};
use super::exit::{Code, Failure};
use super::output::{Output, clean};
use super::{Globals, duration_ms, exec, job, operation, pages, when};
use crate::clock;
use campanile_client::wire::{DeadGroup, DeadPlan, DiscardRequest, ReplayRequest};
use campanile_client::{Client, DeadFilter, WriteOptions};
use campanile_model::limits;

/// What to do with dead letters.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List dead executions, newest first
    #[command(after_help = "Example:\n  campanile dead ls --filter 'job:nightly-* scheduled:-24h..now'")]
    Ls(Ls),
    /// List what executions died of, most recent first
    #[command(after_help = "Example:\n  campanile dead groups")]
    Groups {
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50,
              value_parser = clap::value_parser!(u32).range(1..=limits::PAGE_ITEMS_MAX as i64))]
        limit: u32,
    },
    /// Show a dead execution with its attempts
    #[command(after_help = "Example:\n  campanile dead get exe_01J9ZC0000000000000000TEST")]
    Get {
        /// The execution
        id: String,
    },
    /// Run dead executions again; their attempts so far are kept
    Replay(Replay),
    /// Give dead executions up
    Discard(Discard),
}

/// Which dead executions to list.
#[derive(clap::Args)]
pub struct Ls {
    /// Only of this job: its name or id
    #[arg(long)]
    job: Option<String>,
    /// Only those that match, such as 'job:nightly-* error:Timeout*'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Only of this group: the first digits of its fingerprint
    #[arg(long, value_name = "FP")]
    fingerprint: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Which dead executions are meant.
#[derive(clap::Args)]
#[group(id = "which", required = true, multiple = false)]
pub struct Which {
    /// These executions
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All dead ones that match, such as 'job:nightly-* error:Timeout*'
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// All dead ones of this group; `campanile dead groups` lists them
    #[arg(long, value_name = "FP")]
    fingerprint: Option<String>,
    /// All dead ones
    #[arg(long)]
    all: bool,
}

/// Dead executions to run again.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile dead replay exe_01J9ZC0000000000000000TEST
  campanile dead replay --fingerprint 9f3a --canary 10 --rate 50/s --stop-if-failing 20% --wait")]
pub struct Replay {
    #[command(flatten)]
    which: Which,
    /// Start at most so many per time, such as 50/s or 10/m
    #[arg(long, value_name = "RATE", value_parser = when::rate)]
    rate: Option<f64>,
    /// Let at most so many run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=limits::OPERATION_OPEN_MAX as i64))]
    max_parallel: Option<u32>,
    /// Try so many first, and the rest when these are over
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=limits::OPERATION_OPEN_MAX as u64))]
    canary: Option<u64>,
    /// Stop when more than this share fails, such as 20%
    #[arg(long, value_name = "SHARE", value_parser = when::percent)]
    stop_if_failing: Option<f64>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be run again
    #[arg(long)]
    dry_run: bool,
    /// Wait until all of them are over; exit code 8 if some failed, 10 if it was stopped
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long to wait at most; then exit code 6
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration_ms)]
    timeout: Option<u64>,
}

/// Dead executions to give up.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile dead discard exe_01J9ZC0000000000000000TEST --reason 'refunded by hand' --yes
  campanile dead discard --fingerprint 9f3a --reason 'the customer is gone'")]
pub struct Discard {
    #[command(flatten)]
    which: Which,
    /// Why; kept with each of them
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be given up
    #[arg(long)]
    dry_run: bool,
}

/// Runs a command about dead letters.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    match command {
        Command::Ls(args) => ls(&client, args, out).await,
        Command::Groups { limit } => {
            let groups = client.list_dead_groups(Some(limit)).await?;
            let names = || groups.data.iter().map(|group| group.fingerprint.clone()).collect();
            out.print(&groups, names, |out| group_rows(&groups.data, out))?;
            pages::tell(&groups, "nothing is dead", out);
            Ok(())
        }
        Command::Get { id } => {
            exec::check_ids([&id])?;
            exec::get(&client, &id, out).await
        }
        Command::Replay(args) => replay(&client, args, &globals.write(), out).await,
        Command::Discard(args) => discard(&client, args, &globals.write(), out).await,
    }
}

async fn ls(client: &Client, args: Ls, out: &Output) -> Result<(), Failure> {
    exec::check_filter(args.filter.as_deref())?;
    let all = pages::collect(args.limit as usize, out, async |limit, cursor| {
        let (q, fp, job) = (args.filter.clone(), args.fingerprint.clone(), args.job.as_deref().map(job::key));
        client.list_dead(&DeadFilter { q, job, fp, limit: Some(limit), cursor }).await
    });
    let all = all.await?;
    exec::print_page(&all, "nothing is dead", out)
}

fn group_rows(groups: &[DeadGroup], out: &Output) -> String {
    let now = clock::now();
    let rows = groups.iter().map(|group| {
        vec![
            group.fingerprint.clone(),
            group.count.to_string(),
            group.target.clone(),
            group.kind.clone(),
            out.instant(Some(&group.first_at), now),
            out.instant(Some(&group.last_at), now),
            exec::shorten(&group.message),
        ]
    });
    out.table(&["FINGERPRINT", "COUNT", "TARGET", "ERROR", "FIRST", "LAST", "MESSAGE"], rows)
}

impl Which {
    fn check(&self) -> Result<(), Failure> {
        exec::check_ids(&self.ids)?;
        exec::check_filter(self.filter.as_deref())
    }

    /// Whether it says which by what they have in common, so that nobody has seen them one by one.
    fn selects(&self) -> bool {
        self.ids.is_empty()
    }
}

async fn replay(client: &Client, args: Replay, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    args.which.check()?;
    let asks = args.which.selects() && !args.yes && !args.dry_run;
    if asks {
        confirm::possible("this runs all of them again")?;
    }
    let selects = args.which.selects();
    let Which { ids, filter, fingerprint, all } = args.which;
    let request = ReplayRequest {
        executions: ids,
        filter,
        fingerprint,
        all,
        per_second: args.rate,
        rate: None,
        max_parallel: args.max_parallel,
        canary: args.canary,
        stop_if_failing_percent: args.stop_if_failing,
    };
    if args.dry_run {
        return show_plan(&client.preview_replay_dead(&request).await?, "would be run again", out);
    }
    if asks {
        let plan = client.preview_replay_dead(&request).await?;
        if plan.count == 0 {
            out.chat("nothing is dead that matches");
            return Ok(());
        }
        out.chat(&sketch(&plan));
        ask(&format!("Run {} again?", how_many(&plan))).await?;
    }
    if !selects {
        let (named, dead) = (request.executions.len() as u64, client.preview_replay_dead(&request).await?.count);
        match named.saturating_sub(dead) {
            0 => {}
            _ if dead == 0 => {
                return Err(Failure::new(Code::Conflict, "none of them is dead, and only dead ones are run again")
                    .hint("`campanile dead ls` lists those that are"));
            }
            others => out.chat(&format!("{others} of them are not dead, and are passed over")),
        }
    }
    let operation = client.replay_dead(&request, options).await?;
    operation::accepted(client, operation, args.wait.then_some(args.timeout), out).await
}

async fn discard(client: &Client, args: Discard, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    args.which.check()?;
    if args.reason.trim().is_empty() {
        return Err(Failure::usage("--reason is empty").hint("say why, for those who find them given up"));
    }
    let asks = !args.yes && !args.dry_run;
    if asks {
        confirm::possible("this gives them up for good")?;
    }
    let selects = args.which.selects();
    let Which { ids, filter, fingerprint, all } = args.which;
    let request = DiscardRequest { executions: ids, filter, fingerprint, all, reason: args.reason };
    if args.dry_run {
        return show_plan(&client.preview_discard_dead(&request).await?, "would be given up", out);
    }
    if asks {
        let plan = client.preview_discard_dead(&request).await?;
        if plan.count == 0 && selects {
            out.chat("nothing is dead that matches");
            return Ok(());
        }
        out.chat(&sketch(&plan));
        ask(&format!("Give {} up for good?", how_many(&plan))).await?;
    }
    let done = client.discard_dead(&request, options).await?;
    out.print(&done, || vec![done.discarded.to_string()], |_| format!("{} given up", done.discarded))?;
    if done.refused.is_empty() {
        return Ok(());
    }
    let code = match (done.discarded, done.refused.iter().all(|refused| refused.code == "execution_not_found")) {
        (0, true) => Code::NotFound,
        (0, false) => Code::Conflict,
        _ => Code::Partial,
    };
    let all = done.discarded + done.refused.len() as u64;
    let failure = Failure::new(code, format!("{} of {all} were not given up", done.refused.len()));
    Err(done.refused.iter().fold(failure, |failure, refused| {
        let why = match &refused.state {
            Some(state) => format!("is {state}"),
            None => "does not exist".into(),
        };
        failure.detail(format!("{} {why}", clean(&refused.id)))
    }))
}

fn how_many(plan: &DeadPlan) -> String {
    if plan.more { format!("more than {}", plan.count) } else { plan.count.to_string() }
}

/// What would be touched, in a few lines.
fn sketch(plan: &DeadPlan) -> String {
    let mut lines = vec![format!("{} dead, such as", how_many(plan))];
    lines.extend(plan.samples.iter().map(|execution| {
        let error = execution.error.as_ref().map(|error| format!("{}: {}", error.kind, error.message));
        let error = exec::shorten(&error.unwrap_or_default());
        clean(&format!("  {}  {}  {}  {error}", execution.id, execution.job_name, execution.fire_at))
    }));
    lines.join("\n")
}

fn show_plan(plan: &DeadPlan, what: &str, out: &Output) -> Result<(), Failure> {
    out.chat(&format!("{} {what}", how_many(plan)));
    let samples: Vec<_> = plan.samples.iter().collect();
    out.print(plan, || exec::ids_of(&samples), |out| exec::rows(&samples, out))
}
