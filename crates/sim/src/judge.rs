//! What must be true in the end, when everything was healed and had time: read from the store itself.

use crate::clients::{Answer, Asked};
use crate::target::Sink;
use crate::world::World;
use campanile_model::catch_up::CatchUpMode;
use campanile_model::execution::{Execution, Reason};
use campanile_model::filter::Filter;
use campanile_model::ids::FireKind;
use campanile_model::job::{Job, JobState, next_fire};
use campanile_model::lifecycle::State;
use campanile_model::schedule::Plan;
use campanile_model::store::{ExecutionQuery, JobKey, JobVersion, Path, Reads, Skip, WaitingQuery};
use campanile_model::{TenantId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

const TENANT: TenantId = TenantId::DEFAULT;
/// More than any simulation has of anything.
const ALL: usize = 100_000;

/// How many executions have no outcome yet.
pub async fn open(world: &World) -> u64 {
    let counts = world.store.counts(Some(TENANT)).await.unwrap_or_default();
    counts.iter().filter(|count| !count.state.is_final()).map(|count| count.executions).sum()
}

/// When the last execution that waits may start.
pub async fn last_wake(world: &World) -> Timestamp {
    let (before, fired_until) = (Timestamp::MAX, Timestamp::MAX);
    let query = WaitingQuery { shards: Vec::new(), before, fired_until, after: None, limit: ALL };
    let waiting = world.store.load_waiting(&query).await.unwrap_or_default();
    waiting.iter().map(|waiting| waiting.wake_at).max().unwrap_or(Timestamp::MIN)
}

/// What is wrong, and how many executions there are.
pub async fn judge(world: &World, asked: &[Asked], sink: &Sink) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut executions = 0;
    for asked in asked {
        let name = &asked.draft.definition.name;
        let key = match &asked.answer {
            Answer::Accepted(job) => JobKey::Id(job.id),
            Answer::Unknown | Answer::Refused => JobKey::Name(name.clone()),
        };
        let found = world.store.get_jobs(TENANT, &[key]).await.ok().and_then(|mut jobs| jobs.pop().flatten());
        match (found, &asked.answer) {
            (None, Answer::Accepted(_)) => wrong.push(format!("{name} was acknowledged and is not there")),
            (Some(_), Answer::Refused) => wrong.push(format!("{name} was refused and is there")),
            (Some(job), _) => executions += judge_job(world, &job, sink, &mut wrong).await,
            (None, _) => {}
        }
    }
    let drift = world.store.reconcile().await.unwrap_or(u64::MAX);
    if drift != 0 {
        wrong.push(format!("the counters have drifted by {drift}"));
    }
    (wrong, executions)
}

async fn judge_job(world: &World, job: &Job, sink: &Sink, wrong: &mut Vec<String>) -> usize {
    let name = job.name();
    let query = ExecutionQuery {
        tenant: TENANT,
        job: Some(job.id),
        states: Vec::new(),
        from: None,
        to: None,
        filter: Filter::default(),
        before: None,
        limit: ALL,
    };
    let executions = world.store.list_executions(&query).await.map(|page| page.items).unwrap_or_default();
    let skips = world.store.list_skips(TENANT, job.id, None, ALL).await.unwrap_or_default().items;
    let versions =
        world.store.list_versions(TENANT, job.id, None, ALL).await.map(|page| page.items).unwrap_or_default();
    let mut history =
        History { name, is_deleted: job.state == JobState::Deleted, executions: BTreeMap::new(), skips: &skips };
    for execution in &executions {
        if history.executions.insert(execution.fire_at, execution).is_some() {
            wrong.push(format!("{name} has two executions for {}", execution.fire_at));
        }
        judge_execution(execution, sink, wrong);
    }
    let monitor = world.monitor.lock();
    let known: Vec<u32> = monitor.versions.of(job.id).iter().map(|version| version.number).rev().collect();
    if versions.iter().map(|version| version.job.version).collect::<Vec<_>>() != known {
        wrong.push(format!("{name} should have the versions {known:?}"));
    }
    let mut expected = BTreeSet::new();
    for version in &versions {
        let instants = instants(version, world.time.now());
        wrong.extend(instants.iter().filter_map(|&at| history.judge_instant(version, at)));
        if version.job.state == JobState::Active {
            expected.extend(instants);
        }
    }
    // What else there is was made ahead by a version that was replaced, and discarded; or it began before that.
    for (at, execution) in &history.executions {
        let has_begun = monitor.versions.began(execution.id).is_some();
        let is_needed = expected.contains(at) && execution.kind == FireKind::Schedule;
        if !is_needed && !has_begun && execution.state != State::Skipped {
            wrong.push(format!("{name} has {}, which nobody expects", execution.id));
        }
    }
    let paused = |skip: &Skip| versions.iter().any(|version| spans(version, skip.from, skip.to));
    for skip in skips.iter().filter(|skip| skip.reason == Reason::Paused && !paused(skip)) {
        wrong.push(format!("{name} was not paused from {} to {}", skip.from, skip.to));
    }
    executions.len()
}

/// What came of the instants of a job.
struct History<'a> {
    name: &'a str,
    is_deleted: bool,
    executions: BTreeMap<Timestamp, &'a Execution>,
    skips: &'a [Skip],
}

impl History<'_> {
    /// What is wrong with what came of an instant that a version governs.
    fn judge_instant(&self, version: &JobVersion, at: Timestamp) -> Option<String> {
        let (name, number) = (self.name, version.job.version);
        let covering = || self.skips.iter().filter(|skip| skip.from <= at && at <= skip.to);
        let is_paused = version.job.state == JobState::Paused;
        let execution = self.executions.get(&at);
        let discarded = |execution: &&&Execution| {
            let reasons = [Reason::StaleVersion, Reason::Paused, Reason::JobDeleted];
            execution.state == State::Skipped && execution.reason.is_some_and(|reason| reasons.contains(&reason))
        };
        if let Some(ran) = execution.filter(|execution| !discarded(execution)) {
            let covered = covering().next().filter(|_| ran.attempt > 0);
            return covered.map(|skip| format!("{name} ran for {at}, and a skip covers it: {:?}", skip.reason));
        }
        // Who catches up all loses nothing while the job is there.
        let is_strict = version.job.definition.catch_up.mode == CatchUpMode::All && !self.is_deleted && !is_paused;
        let is_skipped = covering().next().is_some() || (self.is_deleted && execution.is_some());
        // A pause that nobody has ended is not written down yet.
        let is_open = is_paused && version.ended_at.is_none();
        if is_open || (is_skipped && !is_strict) {
            return None;
        }
        let came = execution.map(|execution| (execution.state, execution.reason, execution.job_version));
        let skipped: Vec<_> = covering().map(|skip| skip.reason).collect();
        Some(format!("{name} needs {at} under version {number}: execution {came:?}, skips {skipped:?}"))
    }
}

/// Whether a version was paused during a whole range.
fn spans(version: &JobVersion, from: Timestamp, to: Timestamp) -> bool {
    let ended_at = version.ended_at.unwrap_or(Timestamp::MAX);
    version.job.state == JobState::Paused && version.job.effective_at < from && to <= ended_at
}

/// The instants that a version governs and that have come.
fn instants(version: &JobVersion, now: Timestamp) -> Vec<Timestamp> {
    let JobVersion { job, ended_at } = version;
    let Some(plan) = Plan::decode(&job.plan).ok().filter(|_| job.state != JobState::Deleted) else { return Vec::new() };
    let window_ends = job.definition.window.ends_at.unwrap_or(Timestamp::MAX);
    let until = ended_at.unwrap_or(now).min(window_ends).min(now);
    // One that lay in the past when it was accepted fires all the same.
    let is_first = job.version == 1 && plan.is_one_off();
    let mut after = if is_first { Timestamp::from_millis(0) } else { job.effective_at };
    let mut instants = Vec::new();
    while let Some(at) = next_fire(&plan, 0, after).filter(|&at| at <= until) {
        instants.push(at);
        after = at;
    }
    instants
}

fn judge_execution(execution: &Execution, sink: &Sink, wrong: &mut Vec<String>) {
    let what = format!("{} of {} for {}", execution.id, execution.job_name, execution.fire_at);
    match execution.state {
        State::Succeeded if !sink.has(execution.id) => wrong.push(format!("{what} succeeded and never arrived")),
        State::Succeeded | State::Cancelled | State::Skipped => {}
        State::Dead if execution.attempt == 0 => wrong.push(format!("{what} is dead and was never tried")),
        State::Dead => {}
        state => wrong.push(format!("{what} is {state:?} under {:?}, wakes {}", execution.worker, execution.wake_at)),
    }
}
