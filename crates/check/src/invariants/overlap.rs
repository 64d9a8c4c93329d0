//! I9: where a job forbids it, two of its runs are never under way at once.

use super::{Case, Violation, is_final};
use crate::event::{ExecutionRow, OpKind};
use crate::history::{Execution, MS, Nanos};
use crate::text::Text;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    for (job_id, job) in case.history.jobs.iter() {
        // A job that allowed it once may have runs of that time under way.
        if job.specs().next().is_none() || job.specs().any(|spec| spec.overlap == "ALLOW") {
            continue;
        }
        let mut spans: Vec<(Nanos, Nanos, Text)> = Vec::new();
        for &id in &job.executions {
            let Some(execution) = case.history.executions.get(id) else { continue };
            if let Some(row) = &execution.row
                && row.kind != "BACKFILL"
            {
                spans.extend(runs(case, execution, row).into_iter().map(|(from, to)| (from, to, id)));
            }
        }
        spans.sort_unstable();
        let mut last: Option<(Nanos, Text)> = None;
        for (from, to, id) in spans {
            if let Some((end, other)) = last
                && from < end - case.clock()
                && other != id
            {
                let message = format!("ran while {other} was not over, {} ms before its end", (end - from) / MS);
                found.push(Violation::new("I9", from, message).of(id).in_job(job_id));
            }
            if last.is_none_or(|(end, _)| end < to) {
                last = Some((to, id));
            }
        }
    }
}

/// From the first claim to the final state, the waits between attempts included; a replayed one by its attempts, since
/// it was over between.
fn runs(case: Case<'_>, execution: &Execution, row: &ExecutionRow) -> Vec<(Nanos, Nanos)> {
    let end = |at: Option<crate::event::Ms>| at.map_or(Nanos::MAX, |at| at.0 * MS);
    if case.was_asked(execution, OpKind::Replay) {
        let attempts = row.attempts.iter();
        return attempts.map(|attempt| (attempt.started_at.0 * MS, end(attempt.finished_at))).collect();
    }
    let Some(first) = row.attempts.first() else { return Vec::new() };
    let to = if is_final(&row.state) { end(row.finished_at) } else { Nanos::MAX };
    vec![(row.first_started_at.unwrap_or(first.started_at).0 * MS, to)]
}
