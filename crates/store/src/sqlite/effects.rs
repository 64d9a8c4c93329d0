//! What follows from a change of state: counters, rollups, groups of dead executions, watches, events.
//!
//! Everything that changes a state notes it here, in the transaction of the change, and nowhere else. What can be summed
//! up is summed up over the batch and written once, by `apply`: a batch of a thousand successes in one pool costs three
//! rows. The sums in memory are part of the batch, so a batch that fails takes them with it.

use super::dead;
use super::failure::Done;
use super::outbox;
use super::rows;
use super::watches;
pub(super) use crate::change::{EndedAttempt, Subject, Transition, cause, fingerprint_of};
use crate::event::{Facts, Happened};
use crate::sums::{Key, Sums};
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::notify::EventKind;
use campanile_model::stats::Tally;
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;

/// What the transitions of a batch add up to.
pub(super) struct Effects<'c> {
    connection: &'c Connection,
    sums: Sums,
}

impl<'c> Effects<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, sums: Sums::default() }
    }

    /// Where it all is written.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Notes a change of state that was written.
    pub(super) fn note(&mut self, change: &Transition<'_>) -> Done<()> {
        let Transition { of, event, at, .. } = *change;
        self.sums.note(change);
        if lifecycle::target(event).is_final() && of.watched != 0 {
            watches::ended(self.connection, of.id)?;
        }
        match event {
            Event::Succeed => {
                watches::succeeded(self.connection, of.job, of.id, at)?;
                self.tell(EventKind::Succeeded, change)?;
            }
            Event::FailRetryable => self.tell(EventKind::Failed, change)?,
            Event::FailFinal => {
                watches::failed(self.connection, of.tenant, of.job, at)?;
                self.tell(EventKind::Dead, change)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes that an execution of a pool left a state, came into another, or both.
    pub(super) fn count(&mut self, tenant: TenantId, pool: &Arc<str>, from: Option<State>, to: Option<State>) {
        self.sums.count(tenant, pool, from, to);
    }

    /// By how much this batch has changed a count so far.
    pub(super) fn changed(&self, tenant: TenantId, pool: &Arc<str>, state: State) -> i64 {
        self.sums.changed(tenant, pool, state)
    }

    /// Writes what the batch adds up to.
    pub(super) fn apply(self) -> Done<()> {
        let mut add = self.connection.prepare_cached(include_str!("sql/counts/add.sql"))?;
        for (tenant, pool, state, change) in self.sums.counts() {
            add.execute(params![tenant.0, &**pool, state.code(), change])?;
        }
        drop(add);
        add_to_rollups(self.connection, self.sums.rollups())?;
        for ((tenant, fingerprint), grown) in self.sums.dead {
            dead::grow(self.connection, tenant, fingerprint, &grown)?;
        }
        Ok(())
    }

    /// Tells whoever wants to hear of it.
    fn tell(&self, kind: EventKind, change: &Transition<'_>) -> Done<()> {
        let of = change.of;
        if !outbox::wants(self.connection, of.tenant, kind)? {
            return Ok(());
        }
        let (tenant, job, execution, at) = (of.tenant, of.job, Some(of.id), change.at);
        let facts = Facts::Ended(change.ended());
        outbox::emit(self.connection, &Happened { tenant, kind, job, execution, at, facts })
    }
}

fn add_to_rollups(connection: &Connection, rollups: &[(Key, Tally)]) -> Done<()> {
    if rollups.is_empty() {
        return Ok(());
    }
    let mut get = connection.prepare_cached(include_str!("sql/rollups/get.sql"))?;
    let mut put = connection.prepare_cached(include_str!("sql/rollups/put.sql"))?;
    for ((minute, tenant, pool, target), tally) in rollups {
        let mut tally = tally.clone();
        let there = get.query_row(params![minute, tenant.0, &**pool, &**target], |row| rows::tally(row, 0));
        if let Some(there) = there.optional()? {
            tally.add(&there);
        }
        put.execute(params![
            minute,
            tenant.0,
            &**pool,
            &**target,
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
