//! Callers: they create jobs and change them, through whichever node answers, and remember what they were told.

use crate::fleet::Fleet;
use crate::time::START;
use crate::world::World;
use campanile_engine::accept::{Create, Draft};
use campanile_engine::jobs::{Accepted, Conditions};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::job::{Definition, Job, POOL_LONG, POOL_SHORT, Priority, Window};
use campanile_model::overlap::Overlap;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{DstFold, DstGap, Schedule};
use campanile_model::store::JobKey;
use campanile_model::{Kind, TenantId};
use parking_lot::Mutex;
use std::sync::Arc;

/// A job as its caller knows it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What was asked for first.
    pub draft: Draft,
    pub answer: Answer,
}

/// What a caller was told.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Nothing, or that nobody knows.
    Unknown,
    Accepted(Box<Job>),
    /// It is not.
    Refused,
}

pub struct Clients {
    fleet: Arc<Fleet>,
    /// What they asked for.
    pub asked: Mutex<Vec<Asked>>,
    /// When the last job ends, in milliseconds since the start.
    ends_ms: (u64, u64),
}

impl Clients {
    /// Callers whose jobs end in this range of time.
    pub fn new(fleet: Arc<Fleet>, ends_ms: (u64, u64)) -> Arc<Self> {
        Arc::new(Self { fleet, asked: Mutex::default(), ends_ms })
    }

    /// Asks until `until_ms`.
    pub async fn run(self: Arc<Self>, jobs: u64, until_ms: u64) {
        let world = self.fleet.world.clone();
        let pause_ms = until_ms / (2 * jobs);
        while world.time.ms() < until_ms && world.is_fine() {
            world.time.sleep(world.between(0, pause_ms)).await;
            let known = self.asked.lock().len();
            if (known as u64) < jobs && (known < 4 || world.chance(600)) {
                tokio::spawn(self.clone().create());
            } else if known > 0 {
                let at = (world.draw() % known as u64) as usize;
                tokio::spawn(self.clone().change(at));
            }
        }
    }

    async fn create(self: Arc<Self>) {
        let world = &self.fleet.world;
        let at = (world.draw() % self.fleet.len() as u64) as usize;
        let Some(handle) = self.fleet.handle(at) else { return };
        let (number, draft) = {
            let mut asked = self.asked.lock();
            let draft = draft(world, asked.len(), self.ends_ms);
            asked.push(Asked { draft: draft.clone(), answer: Answer::Unknown });
            (asked.len() - 1, draft)
        };
        let name = draft.definition.name.clone();
        let answer = match handle.create(TenantId::DEFAULT, vec![Create { draft, keyed: None }]).await.pop() {
            Some(Ok(Accepted::Job(job))) => Answer::Accepted(job),
            Some(Err(error)) if error.kind() == Kind::OutcomeUnknown => Answer::Unknown,
            Some(Err(error)) => {
                world.note("client", format_args!("{name} refused: {error}"));
                Answer::Refused
            }
            other => {
                world.violated(format!("creating {name} was answered with {other:?}"));
                Answer::Unknown
            }
        };
        if let Answer::Accepted(job) = &answer {
            world.note("client", format_args!("created {name} as {}: {:?}", job.id, job.definition.schedule));
        }
        self.asked.lock()[number].answer = answer;
    }

    /// Changes a job: what it says, when it fires, whether it fires, or all of it back. Whatever is answered, the store tells in
    /// the end.
    async fn change(self: Arc<Self>, number: usize) {
        let world = &self.fleet.world;
        let at = (world.draw() % self.fleet.len() as u64) as usize;
        let Some(handle) = self.fleet.handle(at) else { return };
        let mut draft = self.asked.lock()[number].draft.clone();
        let key = JobKey::Name(draft.definition.name.clone());
        // Two things at once, so that a mixture of two versions shows.
        draft.definition.payload = world.draw().to_string().into();
        let what = world.draw() % 20;
        let (tenant, conditions) = (TenantId::DEFAULT, Conditions::default());
        let done = match what {
            0..4 => {
                draft.definition.action = action(world);
                handle.replace(tenant, &key, draft, conditions).await
            }
            4..9 => {
                draft.definition.schedule = schedule(world);
                handle.replace(tenant, &key, draft, conditions).await
            }
            9..12 => handle.pause(tenant, &key, None, conditions).await,
            12..14 => {
                let until = world.time.now().saturating_add_ms(world.between(1, 20_000) as i64);
                handle.pause(tenant, &key, Some(until), conditions).await
            }
            14..17 => handle.resume(tenant, &key, conditions).await,
            17 | 18 => handle.revert(tenant, &key, world.between(1, 4) as u32, conditions).await,
            _ => handle.delete(tenant, &key, conditions).await,
        };
        match done {
            Ok(_) => world.note("client", format_args!("changed {key:?} by {what}")),
            Err(error) => world.note("client", format_args!("change of {key:?} by {what}: {error}")),
        }
    }
}

fn schedule(world: &World) -> Schedule {
    let of = |count: u64| world.draw() % count;
    match of(10) {
        0..6 => Schedule::Every { every_ms: world.between(1, 20) * 1_000, phase_ms: of(2_000) },
        6 | 7 => Schedule::Cron {
            expression: format!("*/{} * * * * *", [5, 10, 15, 30][of(4) as usize]),
            zone: "Europe/Berlin".into(),
            dst_gap: DstGap::default(),
            dst_fold: DstFold::default(),
        },
        8 => Schedule::At { at: world.time.now().saturating_add_ms(world.between(1_000, 60_000) as i64) },
        _ => Schedule::After { delay_ms: world.between(0, 60_000) },
    }
}

fn action(world: &World) -> ActionSpec {
    match world.draw() % 5 {
        0 => ActionSpec { kind: ActionKind::Noop, config: "{}".into() },
        target => ActionSpec { kind: ActionKind::Webhook, config: format!("\"http://target-{target}\"").into() },
    }
}

fn draft(world: &World, number: usize, (from_ms, to_ms): (u64, u64)) -> Draft {
    let of = |count: u64| world.draw() % count;
    let ends_at = START.saturating_add_ms(world.between(from_ms, to_ms) as i64);
    let mode = match of(10) {
        0..7 => CatchUpMode::All,
        7 => CatchUpMode::Last,
        8 => CatchUpMode::Coalesced,
        _ => CatchUpMode::None,
    };
    let overlap = match of(10) {
        0..6 => Overlap::Allow,
        6 => Overlap::Skip,
        7 => Overlap::BufferOne,
        8 => Overlap::BufferAll,
        _ => Overlap::TerminateOther,
    };
    let definition = Definition {
        name: format!("job-{number}"),
        schedule: schedule(world),
        window: Window { ends_at: Some(ends_at), ..Window::default() },
        action: action(world),
        payload: "1".into(),
        retry: RetryPolicy {
            max_attempts: 3 + of(4) as u32,
            backoff: Backoff::ExponentialWithJitter,
            initial_delay_ms: world.between(50, 2_000),
            max_delay_ms: 10_000,
            total_timeout_ms: None,
        },
        timeout_ms: world.between(2_000, 8_000),
        priority: Priority::ALL[of(4) as usize],
        pool: if of(5) == 0 { POOL_LONG.into() } else { POOL_SHORT.into() },
        catch_up: CatchUp { mode, max_age_ms: 86_400_000, drip_ms: 0 },
        overlap,
        ..Definition::default()
    };
    Draft { definition, allow_past: true, paused: of(20) == 0 }
}
