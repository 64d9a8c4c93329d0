//! What the changes of a batch add up to: counts, rollups, groups of dead executions. Every store sums up in memory,
//! and writes the sums once per batch: a thousand successes in one pool cost three rows. The sums are part of the
//! batch, so a batch that fails takes them with it.

use crate::core::change::{Subject, Transition};
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::stats::{Tally, bucket};
use campanile_model::time::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;

/// What the changes noted so far add up to.
#[derive(Default)]
pub(crate) struct Sums {
    counts: Vec<Counted>,
    tallies: Tallies,
    /// By tenant and fingerprint.
    pub(crate) dead: HashMap<(TenantId, u64), Grown>,
}

/// Changes of one pool's counts, by the code of the state.
struct Counted {
    tenant: TenantId,
    pool: Arc<str>,
    change: [i64; State::CODES],
}

impl Sums {
    /// Notes a change of state.
    pub(crate) fn note(&mut self, change: &Transition<'_>) {
        let Transition { of, from, event, at, .. } = *change;
        let to = lifecycle::target(event);
        self.count(of.tenant, &of.pool, from, Some(to));
        if let Some(add) = tallied(event) {
            let tally = self.tallies.at(at, of);
            *add(tally) += 1;
        }
        if let Some(attempt) = change.attempt.as_ref().filter(|_| event != Event::Release) {
            let tally = self.tallies.at(at, of);
            if of.first_started_at.is_none() {
                tally.lateness[bucket(attempt.started_at.ms_since(of.fire_at))] += 1;
            }
            if to.is_final() {
                tally.duration[bucket(at.ms_since(attempt.started_at))] += 1;
            }
        }
        if event == Event::FailFinal {
            self.grow(change);
        }
    }

    /// Notes that an execution of a pool left a state, came into another, or both.
    pub(crate) fn count(&mut self, tenant: TenantId, pool: &Arc<str>, from: Option<State>, to: Option<State>) {
        let same = |counted: &Counted| counted.tenant == tenant && same(&counted.pool, pool);
        let at = self.counts.iter().position(same).unwrap_or_else(|| {
            self.counts.push(Counted { tenant, pool: pool.clone(), change: Default::default() });
            self.counts.len() - 1
        });
        let change = &mut self.counts[at].change;
        if let Some(from) = from {
            change[usize::from(from.code())] -= 1;
        }
        if let Some(to) = to {
            change[usize::from(to.code())] += 1;
        }
    }

    /// By how much this batch has changed a count so far.
    pub(crate) fn changed(&self, tenant: TenantId, pool: &Arc<str>, state: State) -> i64 {
        let counted = self.counts.iter().find(|counted| counted.tenant == tenant && same(&counted.pool, pool));
        counted.map_or(0, |counted| counted.change[usize::from(state.code())])
    }

    /// The counts that change, and by how much.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (TenantId, &Arc<str>, State, i64)> {
        self.counts.iter().flat_map(|Counted { tenant, pool, change }| {
            let changed = State::ALL.into_iter().map(|state| (state, change[usize::from(state.code())]));
            let changed = changed.filter(|(_, by)| *by != 0);
            changed.map(move |(state, by)| (*tenant, pool, state, by))
        })
    }

    /// What is added to rollups.
    pub(crate) fn rollups(&self) -> &[(Key, Tally)] {
        &self.tallies.all
    }

    /// A group of dead executions has one more.
    fn grow(&mut self, change: &Transition<'_>) {
        let Some((attempt, fingerprint)) = change.attempt.as_ref().and_then(|a| Some((a, a.fingerprint?))) else {
            return;
        };
        let (of, at) = (change.of, change.at);
        let (kind, message) = attempt.error.map_or(("", ""), |error| (&error.kind, &error.message));
        let grown = self.dead.entry((of.tenant, fingerprint)).or_insert_with(|| Grown::new(&of.target, at));
        grown.add(of.id, at, kind, message);
    }
}

/// Pools and targets of one batch mostly share their text.
fn same(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// What a rollup counts of an event.
fn tallied(event: Event) -> Option<fn(&mut Tally) -> &mut u64> {
    match event {
        Event::Succeed => Some(|tally| &mut tally.succeeded),
        Event::FailRetryable => Some(|tally| &mut tally.failed),
        Event::FailFinal => Some(|tally| &mut tally.dead),
        Event::Cancel => Some(|tally| &mut tally.cancelled),
        Event::Discard => Some(|tally| &mut tally.skipped),
        _ => None,
    }
}

/// What a batch adds to a group of dead executions.
pub(crate) struct Grown {
    pub(crate) target: Arc<str>,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) count: i64,
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    pub(crate) sample: ExecutionId,
}

impl Grown {
    pub(crate) fn new(target: &Arc<str>, at: Timestamp) -> Self {
        Self {
            target: target.clone(),
            kind: String::new(),
            message: String::new(),
            count: 0,
            first_at: at,
            last_at: at,
            sample: ExecutionId::from_bytes([0; 16]),
        }
    }

    pub(crate) fn add(&mut self, id: ExecutionId, at: Timestamp, kind: &str, message: &str) {
        self.count += 1;
        self.first_at = self.first_at.min(at);
        if (at, id) >= (self.last_at, self.sample) {
            (self.last_at, self.sample) = (at, id);
            (self.kind, self.message) = (kind.into(), message.into());
        }
    }
}

/// Rollups by minute, tenant, pool and target. Neighbours mostly belong to the same one.
#[derive(Default)]
struct Tallies {
    all: Vec<(Key, Tally)>,
    places: HashMap<Key, usize>,
    last: usize,
}

/// Start of the minute, tenant, pool, target.
pub(crate) type Key = (i64, TenantId, Arc<str>, Arc<str>);

const MINUTE_MS: i64 = 60_000;

impl Tallies {
    fn at(&mut self, at: Timestamp, of: &Subject) -> &mut Tally {
        let minute = at.millis() - at.millis().rem_euclid(MINUTE_MS);
        let known = self.all.get(self.last).is_some_and(|((start, tenant, pool, target), _)| {
            *start == minute && *tenant == of.tenant && same(pool, &of.pool) && same(target, &of.target)
        });
        if !known {
            let key = (minute, of.tenant, of.pool.clone(), of.target.clone());
            self.last = *self.places.entry(key.clone()).or_insert_with(|| {
                self.all.push((key, Tally::default()));
                self.all.len() - 1
            });
        }
        &mut self.all[self.last].1
    }
}
