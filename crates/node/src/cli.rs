//! The command line: one file per noun (or per noun and verb, where there is more to say).
//!
//! Data goes to stdout and everything else to stderr; `-o` chooses the form of the data; the exit codes are in [`exit`].
//! `explain`, `preview`, `completion` and `config` need no server; `dev` and `server` are one; all others ask one.

pub mod exit;
pub mod output;
mod usage;
mod when;
mod confirm;
mod schedule;
mod explain;
mod preview;
mod job;
mod job_spec;
mod job_create;
mod job_edit;
mod job_versions;
mod exec;
mod exec_logs;
mod exec_cancel;
mod why;
mod dead;
mod backfill;
mod operation;
mod pool;
mod target;
mod worker;
mod fleet;
mod notify;
mod pages;
mod cluster;
mod status;
mod doctor;
mod backup;
mod restore;
mod migrate;
mod completion;
mod config_show;
mod start;
mod dev;
mod demo;
mod server;

use clap::{Args, Parser, Subcommand};
use exit::{Code, Failure};
use output::{Color, Format, Output};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// A distributed job scheduler: cron, one-off and delayed jobs, fired on time.
#[derive(Parser)]
#[command(name = "campanile", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start here:
  campanile dev                                  a server on this machine, data in ./.campanile
  campanile job create hello --every 5s --noop   a job
  campanile exec ls --job hello                  what became of it

Exit codes: 0 ok, 1 failed, 3 not found, 4 not allowed, 5 conflict, 6 wait timed out, 7 server
unreachable, 8 partly done, 10 the awaited execution did not succeed, 64 usage, 130 interrupted.";

/// Flags of every command.
#[derive(Args, Clone)]
#[command(next_help_heading = "Everywhere")]
pub struct Globals {
    /// The server to ask
    #[arg(long, global = true, env = "CAMPANILE_URL", default_value = DEFAULT_URL, hide_env_values = true)]
    url: String,
    /// How data is printed: table, json, yaml or name
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT", hide_possible_values = true)]
    output: Format,
    /// When there is colour: auto, always or never
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", hide_possible_values = true)]
    color: Color,
    /// Only data and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Makes sending a write again harmless: the same key means the same write
    #[arg(long, global = true, value_name = "KEY", env = "CAMPANILE_IDEMPOTENCY_KEY", hide_env_values = true)]
    idempotency_key: Option<String>,
}

const DEFAULT_URL: &str = "http://127.0.0.1:8080";

#[derive(Subcommand)]
enum Command {
    /// Start a server on this machine to try things out
    Dev(dev::Args),
    /// Start a server for production
    Server(server::Args),
    /// Create, list and change jobs
    #[command(subcommand)]
    Job(job::Command),
    /// List, wait for and cancel executions
    #[command(subcommand)]
    Exec(exec::Command),
    /// Say whether a job ran at an instant, and why not
    Why(why::Args),
    /// Look at what failed for good, run it again or give it up
    #[command(subcommand)]
    Dead(dead::Command),
    /// Run a job for fires of its past
    Backfill(backfill::Args),
    /// Watch and stop replays and backfills
    #[command(subcommand)]
    Op(operation::Command),
    /// Limit, pause and look at pools
    #[command(subcommand)]
    Pool(pool::Command),
    /// Limit what a handler or a host gets
    #[command(subcommand)]
    Target(target::Command),
    /// Be a worker that runs a program, and direct the others
    #[command(subcommand)]
    Worker(fleet::Command),
    /// Tell others of what happens to jobs
    #[command(subcommand)]
    Notify(notify::Command),
    /// Say what a schedule means (needs no server)
    Explain(explain::Args),
    /// Show when a schedule fires (needs no server)
    Preview(preview::Args),
    /// Show how the server is
    Status,
    /// Look at the nodes, and what they own
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Check the server and this machine, with a fix for what is wrong
    Doctor,
    /// Copy the embedded store to a file, while the server runs or not
    Backup(backup::Args),
    /// Make a backup the embedded store
    Restore(restore::Args),
    /// Move an embedded installation to PostgreSQL
    Migrate(migrate::Args),
    /// Show the effective configuration
    #[command(subcommand)]
    Config(config_show::Command),
    /// Print a completion script for a shell
    Completion(completion::Args),
    /// Measure this machine: how fast, how punctual, how small
    Bench(crate::bench::Args),
}

/// Parses, runs, and reports.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(usage::protect_expression(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    // Two providers of cryptography would panic on the first TLS connection; this names the one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let out = Output::new(cli.globals.output, cli.globals.color, cli.globals.quiet);
    match run(cli, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, out: &Output) -> Result<(), Failure> {
    let globals = cli.globals;
    match cli.command {
        Command::Dev(args) => dev::run(args, out),
        Command::Server(args) => server::run(args, out),
        Command::Job(command) => ask(job::run(command, &globals, out)),
        Command::Exec(command) => ask(exec::run(command, &globals, out)),
        Command::Why(args) => ask(why::run(args, &globals, out)),
        Command::Dead(command) => ask(dead::run(command, &globals, out)),
        Command::Backfill(args) => ask(backfill::run(args, &globals, out)),
        Command::Op(command) => ask(operation::run(command, &globals, out)),
        Command::Pool(command) => ask(pool::run(command, &globals, out)),
        Command::Target(command) => ask(target::run(command, &globals, out)),
        Command::Worker(command) => fleet::run(command, &globals, out),
        Command::Notify(command) => ask(notify::run(command, &globals, out)),
        Command::Explain(args) => explain::run(&args, out),
        Command::Preview(args) => preview::run(&args, out),
        Command::Status => ask(status::run(&globals, out)),
        Command::Cluster(command) => ask(cluster::run(command, &globals, out)),
        Command::Doctor => ask(doctor::run(&globals, out)),
        Command::Backup(args) => backup::run(args, out),
        Command::Restore(args) => restore::run(args, out),
        Command::Migrate(args) => ask(migrate::run(args, out)),
        Command::Config(command) => config_show::run(command, out),
        Command::Completion(args) => completion::run(&args, out),
        Command::Bench(args) => bench(args, out),
    }
}

impl Globals {
    /// A client of the server that was named.
    fn client(&self) -> Result<campanile_client::Client, Failure> {
        // A variable that is set to nothing is as good as not set.
        let url = if self.url.is_empty() { DEFAULT_URL } else { &self.url };
        Ok(campanile_client::Client::new(url)?)
    }

    /// What goes with a write: the key, where there is one.
    fn write(&self) -> campanile_client::WriteOptions {
        let idempotency_key = self.idempotency_key.clone().filter(|key| !key.is_empty());
        campanile_client::WriteOptions { idempotency_key, ..Default::default() }
    }
}

/// Runs a command that asks a server; Ctrl-C ends it.
fn ask(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Code::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            () = interrupted() => Err(Failure::new(Code::Interrupted, "interrupted")),
            result = command => result,
        }
    });
    // A thread may still wait for an answer at the terminal, which nobody wants any more.
    runtime.shutdown_background();
    result
}

/// Whether Ctrl-C is meant for somebody else: an editor that we have started.
static EDITING: AtomicBool = AtomicBool::new(false);

/// Waits for a Ctrl-C that is meant for us.
async fn interrupted() {
    loop {
        match tokio::signal::ctrl_c().await {
            Ok(()) if !EDITING.load(Ordering::Relaxed) => return,
            Ok(()) => {}
            Err(_) => std::future::pending().await,
        }
    }
}

/// Runs a benchmark on all cores.
fn bench(args: crate::bench::Args, out: &Output) -> Result<(), Failure> {
    start::block_on(async {
        let measured = tokio::select! {
            biased;
            () = interrupted() => return Err(Failure::new(Code::Interrupted, "interrupted")),
            measured = crate::bench::run(args) => measured,
        };
        let report = measured.map_err(|message| Failure::new(Code::Failed, message))?;
        out.print(&report.json(), || vec![report.table()], |_| report.table())
    })
}

/// Reads a duration flag; the text goes to the server as it is.
fn duration(text: &str) -> Result<String, String> {
    match campanile_model::schedule::parse_duration_ms(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; such as 90s, 5m or 1h30m")),
    }
}

/// Reads a duration flag as milliseconds.
fn duration_ms(text: &str) -> Result<u64, String> {
    campanile_model::schedule::parse_duration_ms(text).map_err(|error| format!("{error}; such as 90s, 5m or 1h30m"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_flags_of_every_command_fit_together() {
        use clap::CommandFactory;
        let mut cli = super::Cli::command();
        // A flag of a command that has the name of a flag of all would take its place; clap does not notice.
        let everywhere: Vec<String> = cli.get_arguments().map(|arg| arg.get_id().to_string()).collect();
        fn check(command: &clap::Command, everywhere: &[String]) {
            for arg in command.get_arguments() {
                assert!(!everywhere.contains(&arg.get_id().to_string()), "{}: {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(|command| check(command, everywhere));
        }
        cli.get_subcommands().for_each(|command| check(command, &everywhere));
        cli.build();
        cli.debug_assert();
    }
}
