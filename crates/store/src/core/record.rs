//! An execution in the middle of a batch: what verbs judge and change, and which of its columns they have changed.

use super::change::Subject;
use super::rules::watched;
use campanile_model::action::ActionKind;
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason, Response};
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::job::Priority;
use campanile_model::job::version::FiredUnder;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::queue::Dispatch;
use campanile_model::store::{ChangeSeq, Fire, Waiting};
use campanile_model::time::Timestamp;
use std::sync::Arc;

/// An execution, as it is in the middle of the batch.
#[derive(PartialEq, Debug)]
pub(crate) struct Record {
    pub(crate) of: Subject,
    pub(crate) kind: FireKind,
    pub(crate) job_version: u32,
    pub(crate) state: State,
    pub(crate) reason: Option<Reason>,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) priority: Priority,
    pub(crate) action: ActionKind,
    pub(crate) wake_at: Timestamp,
    pub(crate) fired_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) worker: Option<Arc<str>>,
    pub(crate) outcome: Option<AttemptOutcome>,
    pub(crate) error: Option<AttemptError>,
    pub(crate) covers_from: Option<Timestamp>,
    pub(crate) queued_at: Option<Timestamp>,
    pub(crate) claimed_at: Option<Timestamp>,
    pub(crate) fingerprint: Option<u64>,
    pub(crate) deliveries: u32,
    pub(crate) losses: u32,
    pub(crate) attempts_from: u32,
    pub(crate) cancel_requested_at: Option<Timestamp>,
    pub(crate) cancel_reason: Option<Reason>,
    pub(crate) note: Option<String>,
    /// What the target answered, if that stands in the execution's own row. It is written once, and never read again here.
    pub(crate) response: Option<Response>,
    /// The columns that the batch has changed.
    pub(crate) changed: Option<Shape>,
    /// The state and the fence that are stored, before what has changed is written.
    pub(crate) stored: (State, u64),
    /// Which write made the stored row what it is, where it was read without a lock: if that has changed when this is written,
    /// the whole batch is void, and is judged again.
    pub(crate) seen: Option<i32>,
}

/// Which columns a change is about. Nearly all changes are of one of the first four; the rest writes all columns that
/// ever change.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// An attempt starts.
    Started,
    /// An attempt ends.
    Ended,
    /// Both at once.
    Instant,
    /// It is looked at at another time.
    Deferred,
    Whole,
}

/// An attempt that gets a row of its own, because the execution's row will hold another.
pub(crate) struct KeptAttempt {
    pub(crate) execution: ExecutionId,
    pub(crate) fence: u64,
    pub(crate) tenant: u32,
    pub(crate) attempt: u32,
    pub(crate) worker: Option<Arc<str>>,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
    pub(crate) outcome: AttemptOutcome,
    pub(crate) error: Option<AttemptError>,
}

impl Record {
    /// An execution that has just fired, with its texts as they are to be shared.
    pub(crate) fn fired(fire: &Fire, now: Timestamp, pool: Arc<str>, target: Arc<str>) -> Self {
        Self {
            of: Subject::fired(fire, pool, target),
            kind: fire.kind,
            job_version: fire.dispatch.job_version,
            state: lifecycle::target(Event::Refire),
            reason: None,
            attempt: 0,
            fence: 0,
            priority: fire.dispatch.priority,
            action: fire.dispatch.action,
            wake_at: fire.wake_at,
            fired_at: now,
            started_at: None,
            finished_at: None,
            worker: None,
            outcome: None,
            error: None,
            covers_from: fire.covers_from,
            queued_at: None,
            claimed_at: None,
            fingerprint: None,
            deliveries: 0,
            losses: 0,
            attempts_from: 0,
            cancel_requested_at: None,
            cancel_reason: None,
            note: None,
            response: None,
            changed: None,
            stored: (lifecycle::target(Event::Refire), 0),
            seen: None,
        }
    }

    /// Makes it a fire of a newer version of its job.
    pub(crate) fn refired(&mut self, fire: &Fire, now: Timestamp) {
        let dispatch = &fire.dispatch;
        (self.of.pool, self.of.target) = (dispatch.pool.clone(), dispatch.target.clone());
        (self.of.overlap, self.of.watched) = (fire.overlap, watched(&fire.expect));
        self.job_version = dispatch.job_version;
        (self.state, self.reason, self.finished_at) = (lifecycle::target(Event::Refire), None, None);
        (self.priority, self.action) = (dispatch.priority, dispatch.action);
        (self.wake_at, self.fired_at, self.covers_from) = (fire.wake_at, now, fire.covers_from);
        self.touch(Shape::Whole);
    }

    /// Notes that these columns were changed.
    pub(crate) fn touch(&mut self, shape: Shape) {
        self.changed = match self.changed {
            Some(other) if other != shape => Some(Shape::Whole),
            _ => Some(shape),
        };
    }

    /// Notes that what has changed is written.
    pub(crate) fn set_stored(&mut self) {
        (self.changed, self.stored) = (None, (self.state, self.fence));
    }

    /// When its first attempt started, if there was one.
    pub(crate) fn first_start(&self) -> Option<Timestamp> {
        self.of.first_started_at.or(self.started_at)
    }

    /// Whether an attempt runs.
    pub(crate) fn runs(&self) -> bool {
        lifecycle::sources(Event::Succeed).contains(self.state)
    }

    /// As the versions of its job decide about its start.
    pub(crate) fn fired_under(&self) -> FiredUnder {
        FiredUnder {
            kind: self.kind,
            version: self.job_version,
            fire_at: self.of.fire_at,
            // A snooze leaves no attempt behind, and yet it was tried.
            tried: self.attempt > 0 || self.first_start().is_some(),
        }
    }

    /// As it is dispatched.
    pub(crate) fn waiting(&self) -> Waiting {
        let dispatch = Dispatch {
            execution: self.of.id,
            job: self.of.job,
            fire_at: self.of.fire_at,
            pool: self.of.pool.clone(),
            tenant: self.of.tenant,
            job_version: self.job_version,
            attempt: self.attempt,
            priority: self.priority,
            action: self.action,
            target: self.of.target.clone(),
            queued_at: None,
            as_of: ChangeSeq::default(),
        };
        Waiting { dispatch, wake_at: self.wake_at }
    }

    /// The attempt in the execution's row, as a row of its own; `None` where there is none that has ended.
    pub(crate) fn newest_attempt(&self) -> Option<KeptAttempt> {
        Some(KeptAttempt {
            execution: self.of.id,
            fence: Some(self.fence).filter(|fence| *fence > 0)?,
            tenant: self.of.tenant.0,
            attempt: self.attempt,
            worker: self.worker.clone(),
            started_at: self.started_at?,
            finished_at: self.finished_at?,
            outcome: self.outcome?,
            error: self.error.clone(),
        })
    }
}
