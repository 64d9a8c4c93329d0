//! `campanile explain`: what a schedule means. Needs no server.

use super::exit::Failure;
use super::output::{Output, Paint};
use super::schedule::Question;
use campanile_model::schedule::{Explanation, explain};
use serde::Serialize;

/// What a schedule means.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  campanile explain '30 1 * * *' --tz America/New_York --from 2026-10-30")]
pub struct Args {
    #[command(flatten)]
    question: Question,
}

#[derive(Serialize)]
struct Explained {
    words: String,
    fields: Vec<Field>,
    rate: String,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Field {
    name: String,
    value: String,
}

/// Says what a schedule means.
pub fn run(args: &Args, out: &Output) -> Result<(), Failure> {
    let asked = args.question.read()?;
    let Explanation { words, fields, rate, notes } = explain(&asked.schedule, &asked.plan, asked.from);
    let fields = fields.into_iter().map(|(name, value)| Field { name, value }).collect();
    let explained = Explained { words, fields, rate, notes };
    out.print(&explained, || vec![explained.words.clone()], |out| text(&explained, out))
}

fn text(explained: &Explained, out: &Output) -> String {
    let mut lines = vec![format!("\"{}\"", explained.words)];
    let fields: Vec<String> = explained.fields.iter().map(|field| format!("{} {}", field.name, field.value)).collect();
    if !fields.is_empty() {
        lines.push(format!("  fields   {}", fields.join(" | ")));
    }
    lines.push(format!("  rate     {}", explained.rate));
    for note in &explained.notes {
        lines.push(match (note.strip_prefix("DST ok: "), note.strip_prefix("DST: ")) {
            (Some(ok), _) => format!("  {}       {ok}", out.paint(Paint::Good, "ok")),
            (_, Some(change)) => format!("  {}    {change}", out.paint(Paint::Odd, "! DST")),
            _ => format!("  note     {note}"),
        });
    }
    lines.join("\n")
}
