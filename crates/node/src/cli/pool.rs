//! `campanile pool`: named capacity, its limits, and what is in it.

use super::Globals;
use super::exit::Failure;
use super::job::each;
use super::output::{Output, clean, rough};
use campanile_client::wire::{Pool, PoolSpec};

/// What to do with pools.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List pools: their limits, what waits and what runs
    #[command(after_help = "Example:\n  campanile pool ls")]
    Ls,
    /// Show a pool
    #[command(after_help = "Example:\n  campanile pool get short")]
    Get {
        /// The pool
        name: String,
    },
    /// Limit how much of a pool runs at the same time
    #[command(after_help = "Example:\n  campanile pool set reports --slots 4")]
    Set {
        /// The pool
        name: String,
        /// At most so many attempts run at the same time; `none` for no limit
        #[arg(long, value_name = "N|none", value_parser = slots)]
        slots: Slots,
    },
    /// Let nothing of these pools start until they are resumed; what runs goes on
    #[command(after_help = "Example:\n  campanile pool pause reports")]
    Pause(Names),
    /// Let paused pools go on
    #[command(after_help = "Example:\n  campanile pool resume reports")]
    Resume(Names),
    /// Forget the limits of pools; jobs may still name them
    #[command(after_help = "Example:\n  campanile pool rm reports")]
    Rm(Names),
}

/// Some pools.
#[derive(clap::Args)]
pub struct Names {
    /// The pools
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// A number of slots, or no limit.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Slots(pub Option<u32>);

/// Reads a number of slots.
pub fn slots(text: &str) -> Result<Slots, String> {
    match text {
        "none" => Ok(Slots(None)),
        _ => match text.parse() {
            Ok(slots) if slots > 0 => Ok(Slots(Some(slots))),
            _ => Err("a number from 1 on, or none".into()),
        },
    }
}

/// Runs a command about pools.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = &globals.client()?;
    let options = &globals.write();
    match command {
        Command::Ls => {
            let pools = client.list_pools().await?;
            let data: Vec<&Pool> = pools.data.iter().collect();
            let names = || pools.data.iter().map(|pool| pool.name.clone()).collect();
            out.print(&pools, names, |out| rows(&data, out))
        }
        Command::Get { name } => {
            let pool = client.get_pool(&name).await?;
            out.print(&pool, || vec![pool.name.clone()], |out| details(&pool, out))
        }
        Command::Set { name, slots } => {
            let spec = PoolSpec { slots: slots.0, paused: None };
            print(&[&client.put_pool(&name, &spec, options).await?], out)
        }
        Command::Pause(args) => change(args, out, async |name| client.pause_pool(name, options).await).await,
        Command::Resume(args) => change(args, out, async |name| client.resume_pool(name, options).await).await,
        Command::Rm(args) => {
            let many = each(&args.names, async |name| client.delete_pool(name, options).await).await;
            for (name, ()) in &many.done {
                out.chat(&format!("forgot the limits of {name}"));
            }
            many.end()
        }
    }
}

/// Changes several pools, and shows them as they are now.
async fn change(
    args: Names,
    out: &Output,
    call: impl AsyncFn(&str) -> Result<Pool, campanile_client::Error>,
) -> Result<(), Failure> {
    let many = each(&args.names, call).await;
    let data: Vec<&Pool> = many.done.iter().map(|(_, pool)| pool).collect();
    print(&data, out)?;
    many.end()
}

fn print(pools: &[&Pool], out: &Output) -> Result<(), Failure> {
    out.several(pools, |pool| pool.name.clone(), rows)
}

fn rows(pools: &[&Pool], out: &Output) -> String {
    let rows = pools.iter().map(|pool| {
        vec![
            pool.name.clone(),
            if pool.paused { "PAUSED".into() } else { "ACTIVE".into() },
            pool.slots.map_or("-".into(), |slots| slots.to_string()),
            pool.running.to_string(),
            pool.queued.to_string(),
            pool.oldest_waiting_ms.map_or("-".into(), rough),
            pool.waiting.to_string(),
            pool.retrying.to_string(),
            pool.held.to_string(),
            pool.workers.to_string(),
        ]
    });
    let header = ["NAME", "STATE", "SLOTS", "RUNNING", "QUEUED", "OLDEST", "PENDING", "RETRYING", "HELD", "WORKERS"];
    out.table(&header, rows)
}

fn details(pool: &Pool, out: &Output) -> String {
    let mut pairs = vec![
        ("name", pool.name.clone()),
        ("state", if pool.paused { "PAUSED: nothing starts".into() } else { "ACTIVE".into() }),
        ("slots", pool.slots.map_or("no limit".into(), |slots| slots.to_string())),
        ("running", pool.running.to_string()),
        ("queued", format!("{} may start now", pool.queued)),
        ("oldest", pool.oldest_waiting_at.as_deref().map(clean).unwrap_or_default()),
        ("pending", pool.waiting.to_string()),
        ("retrying", pool.retrying.to_string()),
        ("held", format!("{} wait for an earlier run", pool.held)),
        ("workers", format!("{} ask for its work", pool.workers)),
        ("updated", pool.updated_at.clone().unwrap_or_default()),
    ];
    pairs.retain(|(_, value)| !value.is_empty());
    out.pairs(&pairs)
}
