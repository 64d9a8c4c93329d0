//! Writing a working set back: what a batch has changed, by one statement per table, and per shape of change.

use super::effects;
use super::progress;
use super::rows::storable;
use crate::core::overlap::Runs;
use crate::core::record::{KeptAttempt, Record, Shape};
use crate::core::set::WorkingSet;
use campanile_model::error::{Error, Kind};
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason, Response};
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::store::{Verdicts, Waiting};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Tx, Uuid};
use futures_util::try_join;
use std::borrow::Cow;

/// Writes what has changed, and answers with the verdicts.
pub(super) async fn write<V>(tx: &Tx<'_>, set: WorkingSet<'_>, verdicts: Vec<V>) -> Done<Verdicts<V>> {
    let ready = write_set(tx, set).await?;
    Ok(Verdicts { verdicts, ready })
}

/// Writes what has changed; answers with those that wait from now on.
pub(super) async fn write_set(tx: &Tx<'_>, mut set: WorkingSet<'_>) -> Done<Vec<Waiting>> {
    let ready = std::mem::take(&mut set.ready);
    let changed = set.changed();
    let of = |shape| changed.iter().copied().filter(|r| r.changed == Some(shape)).collect::<Vec<&Record>>();
    let tenant = |id: &ExecutionId| i64::from(set.tenant(*id));
    lock_free(tx, &changed).await?;
    try_join!(
        write_started(tx, of(Shape::Started)),
        write_ended(tx, of(Shape::Ended)),
        write_instant(tx, of(Shape::Instant)),
        write_deferred(tx, of(Shape::Deferred)),
        write_whole(tx, of(Shape::Whole)),
        write_attempts(tx, &set.attempts),
        write_responses(tx, &set.responses, tenant),
        write_runs(tx, &set.runs),
        progress::write(tx, &set.reports),
        effects::write(tx, &set.effects),
    )?;
    // Groups come last: whoever has one waits for nothing else.
    effects::write_groups(tx, &set.effects).await?;
    Ok(ready)
}

/// Locks rows that were read without a lock, where several statements write them: each would lock its own in the order of their
/// ids, and not all of them in one order, so that two batches could wait for each other.
async fn lock_free(tx: &Tx<'_>, changed: &[&Record]) -> Done<()> {
    let is_free = |record: &&Record| record.seen.is_some();
    let first = changed.iter().find(|record| is_free(record)).and_then(|record| record.changed);
    if changed.iter().all(|record| record.changed.is_none() || record.changed == first || !is_free(record)) {
        return Ok(());
    }
    let free: Vec<&Record> =
        changed.iter().copied().filter(|record| record.changed.is_some() && is_free(record)).collect();
    let Some((first, last)) = bounds(&free) else { return Ok(()) };
    let (ids, seen) = (column(&free, |r| Uuid::from(r.of.id)), column(&free, |r| r.seen));
    let rows = tx.query(include_str!("sql/executions/lock_seen.sql"), &[&first, &last, &ids, &seen]).await?;
    expect(rows.first().map_or(0, |row| row.get::<_, i64>(0)) as u64, &free)
}

/// Writes who came and who left.
async fn write_runs(tx: &Tx<'_>, runs: &Runs) -> Done<()> {
    type Run = (JobId, ExecutionId, Option<bool>);
    let (came, left): (Vec<Run>, Vec<Run>) = runs.changed().partition(|(.., started)| started.is_some());
    let job = |(job, ..): &Run| Uuid::from(*job);
    let execution = |(_, execution, _): &Run| Uuid::from(*execution);
    let leave = async {
        if !left.is_empty() {
            let key = (column(&left, job), column(&left, execution));
            tx.execute(include_str!("sql/overlaps/leave.sql"), &[&key.0, &key.1]).await?;
        }
        Done::Ok(())
    };
    let enter = async {
        if !came.is_empty() {
            let started = column(&came, |(.., started)| started.unwrap_or_default());
            let key = (column(&came, job), column(&came, execution));
            tx.execute(include_str!("sql/overlaps/enter.sql"), &[&key.0, &key.1, &started]).await?;
        }
        Done::Ok(())
    };
    try_join!(leave, enter)?;
    Ok(())
}

fn error_kind(record: &Record) -> Option<Cow<'_, str>> {
    record.error.as_ref().map(|error| storable(&error.kind))
}

fn error_message(record: &Record) -> Option<Cow<'_, str>> {
    record.error.as_ref().map(|error| storable(&error.message))
}

fn worker(record: &Record) -> Option<Cow<'_, str>> {
    record.worker.as_deref().map(storable)
}

/// A column of what is written: one value per row.
pub(super) fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// An instant as it is stored.
pub(super) fn ms(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::millis)
}

fn code(reason: Option<Reason>) -> Option<i16> {
    reason.map(|reason| i16::from(reason.code()))
}

fn outcome(outcome: Option<AttemptOutcome>) -> Option<i16> {
    outcome.map(|outcome| i16::from(outcome.code()))
}

/// The code of the error that means: a row that was read without a lock has changed since.
const ROWS_CHANGED: &str = "rows_changed";

/// Whether nothing was written because somebody else has written one of the rows meanwhile.
pub(super) fn is_changed(error: &Error) -> bool {
    error.code() == ROWS_CHANGED
}

/// Rows that are locked are all there; others may have changed since they were read.
fn expect(written: u64, rows: &[&Record]) -> Done<()> {
    if written == rows.len() as u64 {
        return Ok(());
    }
    let message = format!("wrote {written} of {} executions", rows.len());
    Err(match rows.iter().any(|record| record.seen.is_some()) {
        true => Error::new(Kind::Conflict, message).with_code(ROWS_CHANGED).into(),
        false => Error::new(Kind::Bug, message).into(),
    })
}

/// The bounds of rows that are in the order of their ids.
fn bounds(rows: &[&Record]) -> Option<(Uuid, Uuid)> {
    Some((rows.first()?.of.id.into(), rows.last()?.of.id.into()))
}

async fn write_started(tx: &Tx<'_>, rows: Vec<&Record>) -> Done<()> {
    let Some((first, last)) = bounds(&rows) else { return Ok(()) };
    let written = tx
        .execute(
            include_str!("sql/attempts/claim.sql"),
            &[
                &first,
                &last,
                &column(&rows, |r| Uuid::from(r.of.id)),
                &column(&rows, |r| i16::from(r.state.code())),
                &column(&rows, |r| i64::from(r.attempt)),
                &column(&rows, |r| r.fence as i64),
                &column(&rows, |r| worker(r)),
                &column(&rows, |r| ms(r.started_at)),
                &column(&rows, |r| r.wake_at.millis()),
                &column(&rows, |r| ms(r.queued_at)),
                &column(&rows, |r| ms(r.of.first_started_at)),
                &column(&rows, |r| i64::from(r.deliveries)),
                &column(&rows, |r| r.seen),
            ],
        )
        .await?;
    expect(written, &rows)
}

async fn write_ended(tx: &Tx<'_>, rows: Vec<&Record>) -> Done<()> {
    let Some((first, last)) = bounds(&rows) else { return Ok(()) };
    let written = tx
        .execute(
            include_str!("sql/attempts/complete.sql"),
            &[
                &first,
                &last,
                &column(&rows, |r| Uuid::from(r.of.id)),
                &column(&rows, |r| i16::from(r.state.code())),
                &column(&rows, |r| code(r.reason)),
                &column(&rows, |r| i64::from(r.attempt)),
                &column(&rows, |r| r.wake_at.millis()),
                &column(&rows, |r| ms(r.started_at)),
                &column(&rows, |r| ms(r.finished_at)),
                &column(&rows, |r| outcome(r.outcome)),
                &column(&rows, |r| error_kind(r)),
                &column(&rows, |r| error_message(r)),
                &column(&rows, |r| i64::from(r.losses)),
                &column(&rows, |r| r.fingerprint.map(|fingerprint| fingerprint as i64)),
                &column(&rows, |r| r.response.as_ref().map(|response| i64::from(response.status))),
                &column(&rows, |r| r.response.as_ref().map(|response| &*response.body)),
                &column(&rows, |r| r.seen),
            ],
        )
        .await?;
    expect(written, &rows)
}

async fn write_instant(tx: &Tx<'_>, rows: Vec<&Record>) -> Done<()> {
    let Some((first, last)) = bounds(&rows) else { return Ok(()) };
    let written = tx
        .execute(
            include_str!("sql/attempts/complete_unclaimed.sql"),
            &[
                &first,
                &last,
                &column(&rows, |r| Uuid::from(r.of.id)),
                &column(&rows, |r| i16::from(r.state.code())),
                &column(&rows, |r| i64::from(r.attempt)),
                &column(&rows, |r| r.fence as i64),
                &column(&rows, |r| worker(r)),
                &column(&rows, |r| ms(r.started_at)),
                &column(&rows, |r| ms(r.finished_at)),
                &column(&rows, |r| outcome(r.outcome)),
                &column(&rows, |r| code(r.reason)),
                &column(&rows, |r| ms(r.claimed_at)),
                &column(&rows, |r| ms(r.queued_at)),
                &column(&rows, |r| ms(r.of.first_started_at)),
                &column(&rows, |r| i64::from(r.deliveries)),
                &column(&rows, |r| r.seen),
            ],
        )
        .await?;
    expect(written, &rows)
}

async fn write_deferred(tx: &Tx<'_>, rows: Vec<&Record>) -> Done<()> {
    let Some((first, last)) = bounds(&rows) else { return Ok(()) };
    let written = tx
        .execute(
            include_str!("sql/executions/defer.sql"),
            &[
                &first,
                &last,
                &column(&rows, |r| Uuid::from(r.of.id)),
                &column(&rows, |r| r.wake_at.millis()),
                &column(&rows, |r| code(r.reason)),
                &column(&rows, |r| r.seen),
            ],
        )
        .await?;
    expect(written, &rows)
}

async fn write_whole(tx: &Tx<'_>, rows: Vec<&Record>) -> Done<()> {
    let Some((first, last)) = bounds(&rows) else { return Ok(()) };
    let written = tx
        .execute(
            include_str!("sql/executions/write.sql"),
            &[
                &first,
                &last,
                &column(&rows, |r| Uuid::from(r.of.id)),
                &column(&rows, |r| i64::from(r.job_version)),
                &column(&rows, |r| i16::from(r.state.code())),
                &column(&rows, |r| code(r.reason)),
                &column(&rows, |r| i64::from(r.attempt)),
                &column(&rows, |r| r.fence as i64),
                &column(&rows, |r| i16::from(r.priority.code())),
                &column(&rows, |r| &*r.of.pool),
                &column(&rows, |r| i16::from(r.action.code())),
                &column(&rows, |r| r.wake_at.millis()),
                &column(&rows, |r| r.fired_at.millis()),
                &column(&rows, |r| ms(r.started_at)),
                &column(&rows, |r| ms(r.finished_at)),
                &column(&rows, |r| worker(r)),
                &column(&rows, |r| outcome(r.outcome)),
                &column(&rows, |r| error_kind(r)),
                &column(&rows, |r| error_message(r)),
                &column(&rows, |r| &*r.of.target),
                &column(&rows, |r| i16::from(r.of.overlap.code())),
                &column(&rows, |r| ms(r.covers_from)),
                &column(&rows, |r| ms(r.queued_at)),
                &column(&rows, |r| ms(r.claimed_at)),
                &column(&rows, |r| ms(r.of.first_started_at)),
                &column(&rows, |r| r.fingerprint.map(|fingerprint| fingerprint as i64)),
                &column(&rows, |r| i64::from(r.deliveries)),
                &column(&rows, |r| i64::from(r.losses)),
                &column(&rows, |r| i64::from(r.attempts_from)),
                &column(&rows, |r| ms(r.cancel_requested_at)),
                &column(&rows, |r| code(r.cancel_reason)),
                &column(&rows, |r| r.note.as_deref().map(storable)),
                &column(&rows, |r| i16::from(r.of.watched)),
                &column(&rows, |r| r.seen),
            ],
        )
        .await?;
    expect(written, &rows)
}

async fn write_attempts(tx: &Tx<'_>, attempts: &[KeptAttempt]) -> Done<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    let error = |of: fn(&AttemptError) -> &String| {
        move |a: &'_ KeptAttempt| a.error.as_ref().map(|error| storable(of(error)).into_owned())
    };
    tx.execute(
        include_str!("sql/attempts/insert.sql"),
        &[
            &column(attempts, |a| Uuid::from(a.execution)),
            &column(attempts, |a| a.fence as i64),
            &column(attempts, |a| i64::from(a.tenant)),
            &column(attempts, |a| i64::from(a.attempt)),
            &column(attempts, |a| a.worker.as_deref().map(storable)),
            &column(attempts, |a| a.started_at.millis()),
            &column(attempts, |a| a.finished_at.millis()),
            &column(attempts, |a| i16::from(a.outcome.code())),
            &column(attempts, error(|error| &error.kind)),
            &column(attempts, error(|error| &error.message)),
        ],
    )
    .await?;
    Ok(())
}

async fn write_responses(
    tx: &Tx<'_>,
    responses: &[(ExecutionId, u64, &Response)],
    tenant: impl Fn(&ExecutionId) -> i64,
) -> Done<()> {
    if responses.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/attempts/put_responses.sql"),
        &[
            &column(responses, |(id, ..)| Uuid::from(*id)),
            &column(responses, |(_, fence, _)| *fence as i64),
            &column(responses, |(id, ..)| tenant(id)),
            &column(responses, |(.., response)| i64::from(response.status)),
            &column(responses, |(.., response)| response.truncated),
            &column(responses, |(.., response)| &*response.body),
        ],
    )
    .await?;
    Ok(())
}
