//! The verdict, as JSON; with the first violation and everything that was recorded about it, in order.

use crate::event::{Event, Ms, Record};
use crate::history::{MS, Nanos};
use crate::ids;
use crate::invariants::{Case, Violation};
use serde::Serialize;
use std::collections::BTreeMap;

/// So many violations of each invariant are listed; all are counted.
const LISTED_MAX: usize = 20;
/// So many lines of the first violation are shown.
const TIMELINE_MAX: usize = 300;

/// What a recording is worth.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Valid {
    /// Nothing is wrong, and enough happened to say so.
    Passed,
    Failed,
    /// Nothing can be said.
    Invalid,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    pub events: usize,
    pub ops: usize,
    /// Jobs that were acknowledged.
    pub jobs: usize,
    /// Those of them of which something had to be.
    pub jobs_judged: usize,
    /// Fires that had to be.
    pub fires: usize,
    /// Those of them inside faults.
    pub fires_in_faults: usize,
    /// Executions that the store showed.
    pub executions: usize,
    pub attempts: usize,
    /// Calls of the sink.
    pub effects: usize,
    pub faults: usize,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Passed, failed or invalid.
    pub valid: Valid,
    /// Why nothing can be said, where it is invalid.
    pub reasons: Vec<String>,
    pub counts: Counts,
    /// What was met, and how often.
    pub met: BTreeMap<&'static str, usize>,
    /// How often each invariant was violated, the ones that hold included.
    pub invariants: BTreeMap<&'static str, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<First>,
    /// Violations, the earliest first; some of each invariant.
    pub violations: Vec<Violation>,
}

/// The earliest violation, with all that is known around it.
#[derive(Clone, Debug, Serialize)]
pub struct First {
    pub violation: Violation,
    /// All lines of all processes about it, and what the store shows, in order.
    pub timeline: Vec<Moment>,
}

/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    pub at: String,
    /// Who wrote it; `store` for what the dump shows.
    pub node: String,
    pub what: String,
    #[serde(skip)]
    order: Nanos,
}

impl Verdict {
    pub(crate) fn new(
        case: Case<'_>,
        violations: &[Violation],
        counts: Counts,
        met: BTreeMap<&'static str, usize>,
        useless: Vec<String>,
        too_little: Vec<String>,
    ) -> Self {
        let valid = match (useless.is_empty(), violations.is_empty(), too_little.is_empty()) {
            (false, _, _) => Valid::Invalid,
            (true, false, _) => Valid::Failed,
            (true, true, false) => Valid::Invalid,
            (true, true, true) => Valid::Passed,
        };
        let mut invariants: BTreeMap<&'static str, usize> =
            crate::invariants::ALL.iter().map(|(name, _)| (*name, 0)).collect();
        let mut listed = Vec::new();
        for violation in violations {
            let count = invariants.entry(violation.invariant).or_default();
            *count += 1;
            if *count <= LISTED_MAX {
                listed.push(violation.clone());
            }
        }
        let first = violations.first().map(|first| First { violation: first.clone(), timeline: timeline(case, first) });
        let reasons = useless.into_iter().chain(too_little).collect();
        Self { valid, reasons, counts, met, invariants, first, violations: listed }
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let Counts { events, jobs, fires, executions, effects, faults, .. } = &self.counts;
        let load = format!("{events} events, {jobs} jobs, {fires} fires that had to be");
        let size = format!("{load}, {executions} executions, {effects} effects, {faults} faults");
        match (self.valid, &self.first) {
            (Valid::Passed, _) => format!("passed: {size}"),
            (Valid::Failed, Some(first)) => {
                let total: usize = self.invariants.values().sum();
                let Violation { invariant, message, execution, .. } = &first.violation;
                let about = execution.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
                let noun = if total == 1 { "violation" } else { "violations" };
                format!("failed: {total} {noun}, the first {invariant}{about}: {message} ({size})")
            }
            _ => {
                let more = self.reasons.len().saturating_sub(1);
                let more = if more > 0 { format!(", and {more} more reasons") } else { String::new() };
                format!("invalid: {}{more} ({size})", self.reasons.first().map_or("", String::as_str))
            }
        }
    }
}

/// Everything about a violation, of all files, in order.
fn timeline(case: Case<'_>, violation: &Violation) -> Vec<Moment> {
    let history = case.history;
    let execution = violation.execution.and_then(|id| history.executions.get(id));
    let row = execution.and_then(|execution| execution.row.as_ref());
    let job_id = violation.job.or(row.map(|row| row.job_id));
    let job_name = job_id.and_then(|id| history.jobs.get(id)).map(|job| job.name);
    let shard = job_id.and_then(|id| ids::parse(&id, "job_")).map(ids::shard);
    let (first, last) = span(case, violation);
    let is_about = |record: &Record| {
        let at = history.at(record);
        let is_near = (first - 1_000 * MS..=last + 1_000 * MS).contains(&at);
        match &record.event {
            // What was asked before may explain it, what was asked afterwards does not.
            Event::Op(op) if at <= last + 1_000 * MS => job_id.is_some() && (op.job == job_id || op.name == job_name),
            Event::Read(read) => read.job.is_some() && read.job == job_id && is_near,
            Event::Skip(skip) => Some(skip.job) == job_id,
            Event::Epoch(epoch) => Some(epoch.shard) == shard && is_near,
            Event::Fault(_) => is_near,
            _ => false,
        }
    };
    let mut moments: Vec<Moment> = history
        .records
        .iter()
        .filter(|record| {
            let mentioned = crate::history::execution_of(&record.event);
            (mentioned.is_some() && mentioned == violation.execution) || is_about(record)
        })
        .map(|record| moment(history.at(record), &record.node, words(&record.event)))
        .collect();
    if let Some(row) = row {
        let mut store = |at: Option<Ms>, what: String| moments.extend(at.map(|at| moment(at.0 * MS, "store", what)));
        store(Some(row.fire_at), "due".to_owned());
        store(Some(row.fired_at), format!("fired under version {}", row.job_version));
        for attempt in &row.attempts {
            let (number, fence) = (attempt.attempt, attempt.fence_token);
            let outcome = attempt.outcome.as_deref().unwrap_or("no outcome");
            store(Some(attempt.started_at), format!("attempt {number} started under fence {fence}"));
            store(attempt.finished_at, format!("attempt {number} ended: {outcome}"));
        }
        let reason = row.reason.as_deref().unwrap_or("no reason");
        store(Some(Ms(case.oracle.read_at_ms)), format!("is {} ({reason})", row.state));
    }
    moments.sort_by_key(|moment| moment.order);
    moments.truncate(TIMELINE_MAX);
    moments
}

/// When the violation's execution was under way, or when it happened.
fn span(case: Case<'_>, violation: &Violation) -> (Nanos, Nanos) {
    let execution = violation.execution.and_then(|id| case.history.executions.get(id));
    let lines = execution.into_iter().flat_map(|execution| case.history.lines(execution));
    let times = lines.map(|record| case.history.at(record)).chain([violation.at_ns]);
    times.fold((Nanos::MAX, Nanos::MIN), |(first, last), at| (first.min(at), last.max(at)))
}

fn moment(at: Nanos, node: &str, what: String) -> Moment {
    let text = jiff::Timestamp::from_nanosecond(i128::from(at)).map(|at| format!("{at:.6}"));
    Moment { at: text.unwrap_or_default(), node: node.to_owned(), what, order: at }
}

/// An event as it was written, without what the line has in common with all.
fn words(event: &Event) -> String {
    serde_json::to_string(event).unwrap_or_default()
}
