//! I18: for every instant one version of its job governs, and what runs for it, runs under that version. These are the rules of
//! `docs/concepts/jobs.md`, judged by the versions that the store showed in the end and by what clients were answered.

use super::{Case, Violation};
use crate::event::{ExecutionRow, Ms, OpKind, Phase, VersionRow};
use crate::history::{Change, Execution, Job, MS, Nanos, Operation};
use crate::text::Text;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    for (id, job) in case.history.jobs.iter() {
        let wrong =
            broken_chain(job).into_iter().chain(other_than_answered(case, job)).chain(skipped_though_run(case, job));
        found.extend(wrong.map(|(at, message)| Violation::new("I18", at.0 * MS, message).in_job(id)));
    }
    for (id, execution, row) in case.rows() {
        let Some(job) = case.history.jobs.get(row.job_id) else { continue };
        let wrong = [
            ungoverned(case, execution, row, job),
            asked_in_another(case, execution, row, job),
            begun_after_deletion(case, row, job),
            called_by_another(case, execution, row, job),
        ];
        let at = row.fire_at.0 * MS;
        found.extend(wrong.into_iter().flatten().map(|why| Violation::new("I18", at, why).of(id).in_job(row.job_id)));
    }
}

/// Each version ends where the next one begins, and none is missing in between.
fn broken_chain(job: &Job) -> Vec<(Ms, String)> {
    let follows = |old: &VersionRow, new: &VersionRow| {
        new.version == old.version + 1 && old.ended_at == Some(new.effective_at) && old.effective_at <= new.effective_at
    };
    let pairs = job.versions.windows(2).filter(|pair| !follows(&pair[0], &pair[1]));
    let mut wrong: Vec<(Ms, String)> = pairs
        .map(|pair| {
            let (old, new) = (&pair[0], &pair[1]);
            let end = old.ended_at.map_or("never".to_owned(), |end| end.to_string());
            let message = format!(
                "version {} ends {end}, and version {} counts from {}",
                old.version, new.version, new.effective_at
            );
            (new.effective_at, message)
        })
        .collect();
    if let Some(newest) = job.versions.last().filter(|newest| newest.ended_at.is_some()) {
        wrong.push((newest.effective_at, format!("version {} is the newest, and is over", newest.version)));
    }
    wrong
}

/// A version counts from when its client was told, which is not before the client asked.
fn other_than_answered(case: Case<'_>, job: &Job) -> Vec<(Ms, String)> {
    let mut wrong = Vec::new();
    for (op, version, told) in answered(case, job) {
        let shown = job.versions.iter().find(|shown| shown.version == version);
        if let Some(shown) = shown.filter(|shown| shown.effective_at != told) {
            let message = format!("version {version} counts from {}, and {told} was answered", shown.effective_at);
            wrong.push((told, message));
        }
        // Where the clock of the store went back, it counts from where the version before it counts.
        let before = job.versions.iter().find(|shown| shown.version + 1 == version);
        let is_clamped = before.is_some_and(|before| before.effective_at == told);
        let ends_pause = before.is_some_and(|before| before.paused_until == Some(told));
        if !is_clamped && !ends_pause && told.0 * MS < first_asked(case, job, op) - case.clock() {
            wrong.push((told, format!("version {version} counts from {told}, before anybody asked for it")));
        }
    }
    wrong
}

/// When a change was first asked for: tries under one key have one effect.
fn first_asked(case: Case<'_>, job: &Job, op: &Operation) -> Nanos {
    let ops = job.ops.iter().map(|index| &case.history.ops[*index]);
    let same = ops.filter(|other| other.asked.key.is_some() && other.asked.key == op.asked.key);
    same.map(|other| other.invoked).min().unwrap_or(op.invoked)
}

/// Acknowledged changes of a job, with the version that each made and since when it counts.
fn answered<'a>(case: Case<'a>, job: &'a Job) -> impl Iterator<Item = (&'a Operation, u32, Ms)> {
    let ops = job.ops.iter().map(|index| &case.history.ops[*index]);
    let changes = ops.filter(|op| op.phase == Phase::Ok && is_change(op.asked.kind));
    changes.filter_map(|op| Some((op, op.answer.version?, op.answer.updated_at?)))
}

fn is_change(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Cancel | OpKind::Run | OpKind::Replay | OpKind::Discard)
}

/// A skip never covers an instant that ran.
fn skipped_though_run(case: Case<'_>, job: &Job) -> Vec<(Ms, String)> {
    if job.skips.is_empty() {
        return Vec::new();
    }
    let rows = job.executions.iter().filter_map(|id| case.history.executions.get(*id)?.row.as_ref());
    let ran = rows.filter(|row| row.kind == "SCHEDULE" && !row.attempts.is_empty());
    let covering = |at: Ms| job.skips.iter().find(move |skip| skip.from <= at && at <= skip.until);
    ran.filter_map(|row| Some((row.fire_at, covering(row.fire_at)?)))
        .map(|(at, skip)| {
            (at, format!("{at} ran, and a skip ({}) from {} to {} covers it", skip.reason, skip.from, skip.until))
        })
        .collect()
}

/// The version that governs an instant: the last one that counts from before it. Nothing where it is not shown any more.
fn governing(job: &Job, at: Ms) -> Option<&VersionRow> {
    let since = job.versions.iter().rev().find(|version| version.effective_at < at);
    since.or(job.versions.first().filter(|first| first.version == 1))
}

/// What ran for an instant of the schedule ran under the version that governs it; or it began before the change was answered that
/// would have taken it away.
fn ungoverned(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job) -> Option<String> {
    let began = row.attempts.first().filter(|_| row.kind == "SCHEDULE")?.started_at;
    let governing = governing(job, row.fire_at)?;
    let (ran, governs) = (row.job_version, governing.version);
    if case.was_asked(execution, OpKind::Replay) {
        return (ran < governs).then(|| format!("was replayed under version {ran}, and {governs} governed it already"));
    }
    if ran == governs {
        let paused = governing.state == "PAUSED" && governing.paused_until.is_none_or(|until| row.fire_at <= until);
        return paused.then(|| format!("ran for {}, when its job was paused", row.fire_at));
    }
    let next = answered(case, job).filter(|(_, version, _)| *version == ran + 1).filter_map(|(op, ..)| op.ended).min();
    let in_flight = ran < governs && next.is_none_or(|ended| began.0 * MS <= ended + case.clock());
    (!in_flight).then(|| format!("ran for {} under version {ran}, and version {governs} governs that", row.fire_at))
}

/// A run by hand takes the version that was the newest when it was asked for.
fn asked_in_another(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job) -> Option<String> {
    if row.kind != "MANUAL" || case.was_asked(execution, OpKind::Replay) {
        return None;
    }
    let asked =
        || execution.ops.iter().map(|index| &case.history.ops[*index]).filter(|op| op.asked.kind == OpKind::Run);
    let invoked = asked().map(|op| op.invoked).min()?;
    let ended = asked().map(|op| op.ended.unwrap_or(Nanos::MAX)).max()?;
    let own = job.versions.iter().find(|version| version.version == row.job_version)?;
    let is_early = own.effective_at.0 * MS > ended.saturating_add(case.clock());
    let is_late = own.ended_at.is_some_and(|end| end.0 * MS < invoked - case.clock());
    (is_early || is_late)
        .then(|| format!("was run by hand under version {}, which was not the newest", row.job_version))
}

/// Nothing begins when a deletion was acknowledged.
fn begun_after_deletion(case: Case<'_>, row: &ExecutionRow, job: &Job) -> Option<String> {
    let deletions = job.ops.iter().map(|index| &case.history.ops[*index]);
    let deletions = deletions.filter(|op| op.asked.kind == OpKind::Delete && op.phase == Phase::Ok);
    let deleted = deletions.filter_map(|op| op.ended).min()?;
    let attempt = row.attempts.iter().find(|attempt| attempt.started_at.0 * MS > deleted + case.clock())?;
    Some(format!("attempt {} began at {}, and its job was deleted before", attempt.attempt, attempt.started_at))
}

/// What the sink got is what the definition of its version says, in every attempt.
fn called_by_another(case: Case<'_>, execution: &Execution, row: &ExecutionRow, job: &Job) -> Option<String> {
    let effects = case.effects(execution);
    let marked = || effects.iter().filter_map(|effect| Some((effect.attempt, effect.mark?)));
    marked().next()?;
    if case.was_asked(execution, OpKind::Replay) {
        return None;
    }
    let mark = mark_of(job, row.job_version)?;
    let (attempt, other) = marked().find(|(_, called)| *called != mark)?;
    Some(format!("attempt {attempt} called as `{other}`, and its version {} says `{mark}`", row.job_version))
}

/// The mark of a version's definition; nothing where a change without an answer may have made another one.
fn mark_of(job: &Job, version: u32) -> Option<Text> {
    let defines = |change: &&Change| change.spec.is_some();
    if job.changes.iter().filter(defines).any(|change| !change.certain || change.version.is_none()) {
        return None;
    }
    let upto = job.changes.iter().filter(defines).filter(|change| change.version <= Some(version));
    upto.max_by_key(|change| change.version)?.spec.as_ref()?.mark
}
