//! What must hold at every moment, judged at each write in the order in which the store did them.
//!
//! It keeps its own small model of epochs and of the life of every execution, and knows nothing of how the store or the
//! engine come to their answers.

use crate::versions::Versions;
use crate::world::World;
use campanile_model::execution::AttemptOutcome;
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::shard::{ShardFence, shard_of};
use campanile_model::store::{
    Applied, Claim, Claimed, Completion, CompletionOf, FireBatch, FireVerdict, Fired, Granted, Put, Verdicts,
};
use campanile_model::{ExecutionId, JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What was written so far, as far as it matters.
#[derive(Default)]
pub struct Monitor {
    epochs: BTreeMap<u16, u64>,
    lives: BTreeMap<ExecutionId, Life>,
    pub versions: Versions,
    /// Attempts that were granted.
    granted: BTreeSet<(ExecutionId, u64)>,
}

#[derive(Copy, Clone, Debug)]
struct Life {
    job: JobId,
    /// The fence of the attempt that runs.
    running: Option<u64>,
    /// The largest fence so far.
    fence: u64,
    is_over: bool,
    fire_at: Timestamp,
    /// The version that fired it last.
    version: u32,
    /// How the last attempt ended: the same again, after an answer that was lost, is done.
    ended: Option<(AttemptOutcome, Timestamp)>,
}

impl Life {
    fn new(job: JobId, fire_at: Timestamp) -> Self {
        Self { job, running: None, fence: 0, is_over: false, fire_at, version: 0, ended: None }
    }
}

impl Monitor {
    /// Whether an attempt was granted.
    pub fn was_granted(&self, execution: ExecutionId, fence: u64) -> bool {
        self.granted.contains(&(execution, fence))
    }

    /// One that began and ended in one write: what it may not overlap with, it has ended, or it does not run.
    fn overlapped(&mut self, (execution, job, _): (ExecutionId, JobId, Timestamp), version: u32) -> Option<String> {
        let overlap = self.versions.definition(job, version)?.overlap;
        let others = self.lives.iter_mut().filter(|(id, life)| life.job == job && **id != execution);
        let mut running = others.filter(|(_, life)| life.running.is_some());
        match overlap {
            Overlap::Allow => None,
            Overlap::TerminateOther => {
                running.for_each(|(_, life)| (life.running, life.is_over) = (None, true));
                None
            }
            _ => running.next().map(|(other, _)| format!("{execution} ran while {other} runs, under {overlap:?}")),
        }
    }

    fn life(&mut self, execution: ExecutionId, job: JobId, fire_at: Timestamp) -> &mut Life {
        self.lives.entry(execution).or_insert_with(|| Life::new(job, fire_at))
    }
}

/// Jobs were changed: each change counts from the moment of its write.
pub fn changed(world: &World, who: &str, puts: &[Put]) {
    for put in puts {
        let Put::Done(job) = put else { continue };
        let (id, version, state) = (job.id, job.version, job.state);
        world.note(who, format_args!("put {id} v{version} {state:?} from {}", job.effective_at));
        let wrong = world.monitor.lock().versions.changed(job, world.time.now());
        wrong.into_iter().for_each(|wrong| world.violated(wrong));
    }
}

/// Shards were opened: epochs grow.
pub fn opened(world: &World, fences: &[ShardFence]) {
    let mut wrong = Vec::new();
    {
        let mut monitor = world.monitor.lock();
        for fence in fences {
            if let Some(before) = monitor.epochs.insert(fence.shard.0, fence.epoch.0)
                && before >= fence.epoch.0
            {
                wrong.push(format!("shard {} was opened in epoch {} after {before}", fence.shard.0, fence.epoch.0));
            }
        }
    }
    wrong.into_iter().for_each(|wrong| world.violated(wrong));
}

/// Fires were written: only under the newest epoch of their shards.
pub fn fired(world: &World, who: &str, batch: &FireBatch, verdict: &FireVerdict) {
    let verdicts = match verdict {
        FireVerdict::Fired(fired) => &fired.verdicts,
        FireVerdict::EpochLost(shards) => {
            world.sometimes("zombie refused to fire");
            world.note(who, format_args!("fire refused: {} shards lost", shards.len()));
            return;
        }
        FireVerdict::Replayed(_) | FireVerdict::KeyReused => return,
    };
    let mut wrong = Vec::new();
    {
        let mut monitor = world.monitor.lock();
        for (fire, verdict) in batch.fires.iter().zip(verdicts) {
            let (job, execution) = (fire.dispatch.job, fire.dispatch.execution);
            world.note(who, format_args!("fire {execution} of {job} at {} {verdict:?}", fire.dispatch.fire_at));
            let shard = shard_of(job);
            let held = batch.fences.iter().find(|fence| fence.shard == shard).map(|fence| fence.epoch.0);
            let newest = monitor.epochs.get(&shard.0).copied();
            if held.is_none() || held != newest {
                wrong.push(format!("{who} fired {execution} in epoch {held:?} of {newest:?}"));
            }
            let life = monitor.life(execution, job, fire.dispatch.fire_at);
            if *verdict == Fired::New && life.running.is_some() {
                wrong.push(format!("{execution} was fired again while it runs"));
            }
            if *verdict == Fired::New {
                if life.version > 0 && life.version != fire.dispatch.job_version {
                    world.sometimes("instant taken over by a newer version");
                }
                (life.is_over, life.version) = (false, fire.dispatch.job_version);
            }
        }
    }
    for skip in &batch.skips {
        world.note(who, format_args!("skip {} {} to {} {:?}", skip.job, skip.from, skip.to, skip.reason));
    }
    wrong.into_iter().for_each(|wrong| world.violated(wrong));
}

/// Claims were written: one attempt at a time, fences grow, nothing is early, runs that may not overlap do not.
pub fn claimed(world: &World, who: &str, error_ms: i64, claims: &[Claim], verdicts: &[Claimed]) {
    for (claim, verdict) in claims.iter().zip(verdicts) {
        match verdict {
            Claimed::Granted(granted) => {
                let (number, fence) = (granted.fence.attempt, granted.fence.fence);
                world.note(who, format_args!("claim {} attempt {number} fence {fence}", claim.execution));
                let wrong = grant(world, who, error_ms, claim.now, granted);
                wrong.into_iter().for_each(|wrong| world.violated(wrong));
            }
            other => {
                world.note(who, format_args!("claim {} {other:?}", claim.execution));
                match other {
                    Claimed::Stale { .. } => world.sometimes("duplicate lost its claim"),
                    Claimed::Early { .. } => world.sometimes("claim was early"),
                    Claimed::Held { .. } => world.sometimes("run held by an overlap"),
                    Claimed::Discarded(_) => {
                        world.sometimes("run discarded");
                        if let Some(life) = world.monitor.lock().lives.get_mut(&claim.execution) {
                            life.is_over = true;
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn grant(world: &World, who: &str, error_ms: i64, claimed_at: Timestamp, granted: &Granted) -> Vec<String> {
    let mut wrong = Vec::new();
    let (execution, fence) = (granted.fence.execution, granted.fence.fence);
    let mut monitor = world.monitor.lock();
    if let Some(life) = granted.terminated.and_then(|other| monitor.lives.get_mut(&other)) {
        (life.running, life.is_over) = (None, true);
    }
    let overlap = granted.definition.overlap;
    if overlap != Overlap::Allow {
        let others = monitor.lives.iter().filter(|(id, life)| life.job == granted.job && **id != execution);
        for (other, _) in others.filter(|(_, life)| life.running.is_some()) {
            wrong.push(format!("{execution} started while {other} of the same job runs, under {overlap:?}"));
        }
    }
    let subject = (execution, granted.job, granted.fire_at);
    wrong.extend(monitor.versions.started(subject, granted.job_version));
    let said = monitor.versions.definition(granted.job, granted.job_version);
    if said != Some(&granted.definition) {
        wrong.push(format!("{execution} is granted something else than version {} says", granted.job_version));
    }
    let life = monitor.life(execution, granted.job, granted.fire_at);
    if life.running.is_some() || life.is_over {
        wrong.push(format!("{who} was granted {execution} although it was {life:?}"));
    }
    if fence <= life.fence {
        wrong.push(format!("the fence of {execution} went from {} to {fence}", life.fence));
    }
    (life.running, life.fence) = (Some(fence), fence);
    monitor.granted.insert((execution, fence));
    // By the node's clock; and by the true one, unless the node's was ahead of it.
    if claimed_at < granted.fire_at {
        wrong.push(format!("{execution} was due at {} and granted at {claimed_at}", granted.fire_at));
    }
    if error_ms <= 0 && world.time.now() < granted.fire_at {
        wrong.push(format!("{execution} was due at {} and granted at {}", granted.fire_at, world.time.now()));
    }
    wrong
}

/// Completions were written: only by the attempt that runs, and once.
pub fn completed(world: &World, who: &str, completions: &[Completion], moved: &Verdicts<Applied>) {
    for (completion, verdict) in completions.iter().zip(&moved.verdicts) {
        let execution = completion.execution();
        let (event, outcome) = (completion.event, completion.outcome);
        world.note(who, format_args!("complete {execution} {outcome:?} {event:?} {verdict:?}"));
        match verdict {
            Applied::Done => complete_one(world, who, completion),
            Applied::Stale { .. } if matches!(completion.of, CompletionOf::Running(_)) => {
                world.sometimes("zombie refused to complete");
            }
            Applied::Stale { .. } | Applied::Gone => {}
        }
    }
}

fn complete_one(world: &World, who: &str, completion: &Completion) {
    let execution = completion.execution();
    let (mut wrong, mut started) = (None, None);
    {
        let mut monitor = world.monitor.lock();
        let Some(life) = monitor.lives.get_mut(&execution) else {
            drop(monitor);
            return world.violated(format!("{who} completed {execution}, which nobody fired"));
        };
        let ended = Some((completion.outcome, completion.finished_at));
        if life.running.is_none() && life.ended == ended {
            drop(monitor);
            return world.sometimes("completion repeated");
        }
        let allowed = match &completion.of {
            CompletionOf::Running(fence) => life.running == Some(fence.fence),
            CompletionOf::Unclaimed(claim) => {
                started = Some(((execution, life.job, life.fire_at), life.version));
                life.running.is_none() && claim.now >= completion.started_at
            }
        };
        if !allowed || life.is_over {
            wrong = Some(format!("{who} completed {execution} ({:?}) although it was {life:?}", completion.of));
        }
        (life.running, life.ended) = (None, ended);
        life.is_over = lifecycle::target(completion.event).is_final();
        if let Some((subject, version)) = started {
            wrong = wrong.or(monitor.versions.started(subject, version));
            wrong = wrong.or(monitor.overlapped(subject, version));
        }
    }
    match completion.event {
        Event::FailRetryable => world.sometimes("attempt failed and tried again"),
        Event::FailFinal => world.sometimes("execution died"),
        Event::Release => world.sometimes("claim given back"),
        _ => {}
    }
    if completion.outcome == AttemptOutcome::WorkerLost {
        world.sometimes("attempt lost with its node");
    }
    if let Some(wrong) = wrong {
        world.violated(wrong);
    }
}
