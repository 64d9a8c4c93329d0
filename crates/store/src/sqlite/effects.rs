//! What follows from a change of state: counters, rollups, groups of dead executions, watches, events.
//!
//! Everything that changes a state notes it here, in the transaction of the change, and nowhere else. What can be summed
//! up is summed up over the batch and written once, by `apply`: a batch of a thousand successes in one pool costs three
//! rows. The sums in memory are part of the batch, so a batch that fails takes them with it.

use super::dead;
use super::failure::Done;
use super::outbox::{self, Ended, Facts, Happened};
use super::rows;
use super::watches;
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason};
use campanile_model::fingerprint::fingerprint;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::notify::EventKind;
use campanile_model::overlap::Overlap;
use campanile_model::stats::{Tally, bucket};
use campanile_model::store::Fire;
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// An execution whose state changes, as it was before.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) id: ExecutionId,
    pub(super) tenant: TenantId,
    pub(super) job: JobId,
    pub(super) pool: Arc<str>,
    pub(super) target: Arc<str>,
    pub(super) overlap: Overlap,
    /// Bits of `watches::watched`.
    pub(super) watched: u8,
    pub(super) fire_at: Timestamp,
    /// When the first attempt started, if there was one before the newest.
    pub(super) first_started_at: Option<Timestamp>,
}

impl Subject {
    /// An execution that has just fired, with its texts as they are to be shared.
    pub(super) fn fired(fire: &Fire, pool: Arc<str>, target: Arc<str>) -> Self {
        let dispatch = &fire.dispatch;
        Self {
            id: dispatch.execution,
            tenant: dispatch.tenant,
            job: dispatch.job,
            pool,
            target,
            overlap: fire.overlap,
            watched: watches::watched(&fire.expect),
            fire_at: dispatch.fire_at,
            first_started_at: None,
        }
    }
}

/// A change of state.
pub(super) struct Transition<'a> {
    pub(super) of: &'a Subject,
    /// `None` when there was no such execution.
    pub(super) from: Option<State>,
    pub(super) event: Event,
    pub(super) at: Timestamp,
    pub(super) reason: Option<Reason>,
    /// The attempt that ended with it.
    pub(super) attempt: Option<EndedAttempt<'a>>,
}

/// An attempt that ended.
pub(super) struct EndedAttempt<'a> {
    pub(super) number: u32,
    pub(super) started_at: Timestamp,
    pub(super) error: Option<&'a AttemptError>,
    /// Of the group that it belongs to, if it is dead.
    pub(super) fingerprint: Option<u64>,
}

/// What the transitions of a batch add up to.
pub(super) struct Effects<'c> {
    connection: &'c Connection,
    counts: Vec<Counted>,
    tallies: Tallies,
    dead: HashMap<(TenantId, u64), dead::Grown>,
}

/// Changes of one pool's counts, by the code of the state.
struct Counted {
    tenant: TenantId,
    pool: Arc<str>,
    change: [i64; State::ALL.len()],
}

impl<'c> Effects<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, counts: Vec::new(), tallies: Tallies::default(), dead: HashMap::new() }
    }

    /// Where it all is written.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Notes a change of state that was written.
    pub(super) fn note(&mut self, change: &Transition<'_>) -> Done<()> {
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
        if to.is_final() && of.watched != 0 {
            watches::ended(self.connection, of.id)?;
        }
        match event {
            Event::Succeed => {
                watches::succeeded(self.connection, of.job, of.id, at)?;
                self.tell(EventKind::Succeeded, change)?;
            }
            Event::FailRetryable => self.tell(EventKind::Failed, change)?,
            Event::FailFinal => {
                self.grow(change);
                watches::failed(self.connection, of.tenant, of.job, at)?;
                self.tell(EventKind::Dead, change)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes that an execution of a pool left a state, came into another, or both.
    pub(super) fn count(&mut self, tenant: TenantId, pool: &Arc<str>, from: Option<State>, to: Option<State>) {
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
    pub(super) fn changed(&self, tenant: TenantId, pool: &Arc<str>, state: State) -> i64 {
        let counted = self.counts.iter().find(|counted| counted.tenant == tenant && same(&counted.pool, pool));
        counted.map_or(0, |counted| counted.change[usize::from(state.code())])
    }

    /// Writes what the batch adds up to.
    pub(super) fn apply(self) -> Done<()> {
        let mut add = self.connection.prepare_cached(include_str!("sql/counts/add.sql"))?;
        for Counted { tenant, pool, change } in &self.counts {
            for (state, change) in State::ALL.iter().zip(change).filter(|(_, change)| **change != 0) {
                add.execute(params![tenant.0, &**pool, state.code(), change])?;
            }
        }
        drop(add);
        self.tallies.write(self.connection)?;
        for ((tenant, fingerprint), grown) in self.dead {
            dead::grow(self.connection, tenant, fingerprint, &grown)?;
        }
        Ok(())
    }

    /// A group of dead executions has one more.
    fn grow(&mut self, change: &Transition<'_>) {
        let Some((attempt, fingerprint)) = change.attempt.as_ref().and_then(|a| Some((a, a.fingerprint?))) else {
            return;
        };
        let (of, at) = (change.of, change.at);
        let (kind, message) = attempt.error.map_or(("", ""), |error| (&error.kind, &error.message));
        let grown = self.dead.entry((of.tenant, fingerprint)).or_insert_with(|| dead::Grown::new(&of.target, at));
        grown.add(of.id, at, kind, message);
    }

    /// Tells whoever wants to hear of it.
    fn tell(&self, kind: EventKind, change: &Transition<'_>) -> Done<()> {
        let of = change.of;
        if !outbox::wants(self.connection, of.tenant, kind)? {
            return Ok(());
        }
        let attempt = change.attempt.as_ref();
        let started_at = attempt.map(|attempt| attempt.started_at);
        let ended = Ended {
            state: lifecycle::target(change.event),
            reason: change.reason,
            attempt: attempt.map_or(0, |attempt| attempt.number),
            fire_at: of.fire_at,
            first_started_at: of.first_started_at.or(started_at),
            started_at,
            finished_at: Some(change.at),
            error: attempt.and_then(|attempt| attempt.error),
            fingerprint: attempt.and_then(|attempt| attempt.fingerprint),
        };
        let (tenant, job, execution, at) = (of.tenant, of.job, Some(of.id), change.at);
        outbox::emit(self.connection, &Happened { tenant, kind, job, execution, at, facts: Facts::Ended(ended) })
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

/// What an execution died of, by the attempt that ended it.
pub(super) fn cause(outcome: AttemptOutcome, error: Option<&AttemptError>) -> Cow<'_, AttemptError> {
    let kind = match (error, outcome) {
        (Some(error), _) => return Cow::Borrowed(error),
        (None, AttemptOutcome::WorkerLost) => "worker_lost",
        (None, AttemptOutcome::TimedOut) => "timeout",
        (None, _) => "failed",
    };
    Cow::Owned(AttemptError { kind: kind.into(), message: String::new() })
}

/// The group that it belongs to.
pub(super) fn fingerprint_of(target: &str, cause: &AttemptError) -> u64 {
    fingerprint(target, &cause.kind, &cause.message)
}

/// Rollups by minute, tenant, pool and target. Neighbours mostly belong to the same one.
#[derive(Default)]
struct Tallies {
    all: Vec<(Key, Tally)>,
    places: HashMap<Key, usize>,
    last: usize,
}

/// Start of the minute, tenant, pool, target.
type Key = (i64, TenantId, Arc<str>, Arc<str>);

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

    fn write(self, connection: &Connection) -> Done<()> {
        if self.all.is_empty() {
            return Ok(());
        }
        let mut get = connection.prepare_cached(include_str!("sql/rollups/get.sql"))?;
        let mut put = connection.prepare_cached(include_str!("sql/rollups/put.sql"))?;
        for ((minute, tenant, pool, target), mut tally) in self.all {
            let there = get.query_row(params![minute, tenant.0, &*pool, &*target], |row| rows::tally(row, 0));
            if let Some(there) = there.optional()? {
                tally.add(&there);
            }
            put.execute(params![
                minute,
                tenant.0,
                &*pool,
                &*target,
                tally.succeeded as i64,
                tally.failed as i64,
                tally.dead as i64,
                tally.cancelled as i64,
                tally.skipped as i64,
                rows::encode_histogram(&tally.lateness),
                rows::encode_histogram(&tally.duration),
            ])?;
        }
        Ok(())
    }
}
