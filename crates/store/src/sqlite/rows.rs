//! Between rows and the words of the model. Columns are read in the order in which the `.sql` files select them.

use super::failure::{Done, Failure};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::{Attempt, AttemptError, AttemptOutcome, Execution, Reason, Response};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::job::{Blackout, Cursor, Job, JobState, Priority, Window};
use campanile_model::lifecycle::State;
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::Schedule;
use campanile_model::stats::{BUCKETS, Tally};
use campanile_model::store::PlannedJob;
use campanile_model::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::FromSql;
use std::collections::HashSet;
use std::sync::Arc;

/// Texts that many rows share (plans, pools, configs): each is allocated once per query.
#[derive(Default)]
pub(super) struct Texts {
    known: HashSet<Arc<str>>,
    /// The ones asked for last: neighbours mostly share theirs.
    last: [Option<Arc<str>>; 4],
    turn: usize,
    no_blackouts: Arc<[Blackout]>,
}

impl Texts {
    /// More different ones than this are not worth remembering.
    const COUNT_MAX: usize = 1_024;
    /// Longer ones are hardly shared, and cost to hash.
    const BYTES_MAX: usize = 256;

    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > Self::BYTES_MAX {
            return text.into();
        }
        if let Some(last) = self.last.iter().flatten().find(|last| ***last == *text) {
            return last.clone();
        }
        let shared = match self.known.get(text) {
            Some(known) => known.clone(),
            None => text.into(),
        };
        if self.known.len() < Self::COUNT_MAX {
            self.known.insert(shared.clone());
        }
        self.last[self.turn % self.last.len()] = Some(shared.clone());
        self.turn += 1;
        shared
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

    pub(super) fn back(&mut self, count: usize) -> &mut Self {
        self.at -= count;
        self
    }

    pub(super) fn text(&mut self) -> Done<&'r str> {
        self.at += 1;
        self.row.get_ref(self.at - 1)?.as_str().map_err(|_| Failure::corrupt("text"))
    }

    pub(super) fn text_or_none(&mut self) -> Done<Option<&'r str>> {
        self.at += 1;
        self.row.get_ref(self.at - 1)?.as_str_or_null().map_err(|_| Failure::corrupt("text"))
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
            total_timeout_ms: self.number_or_none()?,
        })
    }

    pub(super) fn number_or_none(&mut self) -> Done<Option<u64>> {
        Ok(self.next::<Option<i64>>()?.map(|number| number as u64))
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
        target: texts.share(columns.text()?),
        queued_at: None,
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
        deliveries: columns.next()?,
        losses: columns.next()?,
        attempts_from: columns.next()?,
        cancel_requested_at: columns.instant_or_none()?,
        note: columns.next()?,
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
        4 => CatchUpMode::Coalesced,
        _ => return Err(Failure::corrupt("catch-up mode")),
    };
    Ok(CatchUp { mode, max_age_ms: columns.number()?, drip_ms: columns.number()? })
}

/// The number of a catch-up mode and its count; never reused.
pub(super) fn catch_up_code(mode: CatchUpMode) -> (u8, u32) {
    match mode {
        CatchUpMode::None => (0, 0),
        CatchUpMode::Last => (1, 0),
        CatchUpMode::All => (2, 0),
        CatchUpMode::LastN(n) => (3, n),
        CatchUpMode::Coalesced => (4, 0),
    }
}

/// Ranges of milliseconds, a line each.
pub(super) fn encode_blackouts(blackouts: &[Blackout]) -> String {
    let lines: Vec<_> = blackouts.iter().map(|b| format!("{} {}", b.from.millis(), b.to.millis())).collect();
    lines.join("\n")
}

fn decode_blackouts(text: &str) -> Option<Arc<[Blackout]>> {
    let instant = |text: &str| text.parse().ok().map(Timestamp::from_millis);
    let range = |line: &str| {
        let (from, to) = line.split_once(' ')?;
        Some(Blackout { from: instant(from)?, to: instant(to)? })
    };
    text.lines().map(range).collect()
}

/// What a rollup counts, from column `at` on: five numbers and two histograms.
pub(super) fn tally(row: &Row<'_>, at: usize) -> rusqlite::Result<Tally> {
    let number = |i: usize| row.get::<_, i64>(at + i).map(|number| number as u64);
    let histogram = |i: usize| Ok::<_, rusqlite::Error>(decode_histogram(row.get_ref(at + i)?.as_blob()?));
    Ok(Tally {
        succeeded: number(0)?,
        failed: number(1)?,
        dead: number(2)?,
        cancelled: number(3)?,
        skipped: number(4)?,
        lateness: histogram(5)?,
        duration: histogram(6)?,
    })
}

/// The counts of a histogram, as a rollup stores them: 32 bits each, little-endian, without zeros at the end.
pub(super) fn encode_histogram(counts: &[u64; BUCKETS]) -> Vec<u8> {
    let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let narrow = |count: &u64| u32::try_from(*count).unwrap_or(u32::MAX).to_le_bytes();
    counts[..used].iter().flat_map(narrow).collect()
}

/// The same back.
pub(super) fn decode_histogram(bytes: &[u8]) -> [u64; BUCKETS] {
    let mut counts = [0; BUCKETS];
    for (count, bytes) in counts.iter_mut().zip(bytes.as_chunks().0) {
        *count = u64::from(u32::from_le_bytes(*bytes));
    }
    counts
}

/// Tags have no control characters, so a line each.
pub(super) fn encode_tags(tags: &[String]) -> String {
    tags.join("\n")
}

pub(super) fn decode_tags(text: &str) -> Vec<String> {
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
    fn blackouts_and_histograms_come_back_as_they_were_written() {
        let blackout = |from, to| Blackout { from: Timestamp::from_millis(from), to: Timestamp::from_millis(to) };
        for blackouts in [vec![blackout(0, 1)], vec![blackout(-5, i64::MAX), blackout(7, 9)]] {
            assert_eq!(decode_blackouts(&encode_blackouts(&blackouts)).as_deref(), Some(&blackouts[..]));
        }
        assert_eq!(encode_blackouts(&[]), "");
        for text in ["1", "1 x", "1 2 3"] {
            assert_eq!(decode_blackouts(text), None, "{text}");
        }
        let mut counts = [0; BUCKETS];
        assert_eq!(encode_histogram(&counts), [0u8; 0]);
        (counts[0], counts[7]) = (3, 1 << 20);
        assert_eq!(encode_histogram(&counts).len(), 32);
        assert_eq!(decode_histogram(&encode_histogram(&counts)), counts);
        counts[BUCKETS - 1] = u64::MAX;
        assert_eq!(decode_histogram(&encode_histogram(&counts))[BUCKETS - 1], u64::from(u32::MAX));
    }

    #[test]
    fn tags_come_back_in_their_order() {
        for tags in [vec![], vec!["a".to_owned()], vec!["b c".to_owned(), "a".to_owned()]] {
            assert_eq!(decode_tags(&encode_tags(&tags)), tags);
        }
    }
}
