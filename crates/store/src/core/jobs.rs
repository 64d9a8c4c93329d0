//! Writes of jobs: whether each may happen, judged in the order of the batch. Two of one batch may claim the same name or
//! key, or write the same job.

use super::keys::{self, Remembered, Used};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::store::{Expected, Idempotency, JobWrite, Put};
use std::borrow::Cow;
use std::collections::HashMap;

/// A job, as far as writes are judged by it.
#[derive(Clone)]
pub(crate) struct Stored<'w> {
    pub(crate) tenant: TenantId,
    pub(crate) version: u32,
    pub(crate) state: JobState,
    pub(crate) name: Cow<'w, str>,
}

impl Stored<'_> {
    fn is_live(&self) -> bool {
        self.state != JobState::Deleted
    }
}

/// Whether a write may happen, by the job of its id and the live job of its name, as they are now.
pub(crate) fn judge(write: &JobWrite, there: Option<&Stored<'_>>, named: Option<JobId>) -> Put {
    match write.expected {
        Expected::Absent => judge_insert(&write.job, there, named),
        Expected::Version(version) => judge_update(&write.job, version, there, named),
    }
}

fn judge_insert(job: &Job, there: Option<&Stored<'_>>, named: Option<JobId>) -> Put {
    match (there, named) {
        (None, None) => Put::Done,
        (None, Some(_)) if job.state == JobState::Deleted => Put::Done,
        (_, Some(id)) => Put::NameTaken { id },
        // The id itself is taken, by a job of another name or a deleted one.
        (Some(stored), None) => Put::Stale { version: stored.version },
    }
}

fn judge_update(job: &Job, expected: u32, there: Option<&Stored<'_>>, named: Option<JobId>) -> Put {
    let Some(stored) = there.filter(|stored| stored.is_live() && stored.tenant == job.tenant) else {
        return Put::Gone;
    };
    if stored.version != expected {
        return Put::Stale { version: stored.version };
    }
    match named.filter(|&id| id != job.id) {
        Some(id) if job.state != JobState::Deleted => Put::NameTaken { id },
        _ => Put::Done,
    }
}

/// The answer to a write whose key was used before.
pub(crate) fn replayed(used: Used) -> Put {
    match used {
        Used::Same(answer) => Put::Replayed(answer),
        Used::Other => Put::KeyReused,
    }
}

/// Whether the answer to a write is remembered under its key: only that of one that happened.
pub(crate) fn is_remembered(verdict: &Put) -> bool {
    // Truxify#2869: a refusal is remembered as the answer.
    let refused = !matches!(verdict, Put::Done | Put::Replayed(_) | Put::KeyReused);
    *verdict == Put::Done || refused && planted(Bug("refusal-kept"))
}

/// By how much a write that happened changes the count of live jobs.
pub(crate) fn live_change(write: &JobWrite) -> i64 {
    match (write.expected, write.job.state) {
        (Expected::Absent, state) if state != JobState::Deleted => 1,
        (Expected::Version(_), JobState::Deleted) => -1,
        _ => 0,
    }
}

/// The jobs, names and keys that a batch is about, as they are stored, and what the batch makes of them. For a store that
/// reads before a batch and writes after it: what one write changes is noted here, so that the next one sees it. In the end
/// one row per job is written: as its last write left it.
pub(crate) struct Catalogue<'w> {
    /// Jobs as they are stored.
    pub(crate) stored: HashMap<JobId, Stored<'w>>,
    /// Who has which name.
    pub(crate) live: HashMap<(TenantId, Cow<'w, str>), JobId>,
    /// What is remembered under keys.
    pub(crate) keys: HashMap<(TenantId, &'w str, &'w str), Remembered>,
    /// Jobs as the batch leaves them so far, with the position of their last write.
    written: HashMap<JobId, (Stored<'w>, usize)>,
    /// By how much the count of live jobs changes.
    pub(crate) live_change: i64,
    /// A name as the store has it.
    as_stored: fn(&str) -> Cow<'_, str>,
}

/// The position of the last write of a job that is stored, and the version it is stored in; none if it is not.
pub(crate) type Last = (usize, Option<u32>);

impl<'w> Catalogue<'w> {
    /// Of a store that has names as this function makes them.
    pub(crate) fn new(as_stored: fn(&str) -> Cow<'_, str>) -> Self {
        Self {
            stored: HashMap::new(),
            live: HashMap::new(),
            keys: HashMap::new(),
            written: HashMap::new(),
            live_change: 0,
            as_stored,
        }
    }

    /// Judges the write at position `at` of its batch.
    pub(crate) fn judge(&mut self, at: usize, write: &'w JobWrite) -> Put {
        let job = &write.job;
        if let Some(key) = &write.idempotency
            && let Some(used) = self.used(job, key)
        {
            return replayed(used);
        }
        let verdict = judge(write, self.there(job.id), self.named(job));
        if verdict == Put::Done {
            self.done(at, write);
        }
        if let Some(key) = write.idempotency.as_ref().filter(|_| is_remembered(&verdict)) {
            self.keys.insert((keys::owner(job.tenant), &key.scope, &key.key), Remembered::of(key));
        }
        verdict
    }

    fn used(&self, job: &Job, key: &Idempotency) -> Option<Used> {
        let name = (keys::owner(job.tenant), key.scope.as_str(), key.key.as_str());
        self.keys.get(&name)?.judge(key, job.updated_at)
    }

    fn done(&mut self, at: usize, write: &'w JobWrite) {
        let job = &write.job;
        self.live_change += live_change(write);
        if let Some(old) = self.there(job.id).cloned()
            && self.live.get(&(old.tenant, old.name.clone())) == Some(&job.id)
        {
            self.live.remove(&(old.tenant, old.name));
        }
        let name = (self.as_stored)(&job.name);
        let stored = Stored { tenant: job.tenant, version: job.version, state: job.state, name };
        if stored.is_live() {
            self.live.insert((job.tenant, stored.name.clone()), job.id);
        }
        self.written.insert(job.id, (stored, at));
    }

    /// A job as it is by now.
    fn there(&self, id: JobId) -> Option<&Stored<'w>> {
        self.written.get(&id).map(|(stored, _)| stored).or_else(|| self.stored.get(&id))
    }

    /// Who has the name of `job` by now.
    fn named(&self, job: &'w Job) -> Option<JobId> {
        self.live.get(&(job.tenant, (self.as_stored)(&job.name))).copied()
    }

    /// The last write of every job that was written, in the order of the batch.
    pub(crate) fn last(&self) -> Vec<Last> {
        let stored = |id| self.stored.get(id).map(|stored| stored.version);
        let mut last: Vec<Last> = self.written.iter().map(|(id, (_, at))| (*at, stored(id))).collect();
        last.sort_unstable();
        last
    }

    /// Stored jobs whose name belongs to another one after the batch. Names are unique at any moment, not only in the
    /// end: so these give theirs up before anybody takes it.
    pub(crate) fn freed(&self) -> Vec<JobId> {
        let is_freed = |id: &&JobId| {
            let Some(old) = self.stored.get(id).filter(|old| old.is_live()) else { return false };
            self.live.get(&(old.tenant, old.name.clone())).is_some_and(|heir| heir != *id)
        };
        self.written.keys().filter(is_freed).copied().collect()
    }
}
