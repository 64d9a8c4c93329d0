//! `campanile why`: did it run, and why not?

use super::exit::Failure;
use super::output::{Output, Paint, clean};
use super::{Globals, job, when};
use campanile_client::wire::Why;
use campanile_model::Timestamp;

/// Did it run, and why not?
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile why nightly-report --at '2026-11-14 02:00 Asia/Kolkata'
  campanile why nightly-report --at -2h")]
pub struct Args {
    /// The job: its name or id
    #[arg(value_name = "JOB")]
    job: String,
    /// The instant: RFC 3339, a local time and its zone (UTC where there is none), -2h, or now
    #[arg(long, value_name = "WHEN", default_value = "now", allow_hyphen_values = true, value_parser = when::instant)]
    at: Timestamp,
}

/// Answers.
pub async fn run(args: Args, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let why = globals.client()?.why(&job::key(&args.job), &args.at.to_string()).await?;
    out.print(&why, || vec![why.reason.clone().unwrap_or_else(|| why.verdict.clone())], |out| text(&why, out))
}

fn text(why: &Why, out: &Output) -> String {
    let (verdict, paint) = match why.verdict.as_str() {
        "RAN" => ("RAN", Paint::Good),
        "RUNNING" => ("IS RUNNING", Paint::Busy),
        "FAILED" => ("FAILED", Paint::Bad),
        "WAITING" => ("WAITS", Paint::Odd),
        "WILL_RUN" => ("WILL RUN", Paint::Busy),
        "DID_NOT_RUN" => ("DID NOT RUN", Paint::Odd),
        "NO_LONGER_KEPT" => ("IS NO LONGER KEPT", Paint::Odd),
        other => (other, Paint::Odd),
    };
    let mut lines = vec![format!("{}.  {}", out.paint(paint, &clean(verdict)), clean(&sentence(why)))];
    lines.extend(why.evidence.iter().map(|fact| format!("  {}", clean(fact))));
    if !why.not_the_cause.is_empty() {
        lines.push(format!("  not the cause: {}", clean(&why.not_the_cause.join(" | "))));
    }
    lines.extend(why.fixes.iter().map(|fix| format!("  fix: {}", clean(fix))));
    lines.join("\n")
}

/// Which fire, what became of it, and why.
fn sentence(why: &Why) -> String {
    let reason = why.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match (&why.execution, &why.skip, why.verdict.as_str()) {
        (Some(execution), ..) => {
            format!("Fire {} is {} ({}){reason}", why.at, execution.state, execution.id)
        }
        (None, Some(_), _) => format!("Fire {} was SKIPPED{reason}", why.at),
        (None, None, "WILL_RUN" | "WAITING") => format!("Fire {}{reason}", why.at),
        (None, None, _) => format!("{}{reason}", why.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::{Color, Format};
    use campanile_client::wire::Skip;

    #[test]
    fn the_answer_comes_first_then_the_evidence_and_the_fix() {
        let at = "2026-11-13T20:30:00Z".to_owned();
        let mut why = Why {
            verdict: "DID_NOT_RUN".into(),
            reason: Some("BLACKOUT".into()),
            at: at.clone(),
            execution: None,
            attempts: Vec::new(),
            skip: Some(Skip {
                job_id: "job_x".into(),
                from: at.clone(),
                to: at.clone(),
                reason: "BLACKOUT".into(),
                recorded_at: at,
            }),
            evidence: vec!["a blackout covers it".into()],
            not_the_cause: vec!["paused no".into(), "workers 3".into()],
            fixes: vec!["campanile backfill x".into()],
            previous_fire_at: None,
            next_fire_at: None,
        };
        let out = Output::new(Format::Table, Color::Never, false);
        assert_eq!(
            text(&why, &out),
            "DID NOT RUN.  Fire 2026-11-13T20:30:00Z was SKIPPED: BLACKOUT\n  a blackout covers it\n  \
             not the cause: paused no | workers 3\n  fix: campanile backfill x"
        );
        why.skip = None;
        why.reason = Some("NOT_DUE".into());
        assert!(text(&why, &out).starts_with("DID NOT RUN.  2026-11-13T20:30:00Z: NOT_DUE\n"));
    }
}
