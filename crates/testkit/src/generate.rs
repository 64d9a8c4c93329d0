//! Test data: plain jobs, fires, claims and completions by number, and arbitrary jobs for property tests.
//!
//! Everything is deterministic: job 7 is the same job in every test and in every process.

use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::AttemptOutcome;
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
pub use campanile_model::job::version::Change;
use campanile_model::job::version::{self, Resolved};
use campanile_model::job::{Blackout, Definition, Job, JobState, Priority, Window};
use campanile_model::lifecycle::Event;
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{DstFold, DstGap, HashSeed, Plan, Schedule};
use campanile_model::store::{
    Answer, AttemptFence, CallerKey, CancelBatch, CancelTarget, ChangeSeq, Claim, Completion, CompletionOf, Extension,
    Fire, Granted, JobWrite, Keyed, Lease, Resolve,
};
use campanile_model::time::Timestamp;
use proptest::prelude::*;
use std::sync::Arc;

/// The instant at which tests begin: 2026-11-16T02:00:00Z.
pub const START: Timestamp = Timestamp::from_millis(1_794_794_400_000);

/// `START` and so many milliseconds.
pub const fn at(ms: i64) -> Timestamp {
    START.saturating_add_ms(ms)
}

/// Job number `n` in its first version: active, accepted at `START`, a noop every minute, first due a minute after `START`.
pub fn job(n: u64) -> Job {
    job_with(n, |_| ())
}

/// The same with something else in its definition. Its plan and its cursor follow from the schedule.
pub fn job_with(n: u64, define: impl FnOnce(&mut Definition)) -> Job {
    let mut definition = Definition {
        name: format!("job-{n:09}"),
        schedule: Schedule::Every { every_ms: 60_000, phase_ms: 0 },
        ..Definition::default()
    };
    define(&mut definition);
    let id = JobId::new(START, (n >> 40) as u16, n);
    version::create(id, TenantId::DEFAULT, &resolved(definition, ""), false, START)
}

/// The same job of another tenant.
pub fn of_tenant(job: Job, tenant: TenantId) -> Job {
    Job { tenant, ..job }
}

/// A definition with what follows from it. An instant in the past is allowed: it means at once.
pub fn resolved(definition: Definition, target: &str) -> Resolved {
    let seed = HashSeed { tenant: TenantId::DEFAULT_NAME, job: &definition.name };
    let plan = definition.schedule.resolve(seed, START).expect("the schedules of tests can be resolved");
    Resolved { definition: definition.into(), plan, target: target.into(), allow_past: true, kept: false }
}

/// A write that creates a job as this one was created; what says nothing about its definition is not looked at.
pub fn create(job: &Job) -> JobWrite {
    let plan = Plan::decode(&job.plan).expect("the plans of tests can be read");
    let (definition, target) = (job.definition.clone(), job.target.clone());
    let resolved = Resolved { definition, plan, target, allow_past: false, kept: true };
    let change = Change::Create { resolved, paused: job.state == JobState::Paused };
    JobWrite { id: job.id, tenant: job.tenant, change, expected: None, keyed: None }
}

/// A write that changes a job in this version.
pub fn change(job: &Job, change: Change) -> JobWrite {
    JobWrite { id: job.id, tenant: job.tenant, change, expected: Some(job.version), keyed: None }
}

/// Another definition of a job; its target stays.
pub fn define(job: &Job, define: impl FnOnce(&mut Definition)) -> Change {
    let mut definition = (*job.definition).clone();
    define(&mut definition);
    Change::Define(resolved(definition, &job.target))
}

/// The next version of a job, as `change` makes it at `now`; nothing is written.
pub fn changed(job: &Job, by: &Change, now: Timestamp) -> Job {
    version::change(job, None, by, now).job
}

/// The same write under a caller's key, with the answer that it gets.
pub fn with_key(mut write: JobWrite, key: CallerKey, answer: Answer) -> JobWrite {
    write.keyed = Some(Keyed { key, render: Arc::new(move |_| answer.clone()) });
    write
}

/// A job as it is dispatched for an instant.
pub fn dispatch(job: &Job, fire_at: Timestamp) -> Dispatch {
    job.dispatch(ExecutionId::scheduled(job.tenant, job.id, fire_at), fire_at)
}

/// A scheduled fire of a job.
pub fn fire(job: &Job, fire_at: Timestamp) -> Fire {
    Fire {
        dispatch: dispatch(job, fire_at),
        kind: FireKind::Schedule,
        wake_at: fire_at,
        overlap: job.definition.overlap,
        covers_from: None,
        expect: job.definition.expect,
    }
}

/// A manual fire of a job.
pub fn manual_fire(job: &Job, fire_at: Timestamp, key: &str) -> Fire {
    let execution = ExecutionId::manual(job.tenant, job.id, fire_at, key.as_bytes());
    let dispatch = Dispatch { execution, ..dispatch(job, fire_at) };
    Fire { dispatch, kind: FireKind::Manual, ..fire(job, fire_at) }
}

/// The lease of the claims made here, beyond the job's timeout.
pub const LEASE_MS: u64 = 10_000;

/// A claim by an external worker of what the first version fired, after `attempt` tries.
pub fn claim(execution: ExecutionId, attempt: u32, now: Timestamp) -> Claim {
    claim_by(execution, attempt, now, "worker-1")
}

/// The same by somebody.
pub fn claim_by(execution: ExecutionId, attempt: u32, now: Timestamp, worker: &str) -> Claim {
    let lease = Lease::BeyondTimeout(LEASE_MS);
    let (job_version, worker, as_of) = (1, Arc::from(worker), ChangeSeq::default());
    Claim { execution, job_version, attempt, worker, now, lease, queued_at: None, as_of }
}

/// A completion of a granted attempt.
pub fn complete(granted: &Granted, event: Event, outcome: AttemptOutcome, now: Timestamp) -> Completion {
    complete_fence(granted.fence, event, outcome, now)
}

/// A completion under a fence. What leads to another attempt wakes a second later.
pub fn complete_fence(fence: AttemptFence, event: Event, outcome: AttemptOutcome, now: Timestamp) -> Completion {
    Completion {
        of: CompletionOf::Running(fence),
        event,
        reason: None,
        outcome,
        started_at: now.saturating_add_ms(-5),
        finished_at: now,
        wake_at: now.saturating_add_ms(1_000),
        // As `lifecycle::settle` has it.
        attempt: match event {
            Event::Snooze | Event::Release => fence.attempt.saturating_sub(1),
            _ => fence.attempt,
        },
        error: None,
        response: None,
        logs: Vec::new(),
    }
}

/// Claim and success in one write.
pub fn complete_unclaimed(claim: Claim) -> Completion {
    let (now, attempt) = (claim.now, claim.attempt + 1);
    Completion {
        of: CompletionOf::Unclaimed(claim),
        event: Event::Succeed,
        reason: None,
        outcome: AttemptOutcome::Succeeded,
        started_at: now,
        finished_at: now,
        wake_at: now,
        attempt,
        error: None,
        response: None,
        logs: Vec::new(),
    }
}

/// A heartbeat of an attempt that says nothing else.
pub fn extension(fence: AttemptFence, now: Timestamp, lease_until: Timestamp) -> Extension {
    Extension {
        execution: fence.execution,
        fence: Some(fence.fence),
        worker: "worker-1".into(),
        now,
        lease_until,
        progress: None,
        logs: Vec::new(),
    }
}

/// A cancel of executions of the default tenant that waits for nobody.
pub fn cancel(executions: &[ExecutionId], now: Timestamp) -> CancelBatch {
    CancelBatch {
        tenant: TenantId::DEFAULT,
        targets: executions.iter().copied().map(CancelTarget::Execution).collect(),
        note: None,
        now,
        grace_ms: None,
        idempotency: None,
    }
}

/// Dead executions that are given up.
pub fn discard(executions: impl IntoIterator<Item = ExecutionId>, note: &str) -> Vec<Resolve> {
    executions.into_iter().map(|execution| Resolve::Discard { execution, note: note.into() }).collect()
}

/// Definitions with anything that a store must bring back: extremes, odd characters, empty and large texts. The names of two of them
/// may be equal; number them where that matters.
pub fn any_definition() -> impl Strategy<Value = Definition> {
    const HOUR: u64 = 3_600_000;
    let cron = (0..60u8, 0..24u8, 0..3usize, 0..3usize).prop_map(|(minute, hour, gap, fold)| Schedule::Cron {
        expression: format!(" {minute} {hour} * *\t* "),
        zone: "Europe/Berlin".into(),
        dst_gap: [DstGap::NextValid, DstGap::Shift, DstGap::Skip][gap],
        dst_fold: [DstFold::First, DstFold::Second, DstFold::Both][fold],
    });
    let schedule = prop_oneof![
        cron,
        (2..HOUR, 0..2u64).prop_map(|(every_ms, phase_ms)| Schedule::Every { every_ms, phase_ms }),
        (0..HOUR as i64).prop_map(|ms| Schedule::At { at: at(ms) }),
        (0..HOUR).prop_map(|delay_ms| Schedule::After { delay_ms }),
        Just(Schedule::None),
    ];
    let instants = || proptest::option::of(any::<i64>().prop_map(Timestamp::from_millis));
    let texts = (any_json(), any_json(), "[^/:\\pC]{1,60}", "[a-z]{1,20}", "\\PC{0,60}");
    let bounds = (instants(), instants(), any::<Option<u32>>());
    let policies = (0..3usize, any::<[u64; 6]>(), 0..5usize, any::<u32>(), 1..1_000u32);
    let expectations = (any::<[Option<u64>; 4]>(), 0..Overlap::ALL.len());
    let blackouts = proptest::collection::vec(any::<[i64; 2]>(), 0..3);
    let rest = (0..4usize, 0..3usize, proptest::collection::vec("[^\\pC]{1,20}", 0..5));
    let all = (schedule, texts, bounds, policies, rest, expectations, blackouts);
    all.prop_map(|(schedule, texts, bounds, policies, rest, expectations, blackouts)| {
        let (config, payload, name, pool, description) = texts;
        let (starts_at, ends_at, max_fires) = bounds;
        let (backoff, widths, mode, n, max_attempts) = policies;
        let [spread_ms, initial_delay_ms, max_delay_ms, timeout_ms, max_age_ms, drip_ms] = widths;
        let ([start_within_ms, finish_within_ms, success_every_ms, total_timeout_ms], overlap) = expectations;
        let instant = Timestamp::from_millis;
        let (priority, action, tags) = rest;
        let modes =
            [CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All, CatchUpMode::LastN(n), CatchUpMode::Coalesced];
        Definition {
            name,
            description,
            schedule,
            window: Window { starts_at, ends_at, max_fires },
            spread_ms: spread_ms % HOUR,
            action: ActionSpec { kind: ActionKind::ALL[action], config: config.into() },
            payload: payload.into(),
            retry: RetryPolicy {
                max_attempts,
                backoff: Backoff::ALL[backoff],
                initial_delay_ms,
                max_delay_ms,
                total_timeout_ms,
            },
            timeout_ms,
            priority: Priority::ALL[priority],
            pool: pool.into(),
            catch_up: CatchUp { mode: modes[mode], max_age_ms, drip_ms },
            overlap: Overlap::ALL[overlap],
            expect: Expectation { start_within_ms, finish_within_ms, success_every_ms },
            blackouts: blackouts.iter().map(|[from, to]| Blackout { from: instant(*from), to: instant(*to) }).collect(),
            tags,
        }
    })
}

/// JSON text: a string of anything, a number with many digits, or a nested object.
fn any_json() -> impl Strategy<Value = String> {
    let string = any::<String>().prop_map(|text| {
        let escaped: String = text.chars().map(|c| format!("\\u{:04x}", u32::from(c) & 0xd7ff)).collect();
        format!("\"{escaped}\"")
    });
    let plain = "[^\\pC\"\\\\]{0,40}".prop_map(|text| format!("{{\"{text}\":[null,1.50e300,\"{text}\"]}}"));
    prop_oneof![string, plain, any::<u128>().prop_map(|n| n.to_string())]
}

/// Jobs with any definition and any target, accepted at `START`.
pub fn any_job() -> impl Strategy<Value = Job> {
    (any_definition(), any::<u64>(), any::<String>(), any::<bool>()).prop_map(|(definition, n, target, paused)| {
        let (id, resolved) = (JobId::new(START, 0, n), resolved(definition, &target));
        version::create(id, TenantId::DEFAULT, &resolved, paused, START)
    })
}
