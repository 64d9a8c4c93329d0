//! Which version of a job governs an instant, as the simulation sees it: from what the store answered to changes, at the moment when
//! it did them.
//!
//! Watched at every change and every start: a change counts from the true time of its write; nothing starts under another version
//! than the one in force at its instant; what is tried again, is tried under the version that it began under; and what arrives
//! at a target is what that version says.

use campanile_model::job::{Definition, Job, JobState};
use campanile_model::{ExecutionId, JobId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version, as it was answered.
#[derive(Clone, Debug)]
pub struct Version {
    pub number: u32,
    /// Since when it counts.
    pub effective_at: Timestamp,
    pub state: JobState,
    /// When its pause ends by itself.
    pub paused_until: Option<Timestamp>,
    pub definition: Arc<Definition>,
}

/// All versions of all jobs so far, and under which one every execution began.
#[derive(Default)]
pub struct Versions {
    of: BTreeMap<JobId, Vec<Version>>,
    began: BTreeMap<ExecutionId, u32>,
}

impl Versions {
    /// A change was written at `now`, true time. Answers what is wrong with it.
    pub fn changed(&mut self, job: &Job, now: Timestamp) -> Option<String> {
        let of = self.of.entry(job.id).or_default();
        let newest = |of: &Vec<Version>| of.last().map(|version| (version.number, version.effective_at));
        let (_, before) = newest(of).unwrap_or((0, Timestamp::MIN));
        // A pause that was over when its job was changed has ended by itself, and that is a version too.
        let ended = of.last().filter(|last| last.state == JobState::Paused).and_then(|last| last.paused_until);
        let (mut number, mut counts_from) = (newest(of).map_or(0, |(number, _)| number), now.max(before));
        if let (Some(last), Some(until)) = (of.last().cloned(), ended) {
            let resumed_at = until.max(last.effective_at);
            if job.version == last.number + 2 && until <= now {
                number += 1;
                let (state, paused_until) = (JobState::Active, None);
                of.push(Version { number, effective_at: resumed_at, state, paused_until, ..last });
            } else if job.state == JobState::Active && job.effective_at == resumed_at {
                counts_from = resumed_at;
            }
        }
        let wrong = match () {
            () if job.version != number + 1 => Some(format!("version {} follows {number}", job.version)),
            () if job.effective_at != counts_from => {
                Some(format!("version {} counts from {}, written at {now}", job.version, job.effective_at))
            }
            () => None,
        };
        of.push(Version {
            number: job.version,
            effective_at: job.effective_at,
            state: job.state,
            paused_until: job.paused_until,
            definition: job.definition.clone(),
        });
        wrong.map(|wrong| format!("{}: {wrong}", job.id))
    }

    /// The versions of a job, first one first.
    pub fn of(&self, job: JobId) -> &[Version] {
        self.of.get(&job).map_or(&[], Vec::as_slice)
    }

    /// The version in force at an instant: the last one that counts from before it. The first one governs what came before it.
    pub fn governing(&self, job: JobId, at: Timestamp) -> Option<&Version> {
        let of = self.of.get(&job)?;
        of.iter().rev().find(|version| version.effective_at < at).or(of.first())
    }

    /// What a version says.
    pub fn definition(&self, job: JobId, number: u32) -> Option<&Arc<Definition>> {
        let of = self.of.get(&job)?;
        of.iter().find(|version| version.number == number).map(|version| &version.definition)
    }

    /// Under which version an execution began.
    pub fn began(&self, execution: ExecutionId) -> Option<u32> {
        self.began.get(&execution).copied()
    }

    /// An execution starts under a version. Answers what is wrong with that.
    pub fn started(&mut self, (execution, job, at): (ExecutionId, JobId, Timestamp), version: u32) -> Option<String> {
        if let Some(&began) = self.began.get(&execution) {
            let wrong = began != version;
            return wrong.then(|| format!("{execution} began under version {began} and goes on under {version}"));
        }
        self.began.insert(execution, version);
        let governing = self.governing(job, at)?;
        let paused = governing.state == JobState::Paused && governing.paused_until.is_none_or(|until| at <= until);
        match () {
            () if paused => Some(format!("{execution} starts for {at}, when its job was paused")),
            () if governing.number != version => {
                let governs = governing.number;
                Some(format!("{execution} starts for {at} under version {version}, and {governs} governs that"))
            }
            () => None,
        }
    }
}
