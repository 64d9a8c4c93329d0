//! I1: every fire that had to be has one outcome, with its evidence. I2: nothing else is there.

use super::{Case, Violation, is_success};
use crate::event::{ExecutionRow, OpKind, Phase, Skip};
use crate::history::{Execution, Job, MS};
use crate::ids::{self, Kind};
use crate::oracle::{LEAD_MS, Target};
use crate::text::Text;
use std::collections::HashMap;

/// A fire that is later than this was missed.
const MISSED_MS: i64 = 10_000;

/// The number of the tenant, where it is known.
fn tenant_number(name: &str) -> Option<u32> {
    (name == "default").then_some(1)
}

pub fn complete(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, job) in case.history.jobs.iter() {
        let is_deleted = job.changes.iter().any(|change| change.kind == OpKind::Delete);
        if job.acknowledged && job.row.is_none() && !is_deleted {
            let at = job.changes.first().map_or(0, |change| change.latest);
            found.push(Violation::new("I1", at, format!("job `{}` was acknowledged and is gone", job.name)).in_job(id));
        }
        fires(case, id, job, found);
    }
    for (id, execution, row) in case.rows() {
        outcome(case, id, execution, row, found);
    }
    let runs = case.history.ops.iter().filter(|op| op.asked.kind == OpKind::Run && op.phase == Phase::Ok);
    for op in runs {
        let Some(id) = op.execution else { continue };
        if case.history.executions.get(id).is_none_or(|execution| execution.row.is_none()) {
            let message = "its run was acknowledged, and the store does not know it".to_owned();
            found.push(Violation::new("I1", op.invoked, message).of(id));
        }
    }
}

/// Every fire of a job that had to be.
fn fires(case: Case<'_>, id: Text, job: &Job, found: &mut Vec<Violation>) {
    let Some(expected) = case.oracle.jobs.get(id) else { return };
    let mut by_instant: HashMap<i64, Vec<&ExecutionRow>> = HashMap::new();
    for execution in &job.executions {
        if let Some(row) = case.history.executions.get(*execution).and_then(|execution| execution.row.as_ref())
            && row.kind != "MANUAL"
        {
            by_instant.entry(row.fire_at.0).or_default().push(row);
        }
    }
    for (at, target) in &expected.must {
        let rows = by_instant.get(at).map_or(&[][..], Vec::as_slice);
        let instant = crate::event::Ms(*at);
        let wrong = match rows {
            [_, second, ..] => Some((format!("{instant} has {} executions", rows.len()), Some(second.id))),
            [row] if target.blackout && !row.attempts.is_empty() => {
                Some((format!("{instant} lies in a blackout and runs"), Some(row.id)))
            }
            [_] => None,
            [] => no_execution(job, *at, target).map(|why| (format!("{instant} {why}"), None)),
        };
        if let Some((message, execution)) = wrong {
            let message = format!("job `{}`: {message}", job.name);
            let violation = Violation { execution, ..Violation::new("I1", at * MS, message).in_job(id) };
            found.push(violation);
        }
    }
}

/// Why it is not right that this fire has no execution.
fn no_execution(job: &Job, at: i64, target: &Target) -> Option<String> {
    let mut covering = job.skips.iter().filter(|skip| skip.from.0 <= at && at <= skip.until.0).peekable();
    if covering.peek().is_none() {
        return Some("has neither an execution nor a skip".to_owned());
    }
    let reasons: Vec<&str> = covering.clone().map(|skip| skip.reason.as_str()).collect();
    let message = format!("was skipped as {}, which does not hold", reasons.join(", "));
    (!covering.any(|skip| holds(job, at, target, skip))).then_some(message)
}

/// Whether the reason of a skip holds for a fire that had to be.
fn holds(job: &Job, at: i64, target: &Target, skip: &Skip) -> bool {
    let Some(spec) = &job.changes[target.spec].spec else { return false };
    let age = skip.recorded_at.0 - at;
    let mode = spec.catch_up.mode.as_str();
    let stands_for_it = || {
        let later = |other: &str| ids::parse(other, "exe_").is_some_and(|bytes| millis(bytes) > at);
        job.executions.iter().any(|other| later(other))
    };
    match skip.reason.as_str() {
        "BLACKOUT" => target.blackout,
        "MISFIRE_DISCARDED" => mode == "NONE" && age >= MISSED_MS,
        "MISFIRE_COALESCED" => matches!(mode, "LAST" | "LAST_N" | "COALESCED") && age >= MISSED_MS && stands_for_it(),
        "EXPIRED" => age >= MISSED_MS && age >= spec.catch_up.max_age_ms as i64,
        reason => changed(job, at, reason),
    }
}

/// The instant in an execution's id.
fn millis(bytes: ids::Bytes) -> i64 {
    bytes[..6].iter().fold(0, |value, byte| value << 8 | i64::from(*byte))
}

/// Whether a change of the job explains that a fire was given up.
fn changed(job: &Job, at: i64, reason: &str) -> bool {
    let by = |kinds: &[OpKind]| {
        let after = |latest: i64| latest >= (at - LEAD_MS) * MS;
        job.changes.iter().any(|change| kinds.contains(&change.kind) && after(change.latest))
    };
    match reason {
        "STALE_VERSION" => by(&[OpKind::Update, OpKind::Pause, OpKind::Resume, OpKind::Delete]),
        "JOB_DELETED" => by(&[OpKind::Delete]),
        "PAUSED" => by(&[OpKind::Pause, OpKind::Resume]) || job.specs().any(|spec| spec.paused),
        _ => false,
    }
}

/// What an execution ended as has its evidence.
fn outcome(case: Case<'_>, id: Text, execution: &Execution, row: &ExecutionRow, found: &mut Vec<Violation>) {
    let Some(job) = case.history.jobs.get(row.job_id) else { return };
    let reason = row.reason.as_deref().unwrap_or("");
    let has_overlap = |policies: &[&str]| job.specs().any(|spec| policies.contains(&spec.overlap.as_str()));
    let wrong = match row.state.as_str() {
        "SUCCEEDED" if job.is_seen() => {
            let effects = case.effects(execution);
            let seen = effects.iter().any(|effect| effect.fence == row.fence_token && is_success(effect.status));
            match (seen, effects.iter().any(|effect| effect.accepted)) {
                (false, _) => Some("succeeded, and the sink saw nothing of its last attempt".to_owned()),
                (true, false) => Some("succeeded, and no call of the sink counted".to_owned()),
                (true, true) => None,
            }
        }
        "CANCELLED" => {
            let ok = match reason {
                "OVERLAP_REPLACED" => has_overlap(&["CANCEL_OTHER", "TERMINATE_OTHER"]),
                "DISCARDED_BY_USER" => case.was_asked(execution, OpKind::Discard),
                _ => case.was_asked(execution, OpKind::Cancel) || fire_was_cancelled(case, row),
            };
            (!ok).then(|| format!("is cancelled ({reason}), and nobody asked for it"))
        }
        "SKIPPED" => {
            let ok = match reason {
                "OVERLAP_FORBIDDEN" => has_overlap(&["SKIP", "BUFFER_ONE", "BUFFER_ALL"]),
                "OVERLAP_REPLACED" => has_overlap(&["CANCEL_OTHER", "TERMINATE_OTHER"]),
                reason => changed(job, row.fire_at.0, reason),
            };
            (!ok).then(|| format!("is skipped ({reason}), which does not hold"))
        }
        _ => None,
    };
    if let Some(message) = wrong {
        found.push(Violation::new("I1", row.fire_at.0 * MS, message).of(id).in_job(row.job_id));
    }
}

/// Whether somebody cancelled the fire, not the execution.
fn fire_was_cancelled(case: Case<'_>, row: &ExecutionRow) -> bool {
    let fires = &case.history.cancelled_fires;
    !fires.is_empty() && fires.contains(&(row.job_id, row.fire_at))
}

pub fn sound(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, execution) in case.history.executions.iter() {
        let at = execution.mentions.first().map_or(0, |index| case.history.at(&case.history.records[*index]));
        let Some(row) = &execution.row else {
            if case.history.lines(execution).any(|record| is_run(&record.event)) {
                found.push(Violation::new("I2", at, "it ran, and the store does not know it".to_owned()).of(id));
            }
            continue;
        };
        let Some(job) = case.history.jobs.get(row.job_id) else { continue };
        for message in [wrong_id(case, execution, row, job), wrong_instant(case, row), wrong_version(case, row, job)]
            .into_iter()
            .chain([wrong_call(case, execution, row, job)])
            .flatten()
        {
            found.push(Violation::new("I2", row.fire_at.0 * MS, message).of(id).in_job(row.job_id));
        }
    }
    manual(case, found);
}

fn is_run(event: &crate::event::Event) -> bool {
    use crate::event::Event;
    matches!(event, Event::Fire(_) | Event::Claim(_) | Event::Start(_) | Event::Effect(_) | Event::Report(_))
}

/// The id is that of its job and instant.
fn wrong_id(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job) -> Option<String> {
    let (tenant, bytes) = (tenant_number(&job.tenant)?, ids::parse(&row.job_id, "job_")?);
    let expected = match row.kind.as_str() {
        "SCHEDULE" => ids::execution(tenant, bytes, row.fire_at.0, Kind::Scheduled, b"")?,
        "MANUAL" => {
            let run = execution.ops.iter().map(|index| &case.history.ops[*index]);
            let run = run.into_iter().find(|op| op.asked.kind == OpKind::Run && op.phase == Phase::Ok)?;
            ids::execution(tenant, bytes, row.fire_at.0, Kind::Manual, run.asked.key.as_ref()?.as_bytes())?
        }
        _ => return None,
    };
    let expected = ids::format(expected, "exe_");
    (row.id != expected.as_str()).then(|| format!("its id should be {expected}, by its job and instant"))
}

/// A scheduled execution lies at an instant of its schedule; one that ran, at an instant at which its job fired.
fn wrong_instant(case: Case<'_>, row: &ExecutionRow) -> Option<String> {
    let expected = case.oracle.jobs.get(row.job_id).filter(|expected| expected.unknown.is_none())?;
    if row.kind == "MANUAL" || fire_was_cancelled(case, row) {
        return None;
    }
    let at = row.fire_at.0;
    match (expected.may.contains(&at), expected.instants.contains(&at), row.attempts.is_empty()) {
        (true, _, _) | (_, true, true) => None,
        (_, true, false) => Some(format!("ran for {}, at which its job did not fire", row.fire_at)),
        _ => Some(format!("{} is no instant of its schedule", row.fire_at)),
    }
}

/// The version that it was fired under was the job's at some time between due and fired; one that ran, not an older
/// one.
fn wrong_version(case: Case<'_>, row: &ExecutionRow, job: &Job) -> Option<String> {
    if row.kind != "SCHEDULE" {
        return None;
    }
    let (fire_at, fired_at) = (row.fire_at.0 * MS, row.fired_at.0 * MS);
    let since = job.changes.iter().find(|change| change.version == Some(row.job_version))?;
    let until = job.changes.iter().find(|change| change.version == Some(row.job_version + 1));
    if since.earliest > fire_at.max(fired_at) + case.clock() {
        return Some(format!("version {} did not exist then", row.job_version));
    }
    let over = until.is_some_and(|until| until.latest < fire_at - case.clock());
    (over && !row.attempts.is_empty()).then(|| format!("ran under version {}, which was over then", row.job_version))
}

/// What the sink was told is what the store knows.
fn wrong_call(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job) -> Option<String> {
    let effects = case.effects(execution);
    let wrong = effects.iter().find(|effect| effect.fire_at != row.fire_at || effect.job_name != job.name)?;
    Some(format!("the sink was told of `{}` at {}", wrong.job_name, wrong.fire_at))
}

/// No more runs by hand than were asked for.
fn manual(case: Case<'_>, found: &mut Vec<Violation>) {
    // Every try under a key of its own can make one; an unanswered one too.
    let mut asked: HashMap<(Text, Text), ()> = HashMap::new();
    for op in case.history.ops.iter().filter(|op| op.asked.kind == OpKind::Run && op.phase != Phase::Fail) {
        if let Some(job) = op.job {
            asked.insert((job, op.asked.key.unwrap_or(op.asked.op)), ());
        }
    }
    let mut allowed: HashMap<Text, usize> = HashMap::new();
    asked.keys().for_each(|(job, _)| *allowed.entry(*job).or_default() += 1);
    for (id, _, row) in case.rows().filter(|(_, _, row)| row.kind == "MANUAL") {
        match allowed.get_mut(&row.job_id) {
            Some(left) if *left > 0 => *left -= 1,
            _ => {
                let message = "runs by hand, and nobody asked for it".to_owned();
                found.push(Violation::new("I2", row.fire_at.0 * MS, message).of(id).in_job(row.job_id));
            }
        }
    }
}
