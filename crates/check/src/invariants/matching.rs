//! I17: from outside, without ids: the calls that a sink got are matched with the fires that had to be.
//!
//! A wrong id would be wrong everywhere that ids are compared. Here only names and times count: each fire needs a call
//! of its own within its window. Windows begin and end in the same order as the fires, so taking the call for the fire
//! whose window ends first finds a matching wherever there is one.

use super::{Case, Violation};
use crate::event::{Event, Ms};
use crate::history::{Job, MS, Nanos};
use crate::text::Text;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A call, without its identity.
struct Call {
    at: Nanos,
    is_retry: bool,
}

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let mut calls: HashMap<Text, Vec<Call>> = HashMap::new();
    for record in &case.history.records {
        if let Event::Effect(effect) = &record.event {
            let call = Call { at: case.arrival(effect), is_retry: effect.attempt > 1 };
            calls.entry(effect.job_name).or_default().push(call);
        }
    }
    let mut names: HashMap<Text, usize> = HashMap::new();
    case.history.jobs.values().for_each(|job| *names.entry(job.name).or_default() += 1);
    for (id, job) in case.history.jobs.iter() {
        // A name that was used again stands for two jobs, and a job whose runs wait has no window.
        if names[&job.name] == 1 && job.is_seen() && job.is_prompt() {
            let mut calls = calls.remove(&job.name).unwrap_or_default();
            calls.sort_by_key(|call| call.at);
            judge(case, id, job, &calls, found);
        }
    }
}

fn judge(case: Case<'_>, id: Text, job: &Job, calls: &[Call], found: &mut Vec<Violation>) {
    let Some(expected) = case.oracle.jobs.get(id).filter(|expected| expected.unknown.is_none()) else { return };
    // What was given up by a rule that the store recorded has no window; whether the rule held is judged by I1.
    let mut given_up: HashMap<i64, bool> = HashMap::new();
    let mut manual = 0;
    for row in job.executions.iter().filter_map(|id| case.history.executions.get(*id)?.row.as_ref()) {
        given_up.insert(row.fire_at.0, row.state != "SUCCEEDED");
        manual += usize::from(row.kind != "SCHEDULE");
    }
    let is_skipped = |at: i64| job.skips.iter().any(|skip| skip.from.0 <= at && at <= skip.until.0);
    let mut windows: Vec<(Nanos, Nanos, i64)> = Vec::new();
    for (at, target) in &expected.must {
        let has_row = given_up.get(at);
        if target.blackout || has_row == Some(&true) || (has_row.is_none() && is_skipped(*at)) {
            continue;
        }
        // After a fault the first call may be that of a later attempt.
        let end = if case.oracle.is_harmed(*at) { Nanos::MAX } else { (at + case.limits.late_ms) * MS };
        windows.push((at * MS - case.clock(), end, *at));
    }
    let missing = unmatched(&windows, calls);
    for at in &missing {
        let message = format!("job `{}`: no call of the sink fits {}", job.name, Ms(*at));
        found.push(Violation::new("I17", at * MS, message).in_job(id));
    }
    // Every fire that may have run, and every run by hand, explains one call that is no retry.
    let first_calls = calls.iter().filter(|call| !call.is_retry).count();
    let explained = expected.may.len() + manual;
    if first_calls > explained {
        let message = format!("job `{}`: {first_calls} first calls of the sink for {explained} fires", job.name);
        found.push(Violation::new("I17", calls.last().map_or(0, |call| call.at), message).in_job(id));
    }
}

/// The fires that no call is left for: each call is given to the open window that ends first.
fn unmatched(windows: &[(Nanos, Nanos, i64)], calls: &[Call]) -> Vec<i64> {
    let mut missing = Vec::new();
    let mut open: BinaryHeap<Reverse<(Nanos, i64)>> = BinaryHeap::new();
    let mut coming = windows.iter().peekable();
    for call in calls {
        while let Some((_, end, at)) = coming.next_if(|(begin, _, _)| *begin <= call.at) {
            open.push(Reverse((*end, *at)));
        }
        while let Some(Reverse((end, at))) = open.pop() {
            if end >= call.at {
                break;
            }
            missing.push(at);
        }
    }
    missing.extend(open.into_iter().map(|Reverse((_, at))| at));
    missing.extend(coming.map(|(_, _, at)| *at));
    missing.sort_unstable();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_the_window_that_ends_first() {
        let call = |at| Call { at, is_retry: false };
        let windows = [(0, 10, 0), (5, 15, 5), (20, 30, 20)];
        assert_eq!(unmatched(&windows, &[call(7), call(8), call(25)]), [0; 0]);
        assert_eq!(unmatched(&windows, &[call(12), call(13), call(25)]), [0]);
        assert_eq!(unmatched(&windows, &[call(7), call(25)]), [5]);
        assert_eq!(unmatched(&windows, &[]), [0, 5, 20]);
    }
}
