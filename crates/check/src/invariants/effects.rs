//! I3: at most one effect counts. I6: no effect without a claim, no claim without a fire, no fire without a job.

use super::{Case, Violation};
use crate::event::{Event, ExecutionRow, OpKind};
use crate::history::{Execution, MS, Nanos};
use crate::text::Text;
use std::collections::HashSet;

pub fn once(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, execution) in case.history.executions.iter() {
        let effects = case.effects(execution);
        let Some(first) = effects.first() else { continue };
        let mut report = |at: Nanos, message: String| found.push(Violation::new("I3", at, message).of(id));
        let accepted = effects.iter().filter(|effect| effect.accepted).count();
        if accepted > 1 {
            report(case.arrival(first), format!("{accepted} effects counted"));
        }
        let mut calls = HashSet::new();
        for effect in &effects {
            if !calls.insert((effect.attempt, effect.fence)) {
                report(case.arrival(effect), format!("attempt {} called the sink twice", effect.attempt));
            }
        }
        let succeeded = |row: &ExecutionRow| {
            let done = row.attempts.iter().find(|attempt| attempt.outcome.as_deref() == Some("SUCCEEDED"));
            done.map(|attempt| attempt.fence_token)
        };
        if let Some(fence) = execution.row.as_ref().and_then(succeeded)
            && let Some(later) = effects.iter().find(|effect| effect.fence > fence)
        {
            let message = format!("fence {} called the sink, although fence {fence} had succeeded", later.fence);
            report(case.arrival(later), message);
        }
    }
}

pub fn causality(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, execution, row) in case.rows() {
        runs(case, id, execution, row, found);
        let fired_at = row.fired_at.0 * MS;
        let created = case.history.jobs.get(row.job_id).and_then(|job| {
            let creations = job.changes.iter().filter(|change| change.kind == OpKind::Create);
            creations.map(|change| change.earliest).min()
        });
        let wrong = match created {
            None => Some("was fired, and nobody created its job"),
            Some(created) if fired_at < created - case.clock() => Some("was fired before its job was created"),
            Some(_) => None,
        };
        if let Some(message) = wrong {
            found.push(Violation::new("I6", fired_at, message.to_owned()).of(id).in_job(row.job_id));
        }
    }
}

/// Whoever ran it had claimed it, and every claim is in the store.
fn runs(case: Case<'_>, id: Text, execution: &Execution, row: &ExecutionRow, found: &mut Vec<Violation>) {
    let claimed: HashSet<(u32, u64)> =
        row.attempts.iter().map(|attempt| (attempt.attempt, attempt.fence_token)).collect();
    let mut started = HashSet::new();
    for record in case.history.lines(execution) {
        let (what, attempt, fence) = match &record.event {
            Event::Start(body) => {
                started.insert(body.fence);
                ("started", body.attempt, body.fence)
            }
            Event::End(body) if !started.contains(&body.fence) => {
                let message = format!("attempt {} ended without a start", body.attempt);
                found.push(Violation::new("I6", case.history.at(record), message).of(id));
                continue;
            }
            Event::Effect(effect) => ("called the sink", effect.attempt, effect.fence),
            Event::Claim(claim) => ("was claimed", claim.attempt, claim.fence),
            Event::Report(report) => ("was reported", report.attempt, report.fence),
            _ => continue,
        };
        if !claimed.contains(&(attempt, fence)) {
            let message = format!("attempt {attempt} {what} under fence {fence}, which the store never gave it");
            found.push(Violation::new("I6", case.history.at(record), message).of(id));
        }
    }
}
