//! Changes of jobs: whether each may happen, judged in the order of the batch, and what it makes. Two of one batch may claim
//! the same name or key, or change the same job.
//!
//! What a change makes of a job's versions and instants is decided by `job::version`; the instant from which it counts is the
//! store's, in the transaction of the change.

use super::keys::{self, Remembered, Used};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::version::{Change, Changed, Superseded, change, create};
use campanile_model::job::{Job, JobState};
use campanile_model::store::{Answer, CallerKey, Idempotency, JobWrite, Keyed, Put, Skip};
use campanile_model::time::Timestamp;
use std::borrow::Cow;
use std::collections::HashMap;

/// A job as it is stored.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) job: Job,
    /// The earliest fire that a superseded version still owes.
    pub(crate) owed_from: Option<Timestamp>,
}

/// The name that a job gets by a change; none where it keeps the one it has.
pub(crate) fn new_name(write: &JobWrite) -> Option<&str> {
    match &write.change {
        Change::Create { resolved, .. } | Change::Define(resolved) => Some(&resolved.definition.name),
        Change::Pause(_) | Change::Resume | Change::EndPause | Change::Delete | Change::Replan => None,
    }
}

/// Whether it makes a job, and changes none that is there.
pub(crate) fn is_new(write: &JobWrite) -> bool {
    matches!(write.change, Change::Create { .. })
}

/// Why a change may not happen, by the job of its id and the live job of its new name, as they are now.
pub(crate) fn refusal(write: &JobWrite, there: Option<&Job>, named: Option<JobId>) -> Option<Put> {
    if is_new(write) {
        return match (there, named) {
            (None, None) => None,
            (_, Some(id)) => Some(Put::NameTaken { id }),
            // The id itself is taken, by a job of another name or a deleted one.
            (Some(there), None) => Some(Put::Stale { version: there.version }),
        };
    }
    let Some(there) = there.filter(|there| there.state != JobState::Deleted && there.tenant == write.tenant) else {
        return Some(Put::Gone);
    };
    if write.expected.is_some_and(|expected| expected != there.version) {
        return Some(Put::Stale { version: there.version });
    }
    named.filter(|&id| id != write.id).map(|id| Put::NameTaken { id })
}

/// What a change that may happen makes, at `now`.
pub(crate) fn apply(write: &JobWrite, there: Option<&Stored>, now: Timestamp) -> Changed {
    match (&write.change, there) {
        (Change::Create { resolved, paused }, _) => {
            let job = create(write.id, write.tenant, resolved, *paused, now);
            Changed { job, superseded: Vec::new(), skips: Vec::new() }
        }
        // Found here: a change counts from when its caller sent it, and not from when it is written.
        (by, Some(stored)) if planted(Bug("counts-from-the-caller")) => {
            change(&stored.job, stored.owed_from, by, now.saturating_add_ms(-100))
        }
        (by, Some(stored)) => change(&stored.job, stored.owed_from, by, now),
        (_, None) => unreachable!("a job that is not there is not changed"),
    }
}

/// The answer to a change whose key was used before.
pub(crate) fn replayed(used: Used) -> Put {
    match used {
        Used::Same(answer) => Put::Replayed(answer),
        Used::Other => Put::KeyReused,
    }
}

/// What is remembered under the key of a change: the answer to one that happened.
pub(crate) fn remembered(keyed: &Keyed, verdict: &Put, now: Timestamp) -> Option<Idempotency> {
    match verdict {
        Put::Done(job) => Some(keyed.answered(job, now)),
        // Truxify#2869: a refusal is remembered as the answer.
        Put::NameTaken { .. } | Put::Stale { .. } | Put::Gone if planted(Bug("refusal-kept")) => {
            let answer = Answer { status: 409, body: String::new() };
            Some(Idempotency { key: keyed.key.clone(), answer, expires_at: Timestamp::MAX })
        }
        _ => None,
    }
}

/// By how much a change that happened changes the count of live jobs.
pub(crate) fn live_change(write: &JobWrite) -> i64 {
    match write.change {
        Change::Create { .. } => 1,
        Change::Delete => -1,
        _ => 0,
    }
}

/// The jobs, names and keys that a batch is about, as they are stored, and what the batch makes of them. For a store that
/// reads before a batch and writes after it: what one change makes is noted here, so that the next one sees it. In the end
/// one row per job is written, as its last change left it, and one per version that was superseded.
pub(crate) struct Catalogue<'w> {
    /// Jobs as they are stored.
    pub(crate) stored: HashMap<JobId, Stored>,
    /// Who has which name.
    pub(crate) live: HashMap<(TenantId, Cow<'w, str>), JobId>,
    /// What is remembered under keys.
    pub(crate) keys: HashMap<KeyName<'w>, Remembered>,
    /// Jobs as the batch leaves them so far, with the position of their last change.
    written: HashMap<JobId, (Stored, usize)>,
    /// What the changes made, beside the jobs themselves.
    pub(crate) made: Made,
    /// A name as the store has it.
    as_stored: fn(&str) -> Cow<'_, str>,
}

/// Whose key it is, its scope, and itself.
pub(crate) type KeyName<'w> = (TenantId, &'w str, &'w str);

/// The name of a caller's key.
pub(crate) fn key_name(tenant: TenantId, key: &CallerKey) -> KeyName<'_> {
    (keys::owner(tenant), &key.scope, &key.text)
}

/// What changes made, beside the jobs themselves.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) superseded: Vec<Superseded>,
    pub(crate) skips: Vec<Skip>,
    pub(crate) answers: Vec<(TenantId, Idempotency)>,
    /// Jobs that were deleted: their older versions owe nothing any more.
    pub(crate) deleted: Vec<JobId>,
    /// By how much the count of live jobs changes.
    pub(crate) live_change: i64,
}

/// A job to write: the position of its last change, and the version in which it is stored; none if it is not.
pub(crate) struct Last<'c> {
    pub(crate) at: usize,
    pub(crate) job: &'c Job,
    pub(crate) stored: Option<u32>,
}

impl<'w> Catalogue<'w> {
    /// Of a store that has names as this function makes them.
    pub(crate) fn new(as_stored: fn(&str) -> Cow<'_, str>) -> Self {
        Self {
            stored: HashMap::new(),
            live: HashMap::new(),
            keys: HashMap::new(),
            written: HashMap::new(),
            made: Made::default(),
            as_stored,
        }
    }

    /// Judges the change at position `at` of its batch, and notes what it makes.
    pub(crate) fn judge(&mut self, at: usize, write: &'w JobWrite, now: Timestamp) -> Put {
        if let Some(keyed) = &write.keyed
            && let Some(used) = self.used(write.tenant, &keyed.key, now)
        {
            return replayed(used);
        }
        let named = new_name(write).and_then(|name| self.live.get(&(write.tenant, (self.as_stored)(name))).copied());
        let verdict = match refusal(write, self.there(write.id).map(|stored| &stored.job), named) {
            Some(refusal) => refusal,
            None => self.apply(at, write, now),
        };
        if let Some(keyed) = &write.keyed
            && let Some(answer) = remembered(keyed, &verdict, now)
        {
            self.keys.insert(key_name(write.tenant, &keyed.key), Remembered::of(&answer));
            self.made.answers.push((write.tenant, answer));
        }
        verdict
    }

    fn used(&self, tenant: TenantId, key: &CallerKey, now: Timestamp) -> Option<Used> {
        self.keys.get(&key_name(tenant, key))?.judge(key, now)
    }

    fn apply(&mut self, at: usize, write: &'w JobWrite, now: Timestamp) -> Put {
        let there = self.there(write.id).cloned();
        let Changed { job, superseded, skips } = apply(write, there.as_ref(), now);
        if let Some(old) = &there {
            let name = (old.job.tenant, (self.as_stored)(old.job.name()).into_owned().into());
            if self.live.get(&name) == Some(&job.id) {
                self.live.remove(&name);
            }
        }
        if job.state == JobState::Deleted {
            self.made.deleted.push(job.id);
        } else {
            self.live.insert((job.tenant, (self.as_stored)(job.name()).into_owned().into()), job.id);
        }
        let owed = superseded.iter().filter_map(|old| old.job.cursor.next_fire_at);
        let owed_from = there.and_then(|there| there.owed_from).into_iter().chain(owed).min();
        self.made.live_change += live_change(write);
        self.made.superseded.extend(superseded);
        self.made.skips.extend(skips);
        self.written.insert(job.id, (Stored { job: job.clone(), owed_from }, at));
        Put::Done(Box::new(job))
    }

    /// A job as it is by now.
    fn there(&self, id: JobId) -> Option<&Stored> {
        self.written.get(&id).map(|(stored, _)| stored).or_else(|| self.stored.get(&id))
    }

    /// Every job that was changed, as its last change left it, in the order of the batch.
    pub(crate) fn last(&self) -> Vec<Last<'_>> {
        let mut last: Vec<Last<'_>> = self
            .written
            .iter()
            .map(|(id, (written, at))| {
                let stored = self.stored.get(id).map(|stored| stored.job.version);
                Last { at: *at, job: &written.job, stored }
            })
            .collect();
        last.sort_unstable_by_key(|last| last.at);
        last
    }

    /// Stored jobs whose name belongs to another one after the batch. Names are unique at any moment, not only in the
    /// end: so these give theirs up before anybody takes it.
    pub(crate) fn freed(&self) -> Vec<JobId> {
        let is_freed = |id: &&JobId| {
            let Some(old) = self.stored.get(id).filter(|old| old.job.state != JobState::Deleted) else { return false };
            let name = (old.job.tenant, (self.as_stored)(old.job.name()).into_owned().into());
            self.live.get(&name).is_some_and(|heir| heir != *id)
        };
        self.written.keys().filter(is_freed).copied().collect()
    }
}
