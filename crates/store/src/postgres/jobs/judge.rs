//! Judges writes of jobs, in memory and in their order: two of one batch may claim the same name or key, or write the
//! same job.
//!
//! What is stored was read before, in the same transaction, and nobody else writes jobs until that ends. What a write
//! changes is noted here, so that the next one sees it. In the end one row per job is written: as its last write left
//! it.

use super::super::keys::{Remembered, Used};
use super::super::rows::storable;
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::store::{Expected, Idempotency, JobWrite, Put};
use std::borrow::Cow;
use std::collections::HashMap;

/// A job, as far as writes are judged by it.
#[derive(Clone)]
pub(super) struct Guard<'w> {
    pub(super) tenant: TenantId,
    pub(super) version: u32,
    pub(super) state: JobState,
    pub(super) name: Cow<'w, str>,
}

impl Guard<'_> {
    fn is_live(&self) -> bool {
        self.state != JobState::Deleted
    }
}

/// What is known of the jobs, names and keys that a batch is about, and what the batch makes of them.
#[derive(Default)]
pub(super) struct Judge<'w> {
    /// Jobs as they are stored.
    pub(super) stored: HashMap<JobId, Guard<'w>>,
    /// Who has which name.
    pub(super) live: HashMap<(TenantId, Cow<'w, str>), JobId>,
    /// What is remembered under keys.
    pub(super) keys: HashMap<(TenantId, &'w str, &'w str), Remembered>,
    /// Jobs as the batch leaves them so far, with the position of their last write.
    written: HashMap<JobId, (Guard<'w>, usize)>,
    /// By how much the count of live jobs changes.
    pub(super) live_change: i64,
}

/// The position of the last write of a job that is stored, and the version it is stored in; none if it is not.
pub(super) type Last = (usize, Option<u32>);

impl<'w> Judge<'w> {
    /// Judges the write at position `at` of its batch.
    pub(super) fn judge(&mut self, at: usize, write: &'w JobWrite) -> Put {
        let job = &write.job;
        if let Some(key) = &write.idempotency
            && let Some(used) = self.remembered(job, key)
        {
            return match used {
                Used::Same(answer) => Put::Replayed(answer),
                Used::Other => Put::KeyReused,
            };
        }
        let verdict = match write.expected {
            Expected::Absent => self.insert(job),
            Expected::Version(version) => self.update(job, version),
        };
        if verdict == Put::Done {
            self.done(at, write);
        }
        verdict
    }

    fn remembered(&self, job: &Job, key: &Idempotency) -> Option<Used> {
        self.keys.get(&(job.tenant, key.scope.as_str(), key.key.as_str()))?.judge(key, job.updated_at)
    }

    fn insert(&self, job: &Job) -> Put {
        let (there, named) = (self.guard(job.id), self.named(job));
        match (there, named) {
            (None, None) => Put::Done,
            (None, Some(_)) if job.state == JobState::Deleted => Put::Done,
            (_, Some(id)) => Put::NameTaken { id },
            // The id itself is taken, by a job of another name or a deleted one.
            (Some(guard), None) => Put::Stale { version: guard.version },
        }
    }

    fn update(&self, job: &Job, expected: u32) -> Put {
        let Some(guard) = self.guard(job.id).filter(|guard| guard.is_live() && guard.tenant == job.tenant) else {
            return Put::Gone;
        };
        if guard.version != expected {
            return Put::Stale { version: guard.version };
        }
        match self.named(job).filter(|&id| id != job.id) {
            Some(id) if job.state != JobState::Deleted => Put::NameTaken { id },
            _ => Put::Done,
        }
    }

    fn done(&mut self, at: usize, write: &'w JobWrite) {
        let job = &write.job;
        self.live_change += match (write.expected, job.state) {
            (Expected::Absent, state) if state != JobState::Deleted => 1,
            (Expected::Version(_), JobState::Deleted) => -1,
            _ => 0,
        };
        if let Some(old) = self.guard(job.id).cloned()
            && self.live.get(&(old.tenant, old.name.clone())) == Some(&job.id)
        {
            self.live.remove(&(old.tenant, old.name));
        }
        let guard = Guard { tenant: job.tenant, version: job.version, state: job.state, name: storable(&job.name) };
        if guard.is_live() {
            self.live.insert((job.tenant, guard.name.clone()), job.id);
        }
        self.written.insert(job.id, (guard, at));
        if let Some(key) = &write.idempotency {
            self.keys.insert((job.tenant, &key.scope, &key.key), Remembered::of(key));
        }
    }

    /// A job as it is by now.
    fn guard(&self, id: JobId) -> Option<&Guard<'w>> {
        self.written.get(&id).map(|(guard, _)| guard).or_else(|| self.stored.get(&id))
    }

    /// Who has the name of `job` by now.
    fn named(&self, job: &Job) -> Option<JobId> {
        self.live.get(&(job.tenant, storable(&job.name))).copied()
    }

    /// The last write of every job that was written, in the order of the batch.
    pub(super) fn last(&self) -> Vec<Last> {
        let stored = |id| self.stored.get(id).map(|guard| guard.version);
        let mut last: Vec<Last> = self.written.iter().map(|(id, (_, at))| (*at, stored(id))).collect();
        last.sort_unstable();
        last
    }

    /// Stored jobs whose name belongs to another one after the batch. Names are unique at any moment, not only in the
    /// end: so these give theirs up before anybody takes it.
    pub(super) fn freed(&self) -> Vec<JobId> {
        let is_freed = |id: &&JobId| {
            let Some(old) = self.stored.get(id).filter(|old| old.is_live()) else { return false };
            self.live.get(&(old.tenant, old.name.clone())).is_some_and(|heir| heir != *id)
        };
        self.written.keys().filter(is_freed).copied().collect()
    }
}
