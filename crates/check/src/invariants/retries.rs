//! I10: no more attempts than allowed, not sooner than allowed, and whoever has used them up is a dead letter, once.

use super::{Case, Violation};
use crate::event::{AttemptRow, Event, ExecutionRow, OpKind, Phase, RetryPolicy};
use crate::history::{Execution, Job, MS};
use crate::text::Text;
use std::collections::HashMap;

/// An execution that was lost with its runner so often is dead.
const LOSSES_MAX: usize = 5;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let mut listed: HashMap<Text, usize> = HashMap::new();
    case.history.dump.dead.iter().for_each(|id| *listed.entry(*id).or_default() += 1);
    for (id, execution, row) in case.rows() {
        let mut wrong: Vec<String> = Vec::new();
        if let Some(job) = case.history.jobs.get(row.job_id) {
            counts(case, execution, row, job, &mut wrong);
            waits(case, execution, row, job, &mut wrong);
        }
        let times = listed.remove(&id).unwrap_or(0);
        match (row.state.as_str(), times) {
            ("DEAD", 1) => {}
            ("DEAD", times) => wrong.push(format!("is dead, and {times} times among the dead letters")),
            (_, 0) => {}
            (state, _) => wrong.push(format!("is among the dead letters, and {state}")),
        }
        let is_explained = row.state == "DEAD"
            || case.was_asked(execution, OpKind::Replay)
            || case.was_asked(execution, OpKind::Discard);
        if !is_explained && case.history.lines(execution).any(|record| matches!(record.event, Event::Dead(_))) {
            wrong.push(format!("became dead, and is {} without a replay", row.state));
        }
        let at = row.finished_at.unwrap_or(row.fire_at).0 * MS;
        found.extend(wrong.into_iter().map(|message| Violation::new("I10", at, message).of(id).in_job(row.job_id)));
    }
    for id in listed.into_keys() {
        let message = "is among the dead letters, and no execution".to_owned();
        found.push(Violation::new("I10", case.oracle.read_at_ms * MS, message).of(id));
    }
}

/// The policies that were in force while it was under way; a replay goes by the newest one.
fn policies<'a>(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &'a Job) -> Vec<&'a RetryPolicy> {
    let from = row.fire_at.0.min(row.fired_at.0) * MS;
    let to = row.finished_at.filter(|_| replays(case, execution) == 0).map_or(i64::MAX, |at| at.0 * MS);
    let defined = || job.changes.iter().filter(|change| change.spec.is_some());
    let base =
        defined().collect::<Vec<_>>().iter().rposition(|change| change.certain && change.latest <= from).unwrap_or(0);
    let later = defined().skip(base).filter(|change| change.earliest <= to.saturating_add(case.clock()));
    later.filter_map(|change| change.spec.as_ref()).map(|spec| &spec.retry_policy).collect()
}

fn replays(case: Case<'_>, execution: &Execution) -> usize {
    let ops = execution.ops.iter().map(|index| &case.history.ops[*index]);
    ops.filter(|op| op.asked.kind == OpKind::Replay && op.phase != Phase::Fail).count()
}

fn is_failure(attempt: &AttemptRow) -> bool {
    matches!(attempt.outcome.as_deref(), Some("FAILED" | "TIMED_OUT" | "WORKER_LOST"))
}

fn counts(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job, wrong: &mut Vec<String>) {
    // Where the policy was changed, each is judged by the one that suits it.
    let policies = policies(case, execution, row, job);
    let allowed = || policies.iter().map(|policy| policy.max_attempts);
    let (Some(least), Some(most)) = (allowed().min(), allowed().max()) else { return };
    let chains = replays(case, execution) + 1;
    let is_void = |attempt: &&AttemptRow| matches!(attempt.outcome.as_deref(), Some("SNOOZED" | "RELEASED"));
    let tries = row.attempts.iter().filter(|attempt| !is_void(attempt)).count();
    let lost = row.attempts.iter().filter(|attempt| attempt.outcome.as_deref() == Some("WORKER_LOST")).count();
    if tries > most as usize * chains {
        wrong.push(format!("was tried {tries} times, and {most} are allowed"));
    }
    if lost > LOSSES_MAX * chains {
        wrong.push(format!("was lost {lost} times, and is tried on"));
    }
    let reason = row.reason.as_deref().unwrap_or("");
    match (row.state.as_str(), reason) {
        ("DEAD", "ATTEMPTS_EXHAUSTED") if tries < least as usize => {
            wrong.push(format!("is dead after {tries} attempts, and {least} are allowed"));
        }
        ("DEAD", "POISON") if lost < LOSSES_MAX => wrong.push(format!("is poison after {lost} losses")),
        ("DEAD", "ATTEMPTS_EXHAUSTED" | "POISON" | "PERMANENT_FAILURE" | "TOTAL_TIMEOUT") => {
            if row.attempts.last().is_none_or(|attempt| !is_failure(attempt)) {
                wrong.push("is dead, and its last attempt did not fail".to_owned());
            }
            if row.attempts.last().is_some_and(|last| last.attempt as usize != tries) {
                wrong.push(format!("is dead after {} attempts, and {tries} are kept", row.attempt));
            }
        }
        ("DEAD", other) => wrong.push(format!("is dead without a reason that explains it ({other})")),
        ("RETRYING" | "PENDING" | "SUCCEEDED", _)
            if chains == 1 && tries >= most as usize && row.attempts.last().is_some_and(is_failure) =>
        {
            wrong.push(format!("has used up its {most} attempts, and is {}", row.state));
        }
        _ => {}
    }
}

/// The next attempt waits for its backoff.
fn waits(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job, wrong: &mut Vec<String>) {
    if replays(case, execution) > 0 {
        return;
    }
    let policies = policies(case, execution, row, job);
    for pair in row.attempts.windows(2) {
        let (failed, next) = (&pair[0], &pair[1]);
        let Some(finished_at) = failed.finished_at.filter(|_| is_failure(failed)) else { continue };
        let least = policies.iter().map(|policy| least_wait_ms(policy, failed.attempt)).min().unwrap_or(0);
        let waited = next.started_at.0 - finished_at.0;
        if waited + case.limits.clock_ms < least as i64 {
            let (number, after) = (next.attempt, failed.attempt);
            wrong.push(format!("attempt {number} began {waited} ms after {after} failed, and {least} ms is the least"));
        }
    }
}

/// The shortest wait that a policy allows after this attempt.
fn least_wait_ms(policy: &RetryPolicy, attempt: u32) -> u64 {
    let mut wait = u128::from(policy.initial_delay_ms);
    if policy.backoff != "FIXED" {
        for _ in 1..attempt.min(64) {
            wait = (wait * 2).min(u128::from(u64::MAX));
        }
    }
    let wait = wait.min(u128::from(policy.max_delay_ms)) as u64;
    if policy.backoff == "EXPONENTIAL_WITH_JITTER" { wait / 2 } else { wait }
}
