//! Between rows and the words of the model. Columns are read in the order in which the `.sql` files select them.

pub(super) use crate::encode::*;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::CatchUp;
use campanile_model::execution::{Attempt, AttemptError, AttemptOutcome, Execution, Reason, Response};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::job::{Cursor, Job, JobState, Priority, Window};
use campanile_model::lifecycle::State;
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::stats::Tally;
use campanile_model::store::PlannedJob;
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::FromSql;
use campanile_pg::{Done, Failure, Uuid};
use std::borrow::Cow;

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

    pub(super) fn retry(&mut self) -> Done<RetryPolicy> {
        Ok(RetryPolicy {
            max_attempts: self.small()?,
            backoff: self.code("backoff", Backoff::from_code)?,
            initial_delay_ms: self.number()?,
            max_delay_ms: self.number()?,
            total_timeout_ms: self.number_or_none()?,
        })
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

/// The columns that the wheel needs; the first ones of every query for jobs.
pub(super) fn planned(columns: &mut Columns<'_>, texts: &mut Texts) -> Done<PlannedJob> {
    Ok(PlannedJob {
        id: columns.job_id()?,
        tenant: columns.tenant()?,
        version: columns.small()?,
        state: columns.code("job state", JobState::from_code)?,
        updated_at: columns.instant()?,
        plan: texts.share(columns.text()?),
        cursor: Cursor { next_fire_at: columns.instant_or_none()?, fires_left: columns.small_or_none()? },
        ends_at: columns.instant_or_none()?,
        spread_ms: columns.number()?,
        priority: columns.code("priority", Priority::from_code)?,
        pool: texts.share(columns.text()?),
        action: columns.code("action", ActionKind::from_code)?,
        target: texts.share(columns.text()?),
        catch_up: catch_up(columns)?,
        overlap: columns.overlap()?,
        expect: Expectation {
            start_within_ms: columns.number_or_none()?,
            finish_within_ms: columns.number_or_none()?,
            success_every_ms: columns.number_or_none()?,
        },
        blackouts: match columns.text()? {
            "" => texts.no_blackouts.clone(),
            text => decode_blackouts(text).ok_or_else(|| Failure::corrupt("blackouts"))?,
        },
    })
}

/// A whole job.
pub(super) fn job(row: &Row, texts: &mut Texts) -> Done<Job> {
    let mut columns = Columns::of(row);
    let planned = planned(&mut columns, texts)?;
    let name = columns.next()?;
    let schedule = decode_schedule(columns.text()?).ok_or_else(|| Failure::corrupt("schedule"))?;
    let window =
        Window { starts_at: columns.instant_or_none()?, ends_at: planned.ends_at, max_fires: columns.small_or_none()? };
    Ok(Job {
        id: planned.id,
        tenant: planned.tenant,
        name,
        schedule,
        plan: planned.plan,
        window,
        spread_ms: planned.spread_ms,
        retry: columns.retry()?,
        timeout_ms: columns.number()?,
        priority: planned.priority,
        pool: planned.pool,
        catch_up: planned.catch_up,
        overlap: planned.overlap,
        expect: planned.expect,
        blackouts: planned.blackouts,
        target: planned.target,
        tags: decode_tags(columns.text()?),
        state: planned.state,
        version: planned.version,
        created_at: columns.instant()?,
        paused_until: columns.instant_or_none()?,
        updated_at: planned.updated_at,
        cursor: planned.cursor,
        action: ActionSpec { kind: planned.action, config: texts.share(columns.text()?) },
        payload: texts.share(columns.text()?),
    })
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
    })
}

/// A whole execution.
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

fn catch_up(columns: &mut Columns<'_>) -> Done<CatchUp> {
    let (code, n) = (columns.next::<i16>()?, columns.small()?);
    let mode = u8::try_from(code).ok().and_then(|code| catch_up_mode(code, n));
    let mode = mode.ok_or_else(|| Failure::corrupt("catch-up mode"))?;
    Ok(CatchUp { mode, max_age_ms: columns.number()?, drip_ms: columns.number()? })
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
