//! I5: an ownership that is over fires nothing; an attempt that is over completes nothing.

use super::{Case, Violation};
use crate::event::{Event, ExecutionRow, Record};
use crate::history::{Execution, MS};
use crate::ids;
use crate::text::Text;
use std::collections::HashMap;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    owners(case, found);
    commits(case, found);
    let mut givers: HashMap<u64, Text> = HashMap::new();
    for (id, execution, row) in case.rows() {
        for attempt in &row.attempts {
            if let Some(other) = givers.insert(attempt.fence_token, id).filter(|other| *other != id) {
                let message = format!("fence {} was given to {other} too", attempt.fence_token);
                found.push(Violation::new("I5", attempt.started_at.0 * MS, message).of(id));
            }
        }
        attempts(id, row, found);
        reports(case, id, execution, row, found);
        calls(case, id, execution, found);
    }
}

/// An epoch has one owner, and nobody sees epochs go back.
fn owners(case: Case<'_>, found: &mut Vec<Violation>) {
    let mut owner_of: HashMap<(u16, u64), Text> = HashMap::new();
    let mut seen: HashMap<(Text, u16), u64> = HashMap::new();
    for record in &case.history.records {
        let at = case.history.at(record);
        match &record.event {
            Event::Epoch(epoch) => {
                let owner = *owner_of.entry((epoch.shard, epoch.epoch)).or_insert(epoch.owner);
                if owner != epoch.owner {
                    let (shard, number) = (epoch.shard, epoch.epoch);
                    let message = format!("epoch {number} of shard {shard} is {owner}'s and {}'s", epoch.owner);
                    found.push(Violation::new("I5", at, message));
                }
                let newest = seen.entry((record.node, epoch.shard)).or_default();
                if epoch.epoch < *newest {
                    let message = format!("shard {} went from epoch {newest} to {}", epoch.shard, epoch.epoch);
                    found.push(Violation::new("I5", at, message));
                }
                *newest = epoch.epoch.max(*newest);
            }
            Event::Fire(fire) => {
                let shard = ids::parse(&fire.job, "job_").map(ids::shard);
                if shard.is_some_and(|shard| shard != fire.shard) {
                    let message = format!("was fired for shard {}, which its job is not in", fire.shard);
                    found.push(Violation::new("I5", at, message).of(fire.execution).in_job(fire.job));
                }
            }
            _ => {}
        }
    }
}

/// In the order of commits, where it is known: no fire of an ownership after the next one began.
fn commits(case: Case<'_>, found: &mut Vec<Violation>) {
    let commit = |record: &Record| match &record.event {
        Event::Epoch(epoch) => epoch.commit,
        Event::Fire(fire) => fire.commit,
        _ => None,
    };
    let mut ordered: Vec<(u64, &Record)> =
        case.history.records.iter().filter_map(|record| Some((commit(record)?, record))).collect();
    ordered.sort_by_key(|(commit, _)| *commit);
    let mut current: HashMap<u16, u64> = HashMap::new();
    for (_, record) in ordered {
        match &record.event {
            Event::Epoch(epoch) => _ = current.insert(epoch.shard, epoch.epoch),
            Event::Fire(fire) => {
                let epoch = current.get(&fire.shard).copied().unwrap_or(fire.epoch);
                if fire.epoch != epoch {
                    let message =
                        format!("was fired under epoch {}, when shard {} was at {epoch}", fire.epoch, fire.shard);
                    found.push(Violation::new("I5", case.history.at(record), message).of(fire.execution));
                }
            }
            _ => {}
        }
    }
}

/// Fences grow; attempts too, but for those that count as nothing.
fn attempts(id: Text, row: &ExecutionRow, found: &mut Vec<Violation>) {
    let mut report = |at: i64, message: String| found.push(Violation::new("I5", at * MS, message).of(id));
    for pair in row.attempts.windows(2) {
        let (older, newer) = (&pair[0], &pair[1]);
        let is_void = matches!(older.outcome.as_deref(), Some("SNOOZED" | "RELEASED"));
        let grows = if is_void { newer.attempt >= older.attempt } else { newer.attempt > older.attempt };
        if newer.fence_token <= older.fence_token || !grows {
            let (a, b) = ((older.attempt, older.fence_token), (newer.attempt, newer.fence_token));
            report(newer.started_at.0, format!("attempt and fence went from {a:?} to {b:?}"));
        }
        if older.outcome.is_none() {
            report(
                newer.started_at.0,
                format!("attempt {} began while {} had no outcome", newer.attempt, older.attempt),
            );
        }
        if older.outcome.as_deref() == Some("SUCCEEDED") {
            report(
                newer.started_at.0,
                format!("attempt {} began after {} had succeeded", newer.attempt, older.attempt),
            );
        }
    }
    let newest = row.attempts.last().map(|attempt| attempt.fence_token);
    if newest.is_some_and(|newest| newest != row.fence_token) {
        report(row.fire_at.0, format!("its fence is {}, and not that of its last attempt", row.fence_token));
    }
}

/// Nothing is accepted under a fence after a newer one was given; and nothing twice.
fn reports(case: Case<'_>, id: Text, execution: &Execution, row: &ExecutionRow, found: &mut Vec<Violation>) {
    let mut newest_claim = 0;
    let mut accepted: HashMap<u64, Text> = HashMap::new();
    // By when each was asked for, so that a line written late accuses nobody.
    let mut lines: Vec<(u64, &Event)> = Vec::new();
    for record in case.history.lines(execution) {
        match &record.event {
            Event::Claim(_) => lines.push((record.mono_ns, &record.event)),
            Event::Report(report) => lines.push((report.began_mono_ns.unwrap_or(record.mono_ns), &record.event)),
            _ => {}
        }
    }
    lines.sort_by_key(|(mono_ns, _)| *mono_ns);
    for (mono_ns, event) in lines {
        let at = case.history.on_axis(mono_ns);
        let mut fail = |message: String| found.push(Violation::new("I5", at, message).of(id));
        match event {
            Event::Claim(claim) => newest_claim = claim.fence.max(newest_claim),
            Event::Report(report) if report.repeated => {}
            Event::Report(report) => {
                if report.fence < newest_claim {
                    let (fence, attempt) = (report.fence, report.attempt);
                    fail(format!(
                        "a report of attempt {attempt} (fence {fence}) was accepted after fence {newest_claim}"
                    ));
                }
                if accepted.insert(report.fence, report.outcome).is_some() {
                    fail(format!("two reports of fence {} were accepted", report.fence));
                }
                let stored = row.attempts.iter().find(|attempt| attempt.fence_token == report.fence);
                let stored = stored.and_then(|attempt| attempt.outcome);
                if stored.is_some_and(|stored| stored != report.outcome) {
                    fail(format!(
                        "{} was accepted, and {} is stored",
                        report.outcome,
                        stored.as_deref().unwrap_or("nothing")
                    ));
                }
            }
            _ => {}
        }
    }
}

/// A sink that keeps the largest fence counts nothing older.
fn calls(case: Case<'_>, id: Text, execution: &Execution, found: &mut Vec<Violation>) {
    let mut newest = 0;
    for effect in case.effects(execution) {
        if effect.accepted && effect.fence < newest {
            let message = format!("the effect of fence {} counted after that of {newest}", effect.fence);
            found.push(Violation::new("I5", case.arrival(effect), message).of(id));
        }
        newest = newest.max(effect.fence);
    }
}
