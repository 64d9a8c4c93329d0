//! Versions of a job: what a change does, and which version governs an instant.
//!
//! Every change makes a version, and says since when it counts (`effective_at`). A version governs the instants after its own
//! `effective_at`, up to and including that of the version after it; the first one also governs what lies before it. So for every
//! instant exactly one version governs:
//!
//! - A change takes nothing away that was due before it. What the older version still owes stays with it (`Superseded`): its
//!   cursor goes on to the end of its time, under its own policies.
//! - A change that is answered before an instant governs it, whatever changes follow. An execution that another version
//!   made ahead of the instant is taken over (`Event::Refire`), or discarded when somebody wants to start it
//!   (`discard_reason`).
//! - A pause that ends by itself is a change that was made when the pause was: it counts from the end of the pause,
//!   whenever somebody notices.
//!
//! The functions here are pure and total: a stored plan that cannot be read has no fires, so that such a job can be mended.

use super::{Cursor, Definition, Job, JobState, count_fires, next_fire};
use crate::execution::Reason;
use crate::fault::{Bug, planted};
use crate::ids::{FireKind, JobId, TenantId};
use crate::limits;
use crate::schedule::{Plan, Schedule};
use crate::store::Skip;
use crate::time::Timestamp;
use std::sync::Arc;

/// A definition that was checked, with what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// What the user said, with the action's config in canonical form.
    pub definition: Arc<Definition>,
    pub plan: Plan,
    /// Whom it is done to.
    pub target: Arc<str>,
    /// An instant in the past means at once.
    pub allow_past: bool,
    /// The plan stays as it is, also the instant of a one-off: it was resolved for an earlier version.
    pub kept: bool,
}

/// A change of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// There is a new one.
    Create {
        resolved: Resolved,
        /// It does not fire until it is resumed.
        paused: bool,
    },
    /// It gets another definition.
    Define(Resolved),
    /// It does not fire, until this instant or until it is resumed.
    Pause(Option<Timestamp>),
    Resume,
    /// Its pause is over: it fires again from the instant that the pause named.
    EndPause,
    Delete,
    /// Its next fire is computed anew: the rules of its zone have changed.
    Replan,
}

/// A version that another one has followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Superseded {
    /// The version. Its cursor has a next fire only if it still owes something up to `ended_at`.
    pub job: Job,
    /// The last instant that it governs.
    pub ended_at: Timestamp,
}

/// What a change makes of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub job: Job,
    /// The version that was the newest, and one that came and went with this change.
    pub superseded: Vec<Superseded>,
    /// Instants that no execution will come of.
    pub skips: Vec<Skip>,
}

/// The first version of a job, accepted at `now`.
pub fn create(id: JobId, tenant: TenantId, resolved: &Resolved, paused: bool, now: Timestamp) -> Job {
    let plan = anchored(resolved, now, now, resolved.allow_past);
    let mut job = Job {
        id,
        tenant,
        version: 1,
        state: if paused { JobState::Paused } else { JobState::Active },
        paused_until: None,
        created_at: now,
        effective_at: now,
        cursor: Cursor::default(),
        plan: plan.encode().into(),
        target: resolved.target.clone(),
        definition: resolved.definition.clone(),
    };
    job.cursor = cursor_after(&job, Some(&plan), first_governed(&job, &plan), job.definition.window.max_fires);
    job
}

/// A version fires after this instant. A one-off whose instant has come when its job is accepted, because the request took its time,
/// is late and not lost.
fn first_governed(job: &Job, plan: &Plan) -> Timestamp {
    if job.version == 1 && plan.is_one_off() { Timestamp::MIN } else { job.effective_at }
}

/// What a change makes of `old` at `now`, by the store's clock. `owed_from` is the earliest fire that a version before `old`
/// still owes. There is no change that makes a job which is there already.
pub fn change(old: &Job, owed_from: Option<Timestamp>, change: &Change, now: Timestamp) -> Changed {
    let mut made = Changed { job: old.clone(), superseded: Vec::new(), skips: Vec::new() };
    let ends = |until: &Timestamp| *until <= now || *change == Change::EndPause;
    if let Some(until) = old.paused_until.filter(|until| old.state == JobState::Paused && ends(until)) {
        made.step(&Change::Resume, until.max(old.effective_at), now);
        if matches!(change, Change::Resume | Change::EndPause) {
            return made;
        }
    }
    let effective_at = now.max(made.job.effective_at);
    if *change == Change::Delete {
        made.skip_owed(owed_from, effective_at);
    }
    made.step(change, effective_at, now);
    made
}

impl Changed {
    /// One version more, which counts from `effective_at`.
    fn step(&mut self, change: &Change, effective_at: Timestamp, now: Timestamp) {
        let old = &self.job;
        self.skips.extend(skipped_while_paused(old, effective_at, now));
        let mut new = Job { version: old.version + 1, effective_at, ..old.clone() };
        let plan = match change {
            Change::Create { resolved, .. } | Change::Define(resolved) => {
                let is_same = resolved.definition.schedule == old.definition.schedule;
                let is_one_off = matches!(old.definition.schedule, Schedule::At { .. } | Schedule::After { .. });
                new.definition = resolved.definition.clone();
                new.target = resolved.target.clone();
                // The instant of a one-off is fixed when its schedule is first accepted: saying the same again must neither
                // move nor repeat it.
                match is_same && is_one_off {
                    true => decode(&old.plan),
                    false => Some(anchored(resolved, effective_at, effective_at.saturating_add_ms(1), true)),
                }
            }
            Change::Pause(until) => {
                (new.state, new.paused_until) = (JobState::Paused, *until);
                decode(&old.plan)
            }
            Change::Resume | Change::EndPause => {
                (new.state, new.paused_until) = (JobState::Active, None);
                decode(&old.plan)
            }
            Change::Delete => {
                (new.state, new.paused_until) = (JobState::Deleted, None);
                decode(&old.plan)
            }
            Change::Replan => decode(&old.plan),
        };
        if let Some(plan) = &plan {
            new.plan = plan.encode().into();
        }
        let terms = |job: &Job| (job.plan.clone(), job.definition.window, job.definition.spread_ms);
        let fires_left = match terms(&new) == terms(old) {
            true => left_at(old, plan.as_ref(), effective_at),
            false => new.definition.window.max_fires,
        };
        new.cursor = cursor_after(&new, plan.as_ref(), effective_at, fires_left);
        let old = std::mem::replace(&mut self.job, new);
        self.superseded.push(superseded(old, self.job.state, effective_at));
    }

    /// A deletion does take away: what is owed up to it is skipped.
    fn skip_owed(&mut self, owed_from: Option<Timestamp>, effective_at: Timestamp) {
        let job = &self.job;
        let from = owed_from.into_iter().chain(job.cursor.next_fire_at).min().filter(|&from| from <= effective_at);
        let (tenant, job, reason) = (job.tenant, job.id, Reason::JobDeleted);
        self.skips.extend(from.map(|from| Skip {
            tenant,
            job,
            from,
            to: effective_at,
            reason,
            recorded_at: effective_at,
        }));
    }
}

/// A version that is over, with the cursor of what it owes.
fn superseded(mut job: Job, next: JobState, ended_at: Timestamp) -> Superseded {
    let owes = next != JobState::Deleted && job.cursor.next_fire_at.is_some_and(|at| at <= ended_at);
    if !owes || planted(Bug("change-takes-away")) {
        job.cursor.next_fire_at = None;
    }
    Superseded { job, ended_at }
}

/// The instants that a paused version governed, if it would have fired at any.
fn skipped_while_paused(job: &Job, ended_at: Timestamp, now: Timestamp) -> Option<Skip> {
    let plan = decode(&job.plan).filter(|_| job.state == JobState::Paused)?;
    let awake = Job { state: JobState::Active, ..job.clone() };
    let first = cursor_after(&awake, Some(&plan), first_governed(job, &plan), job.cursor.fires_left).next_fire_at;
    let first = first.filter(|&first| first <= ended_at)?;
    Some(Skip {
        tenant: job.tenant,
        job: job.id,
        from: first.min(job.effective_at.saturating_add_ms(1)),
        to: ended_at,
        reason: Reason::Paused,
        recorded_at: now,
    })
}

/// The plan of a version that is accepted at `accepted_at` and governs nothing before `first`.
fn anchored(resolved: &Resolved, accepted_at: Timestamp, first: Timestamp, allow_past: bool) -> Plan {
    match resolved.definition.schedule {
        _ if resolved.kept => resolved.plan.clone(),
        Schedule::After { delay_ms } => {
            let delay_ms = i64::try_from(delay_ms).unwrap_or(i64::MAX);
            resolved.plan.moved_to(accepted_at.saturating_add_ms(delay_ms).max(first))
        }
        Schedule::At { at } if allow_past => resolved.plan.moved_to(at.max(first)),
        _ => resolved.plan.clone(),
    }
}

/// The cursor of a version that fires by `plan` after `from`, within its window.
fn cursor_after(job: &Job, plan: Option<&Plan>, from: Timestamp, fires_left: Option<u32>) -> Cursor {
    let window = &job.definition.window;
    let from = within_window(job, from);
    let is_open = job.state == JobState::Active && fires_left != Some(0);
    let next = plan.filter(|_| is_open).and_then(|plan| next_fire(plan, job.spread_offset_ms(), from));
    Cursor { next_fire_at: next.filter(|&at| window.ends_at.is_none_or(|end| at <= end)), fires_left }
}

/// The same instant, or the last one before the window opens: nothing fires up to it.
fn within_window(job: &Job, from: Timestamp) -> Timestamp {
    job.definition.window.starts_at.map_or(from, |start| from.max(start.saturating_add_ms(-1)))
}

/// Fires left under `max_fires` after the instants up to `at`. The stored cursor may lag behind that; and it may have passed it,
/// where the clock of the owner was ahead. After the last fire nobody knows by how many.
fn left_at(old: &Job, plan: Option<&Plan>, at: Timestamp) -> Option<u32> {
    let left = old.cursor.fires_left?;
    let (Some(plan), Some(next)) = (plan, old.cursor.next_fire_at) else { return Some(left) };
    let offset_ms = old.spread_offset_ms();
    if next <= at {
        let passed = count_fires(plan, offset_ms, next, at, left.into()) as u32;
        return Some(left.saturating_sub(passed));
    }
    let first = within_window(old, at).saturating_add_ms(1);
    let before_next = next.saturating_add_ms(-1);
    let counted_early = count_fires(plan, offset_ms, first, before_next, limits::CATCH_UP_FIRES_MAX as u64);
    Some(left.saturating_add(counted_early as u32))
}

fn decode(plan: &str) -> Option<Plan> {
    Plan::decode(plan).ok()
}

/// A version, as far as it decides about starts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    pub version: u32,
    pub state: JobState,
    /// Since when it counts.
    pub effective_at: Timestamp,
}

/// An execution, as far as the versions of its job decide about its start.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FiredUnder {
    pub kind: FireKind,
    /// The version that fired it.
    pub version: u32,
    pub fire_at: Timestamp,
    /// Whether it was tried already: then it is tried again, whatever became of its job, unless that is gone.
    pub tried: bool,
}

impl FiredUnder {
    /// Whether a version that has been superseded may govern it, so that it must be known: `newest` does not.
    pub fn needs_older(&self, newest: &InForce) -> bool {
        let bound = self.kind == FireKind::Schedule && !self.tried && newest.state != JobState::Deleted;
        bound && self.version != newest.version && self.fire_at <= newest.effective_at
    }
}

/// Why an execution must not start: its job is deleted, or another version governs its instant than the one that fired it.
/// `older` is the version that governs it, where `FiredUnder::needs_older` says so.
pub fn discard_reason(fired: &FiredUnder, newest: &InForce, older: Option<&InForce>) -> Option<Reason> {
    if newest.state == JobState::Deleted {
        return Some(Reason::JobDeleted);
    }
    if fired.kind != FireKind::Schedule || fired.tried || fired.version == newest.version {
        return None;
    }
    if planted(Bug("newest-governs")) {
        // What counts is whether the newest version came before the instant; what was in force at it is not asked.
        let changed_before = fired.fire_at > newest.effective_at;
        let reason = if newest.state == JobState::Paused { Reason::Paused } else { Reason::StaleVersion };
        return changed_before.then_some(reason);
    }
    let governing = if fired.needs_older(newest) { older } else { Some(newest) };
    match governing {
        Some(version) if version.version == fired.version => None,
        Some(version) if version.state == JobState::Paused => Some(Reason::Paused),
        _ => Some(Reason::StaleVersion),
    }
}

#[cfg(test)]
mod tests;
