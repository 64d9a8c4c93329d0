//! What follows from a change of state: counters, rollups, groups of dead executions, watches, events.
//!
//! Everything that changes a state notes it here, in memory, and nowhere else (`WorkingSet::change`). The backend writes
//! it in the transaction of the change.

use super::change::Transition;
use super::event::{Facts, Happened};
use super::outbox::Outbox;
use super::set::WorkingSet;
use super::sums::Sums;
use super::watches::Watches;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::lifecycle::{self, Event};
use campanile_model::notify::EventKind;
use campanile_model::store::Completion;

/// What the changes of a batch lead to.
#[derive(Default)]
pub(crate) struct Effects {
    /// What they add up to.
    pub(crate) sums: Sums,
    /// What is expected of executions and jobs.
    pub(crate) watches: Watches,
    /// Who wants which events, and the events.
    pub(crate) outbox: Outbox,
    /// Executions that are dead no more, with their groups.
    pub(crate) risen: Vec<(TenantId, u64, ExecutionId)>,
}

/// What a backend loads before completions are judged, because something may follow from it.
pub(crate) struct Preload {
    /// Executions that are watched.
    pub(crate) watched: Vec<ExecutionId>,
    /// Jobs that may succeed.
    pub(crate) succeeding: Vec<JobId>,
    /// Jobs that may succeed or fail.
    pub(crate) ending: Vec<JobId>,
    /// Events that may be sent: whose, of which job, and which.
    pub(crate) events: Vec<(TenantId, JobId, EventKind)>,
}

impl Preload {
    /// What these completions may lead to.
    pub(crate) fn of(set: &WorkingSet<'_>, completions: &[Completion]) -> Self {
        let mut preload = Self { watched: Vec::new(), succeeding: Vec::new(), ending: Vec::new(), events: Vec::new() };
        for completion in completions {
            let Some(record) = set.get(completion.execution()) else { continue };
            let (tenant, job) = (record.of.tenant, record.of.job);
            match completion.event {
                Event::Succeed => {
                    preload.succeeding.push(job);
                    preload.ending.push(job);
                }
                Event::FailFinal => preload.ending.push(job),
                _ => {}
            }
            preload.events.extend(events_of(completion.event).iter().map(|kind| (tenant, job, *kind)));
        }
        preload.watched = set.records().filter(|record| record.of.watched != 0).map(|record| record.of.id).collect();
        preload
    }
}

/// The events that a change of state may send.
fn events_of(event: Event) -> &'static [EventKind] {
    match event {
        Event::Succeed => &[EventKind::Succeeded, EventKind::Recovered],
        Event::FailRetryable => &[EventKind::Failed],
        Event::FailFinal => &[EventKind::Dead],
        _ => &[],
    }
}

impl Effects {
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
                self.emit(EventKind::Succeeded, change);
            }
            Event::FailRetryable => self.emit(EventKind::Failed, change),
            Event::FailFinal => {
                self.watches.failed(of.tenant, of.job, at);
                self.emit(EventKind::Dead, change);
            }
            _ => {}
        }
    }

    /// Sends an event to whoever wants it.
    fn emit(&mut self, kind: EventKind, change: &Transition<'_>) {
        let of = change.of;
        if self.outbox.is_wanted(of.tenant, kind) {
            let (tenant, job, execution, at) = (of.tenant, of.job, Some(of.id), change.at);
            self.outbox.emit(&Happened { tenant, kind, job, execution, at, facts: Facts::Ended(change.ended()) });
        }
    }
}
