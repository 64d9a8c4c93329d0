//! Between rows and the words of the model. Columns are read in the order in which the `.sql` files select them.

pub(super) use crate::encode::*;
use campanile_model::action::ActionKind;
use campanile_model::execution::{Attempt, AttemptError, AttemptOutcome, Execution, Reason, Response};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::job::{Cursor, Definition, Job, JobState, Priority};
use campanile_model::lifecycle::State;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::stats::Tally;
use campanile_model::store::{ChangeSeq, PlannedJob};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::FromSql;
use campanile_pg::{Done, Failure, Uuid};
use std::borrow::Cow;
use std::sync::Arc;

/// The columns of a row, from left to right.
pub(super) struct Columns<'r> {
    row: &'r Row,
    at: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r Row) -> Self {
        Self { row, at: 0 }
    }

    /// A column as it is stored.
    pub(super) fn next<T: FromSql<'r>>(&mut self) -> Done<T> {
        self.at += 1;
        Ok(self.row.try_get(self.at - 1)?)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    pub(super) fn text(&mut self) -> Done<&'r str> {
        self.next()
    }

    pub(super) fn text_or_none(&mut self) -> Done<Option<&'r str>> {
        self.next()
    }

    /// A number of 64 bits, stored bit for bit.
    pub(super) fn number(&mut self) -> Done<u64> {
        Ok(self.next::<i64>()? as u64)
    }

    pub(super) fn number_or_none(&mut self) -> Done<Option<u64>> {
        Ok(self.next::<Option<i64>>()?.map(|number| number as u64))
    }

    /// A smaller number, such as a version or an attempt.
    pub(super) fn small<T: TryFrom<i64>>(&mut self) -> Done<T> {
        T::try_from(self.next::<i64>()?).map_err(|_| Failure::corrupt("number"))
    }

    pub(super) fn small_or_none<T: TryFrom<i64>>(&mut self) -> Done<Option<T>> {
        self.next::<Option<i64>>()?.map(|n| T::try_from(n).map_err(|_| Failure::corrupt("number"))).transpose()
    }

    pub(super) fn instant(&mut self) -> Done<Timestamp> {
        Ok(Timestamp::from_millis(self.next()?))
    }

    pub(super) fn instant_or_none(&mut self) -> Done<Option<Timestamp>> {
        Ok(self.next::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(super) fn tenant(&mut self) -> Done<TenantId> {
        Ok(TenantId(self.small()?))
    }

    pub(super) fn job_id(&mut self) -> Done<JobId> {
        Ok(self.next::<Uuid>()?.into())
    }

    pub(super) fn execution_id(&mut self) -> Done<ExecutionId> {
        Ok(self.next::<Uuid>()?.into())
    }

    pub(super) fn code<T>(&mut self, what: &str, from_code: fn(u8) -> Option<T>) -> Done<T> {
        self.code_or_none(what, from_code)?.ok_or_else(|| Failure::corrupt(what))
    }

    pub(super) fn code_or_none<T>(&mut self, what: &str, from_code: fn(u8) -> Option<T>) -> Done<Option<T>> {
        let Some(code) = self.next::<Option<i16>>()? else { return Ok(None) };
        let known = u8::try_from(code).ok().and_then(from_code);
        known.map(Some).ok_or_else(|| Failure::corrupt(what))
    }

    pub(super) fn state(&mut self) -> Done<State> {
        self.code("state", State::from_code)
    }

    pub(super) fn cursor(&mut self) -> Done<Cursor> {
        Ok(Cursor { next_fire_at: self.instant_or_none()?, fires_left: self.small_or_none()? })
    }

    pub(super) fn overlap(&mut self) -> Done<Overlap> {
        self.code("overlap", Overlap::from_code)
    }

    pub(super) fn error(&mut self) -> Done<Option<AttemptError>> {
        let kind: Option<String> = self.next()?;
        let message: Option<String> = self.next()?;
        Ok(kind.map(|kind| AttemptError { kind, message: message.unwrap_or_default() }))
    }
}

/// The columns that the wheel needs; the first ones of every query for jobs and versions.
pub(super) fn planned(columns: &mut Columns<'_>, texts: &mut Texts) -> Done<PlannedJob> {
    Ok(PlannedJob {
        id: columns.job_id()?,
        tenant: columns.tenant()?,
        version: columns.small()?,
        state: columns.code("job state", JobState::from_code)?,
        cursor: columns.cursor()?,
        plan: texts.share(columns.text()?),
        firing: texts.firing(columns.text()?).ok_or_else(|| Failure::corrupt("job"))?,
        ended_at: None,
    })
}

/// A whole version of a job: the columns that the wheel needs, and the rest.
pub(super) fn job(columns: &mut Columns<'_>, texts: &mut Texts) -> Done<Job> {
    let planned = planned(columns, texts)?;
    Ok(Job {
        id: planned.id,
        tenant: planned.tenant,
        version: planned.version,
        state: planned.state,
        cursor: planned.cursor,
        plan: planned.plan,
        target: planned.firing.target.clone(),
        created_at: columns.instant()?,
        effective_at: columns.instant()?,
        paused_until: columns.instant_or_none()?,
        definition: definition(columns, texts)?,
    })
}

pub(super) fn definition(columns: &mut Columns<'_>, texts: &mut Texts) -> Done<Arc<Definition>> {
    texts.definition(columns.text()?).ok_or_else(|| Failure::corrupt("definition of a job"))
}

/// An execution as it is dispatched.
pub(super) fn dispatch(columns: &mut Columns<'_>, texts: &mut Texts) -> Done<Dispatch> {
    Ok(Dispatch {
        execution: columns.execution_id()?,
        job: columns.job_id()?,
        fire_at: columns.instant()?,
        pool: texts.share(columns.text()?),
        tenant: columns.tenant()?,
        job_version: columns.small()?,
        attempt: columns.small()?,
        priority: columns.code("priority", Priority::from_code)?,
        action: columns.code("action", ActionKind::from_code)?,
        target: texts.share(columns.text()?),
        queued_at: None,
        as_of: ChangeSeq::default(),
    })
}

pub(super) fn execution(row: &Row, texts: &mut Texts) -> Done<Execution> {
    let mut columns = Columns::of(row);
    Ok(Execution {
        id: columns.execution_id()?,
        tenant: columns.tenant()?,
        job: columns.job_id()?,
        job_name: columns.next()?,
        job_version: columns.small()?,
        fire_at: columns.instant()?,
        kind: columns.code("fire kind", FireKind::from_code)?,
        state: columns.state()?,
        reason: columns.code_or_none("reason", Reason::from_code)?,
        attempt: columns.small()?,
        fence: columns.number()?,
        priority: columns.code("priority", Priority::from_code)?,
        pool: texts.share(columns.text()?),
        action: columns.code("action", ActionKind::from_code)?,
        target: texts.share(columns.text()?),
        overlap: columns.overlap()?,
        covers_from: columns.instant_or_none()?,
        wake_at: columns.instant()?,
        fired_at: columns.instant()?,
        queued_at: columns.instant_or_none()?,
        claimed_at: columns.instant_or_none()?,
        first_started_at: columns.instant_or_none()?,
        started_at: columns.instant_or_none()?,
        finished_at: columns.instant_or_none()?,
        worker: columns.next()?,
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        error: columns.error()?,
        fingerprint: columns.number_or_none()?,
        deliveries: columns.small()?,
        losses: columns.small()?,
        attempts_from: columns.small()?,
        cancel_requested_at: columns.instant_or_none()?,
        note: columns.next()?,
    })
}

/// An attempt and its response.
pub(super) fn attempt(row: &Row) -> Done<Attempt> {
    let mut columns = Columns::of(row);
    Ok(Attempt {
        number: columns.small()?,
        fence: columns.number()?,
        worker: columns.next()?,
        started_at: columns.instant()?,
        finished_at: columns.instant_or_none()?,
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        error: columns.error()?,
        response: match columns.small_or_none()? {
            None => None,
            Some(status) => Some(Response { status, body: columns.next()?, truncated: columns.next()? }),
        },
    })
}

/// What a rollup counts: five numbers and two histograms.
pub(super) fn tally(columns: &mut Columns<'_>) -> Done<Tally> {
    Ok(Tally {
        succeeded: columns.number()?,
        failed: columns.number()?,
        dead: columns.number()?,
        cancelled: columns.number()?,
        skipped: columns.number()?,
        lateness: decode_histogram(columns.next()?),
        duration: decode_histogram(columns.next()?),
    })
}

/// Text from outside as PostgreSQL can store it: it has no room for the character 0.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
