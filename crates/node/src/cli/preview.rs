//! `campanile preview`: when a schedule fires. Needs no server.

use super::exit::Failure;
use super::output::Output;
use super::schedule::Question;
use campanile_model::schedule::{Preview, preview};
use campanile_model::{Timestamp, limits};
use serde::Serialize;

/// When a schedule fires.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  campanile preview '30 2 * * *' --tz America/New_York --from 2027-03-13 -n 3")]
pub struct Args {
    #[command(flatten)]
    question: Question,
    /// How many fires
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=limits::PREVIEW_FIRES_MAX as i64))]
    count: u32,
}

#[derive(Serialize)]
struct Fires {
    fires: Vec<Fire>,
}

#[derive(Serialize)]
struct Fire {
    at: String,
    local: String,
    note: Option<String>,
}

/// Shows when a schedule fires.
pub fn run(args: &Args, out: &Output) -> Result<(), Failure> {
    let asked = args.question.read()?;
    let previews = preview(&asked.schedule, &asked.plan, asked.from, args.count as usize);
    if previews.is_empty() {
        out.chat("no fire after that");
    }
    let at = |fire: &Preview| fire.at.to_string();
    let fire = |p: &Preview| Fire { at: at(p), local: p.local.clone(), note: p.note.clone() };
    let fires = Fires { fires: previews.iter().map(fire).collect() };
    out.print(&fires, || previews.iter().map(at).collect(), |out| table(&previews, out))
}

fn table(previews: &[Preview], out: &Output) -> String {
    let digits = previews.iter().map(|fire| precision(fire.at)).max().unwrap_or(0);
    let rows = previews.iter().enumerate().map(|(i, fire)| {
        let note = fire.note.clone().unwrap_or_default();
        vec![(i + 1).to_string(), fire.local.clone(), utc(fire.at, digits), note]
    });
    out.table(&["#", "LOCAL", "UTC", "NOTE"], rows)
}

/// 0 for whole minutes, 1 for whole seconds, 2 for milliseconds.
fn precision(at: Timestamp) -> u8 {
    match at.millis() {
        ms if ms % 1000 != 0 => 2,
        ms if ms % 60_000 != 0 => 1,
        _ => 0,
    }
}

/// `2027-03-13 07:30`, with seconds and milliseconds where some fire has them.
fn utc(at: Timestamp, precision: u8) -> String {
    let format = ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.3f"][usize::from(precision)];
    match jiff::Timestamp::from_millisecond(at.millis()) {
        Ok(at) => at.strftime(format).to_string(),
        Err(_) => at.to_string(),
    }
}
