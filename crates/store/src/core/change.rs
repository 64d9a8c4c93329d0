//! A change of state, as every store notes it: what changed, by what, and which attempt ended with it. And what follows
//! from that without a database: what an execution died of, and what is told of it.

use crate::core::event::Ended;
use crate::core::rules;
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason};
use campanile_model::fingerprint::fingerprint;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::Fire;
use campanile_model::time::Timestamp;
use std::borrow::Cow;
use std::sync::Arc;

/// An execution whose state changes, as it was before.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Subject {
    pub(crate) id: ExecutionId,
    pub(crate) tenant: TenantId,
    pub(crate) job: JobId,
    pub(crate) pool: Arc<str>,
    pub(crate) target: Arc<str>,
    pub(crate) overlap: Overlap,
    /// Bits of `rules::watched`.
    pub(crate) watched: u8,
    pub(crate) fire_at: Timestamp,
    /// When the first attempt started, if there was one before the newest.
    pub(crate) first_started_at: Option<Timestamp>,
}

impl Subject {
    /// An execution that has just fired, with its texts as they are to be shared.
    pub(crate) fn fired(fire: &Fire, pool: Arc<str>, target: Arc<str>) -> Self {
        let dispatch = &fire.dispatch;
        Self {
            id: dispatch.execution,
            tenant: dispatch.tenant,
            job: dispatch.job,
            pool,
            target,
            overlap: fire.overlap,
            watched: rules::watched(&fire.expect),
            fire_at: dispatch.fire_at,
            first_started_at: None,
        }
    }
}

/// A change of state.
pub(crate) struct Transition<'a> {
    pub(crate) of: &'a Subject,
    /// `None` when there was no such execution.
    pub(crate) from: Option<State>,
    pub(crate) event: Event,
    pub(crate) at: Timestamp,
    pub(crate) reason: Option<Reason>,
    /// The attempt that ended with it.
    pub(crate) attempt: Option<EndedAttempt<'a>>,
}

/// An attempt that ended.
pub(crate) struct EndedAttempt<'a> {
    pub(crate) number: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) error: Option<&'a AttemptError>,
    /// Of the group that it belongs to, if it is dead.
    pub(crate) fingerprint: Option<u64>,
}

impl<'a> Transition<'a> {
    /// What is told of it.
    pub(crate) fn ended(&self) -> Ended<'a> {
        let attempt = self.attempt.as_ref();
        let started_at = attempt.map(|attempt| attempt.started_at);
        Ended {
            state: lifecycle::target(self.event),
            reason: self.reason,
            attempt: attempt.map_or(0, |attempt| attempt.number),
            fire_at: self.of.fire_at,
            first_started_at: self.of.first_started_at.or(started_at),
            started_at,
            finished_at: Some(self.at),
            error: attempt.and_then(|attempt| attempt.error),
            fingerprint: attempt.and_then(|attempt| attempt.fingerprint),
        }
    }
}

/// What an execution died of, by the attempt that ended it.
pub(crate) fn cause(outcome: AttemptOutcome, error: Option<&AttemptError>) -> Cow<'_, AttemptError> {
    let kind = match (error, outcome) {
        (Some(error), _) => return Cow::Borrowed(error),
        (None, AttemptOutcome::WorkerLost) => "worker_lost",
        (None, AttemptOutcome::TimedOut) => "timeout",
        (None, _) => "failed",
    };
    Cow::Owned(AttemptError { kind: kind.into(), message: String::new() })
}

/// The group that it belongs to.
pub(crate) fn fingerprint_of(target: &str, cause: &AttemptError) -> u64 {
    fingerprint(target, &cause.kind, &cause.message)
}
