//! `campanile target`: whom actions are done to (a worker's handler, the origin of a URL), and what they can bear.

use super::exit::Failure;
use super::job::each;
use super::output::Output;
use super::pool::{Slots, slots};
use super::{Globals, when};
use campanile_client::wire::{Target, TargetSpec};
use campanile_client::{Client, WriteOptions};

/// What to do with targets.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List targets with limits, and those that fail or have a line
    #[command(after_help = "Example:\n  campanile target ls")]
    Ls,
    /// Limit what a target gets
    #[command(after_help = "\
Examples:
  campanile target set https://api.example.com --slots 8 --rate 10/s
  campanile target set send_mail --rate none")]
    Set(Set),
    /// Forget the limits of targets
    #[command(after_help = "Example:\n  campanile target rm https://api.example.com")]
    Rm {
        /// The targets
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

/// What a target gets.
#[derive(clap::Args)]
pub struct Set {
    /// The target: a worker's handler, or the origin of a URL such as `https://api.example.com`
    name: String,
    #[command(flatten)]
    limits: Limits,
}

/// Limits of a target. What is not named stays as it is.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Limits {
    /// At most so many attempts run at the same time; `none` for no limit
    #[arg(long, value_name = "N|none", value_parser = slots)]
    slots: Option<Slots>,
    /// At most so many attempts start per time, such as 10/s or 5/m; `none` for no limit
    #[arg(long, value_name = "RATE|none", value_parser = rate)]
    rate: Option<Rate>,
}

#[derive(Copy, Clone, Debug)]
struct Rate(Option<f64>);

fn rate(text: &str) -> Result<Rate, String> {
    if text == "none" { Ok(Rate(None)) } else { when::rate(text).map(|rate| Rate(Some(rate))) }
}

/// Runs a command about targets.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = &globals.client()?;
    let options = &globals.write();
    match command {
        Command::Ls => {
            let targets = client.list_targets().await?;
            let names = || targets.data.iter().map(|target| target.name.clone()).collect();
            out.print(&targets, names, |out| rows(&targets.data, out))?;
            if targets.data.is_empty() {
                out.chat("no target has limits, fails, or has a line");
            }
            Ok(())
        }
        Command::Set(args) => set(client, args, options, out).await,
        Command::Rm { names } => {
            let many = each(&names, async |name| client.delete_target(name, options).await).await;
            for (name, ()) in &many.done {
                out.chat(&format!("forgot the limits of {name}"));
            }
            many.end()
        }
    }
}

/// The API sets all limits at once; a person who names one means only that one.
async fn set(client: &Client, args: Set, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    let Limits { slots, rate } = args.limits;
    let known = match (slots, rate) {
        (Some(_), Some(_)) => None,
        _ => client.list_targets().await?.data.into_iter().find(|target| target.name == args.name),
    };
    let known = known.unwrap_or_default();
    let spec = TargetSpec {
        slots: slots.map_or(known.slots, |slots| slots.0),
        per_second: rate.map_or(known.per_second, |rate| rate.0),
    };
    let target = client.put_target(&args.name, &spec, options).await?;
    out.print(&target, || vec![target.name.clone()], |out| rows(std::slice::from_ref(&target), out))
}

fn rows(targets: &[Target], out: &Output) -> String {
    let rows = targets.iter().map(|target| {
        vec![
            target.name.clone(),
            target.slots.map_or("-".into(), |slots| slots.to_string()),
            target.per_second.map_or("-".into(), when::show_rate),
            target.running.to_string(),
            target.waiting.to_string(),
            if target.circuit_open { "OPEN: one probe at a time".into() } else { "closed".into() },
        ]
    });
    out.table(&["NAME", "SLOTS", "RATE", "RUNNING", "IN LINE", "CIRCUIT"], rows)
}
