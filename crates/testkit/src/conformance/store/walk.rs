//! Random walks over the verbs of the path, with right and wrong guards, and what must be true after every step.

use super::lives::{Dice, all, counted, counts, pages};
use super::{DUE, Fixture};
use crate::clock::ManualClock;
use crate::generate as g;
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::execution::{AttemptError, AttemptOutcome, Execution, Reason};
use campanile_model::ids::FireKind;
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::{
    AttemptFence, CancelBatch, CancelTarget, Claim, Claimed, Completion, Deferral, Fire, FireBatch, JobKey, Put,
    Resolve, Store,
};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The slots of the pool that has a limit.
const SLOTS: u32 = 4;

/// One who calls verbs at random.
pub struct Walk {
    dice: Dice,
    jobs: Vec<Job>,
    ids: Vec<ExecutionId>,
    fences: Vec<AttemptFence>,
    now: Timestamp,
    clock: ManualClock,
}

impl Walk {
    /// Jobs of every overlap policy, in a pool with slots and in one without.
    pub async fn new(store: &Fixture, dice: Dice) -> Self {
        let jobs: Vec<Job> = (0..)
            .zip(Overlap::ALL.into_iter().chain(Overlap::ALL))
            .map(|(n, overlap)| {
                let pool = if n < Overlap::ALL.len() as u64 { "wide" } else { "narrow" };
                let job = g::job_with(n + 1, |d| (d.overlap, d.pool) = (overlap, pool.into()));
                Job { target: format!("t{}", n % 3).into(), ..job }
            })
            .collect();
        let verdicts = store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_))));
        let narrow = Capacity {
            tenant: TenantId::DEFAULT,
            scope: Scope::Pool,
            name: "narrow".into(),
            slots: Some(SLOTS),
            per_second_milli: None,
            paused: false,
            updated_at: g::START,
        };
        store.put_record(narrow.into(), None).await.unwrap();
        Self { dice, jobs, ids: Vec::new(), fences: Vec::new(), now: DUE, clock: store.clock.clone() }
    }

    /// Another one on the same jobs.
    pub fn again(&self, dice: Dice) -> Self {
        let (jobs, ids, clock) = (self.jobs.clone(), self.ids.clone(), self.clock.clone());
        Self { dice, jobs, ids, fences: Vec::new(), now: self.now, clock }
    }

    pub async fn step(&mut self, store: &Arc<dyn Store>) {
        self.now = self.now.saturating_add_ms(1 + self.dice.below(400) as i64);
        match self.dice.below(20) {
            0..4 => self.fire(store).await,
            4..9 => self.claim(store).await,
            9..13 => self.complete(store).await,
            13 => self.unclaimed(store).await,
            14..16 => self.cancel(store).await,
            16..18 => self.raise_the_dead(store).await,
            18 => self.put_off(store).await,
            _ => self.change(store).await,
        }
    }

    fn any_id(&self) -> Option<ExecutionId> {
        (!self.ids.is_empty()).then(|| *self.dice.of(&self.ids))
    }

    async fn read(&self, store: &Arc<dyn Store>, id: ExecutionId) -> Option<Execution> {
        store.get_executions(TenantId::DEFAULT, &[id]).await.unwrap().remove(0)
    }

    /// A few new ones, and perhaps one that is there.
    async fn fire(&mut self, store: &Arc<dyn Store>) {
        let mut fires = Vec::new();
        for _ in 0..1 + self.dice.below(4) {
            let job = self.dice.of(&self.jobs);
            let at = DUE.saturating_add_ms(self.dice.below(2_000) as i64);
            let kind = *self.dice.of(&[FireKind::Manual, FireKind::Backfill]);
            fires.push(Fire { kind, ..g::fire(job, at) });
        }
        self.ids.extend(fires.iter().map(|fire| fire.dispatch.execution));
        let batch = FireBatch { fences: Arc::new([]), fires, skips: Vec::new(), now: self.now, idempotency: None };
        store.fire(batch).await.unwrap();
    }

    /// Some that may start and some that may not.
    async fn claim(&mut self, store: &Arc<dyn Store>) {
        let mut claims: Vec<Claim> = Vec::new();
        for _ in 0..1 + self.dice.below(6) {
            let Some(id) = self.any_id() else { return };
            let Some(row) = self.read(store, id).await else { continue };
            let attempt = row.attempt + u32::from(self.dice.below(10) == 0);
            let worker = *self.dice.of(&["w1", "w2", "node:a"]);
            claims.push(g::claim_by(id, attempt, self.now, worker));
        }
        for claimed in store.claim(claims).await.unwrap().verdicts {
            if let Claimed::Granted(granted) = claimed {
                self.fences.push(granted.fence);
            }
        }
    }

    /// Ends of attempts, also of those that are over.
    async fn complete(&mut self, store: &Arc<dyn Store>) {
        let mut completions = Vec::new();
        for _ in 0..1 + self.dice.below(3) {
            if self.fences.is_empty() {
                return;
            }
            let at = self.dice.below(self.fences.len() as u64) as usize;
            let mut fence = self.fences[at];
            match self.dice.below(10) {
                0 => fence.fence += 1,
                1 => {}
                _ => drop(self.fences.swap_remove(at)),
            }
            let (event, outcome) = *self.dice.of(&[
                (Event::Succeed, AttemptOutcome::Succeeded),
                (Event::FailRetryable, AttemptOutcome::Failed),
                (Event::FailRetryable, AttemptOutcome::WorkerLost),
                (Event::FailFinal, AttemptOutcome::Failed),
                (Event::FailFinal, AttemptOutcome::TimedOut),
                (Event::Snooze, AttemptOutcome::Snoozed),
                (Event::Release, AttemptOutcome::Released),
                (Event::Cancel, AttemptOutcome::Cancelled),
            ]);
            let kind = *self.dice.of(&["a", "b"]);
            let error = AttemptError { kind: kind.into(), message: format!("no. {}", self.dice.below(99)) };
            let error = (outcome == AttemptOutcome::Failed).then_some(error);
            completions.push(Completion { error, ..g::complete_fence(fence, event, outcome, self.now) });
        }
        store.complete(completions).await.unwrap();
    }

    async fn unclaimed(&mut self, store: &Arc<dyn Store>) {
        let Some(id) = self.any_id() else { return };
        let Some(row) = self.read(store, id).await else { return };
        store.complete(vec![g::complete_unclaimed(g::claim(id, row.attempt, self.now))]).await.unwrap();
    }

    /// What is there, what runs, and what has not come.
    async fn cancel(&mut self, store: &Arc<dyn Store>) {
        let Some(id) = self.any_id() else { return };
        let grace_ms = *self.dice.of(&[None, Some(0), Some(5_000)]);
        let mut batch = CancelBatch { grace_ms, ..g::cancel(&[id], self.now) };
        if self.dice.below(3) == 0 {
            let at = DUE.saturating_add_ms(self.dice.below(2_000) as i64);
            let fire = g::fire(self.dice.of(&self.jobs), at);
            self.ids.push(fire.dispatch.execution);
            batch.targets.push(CancelTarget::Fire(Box::new(fire)));
        }
        store.cancel(batch).await.unwrap();
    }

    async fn raise_the_dead(&mut self, store: &Arc<dyn Store>) {
        let ids: Vec<_> = (0..6).filter_map(|_| self.any_id()).collect();
        if self.dice.below(3) == 0 {
            store.resolve_dead(TenantId::DEFAULT, g::discard(ids, "enough"), self.now).await.unwrap();
        } else {
            let replays = ids.into_iter().map(|execution| Resolve::Replay { execution, wake_at: self.now }).collect();
            store.resolve_dead(TenantId::DEFAULT, replays, self.now).await.unwrap();
        }
    }

    async fn put_off(&mut self, store: &Arc<dyn Store>) {
        let Some(id) = self.any_id() else { return };
        let Some(row) = self.read(store, id).await else { return };
        let wake_at = self.now.saturating_add_ms(300);
        let deferral = Deferral { execution: id, attempt: row.attempt, wake_at, reason: Reason::RateLimited };
        store.defer(vec![deferral]).await.unwrap();
    }

    /// A new version, which may forbid what was made before it.
    async fn change(&mut self, store: &Arc<dyn Store>) {
        let id = self.dice.of(&self.jobs).id;
        let Some(job) = store.get_jobs(TenantId::DEFAULT, &[JobKey::Id(id)]).await.unwrap().remove(0) else { return };
        let overlap = *self.dice.of(&Overlap::ALL);
        self.clock.set(self.now);
        store.put_jobs(vec![g::change(&job, g::define(&job, |d| d.overlap = overlap))]).await.unwrap();
    }

    /// What must be true whatever happened.
    pub async fn check(&self, store: &Fixture) {
        assert_eq!(counts(store).await, counted(store).await);
        let rows = pages(store, all(500)).await;
        let narrow = rows.iter().filter(|row| &*row.pool == "narrow" && row.state == State::Running).count();
        assert!(narrow <= SLOTS as usize, "{narrow} run in {SLOTS} slots");
        for job in &self.jobs {
            let of = |state: State| {
                let rows = rows.iter().filter(move |row| row.job == job.id && row.overlap != Overlap::Allow);
                rows.filter(move |row| row.state == state).count()
            };
            let begun = of(State::Running) + of(State::Retrying);
            assert!(begun <= 1, "{begun} runs of one job at the same time");
            let holders = begun + of(State::Pending);
            assert!(of(State::Held) == 0 || holders > 0, "somebody waits for nobody");
        }
        let mut dead: BTreeMap<u64, u64> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.state == State::Dead) {
            *dead.entry(row.fingerprint.expect("the dead have a fingerprint")).or_default() += 1;
        }
        let groups = store.dead_groups(TenantId::DEFAULT, 1_000).await.unwrap();
        let grouped: BTreeMap<u64, u64> = groups.iter().map(|group| (group.fingerprint, group.count)).collect();
        assert_eq!(grouped, dead);
        for group in groups {
            let sample = rows.iter().find(|row| row.id == group.sample).expect("the sample is there");
            assert_eq!((sample.state, sample.fingerprint), (State::Dead, Some(group.fingerprint)));
        }
    }

    /// Runs everything that is open to its end: nobody is stuck.
    pub async fn finish(&self, store: &Fixture) {
        let later = self.now.saturating_add_ms(1_000_000);
        for _ in 0..2_000 {
            let open: Vec<_> = pages(store, all(500)).await.into_iter().filter(|row| !row.state.is_final()).collect();
            if open.is_empty() {
                return;
            }
            for row in open {
                let fence = AttemptFence { execution: row.id, attempt: row.attempt, fence: row.fence };
                match row.state {
                    State::Running => {
                        let done = g::complete_fence(fence, Event::Succeed, AttemptOutcome::Succeeded, later);
                        store.completed(done).await;
                    }
                    State::Held => {}
                    _ => drop(store.claimed(row.id, row.attempt, later).await),
                }
            }
        }
        panic!("what is open never ends");
    }
}
