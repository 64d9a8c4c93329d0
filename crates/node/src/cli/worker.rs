//! `campanile worker run`: a ready worker that runs a program for each execution.
//!
//! The worker itself is that of the client crate; here is only what a handler does when it is a program: `program` runs it,
//! `verdict` reads its exit code. It needs a pool, since a program that takes whatever there is would take the work of
//! others.

mod program;
mod group;
mod pipes;
mod verdict;

use super::exit::{Code, Failure};
use super::output::{Output, clean};
use super::{Globals, duration_ms, start};
use crate::config::{Log, LogFormat};
use campanile_client::worker::{self, Ctx, Outcome, Worker, limits};
use program::Finished;
use serde_json::Value;
use serde_json::value::RawValue;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command as Process;

/// What to do about workers.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Be a worker that runs a program for each execution
    Run(Run),
}

/// A worker that runs a program.
#[derive(clap::Args)]
#[command(after_help = "\
The payload is on stdin, the rest in CAMPANILE_EXECUTION_ID, _JOB_NAME, _ATTEMPT and others.
Exit code 0 is success, and what was printed is the result. 65 fails for good, 99 asks for
another try in a minute without using one up, all others are tried again by the job's policy.

Example:
  campanile worker run --pool reports --concurrency 4 -- ./make-report --format pdf")]
pub struct Run {
    /// Take work from this pool; may be repeated
    #[arg(long = "pool", value_name = "POOL", required = true)]
    pools: Vec<String>,
    /// Only work for this handler; may be repeated [default: any]
    #[arg(long = "handler", value_name = "NAME")]
    handlers: Vec<String>,
    /// Programs that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=limits::CONCURRENCY_MAX as i64))]
    concurrency: u32,
    /// Name of the worker [default: made of host, process and chance]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// How long programs may go on when the worker should end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration_ms)]
    grace: u64,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// What a program gets beyond its own time to end, so that the worker does not drop it before it was killed.
const SLACK: Duration = Duration::from_secs(2);

/// Runs a command about workers.
pub fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let Command::Run(args) = command;
    let client = globals.client()?;
    let program = args.program;
    if !is_there(Path::new(&program[0]), std::env::var_os("PATH")) {
        let name = clean(&program[0].to_string_lossy());
        return Err(Failure::usage(format!("there is no program `{name}`")).hint("name a file, or a program in PATH"));
    }
    let level = if globals.quiet { "error" } else { "info" };
    crate::log::start(&Log { format: LogFormat::Text, level: level.into() });
    let url = client.base_url().trim_end_matches('/').to_owned();
    let shared = Arc::new((program, url));
    let handler = move |payload: Box<RawValue>, ctx: Ctx| {
        let shared = shared.clone();
        async move { execute(&shared.0, &shared.1, &payload, ctx).await }
    };
    let mut worker = Worker::new(client)
        .pools(args.pools)
        .concurrency(args.concurrency as usize)
        .grace(Duration::from_millis(args.grace))
        .cancel_grace(program::TERM_GRACE + SLACK)
        .timeout_grace(program::TERM_GRACE + SLACK);
    if let Some(id) = args.id {
        worker = worker.worker_id(id);
    }
    worker = match args.handlers.as_slice() {
        [] => worker.any_handler(handler),
        names => names.iter().fold(worker, |worker, name| worker.handler(name, handler.clone())),
    };
    start::block_on(async {
        let counts = worker.run().await?;
        out.chat(&summary(&counts));
        match counts.unanswered {
            0 => Ok(()),
            lost => Err(Failure::new(Code::Partial, format!("the server was not told how {lost} executions ended"))
                .hint("their leases end by themselves, and they are tried again")),
        }
    })
}

/// One execution: the program from start to end, and what its end means.
async fn execute(program: &[OsString], url: &str, payload: &RawValue, ctx: Ctx) -> Result<Value, Outcome> {
    let mut process = Process::new(&program[0]);
    process.args(&program[1..]).env("CAMPANILE_URL", url).env_remove("CAMPANILE_CHECKPOINT").envs(environment(&ctx));
    let log = |line: &str| ctx.log("info", line);
    let finished = program::run(&mut process, payload.get(), ctx.cancelled(), log).await;
    let finished = finished.map_err(|error| {
        Outcome::Retry(worker::Failure::new("spawn_failed", format!("cannot run the program: {error}")))
    })?;
    let Finished { exit, stopped, .. } = &finished;
    let execution = ctx.execution();
    tracing::info!(execution = %execution.execution_id, job = %execution.job_name, attempt = execution.attempt, %exit, stopped, "ran");
    let verdict = verdict::verdict(&finished);
    if verdict.is_err() && !finished.printed.is_empty() {
        ctx.output(finished.printed);
    }
    verdict
}

/// What a program is told beside its payload.
fn environment(ctx: &Ctx) -> Vec<(&'static str, String)> {
    let execution = ctx.execution();
    let mut environment = vec![
        ("CAMPANILE_EXECUTION_ID", execution.execution_id.clone()),
        ("CAMPANILE_JOB_ID", execution.job_id.clone()),
        ("CAMPANILE_JOB_NAME", execution.job_name.clone()),
        ("CAMPANILE_HANDLER", execution.handler.clone()),
        ("CAMPANILE_ATTEMPT", execution.attempt.to_string()),
        ("CAMPANILE_MAX_ATTEMPTS", execution.max_attempts.to_string()),
        ("CAMPANILE_FENCE_TOKEN", execution.fence_token.to_string()),
        ("CAMPANILE_SCHEDULED_AT", execution.scheduled_at.clone()),
        ("CAMPANILE_DEADLINE_AT", execution.deadline_at.clone()),
    ];
    environment.extend(execution.checkpoint.as_ref().map(|value| ("CAMPANILE_CHECKPOINT", value.to_string())));
    environment
}

/// Whether a program can be found as the system finds it. Said once at the start, and not by every attempt.
fn is_there(program: &Path, path: Option<OsString>) -> bool {
    if program.components().count() > 1 || program.is_absolute() {
        return program.is_file();
    }
    path.is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn summary(counts: &worker::Counts) -> String {
    let worker::Counts { claimed, completed, stale, released, .. } = counts;
    let mut text = format!("ended; {claimed} taken, {completed} completed");
    for (count, what) in [(stale, "lost to others"), (released, "given back")] {
        if *count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_path_or_in_path() {
        let path = Some(OsString::from("/nowhere:/bin:/usr/bin"));
        for (program, found) in
            [("sh", true), ("/bin/sh", true), ("no-such-program", false), ("./no-such-file", false), ("/bin", false)]
        {
            assert_eq!(is_there(Path::new(program), path.clone()), found, "{program}");
        }
        assert!(!is_there(Path::new("sh"), None));
    }

    #[test]
    fn the_summary_names_only_what_happened() {
        let counts = worker::Counts { claimed: 3, completed: 2, released: 1, ..Default::default() };
        assert_eq!(summary(&counts), "ended; 3 taken, 2 completed, 1 given back");
    }
}
