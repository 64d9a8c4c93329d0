//! What follows from a change of state: counters, rollups, groups of dead executions, watches, events.
//!
//! Everything that changes a state notes it here, in memory, and nowhere else (`Sheet::change`); it is written at the
//! end of the batch. Counts and rollups are appended and not added to: a row that every batch changes would let batches
//! wait for each other. The sum counts, and upkeep folds what has piled up.

use super::dead;
use super::outbox::Outbox;
use super::rows::encode_histogram;
use super::sheet::{Ids, Sheet, column, job_ids};
use super::watches::Watches;
use crate::change::Transition;
use crate::event::{Facts, Happened};
use crate::sums::Sums;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::lifecycle::{self, Event};
use campanile_model::notify::EventKind;
use campanile_model::store::Completion;
use campanile_pg::{Done, Tx};
use futures_util::try_join;

/// What the changes of a batch lead to.
#[derive(Default)]
pub(super) struct Effects {
    /// What they add up to.
    pub(super) sums: Sums,
    /// What is expected of executions and jobs.
    pub(super) watches: Watches,
    /// Who wants to hear of what, and what they hear.
    pub(super) outbox: Outbox,
    /// Executions that are dead no more, with their groups.
    pub(super) risen: Vec<(TenantId, u64, ExecutionId)>,
}

/// What completions are judged by that is not in the rows of their executions.
pub(super) struct Known {
    watches: Watches,
    outbox: Outbox,
}

impl Effects {
    /// Reads what may follow from these completions. Locks what is expected of their executions and jobs.
    pub(super) async fn know(tx: &Tx<'_>, sheet: &Sheet<'_>, completions: &[Completion]) -> Done<Known> {
        let of = |event: Event| {
            let these = completions.iter().filter(move |completion| completion.event == event);
            these.filter_map(|completion| sheet.get(completion.execution())).map(|record| &record.of)
        };
        let succeeded: Vec<JobId> = of(Event::Succeed).map(|of| of.job).collect();
        let dead = of(Event::FailFinal).map(|of| of.job);
        let either = job_ids(succeeded.iter().copied().chain(dead));
        let watched = Ids::of(sheet.records().filter(|record| record.of.watched != 0).map(|record| record.of.id));
        let watches = Watches::load(tx, watched, job_ids(succeeded), either);
        let told = [
            (Event::Succeed, vec![EventKind::Succeeded, EventKind::Recovered]),
            (Event::FailRetryable, vec![EventKind::Failed]),
            (Event::FailFinal, vec![EventKind::Dead]),
        ];
        let told = told.into_iter().flat_map(|(event, kinds)| {
            let tell = move |kind: EventKind| of(event).map(move |of| (of.tenant, of.job, kind));
            kinds.into_iter().flat_map(tell)
        });
        let (watches, outbox) = try_join!(watches, Outbox::load(tx, told.collect()))?;
        Ok(Known { watches, outbox })
    }

    /// What completions are judged by from now on.
    pub(super) fn learn(&mut self, known: Known) {
        (self.watches, self.outbox) = (known.watches, known.outbox);
    }

    /// Notes a change of state.
    pub(super) fn note(&mut self, change: &Transition<'_>) {
        let Transition { of, event, at, .. } = *change;
        self.sums.note(change);
        if lifecycle::target(event).is_final() && of.watched != 0 {
            self.watches.ended(of.id);
        }
        match event {
            Event::Succeed => {
                if let Some((tenant, since)) = self.watches.succeeded(of.job, at) {
                    let (kind, facts) = (EventKind::Recovered, Facts::Recovered { since });
                    self.outbox.emit(&Happened { tenant, kind, job: of.job, execution: Some(of.id), at, facts });
                }
                self.tell(EventKind::Succeeded, change);
            }
            Event::FailRetryable => self.tell(EventKind::Failed, change),
            Event::FailFinal => {
                self.watches.failed(of.tenant, of.job, at);
                self.tell(EventKind::Dead, change);
            }
            _ => {}
        }
    }

    /// Tells whoever wants to hear of it.
    fn tell(&mut self, kind: EventKind, change: &Transition<'_>) {
        let of = change.of;
        if self.outbox.wants(of.tenant, kind) {
            let (tenant, job, execution, at) = (of.tenant, of.job, Some(of.id), change.at);
            self.outbox.emit(&Happened { tenant, kind, job, execution, at, facts: Facts::Ended(change.ended()) });
        }
    }

    /// Writes everything but the groups of dead executions.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Done<()> {
        try_join!(self.watches.write(tx), self.outbox.write(tx), self.write_counts(tx), self.write_rollups(tx))?;
        Ok(())
    }

    /// Writes the groups, which come last: whoever has one waits for nothing else.
    pub(super) async fn write_groups(&self, tx: &Tx<'_>) -> Done<()> {
        dead::grow(tx, &self.sums.dead).await?;
        dead::shrink(tx, &self.risen).await
    }

    async fn write_counts(&self, tx: &Tx<'_>) -> Done<()> {
        let counts: Vec<_> = self.sums.counts().collect();
        if counts.is_empty() {
            return Ok(());
        }
        tx.execute(
            include_str!("sql/counts/add.sql"),
            &[
                &column(&counts, |(tenant, ..)| i64::from(tenant.0)),
                &column(&counts, |(_, pool, ..)| &***pool),
                &column(&counts, |(_, _, state, _)| i16::from(state.code())),
                &column(&counts, |(.., by)| *by),
            ],
        )
        .await?;
        Ok(())
    }

    async fn write_rollups(&self, tx: &Tx<'_>) -> Done<()> {
        let rollups = self.sums.rollups();
        if rollups.is_empty() {
            return Ok(());
        }
        tx.execute(
            include_str!("sql/rollups/add.sql"),
            &[
                &column(rollups, |((minute, ..), _)| *minute),
                &column(rollups, |((_, tenant, ..), _)| i64::from(tenant.0)),
                &column(rollups, |((_, _, pool, _), _)| &**pool),
                &column(rollups, |((.., target), _)| &**target),
                &column(rollups, |(_, tally)| tally.succeeded as i64),
                &column(rollups, |(_, tally)| tally.failed as i64),
                &column(rollups, |(_, tally)| tally.dead as i64),
                &column(rollups, |(_, tally)| tally.cancelled as i64),
                &column(rollups, |(_, tally)| tally.skipped as i64),
                &column(rollups, |(_, tally)| encode_histogram(&tally.lateness)),
                &column(rollups, |(_, tally)| encode_histogram(&tally.duration)),
            ],
        )
        .await?;
        Ok(())
    }
}
