//! I4: never early; on time when all is well; soon after a fault.

use super::{Case, Violation};
use crate::event::{Event, ExecutionRow, Ms};
use crate::history::{Execution, MS};
use crate::text::Text;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, execution, row) in case.rows() {
        early(case, id, execution, row, found);
        late(case, id, row, found);
    }
    missed(case, found);
}

fn early(case: Case<'_>, id: Text, execution: &Execution, row: &ExecutionRow, found: &mut Vec<Violation>) {
    let due = row.fire_at.0 * MS;
    let started = row.attempts.iter().map(|attempt| ("started", attempt.started_at.0 * MS));
    let seen = case.history.lines(execution).filter_map(|record| match &record.event {
        Event::Start(_) => Some(("started", case.history.at(record))),
        Event::Effect(effect) => Some(("called the sink", case.arrival(effect))),
        _ => None,
    });
    let first = started.chain(seen).min_by_key(|(_, at)| *at);
    if let Some((what, at)) = first.filter(|(_, at)| *at < due - case.clock()) {
        let message = format!("{what} {} ms before it was due", (due - at) / MS);
        found.push(Violation::new("I4", at, message).of(id).in_job(row.job_id));
    }
}

/// Only for fires that had to be, and whose job lets nothing wait.
fn late(case: Case<'_>, id: Text, row: &ExecutionRow, found: &mut Vec<Violation>) {
    let is_expected = case.oracle.jobs.get(row.job_id).is_some_and(|job| job.must.contains_key(&row.fire_at.0));
    let is_prompt = case.history.jobs.get(row.job_id).is_some_and(|job| job.is_prompt());
    if row.kind != "SCHEDULE" || !is_expected || !is_prompt {
        return;
    }
    let first = row.first_started_at.or(row.attempts.first().map(|attempt| attempt.started_at));
    let deadline = case.oracle.deadline_ms(row.fire_at.0);
    if let Some(first) = first.filter(|first| first.0 > deadline + case.limits.clock_ms) {
        let well = if case.oracle.is_harmed(row.fire_at.0) { "after faults" } else { "with no fault near" };
        let message = format!("started {} ms late, {well}", first.0 - row.fire_at.0);
        found.push(Violation::new("I4", first.0 * MS, message).of(id).in_job(row.job_id));
    }
}

/// What was missed although nothing was wrong was late by more than anything may be.
fn missed(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, job) in case.history.jobs.iter() {
        let Some(expected) = case.oracle.jobs.get(id) else { continue };
        for skip in &job.skips {
            if !matches!(skip.reason.as_str(), "MISFIRE_DISCARDED" | "MISFIRE_COALESCED" | "EXPIRED") {
                continue;
            }
            let covered = expected.must.range(skip.from.0..=skip.until.0.max(skip.from.0));
            if let Some((at, _)) = covered.into_iter().find(|(at, _)| !case.oracle.is_harmed(**at)) {
                let message = format!("{} was missed ({}) with no fault near", Ms(*at), skip.reason);
                found.push(Violation::new("I4", at * MS, message).in_job(id));
            }
        }
    }
}
