//! `campanile exec logs`: what the attempts of an execution logged.

use super::exec::check_ids;
use super::exit::{Code, Failure};
use super::output::{Format, Output, Paint, clean};
use campanile_client::Client;
use campanile_client::wire::{LogEntry, Logs};
use std::time::Duration;

/// Which logs.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  campanile exec logs exe_01J9ZC0000000000000000TEST --follow")]
pub struct Args {
    /// The execution
    id: String,
    /// Go on with what is logged from now on, until the execution is over
    #[arg(short, long)]
    follow: bool,
    /// Only after this position
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
}

const PAGE: u32 = campanile_model::limits::PAGE_ITEMS_MAX as u32;
/// How often there is a look at what came, while following.
const LOOK: Duration = Duration::from_millis(500);

/// Shows logs.
pub async fn run(client: &Client, args: Args, out: &Output) -> Result<(), Failure> {
    check_ids([&args.id])?;
    if args.follow {
        return follow(client, &args, out).await;
    }
    let mut all = Logs { next_after: args.after, ..Logs::default() };
    loop {
        let page = client.list_logs(&args.id, all.next_after, Some(PAGE)).await?;
        all.data.extend(page.data);
        (all.has_more, all.next_after) = (page.has_more, page.next_after);
        if !all.has_more {
            break;
        }
    }
    let names = || all.data.iter().map(|entry| entry.seq.to_string()).collect();
    out.print(&all, names, |out| {
        let lines: Vec<String> = all.data.iter().map(|entry| line(entry, out)).collect();
        lines.join("\n")
    })?;
    if all.data.is_empty() {
        out.chat("nothing was logged; workers log with their heartbeats");
    }
    Ok(())
}

async fn follow(client: &Client, args: &Args, out: &Output) -> Result<(), Failure> {
    let mut after = args.after;
    loop {
        // First the state, then the lines: what was logged before the end is then among them.
        let over = client.get_execution(&args.id).await?.is_final;
        let page = client.list_logs(&args.id, after, Some(PAGE)).await?;
        for entry in &page.data {
            print(entry, out)?;
        }
        after = page.next_after;
        match (page.has_more, over) {
            (true, _) => {}
            (false, true) => return Ok(()),
            (false, false) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// One line as it comes; for programs, one object per line.
fn print(entry: &LogEntry, out: &Output) -> Result<(), Failure> {
    match out.format() {
        Format::Json | Format::Yaml => {
            let broken = |error| Failure::new(Code::Failed, format!("cannot render a line: {error}"));
            out.text(&serde_json::to_string(entry).map_err(broken)?)
        }
        Format::Name => out.text(&entry.seq.to_string()),
        Format::Table => out.text(&line(entry, out)),
    }
}

fn line(entry: &LogEntry, out: &Output) -> String {
    let level = format!("{:<5}", clean(&entry.level));
    let level = match entry.level.to_ascii_lowercase().as_str() {
        "error" | "fatal" => out.paint(Paint::Bad, &level),
        "warn" | "warning" => out.paint(Paint::Odd, &level),
        _ => level,
    };
    format!("{}  {level}  {}", entry.at, clean(&entry.message))
}
