//! `campanile bench`: how fast, how punctual, how small. Every benchmark first verifies that nothing was lost, doubled or
//! early, and prints no figure otherwise.
//!
//! The engine under test is the real one on the real embedded store, with synchronous commits; only the action is a recorder
//! that notes when each execution started. The machine is part of every result.

mod lab;
mod machine;
mod report;
mod cost;
mod store;
mod drain;
mod sink;
mod webhook;
mod pull;
mod lateness;
mod sustain;
mod stampede;
mod register;
mod coldstart;
mod idle;
mod history;
mod wheel;

use campanile_model::limits;
pub use lab::node;
pub use report::Report;
use std::path::PathBuf;

/// Measures this machine. Nothing is printed before it is verified that no execution was lost, doubled or early.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: campanile bench drain --jobs 200000")]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    which: Which,
    /// Where the measured store is created and removed again; by default the system's temporary directory.
    #[arg(long, global = true)]
    scratch: Option<PathBuf>,
    /// Measure on this PostgreSQL instead, with its queue and coordinator, in a schema that is dropped at the end.
    #[arg(long, global = true, value_name = "URL", env = "CAMPANILE_BENCH_STORE", hide_env_values = true)]
    store: Option<String>,
}

#[derive(clap::Subcommand, Debug)]
enum Which {
    /// The raw batch verbs of the store: put, fire, claim, complete.
    Store {
        /// Executions.
        #[arg(long, default_value_t = 200_000)]
        jobs: usize,
        /// Rows per call.
        #[arg(long, default_value_t = 2_000)]
        batch: usize,
    },
    /// End to end: due jobs fired, dispatched, run and durably completed, against the raw store in the same run.
    Drain {
        /// Executions.
        #[arg(long, default_value_t = 200_000)]
        jobs: usize,
        /// How often the pair (raw store, drain) is repeated.
        #[arg(long, default_value_t = 3)]
        repeat: usize,
    },
    /// Webhooks to a sink in a process of its own, against the same HTTP client alone in the same run.
    Webhook {
        /// Webhooks due at once; with --rate, calls of the client alone.
        #[arg(long, default_value_t = 20_000)]
        jobs: usize,
        /// Instead of all at once: webhooks per second.
        #[arg(long)]
        rate: Option<usize>,
        /// With --rate: for how long.
        #[arg(long, default_value_t = 20)]
        seconds: usize,
        /// How long the sink waits before it answers, in milliseconds.
        #[arg(long, default_value_t = 0)]
        delay_ms: u64,
        /// How often the pair (client alone, webhooks) is repeated.
        #[arg(long, default_value_t = 3)]
        repeat: usize,
    },
    /// The same with external workers over loopback HTTP, against the in-process drain of the same run.
    Pull {
        /// Executions.
        #[arg(long, default_value_t = 200_000)]
        jobs: usize,
        /// Workers.
        #[arg(long, default_value_t = 64)]
        workers: usize,
        /// Executions in one claim, and in one completion.
        #[arg(long, default_value_t = 100)]
        batch: usize,
        /// How often the pair (drain, pull) is repeated.
        #[arg(long, default_value_t = 3)]
        repeat: usize,
    },
    /// From the instant to the start, under a steady rate.
    Lateness {
        /// Fires per second.
        #[arg(long, default_value_t = 1_000)]
        rate: usize,
        /// For how long.
        #[arg(long, default_value_t = 30)]
        seconds: usize,
    },
    /// Many registered jobs and a steady rate of fires, for minutes.
    Sustain {
        /// Registered jobs.
        #[arg(long, default_value_t = 10_000_000)]
        jobs: usize,
        /// Fires per second.
        #[arg(long, default_value_t = 30_000)]
        rate: usize,
        /// For how long.
        #[arg(long, default_value_t = 300)]
        seconds: usize,
    },
    /// Everything due in the same second.
    Stampede {
        /// Executions.
        #[arg(long, default_value_t = 1_000_000)]
        jobs: usize,
        /// Seconds between registration and that second.
        #[arg(long, default_value_t = 120)]
        ahead: u64,
    },
    /// Accepting jobs: in bulk, and one by one over HTTP.
    Register {
        /// Jobs in bulk.
        #[arg(long, default_value_t = 500_000)]
        jobs: usize,
        /// Jobs one by one.
        #[arg(long, default_value_t = 50_000)]
        singles: usize,
        /// Connections for those.
        #[arg(long, default_value_t = 64)]
        connections: usize,
    },
    /// From exec to the first on-time fire with many jobs registered; memory per job; CPU when idle.
    Coldstart {
        /// Registered jobs.
        #[arg(long, default_value_t = 1_000_000)]
        jobs: usize,
    },
    /// What a node asks of PostgreSQL when nothing is due.
    Idle {
        /// Registered jobs.
        #[arg(long, default_value_t = 1_000_000)]
        jobs: usize,
        /// For how long.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
    },
    /// Pages of history when there is much of it.
    History {
        /// Executions.
        #[arg(long, default_value_t = 1_000_000)]
        executions: usize,
    },
    /// The timer wheel alone.
    Wheel {
        /// Entries.
        #[arg(long, default_value_t = 1_000_000)]
        entries: usize,
    },
    /// The target of `webhook`.
    #[command(hide = true)]
    Sink {
        /// How long it waits before it answers, in milliseconds.
        #[arg(long)]
        delay_ms: u64,
    },
    /// A node that `coldstart` watches.
    #[command(hide = true)]
    ColdstartChild {
        /// Its store.
        #[arg(long)]
        dir: PathBuf,
        /// How many jobs it has in memory when it has loaded them all.
        #[arg(long)]
        planned: usize,
        /// How long it lives then, in seconds.
        #[arg(long)]
        linger: u64,
    },
}

/// Runs one benchmark.
pub async fn run(args: Args) -> Result<Report, String> {
    let place = lab::Place { scratch: args.scratch, server: args.store };
    match args.which {
        Which::Store { jobs, batch } => store::run(place, jobs, batch).await,
        Which::Drain { jobs, repeat } => drain::run(place, jobs, repeat).await,
        Which::Pull { jobs, workers, batch, repeat } => {
            let workers = pull::Workers { count: workers, batch: batch.min(limits::PULL_ITEMS_MAX) };
            pull::run(place, jobs, workers, repeat).await
        }
        Which::Webhook { jobs, rate, seconds, delay_ms, repeat } => {
            let steady = rate.map(|rate| (rate.max(1), seconds.max(1)));
            webhook::run(place, webhook::Load { jobs: jobs.max(1), steady, delay_ms }, repeat).await
        }
        Which::Lateness { rate, seconds } => lateness::run(place, rate, seconds).await,
        Which::Sustain { jobs, rate, seconds } => sustain::run(place, jobs.max(1), rate.max(1), seconds.max(1)).await,
        Which::Stampede { jobs, ahead } => stampede::run(place, jobs, ahead).await,
        Which::Register { jobs, singles, connections } => register::run(place, jobs, singles, connections).await,
        Which::Coldstart { jobs } => coldstart::run(place, jobs).await,
        Which::Idle { jobs, seconds } => idle::run(place, jobs, seconds).await,
        Which::History { executions } => history::run(place, executions.max(1_000)).await,
        Which::Wheel { entries } => Ok(wheel::run(entries)),
        Which::Sink { delay_ms } => {
            sink::serve(delay_ms).await?;
            std::process::exit(0);
        }
        Which::ColdstartChild { dir, planned, linger } => coldstart::child(dir, planned, linger).await,
    }
}
