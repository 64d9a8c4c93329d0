//! `campanile job`: jobs, by name or id.

use super::confirm::confirm;
use super::exit::{Code, Failure};
use super::output::{Output, clean};
use super::schedule::{brief, next_fires, words};
use super::{Globals, duration_ms, exec, job_create, job_edit, job_versions, pages, when};
use crate::clock;
use campanile_client::wire::Job;
use campanile_client::{Client, JobFilter, WriteOptions};
use campanile_model::schedule::format_duration_ms;
use campanile_model::{JobId, Timestamp};

/// What to do with jobs.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Create a job
    Create(Box<job_create::Args>),
    /// List jobs
    #[command(after_help = "Example:\n  campanile job ls --state paused --tag billing")]
    Ls(Ls),
    /// Show a job
    #[command(after_help = "Example:\n  campanile job get invoices -o yaml")]
    Get {
        /// The job: its name or id
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Change a job
    Edit(Box<job_edit::Args>),
    /// List the versions of a job, and what each changed
    History(job_versions::History),
    /// Show what differs between two versions of a job
    Diff(job_versions::Diff),
    /// Give a job the definition that it had in an earlier version
    Revert(job_versions::Revert),
    /// Stop the fires of jobs until they are resumed, or until an instant
    #[command(after_help = "Examples:\n  campanile job pause invoices\n  campanile job pause invoices --until 2h")]
    Pause(Pause),
    /// Let paused jobs fire again, from now on
    #[command(after_help = "Example:\n  campanile job resume invoices")]
    Resume(Jobs),
    /// Fire a job now, whatever its schedule
    #[command(after_help = "Example:\n  campanile job run invoices --wait --timeout 60s")]
    Run(Run),
    /// Delete jobs; their history stays
    #[command(after_help = "Example:\n  campanile job rm invoices --yes")]
    Rm(Rm),
}

/// Which jobs to list.
#[derive(clap::Args)]
pub struct Ls {
    /// Only in this state: active or paused
    #[arg(long)]
    state: Option<String>,
    /// Only with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only with names that start so
    #[arg(long)]
    prefix: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// Some jobs.
#[derive(clap::Args)]
pub struct Jobs {
    /// The jobs: names or ids
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
}

/// Jobs to pause.
#[derive(clap::Args)]
pub struct Pause {
    /// The jobs: names or ids
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// When the pause ends by itself: an instant, or a duration from now such as 2h
    #[arg(long, value_name = "WHEN", value_parser = when::future)]
    until: Option<Timestamp>,
    /// Only check, and show what would be
    #[arg(long)]
    dry_run: bool,
}

/// A fire by hand.
#[derive(clap::Args)]
pub struct Run {
    /// The job: its name or id
    #[arg(value_name = "JOB")]
    job: String,
    /// Wait until it has ended; exit code 10 if it did not succeed
    #[arg(long)]
    wait: bool,
    /// How long to wait at most; then exit code 6
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration_ms)]
    timeout: Option<u64>,
}

/// Jobs to delete.
#[derive(clap::Args)]
pub struct Rm {
    /// The jobs: names or ids
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only if the job is in this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u32>,
}

/// Runs a command about jobs.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let options = globals.write();
    match command {
        Command::Create(args) => job_create::run(*args, globals, out).await,
        Command::Edit(args) => job_edit::run(*args, globals, out).await,
        Command::History(args) => job_versions::history(args, globals, out).await,
        Command::Diff(args) => job_versions::diff(args, globals, out).await,
        Command::Revert(args) => job_versions::revert(args, globals, out).await,
        Command::Ls(args) => ls(&client, args, out).await,
        Command::Get { job } => {
            let job = client.get_job(&key(&job)).await?;
            out.print(&job, || vec![job.name.clone()], |out| details(&job, out))
        }
        Command::Pause(args) => {
            let client = &client;
            let options = WriteOptions { dry_run: args.dry_run, ..options };
            let until = args.until.map(|until| until.to_string());
            let verb = if args.dry_run { "would pause" } else { "paused" };
            change(&args.jobs, verb, out, async |job| match &until {
                Some(until) => client.pause_job_until(&key(job), until, &options).await,
                None => client.pause_job(&key(job), &options).await,
            })
            .await
        }
        Command::Resume(args) => {
            let (client, options) = (&client, &options);
            change(&args.jobs, "resumed", out, async |job| client.resume_job(&key(job), options).await).await
        }
        Command::Run(args) => fire(&client, args, &options, out).await,
        Command::Rm(args) => rm(&client, args, options, out).await,
    }
}

/// How the API names a job: an id as it is, everything else by name.
pub fn key(text: &str) -> String {
    if text.parse::<JobId>().is_ok() || text.starts_with("name:") { text.to_owned() } else { format!("name:{text}") }
}

async fn ls(client: &Client, args: Ls, out: &Output) -> Result<(), Failure> {
    let filter = JobFilter {
        limit: None,
        cursor: None,
        state: args.state.map(|state| state.to_ascii_uppercase()),
        tag: args.tag,
        name_prefix: args.prefix,
    };
    let wanted = if args.all { usize::MAX } else { args.limit as usize };
    let jobs = pages::collect(wanted, out, async |limit, cursor| {
        client.list_jobs(&JobFilter { limit: Some(limit), cursor, ..filter.clone() }).await
    });
    let jobs = jobs.await?;
    let names = || jobs.data.iter().map(|job| job.name.clone()).collect();
    out.print(&jobs, names, |out| {
        let now = clock::now();
        let rows = jobs.data.iter().map(|job| {
            let next = out.instant(job.next_fire_at.as_deref(), now);
            vec![job.name.clone(), job.state.clone(), brief(&job.schedule), next, format!("v{}", job.version)]
        });
        out.table(&["NAME", "STATE", "SCHEDULE", "NEXT", "VERSION"], rows)
    })?;
    if jobs.data.is_empty() {
        out.chat("no jobs");
    } else if jobs.has_more && out.is_table() {
        out.chat(&format!("the first {}; there are more: --all, or --limit", jobs.data.len()));
    }
    Ok(())
}

async fn fire(client: &Client, args: Run, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    let execution = client.run_job(&key(&args.job), options).await?;
    if args.wait {
        out.chat(&format!("fired {}; waiting", execution.id));
        return exec::wait(client, &execution.id, args.timeout, out).await;
    }
    out.chat(&format!("fired; `campanile exec wait {}` waits for it", execution.id));
    exec::print(&execution, out)
}

async fn rm(client: &Client, args: Rm, options: WriteOptions, out: &Output) -> Result<(), Failure> {
    if !args.yes {
        let jobs = args.jobs.iter().map(|job| clean(job)).collect::<Vec<_>>().join(", ");
        confirm(&format!("Delete {jobs}?"), "this deletes").await?;
    }
    let options = WriteOptions { if_match: args.if_version, ..options };
    let many = each(&args.jobs, async |job| client.delete_job(&key(job), &options).await).await;
    for (job, ()) in &many.done {
        out.chat(&format!("deleted {job}"));
    }
    many.end()
}

/// Changes several jobs, and shows them as they are now.
async fn change(
    jobs: &[String],
    verb: &str,
    out: &Output,
    call: impl AsyncFn(&str) -> Result<Job, campanile_client::Error>,
) -> Result<(), Failure> {
    let many = each(jobs, call).await;
    for (_, job) in &many.done {
        out.chat(&describe(job, verb));
    }
    let data: Vec<&Job> = many.done.iter().map(|(_, job)| job).collect();
    out.several(&data, |job| job.name.clone(), rows)?;
    many.end()
}

/// What became of several.
pub struct Many<T> {
    /// Those that worked.
    pub done: Vec<(String, T)>,
    failed: Vec<(String, Failure)>,
}

/// Does the same with several things, each alone.
pub async fn each<T>(names: &[String], call: impl AsyncFn(&str) -> Result<T, campanile_client::Error>) -> Many<T> {
    let mut many = Many { done: Vec::new(), failed: Vec::new() };
    for name in names {
        match call(name).await {
            Ok(value) => many.done.push((clean(name), value)),
            Err(error) => many.failed.push((clean(name), error.into())),
        }
    }
    many
}

impl<T> Many<T> {
    /// One failure is itself; some are partial success.
    pub fn end(mut self) -> Result<(), Failure> {
        match (self.done.len(), self.failed.len()) {
            (_, 0) => Ok(()),
            (0, 1) => Err(self.failed.remove(0).1),
            (done, failed) => {
                let code = if done == 0 { self.failed[0].1.code() } else { Code::Partial };
                let failure = Failure::new(code, format!("{failed} of {} failed", done + failed));
                Err(self
                    .failed
                    .iter()
                    .fold(failure, |all, (name, one)| all.detail(format!("{name}: {}", clean(one.message())))))
            }
        }
    }
}

/// A job in words, for stderr: what happened, when it fires, the next three fires.
pub fn describe(job: &Job, verb: &str) -> String {
    let id = if job.dry_run { String::new() } else { format!(" ({})", job.id) };
    let mut lines = vec![format!("{verb} {}{id}", clean(&job.name))];
    let words = words(job);
    if !words.is_empty() {
        lines.push(format!("  {words}"));
    }
    for (at, local) in next_fires(job, 3) {
        let local = if local.is_empty() { local } else { format!("  ({local})") };
        lines.push(format!("  next  {at}{local}"));
    }
    match (&job.paused_until, job.state.as_str()) {
        (Some(until), "PAUSED") => lines.push(format!("  paused: it does not fire until {}", clean(until))),
        (None, "PAUSED") => lines.push("  paused: it does not fire until it is resumed".into()),
        _ => {}
    }
    lines.join("\n")
}

/// A job after a write.
pub fn print_job(job: &Job, out: &Output) -> Result<(), Failure> {
    out.print(job, || vec![job.name.clone()], |out| rows(&[job], out))
}

fn rows(jobs: &[&Job], out: &Output) -> String {
    let now = clock::now();
    let rows = jobs.iter().map(|job| {
        let next = out.instant(job.next_fire_at.as_deref(), now);
        let id = if job.dry_run { "-".into() } else { job.id.clone() };
        vec![job.name.clone(), id, job.state.clone(), brief(&job.schedule), next, format!("v{}", job.version)]
    });
    out.table(&["NAME", "ID", "STATE", "SCHEDULE", "NEXT", "VERSION"], rows)
}

fn details(job: &Job, out: &Output) -> String {
    let action = job.action();
    let target = ["method", "url", "handler"].iter().filter_map(|field| action.config.get(*field)?.as_str());
    let action = std::iter::once(action.kind.as_str()).chain(target).collect::<Vec<_>>().join(" ");
    let retry = &job.retry_policy;
    let total = retry.total_timeout_ms.map(|ms| format!(", within {} in all", format_duration_ms(ms)));
    let paused = job.paused_until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
    let mut pairs = vec![
        ("name", job.name.clone()),
        ("description", job.description.clone().unwrap_or_default()),
        ("id", job.id.clone()),
        ("state", format!("{}{paused} (v{})", job.state, job.version)),
        ("schedule", brief(&job.schedule)),
        ("", words(job)),
    ];
    pairs.extend(
        next_fires(job, 3).into_iter().map(|(at, local)| ("next", format!("{at}  {local}").trim_end().to_owned())),
    );
    pairs.extend([
        ("action", action),
        ("payload", shorten(job.payload.get())),
        (
            "retry",
            format!(
                "{} attempts, {}, {} to {}{}",
                retry.max_attempts,
                retry.backoff,
                format_duration_ms(retry.initial_delay_ms),
                format_duration_ms(retry.max_delay_ms),
                total.unwrap_or_default()
            ),
        ),
        ("timeout", format_duration_ms(job.timeout_ms)),
        ("priority", job.priority.clone()),
        ("pool", job.pool.clone()),
        ("overlap", job.overlap.clone()),
        ("catch-up", catch_up(job)),
        ("expected", expected(job)),
        ("tags", job.tags.join(", ")),
        ("created", job.created_at.clone()),
        ("in force", format!("since {}", job.effective_at)),
    ]);
    if job.spread_ms > 0 {
        pairs.push(("spread", format_duration_ms(job.spread_ms)));
    }
    pairs.extend(job.blackouts.iter().map(|range| ("blackout", format!("{} to {}", range.from, range.to))));
    pairs.retain(|(_, value)| !value.is_empty() && value != "null");
    out.pairs(&pairs)
}

fn catch_up(job: &Job) -> String {
    let policy = &job.catch_up;
    let n = policy.n.map(|n| format!(" {n}")).unwrap_or_default();
    let drip = match policy.drip_ms {
        0 => String::new(),
        drip => format!(", {} apart", format_duration_ms(drip)),
    };
    format!("{}{n}, up to {} old{drip}", policy.mode, format_duration_ms(policy.max_age_ms))
}

fn expected(job: &Job) -> String {
    let Some(expect) = &job.expect else { return String::new() };
    let parts = [
        ("starts within", expect.start_within_ms),
        ("is over within", expect.finish_within_ms),
        ("succeeds every", expect.success_every_ms),
    ];
    let said = parts.iter().filter_map(|(what, ms)| Some(format!("{what} {}", format_duration_ms((*ms)?))));
    said.collect::<Vec<_>>().join(", ")
}

fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}... ({} bytes; all of it with -o json)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
