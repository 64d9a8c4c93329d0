//! Writing a working set back: what a batch has changed, a statement per row, in the order of ids.

use super::cache;
use super::dead;
use super::failure::{Done, expect_one};
use super::outbox;
use super::rows;
use super::watches;
use crate::core::effects::Effects;
use crate::core::overlap::Runs;
use crate::core::record::{KeptAttempt, Record, Shape};
use crate::core::reports::Reports;
use crate::core::set::WorkingSet;
use crate::core::sums::Key;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::stats::Tally;
use campanile_model::store::{Verdicts, Waiting};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

/// Writes what has changed, and answers with the verdicts.
pub(super) fn write<V>(connection: &Connection, set: WorkingSet<'_>, verdicts: Vec<V>) -> Done<Verdicts<V>> {
    let ready = write_set(connection, set)?;
    Ok(Verdicts { verdicts, ready })
}

/// Writes what has changed; answers with those that wait from now on.
pub(super) fn write_set(connection: &Connection, mut set: WorkingSet<'_>) -> Done<Vec<Waiting>> {
    write_records(connection, &set.changed())?;
    write_attempts(connection, &set.attempts)?;
    write_responses(connection, &set)?;
    write_runs(connection, &set.runs)?;
    write_reports(connection, &set.reports)?;
    write_effects(connection, &set.effects)?;
    cache::put(set.take_records());
    Ok(set.ready)
}

fn write_records(connection: &Connection, changed: &[&Record]) -> Done<()> {
    let mut statements: [Option<CachedStatement<'_>>; 5] = Default::default();
    for record in changed {
        let Some(shape) = record.changed else { continue };
        let (sql, bind): (&str, Bind) = match shape {
            Shape::Started => (include_str!("sql/attempts/claim.sql"), bind_started),
            Shape::Ended => (include_str!("sql/attempts/complete.sql"), bind_ended),
            Shape::Instant => (include_str!("sql/attempts/complete_unclaimed.sql"), bind_instant),
            Shape::Deferred => (include_str!("sql/executions/defer.sql"), bind_deferred),
            Shape::Whole => (include_str!("sql/executions/write.sql"), bind_whole),
        };
        let statement = match &mut statements[shape as usize] {
            Some(statement) => statement,
            none => none.insert(connection.prepare_cached(sql)?),
        };
        statement.raw_bind_parameter(1, record.of.id.as_bytes())?;
        // A guard that holds unless there is a mistake: the record is what was loaded.
        statement.raw_bind_parameter(2, record.stored.0.code())?;
        statement.raw_bind_parameter(3, record.stored.1 as i64)?;
        statement.raw_bind_parameter(4, record.state.code())?;
        bind(statement, record)?;
        expect_one(statement.raw_execute()?, record.of.id)?;
    }
    Ok(())
}

/// Binds the parameters from the fifth on.
type Bind = fn(&mut CachedStatement<'_>, &Record) -> rusqlite::Result<()>;

fn ms(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::millis)
}

fn bind_started(s: &mut CachedStatement<'_>, record: &Record) -> rusqlite::Result<()> {
    s.raw_bind_parameter(5, record.attempt)?;
    s.raw_bind_parameter(6, record.fence as i64)?;
    s.raw_bind_parameter(7, record.worker.as_deref())?;
    s.raw_bind_parameter(8, ms(record.started_at))?;
    s.raw_bind_parameter(9, record.wake_at.millis())?;
    s.raw_bind_parameter(10, ms(record.queued_at))?;
    s.raw_bind_parameter(11, ms(record.of.first_started_at))?;
    s.raw_bind_parameter(12, record.deliveries)
}

fn bind_ended(s: &mut CachedStatement<'_>, record: &Record) -> rusqlite::Result<()> {
    s.raw_bind_parameter(5, record.reason.map(Reason::code))?;
    s.raw_bind_parameter(6, record.attempt)?;
    s.raw_bind_parameter(7, record.wake_at.millis())?;
    s.raw_bind_parameter(8, ms(record.started_at))?;
    s.raw_bind_parameter(9, ms(record.finished_at))?;
    s.raw_bind_parameter(10, record.outcome.map(AttemptOutcome::code))?;
    s.raw_bind_parameter(11, record.error.as_ref().map(|error| &*error.kind))?;
    s.raw_bind_parameter(12, record.error.as_ref().map(|error| &*error.message))?;
    s.raw_bind_parameter(13, record.losses)?;
    s.raw_bind_parameter(14, record.fingerprint.map(|fingerprint| fingerprint as i64))?;
    s.raw_bind_parameter(15, record.response.as_ref().map(|response| response.status))?;
    s.raw_bind_parameter(16, record.response.as_ref().map(|response| &*response.body))
}

fn bind_instant(s: &mut CachedStatement<'_>, record: &Record) -> rusqlite::Result<()> {
    s.raw_bind_parameter(5, record.attempt)?;
    s.raw_bind_parameter(6, record.fence as i64)?;
    s.raw_bind_parameter(7, record.worker.as_deref())?;
    s.raw_bind_parameter(8, ms(record.started_at))?;
    s.raw_bind_parameter(9, ms(record.finished_at))?;
    s.raw_bind_parameter(10, record.outcome.map(AttemptOutcome::code))?;
    s.raw_bind_parameter(11, record.reason.map(Reason::code))?;
    s.raw_bind_parameter(12, ms(record.claimed_at))?;
    s.raw_bind_parameter(13, ms(record.queued_at))?;
    s.raw_bind_parameter(14, ms(record.of.first_started_at))?;
    s.raw_bind_parameter(15, record.deliveries)
}

fn bind_deferred(s: &mut CachedStatement<'_>, record: &Record) -> rusqlite::Result<()> {
    s.raw_bind_parameter(5, record.wake_at.millis())?;
    s.raw_bind_parameter(6, record.reason.map(Reason::code))
}

fn bind_whole(s: &mut CachedStatement<'_>, record: &Record) -> rusqlite::Result<()> {
    s.raw_bind_parameter(5, record.job_version)?;
    s.raw_bind_parameter(6, record.reason.map(Reason::code))?;
    s.raw_bind_parameter(7, record.attempt)?;
    s.raw_bind_parameter(8, record.fence as i64)?;
    s.raw_bind_parameter(9, record.priority.code())?;
    s.raw_bind_parameter(10, &*record.of.pool)?;
    s.raw_bind_parameter(11, record.action.code())?;
    s.raw_bind_parameter(12, record.wake_at.millis())?;
    s.raw_bind_parameter(13, record.fired_at.millis())?;
    s.raw_bind_parameter(14, ms(record.started_at))?;
    s.raw_bind_parameter(15, ms(record.finished_at))?;
    s.raw_bind_parameter(16, record.worker.as_deref())?;
    s.raw_bind_parameter(17, record.outcome.map(AttemptOutcome::code))?;
    s.raw_bind_parameter(18, record.error.as_ref().map(|error| &*error.kind))?;
    s.raw_bind_parameter(19, record.error.as_ref().map(|error| &*error.message))?;
    s.raw_bind_parameter(20, &*record.of.target)?;
    s.raw_bind_parameter(21, record.of.overlap.code())?;
    s.raw_bind_parameter(22, ms(record.covers_from))?;
    s.raw_bind_parameter(23, ms(record.queued_at))?;
    s.raw_bind_parameter(24, ms(record.claimed_at))?;
    s.raw_bind_parameter(25, ms(record.of.first_started_at))?;
    s.raw_bind_parameter(26, record.fingerprint.map(|fingerprint| fingerprint as i64))?;
    s.raw_bind_parameter(27, record.deliveries)?;
    s.raw_bind_parameter(28, record.losses)?;
    s.raw_bind_parameter(29, record.attempts_from)?;
    s.raw_bind_parameter(30, ms(record.cancel_requested_at))?;
    s.raw_bind_parameter(31, record.cancel_reason.map(Reason::code))?;
    s.raw_bind_parameter(32, record.note.as_deref())?;
    s.raw_bind_parameter(33, record.of.watched)
}

fn write_attempts(connection: &Connection, attempts: &[KeptAttempt]) -> Done<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    let mut insert = connection.prepare_cached(include_str!("sql/attempts/insert.sql"))?;
    for attempt in attempts {
        insert.execute(params![
            attempt.execution.as_bytes(),
            attempt.fence as i64,
            attempt.tenant,
            attempt.attempt,
            attempt.worker.as_deref(),
            attempt.started_at.millis(),
            attempt.finished_at.millis(),
            attempt.outcome.code(),
            attempt.error.as_ref().map(|error| &*error.kind),
            attempt.error.as_ref().map(|error| &*error.message),
        ])?;
    }
    Ok(())
}

fn write_responses(connection: &Connection, set: &WorkingSet<'_>) -> Done<()> {
    if set.responses.is_empty() {
        return Ok(());
    }
    let mut put = connection.prepare_cached(include_str!("sql/attempts/put_response.sql"))?;
    for (execution, fence, response) in &set.responses {
        put.execute(params![
            execution.as_bytes(),
            *fence as i64,
            set.tenant(*execution),
            response.status,
            response.truncated,
            response.body,
        ])?;
    }
    Ok(())
}

/// Writes who came and who left.
fn write_runs(connection: &Connection, runs: &Runs) -> Done<()> {
    for (job, execution, started) in runs.changed() {
        match started {
            Some(started) => connection.prepare_cached(include_str!("sql/overlaps/enter.sql"))?.execute(params![
                job.as_bytes(),
                execution.as_bytes(),
                started
            ])?,
            None => connection
                .prepare_cached(include_str!("sql/overlaps/leave.sql"))?
                .execute(params![job.as_bytes(), execution.as_bytes()])?,
        };
    }
    Ok(())
}

fn write_reports(connection: &Connection, reports: &Reports<'_>) -> Done<()> {
    for (execution, (fence, progress)) in &reports.progress {
        connection.prepare_cached(include_str!("sql/progress/put.sql"))?.execute(params![
            execution.as_bytes(),
            *fence as i64,
            progress.fraction,
            progress.message,
            progress.checkpoint.as_deref(),
            progress.at.millis(),
        ])?;
    }
    for logged in &reports.logs {
        let line = logged.line;
        connection.prepare_cached(include_str!("sql/logs/insert.sql"))?.execute(params![
            logged.execution.as_bytes(),
            logged.seq,
            logged.fence as i64,
            line.at.millis(),
            line.level,
            line.message,
        ])?;
    }
    Ok(())
}

/// Writes what follows from changes of state.
pub(super) fn write_effects(connection: &Connection, effects: &Effects) -> Done<()> {
    watches::write(connection, &effects.watches)?;
    outbox::write(connection, &effects.outbox)?;
    let mut add = connection.prepare_cached(include_str!("sql/counts/add.sql"))?;
    for (tenant, pool, state, change) in effects.sums.counts() {
        add.execute(params![tenant.0, &**pool, state.code(), change])?;
    }
    add_to_rollups(connection, effects.sums.rollups())?;
    for ((tenant, fingerprint), grown) in &effects.sums.dead {
        dead::grow(connection, *tenant, *fingerprint, grown)?;
    }
    for (tenant, fingerprint, id) in &effects.risen {
        dead::shrink(connection, *tenant, *fingerprint, *id)?;
    }
    Ok(())
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
