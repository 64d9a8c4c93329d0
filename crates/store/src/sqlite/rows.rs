//! Between rows and the words of the model. Columns are read in the order in which the `.sql` files select them.

use super::failure::{Done, Failure};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::{Attempt, AttemptError, AttemptOutcome, Execution, Reason, Response};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::job::{Cursor, Job, JobState, Priority, Window};
use campanile_model::lifecycle::State;
use campanile_model::queue::Dispatch;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::Schedule;
use campanile_model::store::PlannedJob;
use campanile_model::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::FromSql;
use std::collections::HashSet;
use std::sync::Arc;

/// Texts that many rows share (plans, pools, configs): each is allocated once per query.
#[derive(Default)]
pub(super) struct Texts(HashSet<Arc<str>>);

impl Texts {
    /// More different ones than this are not worth remembering.
    const COUNT_MAX: usize = 1_024;
    /// Longer ones are hardly shared, and cost to hash.
    const BYTES_MAX: usize = 256;

    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > Self::BYTES_MAX {
            return text.into();
        }
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        if self.0.len() < Self::COUNT_MAX {
            self.0.insert(new.clone());
        }
        new
    }
}

/// The columns of a row, from left to right.
pub(super) struct Columns<'r, 's> {
    row: &'r Row<'s>,
    at: usize,
}

impl<'r, 's> Columns<'r, 's> {
    pub(super) fn of(row: &'r Row<'s>) -> Self {
        Self { row, at: 0 }
    }

    pub(super) fn next<T: FromSql>(&mut self) -> Done<T> {
        self.at += 1;
        Ok(self.row.get(self.at - 1)?)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    pub(super) fn text(&mut self) -> Done<&'r str> {
        self.at += 1;
        self.row.get_ref(self.at - 1)?.as_str().map_err(|_| Failure::corrupt("text"))
    }

    pub(super) fn number(&mut self) -> Done<u64> {
        Ok(self.next::<i64>()? as u64)
    }

    pub(super) fn instant(&mut self) -> Done<Timestamp> {
        Ok(Timestamp::from_millis(self.next()?))
    }

    pub(super) fn instant_or_none(&mut self) -> Done<Option<Timestamp>> {
        Ok(self.next::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(super) fn tenant(&mut self) -> Done<TenantId> {
        Ok(TenantId(self.next()?))
    }

    pub(super) fn job_id(&mut self) -> Done<JobId> {
        Ok(JobId::from_bytes(self.next()?))
    }

    pub(super) fn execution_id(&mut self) -> Done<ExecutionId> {
        Ok(ExecutionId::from_bytes(self.next()?))
    }

    pub(super) fn code<T>(&mut self, what: &str, from_code: fn(u8) -> Option<T>) -> Done<T> {
        from_code(self.next()?).ok_or_else(|| Failure::corrupt(what))
    }

    pub(super) fn code_or_none<T>(&mut self, what: &str, from_code: fn(u8) -> Option<T>) -> Done<Option<T>> {
        match self.next::<Option<u8>>()? {
            None => Ok(None),
            Some(code) => from_code(code).map(Some).ok_or_else(|| Failure::corrupt(what)),
        }
    }

    pub(super) fn state(&mut self) -> Done<State> {
        self.code("state", State::from_code)
    }

    pub(super) fn retry(&mut self) -> Done<RetryPolicy> {
        Ok(RetryPolicy {
            max_attempts: self.next()?,
            backoff: self.code("backoff", Backoff::from_code)?,
            initial_delay_ms: self.number()?,
            max_delay_ms: self.number()?,
        })
    }

    fn error(&mut self) -> Done<Option<AttemptError>> {
        let kind: Option<String> = self.next()?;
        let message: Option<String> = self.next()?;
        Ok(kind.map(|kind| AttemptError { kind, message: message.unwrap_or_default() }))
    }
}

/// The columns that the wheel needs; the first sixteen of every query for jobs.
pub(super) fn planned(columns: &mut Columns<'_, '_>, texts: &mut Texts) -> Done<PlannedJob> {
    Ok(PlannedJob {
        id: columns.job_id()?,
        tenant: columns.tenant()?,
        version: columns.next()?,
        state: columns.code("job state", JobState::from_code)?,
        updated_at: columns.instant()?,
        plan: texts.share(columns.text()?),
        cursor: Cursor { next_fire_at: columns.instant_or_none()?, fires_left: columns.next()? },
        ends_at: columns.instant_or_none()?,
        spread_ms: columns.number()?,
        priority: columns.code("priority", Priority::from_code)?,
        pool: texts.share(columns.text()?),
        action: columns.code("action", ActionKind::from_code)?,
        catch_up: catch_up(columns)?,
    })
}

/// A whole job.
pub(super) fn job(row: &Row<'_>, texts: &mut Texts) -> Done<Job> {
    let mut columns = Columns::of(row);
    let planned = planned(&mut columns, texts)?;
    let name = columns.next()?;
    let schedule = decode_schedule(columns.text()?).ok_or_else(|| Failure::corrupt("schedule"))?;
    let window = Window { starts_at: columns.instant_or_none()?, ends_at: planned.ends_at, max_fires: columns.next()? };
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
        tags: decode_tags(columns.text()?),
        state: planned.state,
        version: planned.version,
        created_at: columns.instant()?,
        updated_at: planned.updated_at,
        cursor: planned.cursor,
        action: ActionSpec { kind: planned.action, config: texts.share(columns.text()?) },
        payload: texts.share(columns.text()?),
    })
}

/// An execution as it is dispatched.
pub(super) fn dispatch(columns: &mut Columns<'_, '_>, texts: &mut Texts) -> Done<Dispatch> {
    Ok(Dispatch {
        execution: columns.execution_id()?,
        job: columns.job_id()?,
        fire_at: columns.instant()?,
        pool: texts.share(columns.text()?),
        tenant: columns.tenant()?,
        job_version: columns.next()?,
        attempt: columns.next()?,
        priority: columns.code("priority", Priority::from_code)?,
        action: columns.code("action", ActionKind::from_code)?,
    })
}

/// A whole execution.
pub(super) fn execution(row: &Row<'_>, texts: &mut Texts) -> Done<Execution> {
    let mut columns = Columns::of(row);
    Ok(Execution {
        id: columns.execution_id()?,
        tenant: columns.tenant()?,
        job: columns.job_id()?,
        job_name: columns.next()?,
        job_version: columns.next()?,
        fire_at: columns.instant()?,
        kind: columns.code("fire kind", FireKind::from_code)?,
        state: columns.state()?,
        reason: columns.code_or_none("reason", Reason::from_code)?,
        attempt: columns.next()?,
        fence: columns.number()?,
        priority: columns.code("priority", Priority::from_code)?,
        pool: texts.share(columns.text()?),
        action: columns.code("action", ActionKind::from_code)?,
        wake_at: columns.instant()?,
        fired_at: columns.instant()?,
        started_at: columns.instant_or_none()?,
        finished_at: columns.instant_or_none()?,
        worker: columns.next()?,
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        error: columns.error()?,
    })
}

/// An attempt and its response.
pub(super) fn attempt(row: &Row<'_>) -> Done<Attempt> {
    let mut columns = Columns::of(row);
    Ok(Attempt {
        number: columns.next()?,
        fence: columns.number()?,
        worker: columns.next()?,
        started_at: columns.instant()?,
        finished_at: columns.instant_or_none()?,
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        error: columns.error()?,
        response: match columns.next()? {
            None => None,
            Some(status) => Some(Response { status, body: columns.next()?, truncated: columns.next()? }),
        },
    })
}

fn catch_up(columns: &mut Columns<'_, '_>) -> Done<CatchUp> {
    let (mode, n): (u8, u32) = (columns.next()?, columns.next()?);
    let mode = match mode {
        0 => CatchUpMode::None,
        1 => CatchUpMode::Last,
        2 => CatchUpMode::All,
        3 => CatchUpMode::LastN(n),
        _ => return Err(Failure::corrupt("catch-up mode")),
    };
    Ok(CatchUp { mode, max_age_ms: columns.number()? })
}

/// The number of a catch-up mode and its count; never reused.
pub(super) fn catch_up_code(mode: CatchUpMode) -> (u8, u32) {
    match mode {
        CatchUpMode::None => (0, 0),
        CatchUpMode::Last => (1, 0),
        CatchUpMode::All => (2, 0),
        CatchUpMode::LastN(n) => (3, n),
    }
}

/// Tags have no control characters, so a line each.
pub(super) fn encode_tags(tags: &[String]) -> String {
    tags.join("\n")
}

fn decode_tags(text: &str) -> Vec<String> {
    text.split('\n').filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

/// What the user wrote, on one line: the kind, then its fields; the expression is last because it may contain anything.
pub(super) fn encode_schedule(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Cron { expression, zone, dst_gap, dst_fold } => {
            format!("cron {} {} {zone} {expression}", dst_gap.as_str(), dst_fold.as_str())
        }
        Schedule::Every { every_ms, phase_ms } => format!("every {every_ms} {phase_ms}"),
        Schedule::At { at } => format!("at {}", at.millis()),
        Schedule::After { delay_ms } => format!("after {delay_ms}"),
        Schedule::None => "none".into(),
    }
}

fn decode_schedule(text: &str) -> Option<Schedule> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match kind {
        "cron" => {
            let mut fields = rest.splitn(4, ' ');
            Schedule::Cron {
                dst_gap: fields.next()?.parse().ok()?,
                dst_fold: fields.next()?.parse().ok()?,
                zone: fields.next()?.into(),
                expression: fields.next()?.into(),
            }
        }
        "every" => {
            let (every, phase) = rest.split_once(' ')?;
            Schedule::Every { every_ms: every.parse().ok()?, phase_ms: phase.parse().ok()? }
        }
        "at" => Schedule::At { at: Timestamp::from_millis(rest.parse().ok()?) },
        "after" => Schedule::After { delay_ms: rest.parse().ok()? },
        "none" => Schedule::None,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::schedule::{DstFold, DstGap};

    #[test]
    fn schedules_come_back_as_they_were_written() {
        let schedules = [
            Schedule::Cron {
                expression: "  0 3 * *\t* ".into(),
                zone: "Europe/Berlin".into(),
                dst_gap: DstGap::Shift,
                dst_fold: DstFold::Both,
            },
            Schedule::Cron {
                expression: String::new(),
                zone: String::new(),
                dst_gap: DstGap::NextValid,
                dst_fold: DstFold::First,
            },
            Schedule::Every { every_ms: 1_000, phase_ms: 7 },
            Schedule::At { at: Timestamp::from_millis(-5) },
            Schedule::After { delay_ms: u64::MAX },
            Schedule::None,
        ];
        for schedule in schedules {
            assert_eq!(decode_schedule(&encode_schedule(&schedule)), Some(schedule));
        }
        for text in ["", "cron", "cron a b c", "every 1", "at x", "weekly"] {
            assert_eq!(decode_schedule(text), None, "{text}");
        }
    }

    #[test]
    fn tags_come_back_in_their_order() {
        for tags in [vec![], vec!["a".to_owned()], vec!["b c".to_owned(), "a".to_owned()]] {
            assert_eq!(decode_tags(&encode_tags(&tags)), tags);
        }
    }
}
