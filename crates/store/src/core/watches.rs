//! Watches: what jobs are expected to do, as instants by which it must have happened.
//!
//! An execution is watched from its fire until it starts (`started`) and ends (`ended`); a job with `success_every` has
//! one watch that each success moves on (`succeeded`). A watch that is still there at its instant is broken
//! (`broken_jobs`), and the job counts as failing until it succeeds again.

use super::event::{Facts, Happened};
use super::outbox::Outbox;
use super::rules::{after, widths};
use super::{Result, missing};
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::notify::{Broken, EventKind, WatchKind};
use campanile_model::store::Fire;
use campanile_model::time::Timestamp;
use std::collections::{BTreeMap, HashMap};

/// What is expected in a batch, and what becomes of it.
#[derive(Default)]
pub(crate) struct Watches {
    /// Watches that begin, by execution and the code of their kind: whose they are, and until when.
    pub(crate) begun: BTreeMap<(ExecutionId, u8), (JobId, TenantId, Timestamp)>,
    /// Executions whose first attempt starts: that watch is met.
    pub(crate) started: Vec<ExecutionId>,
    /// Executions that end, or begin anew: none of their older watches counts any more.
    pub(crate) ended: Vec<ExecutionId>,
    /// Jobs that must succeed in every period: how long that is, by when, and whether that was moved.
    success: HashMap<JobId, (u64, Timestamp, bool)>,
    /// Jobs that fail, and since when: before the batch, and now.
    failed_before: BTreeMap<JobId, (TenantId, Timestamp)>,
    failing: BTreeMap<JobId, (TenantId, Timestamp)>,
}

impl Watches {
    /// A job that must succeed in every period, as it was loaded.
    pub(crate) fn insert_success(&mut self, job: JobId, every_ms: u64, due_at: Timestamp) {
        self.success.insert(job, (every_ms, due_at, false));
    }

    /// A job that fails, as it was loaded.
    pub(crate) fn insert_failing(&mut self, job: JobId, tenant: TenantId, since: Timestamp) {
        self.failing.insert(job, (tenant, since));
        self.failed_before.insert(job, (tenant, since));
    }

    pub(super) fn begin(&mut self, fire: &Fire) {
        let dispatch = &fire.dispatch;
        for (kind, width) in widths(&fire.expect) {
            let until = after(dispatch.fire_at, width);
            self.begun.insert((dispatch.execution, kind.code()), (dispatch.job, dispatch.tenant, until));
        }
    }

    /// Watches a fire that a newer version of its job makes again: the older one may have expected something else.
    pub(super) fn begin_again(&mut self, fire: &Fire) {
        if widths(&fire.expect).next().is_some() {
            self.ended(fire.dispatch.execution);
            self.begin(fire);
        }
    }

    /// The first attempt of a watched execution starts.
    pub(super) fn started(&mut self, execution: ExecutionId) {
        self.started.push(execution);
    }

    /// A watched execution reaches a final state.
    pub(super) fn ended(&mut self, execution: ExecutionId) {
        if !self.begun.is_empty() {
            self.begun.retain(|(begun, _), _| *begun != execution);
        }
        self.ended.push(execution);
    }

    /// A job succeeds: its next success is expected a period from now, and if it was failing, it has recovered: answers
    /// whose it is, and since when it failed.
    pub(super) fn succeeded(&mut self, job: JobId, now: Timestamp) -> Option<(TenantId, Timestamp)> {
        if let Some((every_ms, due_at, moved)) = self.success.get_mut(&job) {
            let next = after(now, *every_ms);
            if next > *due_at {
                (*due_at, *moved) = (next, true);
            }
        }
        if self.failing.is_empty() { None } else { self.failing.remove(&job) }
    }

    /// An execution of a job is dead.
    pub(super) fn failed(&mut self, tenant: TenantId, job: JobId, since: Timestamp) {
        self.failing.entry(job).or_insert((tenant, since));
    }

    /// Jobs whose next success is expected at another instant.
    pub(crate) fn moved(&self) -> Vec<(JobId, Timestamp)> {
        let moved = self.success.iter().filter(|(_, (.., moved))| *moved);
        moved.map(|(job, (_, due_at, _))| (*job, *due_at)).collect()
    }

    /// Jobs that fail no more.
    pub(crate) fn recovered(&self) -> Vec<JobId> {
        let recovered = self.failed_before.iter().filter(|(job, was)| self.failing.get(job) != Some(was));
        recovered.map(|(job, _)| *job).collect()
    }

    /// Jobs that fail from now on, and since when.
    pub(crate) fn newly_failing(&self) -> Vec<(JobId, TenantId, Timestamp)> {
        let failed = self.failing.iter().filter(|(job, is)| self.failed_before.get(job) != Some(is));
        failed.map(|(job, (tenant, since))| (*job, *tenant, *since)).collect()
    }
}

/// What a job that was written is expected to do from now on: how often it must succeed, and by when first. Its success is
/// watched as long as it is active, from its start on; another period begins anew.
pub(crate) fn success_expected(job: &Job) -> Option<(u64, Timestamp)> {
    let definition = &job.definition;
    let every_ms = definition.expect.success_every_ms.filter(|_| job.state == JobState::Active)?;
    let from = definition.window.starts_at.map_or(job.effective_at, |start| start.max(job.effective_at));
    Some((every_ms, after(from, every_ms)))
}

/// The plan of a job that only people fire: it may succeed although no fire of its schedule is left.
pub(crate) const UNSCHEDULED: &str = "none";

/// A job whose success was expected by now.
pub(crate) struct DueSuccess {
    pub(crate) job: JobId,
    pub(crate) tenant: TenantId,
    pub(crate) every_ms: u64,
    pub(crate) due_at: Timestamp,
    /// Whether it may succeed again: its schedule is not over.
    pub(crate) goes_on: bool,
}

/// What becomes of them.
#[derive(Default)]
pub(crate) struct BrokenJobs {
    pub(crate) broken: Vec<Broken>,
    /// When their success is expected next.
    pub(crate) moved: Vec<(JobId, Timestamp)>,
    /// Jobs that are watched no more: there was their last success, or it is dead and that was sent.
    pub(crate) over: Vec<JobId>,
}

/// Moves the watches of jobs that had no success in their period to the end of the period that runs now.
pub(crate) fn broken_jobs(due: Vec<DueSuccess>, now: Timestamp) -> Result<BrokenJobs> {
    let mut jobs = BrokenJobs::default();
    for DueSuccess { job, tenant, every_ms, due_at, goes_on } in due {
        if !goes_on {
            jobs.over.push(job);
            continue;
        }
        let periods = now.ms_since(due_at).checked_div(every_ms).ok_or_else(|| missing("period"))? + 1;
        jobs.moved.push((job, after(due_at, periods.saturating_mul(every_ms))));
        jobs.broken.push(Broken { tenant, job, execution: None, kind: WatchKind::Success, due_at });
    }
    Ok(jobs)
}

/// Sends that watches were broken, and answers which jobs fail because of it, and since when.
pub(crate) fn report_broken(
    broken: &mut [Broken],
    outbox: &mut Outbox,
    now: Timestamp,
) -> Vec<(JobId, TenantId, Timestamp)> {
    broken.sort_by_key(|watch| watch.due_at);
    let mut failed: BTreeMap<JobId, (TenantId, Timestamp)> = BTreeMap::new();
    for watch in broken {
        let Broken { tenant, job, execution, kind, due_at } = *watch;
        let facts = Facts::Broken { expectation: kind, due_at };
        outbox.emit(&Happened { tenant, kind: EventKind::Late, job, execution, at: now, facts });
        failed.entry(job).or_insert((tenant, due_at));
    }
    failed.into_iter().map(|(job, (tenant, since))| (job, tenant, since)).collect()
}
