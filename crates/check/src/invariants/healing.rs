//! I14: when the last fault is over, every node answers again, and soon everything is as punctual as before.
//!
//! Whether enough was asked to tell is decided elsewhere: a run without the questions is invalid, not failed.

use super::{Case, Violation, is_success};
use crate::event::{Event, Phase};
use crate::history::{MS, Nanos};
use std::collections::BTreeMap;

/// Fewer punctual or late fires than this tell nothing about their spread.
const SAMPLE_MIN: usize = 50;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let Some(healed) = healed_at(case) else { return };
    for (node, answers) in answers_after(case, healed) {
        let longest = longest_run(&answers);
        if answers.len() >= case.limits.min_healed_ops && longest < case.limits.min_healed_ops {
            let message = format!("node `{node}` answers at most {longest} questions in a row after the last fault");
            found.push(Violation::new("I14", healed, message));
        }
        let well = healed + case.limits.recover_ms * MS;
        if let Some((at, _)) = answers.iter().find(|(at, is_ok)| *at > well && !is_ok) {
            let message = format!("node `{node}` fails {} ms after the last fault", (at - healed) / MS);
            found.push(Violation::new("I14", *at, message));
        }
    }
    punctual(case, healed, found);
}

/// When the last fault was over.
pub fn healed_at(case: Case<'_>) -> Option<Nanos> {
    case.history.faults.iter().filter_map(|fault| fault.to).max()
}

/// What each node that is alive in the end answered after an instant: when it was asked, and whether it was an answer.
pub fn answers_after(case: Case<'_>, after: Nanos) -> BTreeMap<&str, Vec<(Nanos, bool)>> {
    let mut answers: BTreeMap<&str, Vec<(Nanos, bool)>> =
        case.history.dump.nodes.iter().map(|node| (node.as_str(), Vec::new())).collect();
    let reads = case.history.records.iter().filter_map(|record| match &record.event {
        Event::Read(read) => {
            let is_answer = is_success(read.status) || (400..500).contains(&read.status);
            Some((read.via.as_deref()?, case.history.on_axis(read.began_mono_ns), is_answer))
        }
        _ => None,
    });
    let ops =
        case.history.ops.iter().filter_map(|op| Some((op.asked.via.as_deref()?, op.invoked, op.phase != Phase::Info)));
    for (node, at, is_answer) in reads.chain(ops) {
        if let Some(answers) = answers.get_mut(node).filter(|_| at > after) {
            answers.push((at, is_answer));
        }
    }
    answers.values_mut().for_each(|answers| answers.sort_unstable());
    answers
}

fn longest_run(answers: &[(Nanos, bool)]) -> usize {
    let runs = answers.split(|(_, is_ok)| !is_ok);
    runs.map(<[_]>::len).max().unwrap_or(0)
}

/// Starts after everything must be well are not much later than those before the first fault.
fn punctual(case: Case<'_>, healed: Nanos, found: &mut Vec<Violation>) {
    let began = case.history.faults.iter().map(|fault| fault.from).min().unwrap_or(Nanos::MAX);
    let well = healed + case.limits.recover_ms * MS;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (_, _, row) in case.rows() {
        let is_prompt = case.history.jobs.get(row.job_id).is_some_and(|job| job.is_prompt());
        let Some(first) = row.first_started_at.filter(|_| is_prompt && row.kind == "SCHEDULE") else { continue };
        let (due, late) = (row.fire_at.0 * MS, first.0 - row.fire_at.0);
        if due + case.limits.late_ms * MS < began {
            before.push(late);
        } else if due > well {
            after.push(late);
        }
    }
    if before.len() < SAMPLE_MIN || after.len() < SAMPLE_MIN {
        return;
    }
    let p99 = |late: &mut Vec<i64>| {
        late.sort_unstable();
        late[(late.len() - 1) * 99 / 100]
    };
    let (before, after) = (p99(&mut before), p99(&mut after));
    // Below a part of what is allowed at all, twice as much means nothing.
    if after > 2 * before && after > case.limits.late_ms / 4 {
        let message =
            format!("99 of 100 start within {after} ms after the last fault, and did within {before} ms before");
        found.push(Violation::new("I14", well, message));
    }
}
