//! `campanile backfill`: a job's past made up for.

use super::confirm::{self, ask};
use super::exit::Failure;
use super::output::Output;
use super::{Globals, duration_ms, job, operation, when};
use campanile_client::wire::{BackfillPlan, BackfillRequest};
use campanile_model::{Timestamp, limits};

/// A job's past made up for.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile backfill nightly-report --from 2026-11-10 --to 2026-11-14 --max-parallel 2 --wait
  campanile backfill nightly-report --at '2026-11-14 02:00 Asia/Kolkata' --reprocess failed

Fires that have succeeded already are passed over, unless --reprocess says otherwise.")]
pub struct Args {
    /// The job: its name or id
    #[arg(value_name = "JOB")]
    job: String,
    /// From this instant on, inclusive
    #[arg(long, value_name = "WHEN", required_unless_present = "at", allow_hyphen_values = true, value_parser = when::instant)]
    from: Option<Timestamp>,
    /// To this instant, exclusive [default: now]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = when::instant)]
    to: Option<Timestamp>,
    /// Only the fire of this instant
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["from", "to"], allow_hyphen_values = true, value_parser = when::instant)]
    at: Option<Timestamp>,
    /// Let at most so many run at the same time [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=limits::OPERATION_OPEN_MAX as i64))]
    max_parallel: Option<u32>,
    /// Start at most so many per time, such as 5/s or 10/m
    #[arg(long, value_name = "RATE", value_parser = when::rate)]
    rate: Option<f64>,
    /// Which fires that have run are done again: none, failed or all
    #[arg(long, value_name = "WHICH", default_value = "none", value_parser = ["none", "failed", "all"], hide_possible_values = true)]
    reprocess: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Wait until all of them are over; exit code 8 if some failed
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long to wait at most; then exit code 6
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration_ms)]
    timeout: Option<u64>,
}

/// Makes up for it.
pub async fn run(args: Args, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let (from, to) = match args.at {
        Some(at) => (at, Some(at.saturating_add_ms(1))),
        None => (args.from.unwrap_or_default(), args.to),
    };
    if to.is_some_and(|to| to <= from) {
        return Err(Failure::usage("the range is empty: --to must lie after --from"));
    }
    let asks = !args.yes && !args.dry_run;
    if asks {
        confirm::possible("this runs a job for its past")?;
    }
    let request = BackfillRequest {
        from: from.to_string(),
        to: to.map(|to| to.to_string()),
        max_parallel: args.max_parallel,
        reprocess: Some(args.reprocess.to_ascii_uppercase()),
        per_second: args.rate,
        rate: None,
    };
    let key = job::key(&args.job);
    if args.dry_run || asks {
        let plan = client.preview_backfill(&key, &request).await?;
        out.chat(&sentence(&plan, &args.reprocess));
        if args.dry_run {
            let names = || plan.samples.iter().filter(|fire| fire.starts).map(|fire| fire.fire_at.clone()).collect();
            return out.print(&plan, names, |out| rows(&plan, out));
        }
        if plan.starts == 0 {
            return Ok(());
        }
        out.chat(&rows(&plan, out));
        ask(&format!("Start {} executions?", plan.starts)).await?;
    }
    let operation = client.backfill(&key, &request, &globals.write()).await?;
    operation::accepted(&client, operation, args.wait.then_some(args.timeout), out).await
}

fn sentence(plan: &BackfillPlan, reprocess: &str) -> String {
    let passed = plan.fires - plan.starts.min(plan.fires);
    let hint = match reprocess {
        "none" if passed > 0 => " (--reprocess failed or all does them again)",
        _ => "",
    };
    match (plan.fires, passed) {
        (0, _) => "no fire lies in that range; there is nothing to do".into(),
        (fires, 0) => format!("{fires} fires, all of them start"),
        (fires, passed) => format!("{fires} fires: {} start, {passed} are passed over{hint}", plan.starts),
    }
}

fn rows(plan: &BackfillPlan, out: &Output) -> String {
    let rows = plan.samples.iter().map(|fire| {
        let what = match (fire.starts, &fire.reason) {
            (true, _) => "starts".into(),
            (false, Some(reason)) => format!("passed over: {reason}"),
            (false, None) => "passed over".into(),
        };
        vec![fire.fire_at.clone(), fire.state.clone().unwrap_or_else(|| "-".into()), what]
    });
    let mut text = out.table(&["DUE", "STATE NOW", "BACKFILL"], rows);
    let more = plan.fires.saturating_sub(plan.samples.len() as u64);
    if more > 0 {
        text.push_str(&format!("\nand {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_said_in_a_sentence() {
        let plan = |fires, starts| BackfillPlan { dry_run: true, fires, starts, unknown: 0, samples: Vec::new() };
        assert_eq!(sentence(&plan(3, 3), "none"), "3 fires, all of them start");
        assert!(sentence(&plan(4, 3), "none").starts_with("4 fires: 3 start, 1 are passed over (--reprocess"));
        assert_eq!(sentence(&plan(4, 3), "failed"), "4 fires: 3 start, 1 are passed over");
        assert!(sentence(&plan(0, 0), "none").starts_with("no fire"));
    }
}
