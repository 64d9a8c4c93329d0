//! Test data: plain jobs, fires, claims and completions by number, and arbitrary jobs for property tests.
//!
//! Everything is deterministic: job 7 is the same job in every test and in every process.

use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::AttemptOutcome;
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::job::{Blackout, Cursor, Job, JobState, POOL_SHORT, Priority, Window};
use campanile_model::lifecycle::Event;
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{DstFold, DstGap, Schedule};
use campanile_model::store::{
    AttemptFence, CancelBatch, CancelTarget, Claim, Completion, CompletionOf, Expected, Extension, Fire, Granted,
    Idempotency, JobWrite, Lease,
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

/// Job number `n`: active, accepted at `START`, a noop every minute, first due a minute after `START`.
pub fn job(n: u64) -> Job {
    Job {
        id: JobId::new(START, (n >> 40) as u16, n),
        tenant: TenantId::DEFAULT,
        name: format!("job-{n:09}"),
        schedule: Schedule::Every { every_ms: 60_000, phase_ms: 0 },
        plan: "every 60000+0".into(),
        window: Window::default(),
        spread_ms: 0,
        action: ActionSpec { kind: ActionKind::Noop, config: "{}".into() },
        target: "".into(),
        payload: "null".into(),
        retry: RetryPolicy::default(),
        timeout_ms: 30_000,
        priority: Priority::Normal,
        pool: POOL_SHORT.into(),
        catch_up: CatchUp::default(),
        overlap: Overlap::default(),
        expect: Expectation::default(),
        blackouts: Arc::new([]),
        tags: Vec::new(),
        state: JobState::Active,
        paused_until: None,
        version: 1,
        created_at: START,
        updated_at: START,
        cursor: Cursor { next_fire_at: Some(at(60_000)), fires_left: None },
    }
}

/// A write that creates a job.
pub fn create(job: Job) -> JobWrite {
    JobWrite { job, expected: Expected::Absent, skip: None, idempotency: None }
}

/// A write that changes a job: the next version, accepted at `now`.
pub fn change(job: &Job, now: Timestamp, change: impl FnOnce(&mut Job)) -> JobWrite {
    let mut next = job.clone();
    next.version += 1;
    next.updated_at = now;
    change(&mut next);
    JobWrite { job: next, expected: Expected::Version(job.version), skip: None, idempotency: None }
}

/// The same write under a caller's key.
pub fn with_key(mut write: JobWrite, key: Idempotency) -> JobWrite {
    write.idempotency = Some(key);
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
        overlap: job.overlap,
        covers_from: None,
        expect: job.expect,
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

/// A claim by an external worker, after `attempt` tries.
pub fn claim(execution: ExecutionId, attempt: u32, now: Timestamp) -> Claim {
    claim_by(execution, attempt, now, "worker-1")
}

/// The same by somebody.
pub fn claim_by(execution: ExecutionId, attempt: u32, now: Timestamp, worker: &str) -> Claim {
    let lease = Lease::BeyondTimeout(LEASE_MS);
    Claim { execution, attempt, worker: Arc::from(worker), now, lease, queued_at: None }
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

/// Jobs with anything that a store must bring back: extremes, odd characters, empty and large texts. The names of two
/// of them may be equal; number them where that matters.
pub fn any_job() -> impl Strategy<Value = Job> {
    let schedule = prop_oneof![
        ("[ -~]{0,40}", "[A-Za-z_/]{1,30}", 0..3usize, 0..3usize).prop_map(|(expression, zone, gap, fold)| {
            Schedule::Cron {
                expression,
                zone,
                dst_gap: [DstGap::NextValid, DstGap::Shift, DstGap::Skip][gap],
                dst_fold: [DstFold::First, DstFold::Second, DstFold::Both][fold],
            }
        }),
        (any::<u64>(), any::<u64>()).prop_map(|(every_ms, phase_ms)| Schedule::Every { every_ms, phase_ms }),
        any::<i64>().prop_map(|at| Schedule::At { at: Timestamp::from_millis(at) }),
        any::<u64>().prop_map(|delay_ms| Schedule::After { delay_ms }),
        Just(Schedule::None),
    ];
    let instants = || proptest::option::of(any::<i64>().prop_map(Timestamp::from_millis));
    let texts = (any::<String>(), any::<String>(), any::<String>(), "[^/:\\pC]{1,60}", "[a-z]{1,20}");
    let bounds = (instants(), instants(), instants(), any::<Option<u32>>(), any::<Option<u32>>());
    let policies = (0..3usize, any::<[u64; 6]>(), 0..5usize, any::<u32>(), 1..1_000u32);
    let expectations = (any::<[Option<u64>; 4]>(), 0..Overlap::ALL.len(), instants(), any::<String>());
    let blackouts = proptest::collection::vec(any::<[i64; 2]>(), 0..3);
    let rest =
        (any::<u64>(), 0..4usize, 0..3usize, proptest::collection::vec("[^\\pC]{1,20}", 0..5), any::<[i64; 2]>());
    let all = (schedule, texts, bounds, policies, rest, expectations, blackouts);
    all.prop_map(|(schedule, texts, bounds, policies, rest, expectations, blackouts)| {
        let (plan, config, payload, name, pool) = texts;
        let (starts_at, ends_at, next_fire_at, max_fires, fires_left) = bounds;
        let (backoff, widths, mode, n, max_attempts) = policies;
        let [spread_ms, initial_delay_ms, max_delay_ms, timeout_ms, max_age_ms, drip_ms] = widths;
        let ([start_within_ms, finish_within_ms, success_every_ms, total_timeout_ms], overlap, paused_until, target) =
            expectations;
        let blackout =
            |[from, to]: [i64; 2]| Blackout { from: Timestamp::from_millis(from), to: Timestamp::from_millis(to) };
        let (random, priority, action, tags, [created_at, updated_at]) = rest;
        Job {
            id: JobId::new(START, 0, random),
            name,
            schedule,
            plan: plan.into(),
            window: Window { starts_at, ends_at, max_fires },
            spread_ms,
            action: ActionSpec { kind: ActionKind::ALL[action], config: config.into() },
            payload: payload.into(),
            target: target.into(),
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
            catch_up: CatchUp {
                mode: [
                    CatchUpMode::None,
                    CatchUpMode::Last,
                    CatchUpMode::All,
                    CatchUpMode::LastN(n),
                    CatchUpMode::Coalesced,
                ][mode],
                max_age_ms,
                drip_ms,
            },
            overlap: Overlap::ALL[overlap],
            expect: Expectation { start_within_ms, finish_within_ms, success_every_ms },
            blackouts: blackouts.into_iter().map(blackout).collect(),
            paused_until,
            tags,
            created_at: Timestamp::from_millis(created_at),
            updated_at: Timestamp::from_millis(updated_at),
            cursor: Cursor { next_fire_at, fires_left },
            ..job(random)
        }
    })
}
