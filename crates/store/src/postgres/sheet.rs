//! Everything a batch is about, in memory: locked and read at its start, judged and changed by the verbs in the order
//! of the batch, written at its end by one statement per table.
//!
//! # The order of locks
//! Rows of executions whose runs may overlap, in the order of their ids; then jobs whose runs may not, by an advisory
//! lock each, in the order of their keys; then the rows of those runs, the batch's and whoever else stands in line, in
//! the order of their ids; then limits of pools, watches, jobs that fail, and groups of dead executions. Everybody who
//! changes executions comes through here, so nobody waits for somebody who waits for him. Where an execution changes
//! sides meanwhile, because a newer version of its job has another policy, two may meet all the same: PostgreSQL ends
//! one of them, and that one is tried again.

use super::Locks;
use super::effects::Effects;
use super::overlaps::Runs;
use super::progress::Told;
use super::rows::{Columns, Texts, storable};
use crate::change::{EndedAttempt, Subject, Transition};
use campanile_model::action::ActionKind;
use campanile_model::error::{Error, Kind};
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason, Response};
use campanile_model::ids::{ExecutionId, FireKind, JobId};
use campanile_model::job::{JobState, Priority};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::store::{Waiting, discard_reason};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Failure, Tx, Uuid};
use futures_util::try_join;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What a batch reads and writes.
#[derive(Default)]
pub(super) struct Sheet<'b> {
    records: HashMap<ExecutionId, Record>,
    /// Jobs as they are now, where that was asked for.
    pub(super) guards: HashMap<JobId, Guard>,
    /// Runs that may not overlap.
    pub(super) runs: Runs,
    /// What follows from the changes.
    pub(super) effects: Effects,
    /// What attempts told about themselves.
    pub(super) told: Told<'b>,
    /// Attempts that get a row of their own.
    pub(super) attempts: Vec<KeptAttempt>,
    /// What targets answered, by execution and fence.
    pub(super) responses: Vec<(ExecutionId, u64, &'b Response)>,
    /// Executions that wait from now on.
    pub(super) ready: Vec<Waiting>,
    texts: Texts,
}

/// An execution, as it is in the middle of the batch.
pub(super) struct Record {
    pub(super) of: Subject,
    pub(super) kind: FireKind,
    pub(super) job_version: u32,
    pub(super) state: State,
    pub(super) reason: Option<Reason>,
    pub(super) attempt: u32,
    pub(super) fence: u64,
    pub(super) priority: Priority,
    pub(super) action: ActionKind,
    pub(super) wake_at: Timestamp,
    pub(super) fired_at: Timestamp,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) worker: Option<Arc<str>>,
    pub(super) outcome: Option<AttemptOutcome>,
    pub(super) error: Option<AttemptError>,
    pub(super) covers_from: Option<Timestamp>,
    pub(super) queued_at: Option<Timestamp>,
    pub(super) claimed_at: Option<Timestamp>,
    pub(super) fingerprint: Option<u64>,
    pub(super) deliveries: u32,
    pub(super) losses: u32,
    pub(super) attempts_from: u32,
    pub(super) cancel_requested_at: Option<Timestamp>,
    pub(super) cancel_reason: Option<Reason>,
    pub(super) note: Option<String>,
    changed: Option<Shape>,
}

/// Which columns a change is about. Nearly all changes are of one of the first four; the rest writes all columns that
/// ever change.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// An attempt starts.
    Started,
    /// An attempt ends.
    Ended,
    /// Both at once.
    Instant,
    /// It is looked at at another time.
    Deferred,
    /// Anything else.
    Whole,
}

/// A job as it is now: what decides whether an execution may still start.
#[derive(Copy, Clone)]
pub(super) struct Guard {
    pub(super) state: JobState,
    pub(super) version: u32,
    pub(super) updated_at: Timestamp,
}

/// An attempt that gets a row of its own, because the execution's row will hold another.
pub(super) struct KeptAttempt {
    pub(super) execution: ExecutionId,
    pub(super) fence: u64,
    pub(super) tenant: u32,
    pub(super) attempt: u32,
    pub(super) worker: Option<Arc<str>>,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    pub(super) outcome: AttemptOutcome,
    pub(super) error: Option<AttemptError>,
}

/// What a batch keeps others from doing meanwhile.
#[derive(Copy, Clone)]
pub(super) enum Against {
    /// Only from changing the rows: runs neither start nor end.
    Rows,
    /// From starting or ending other runs of the same jobs, where these may not overlap.
    Runs(Locks),
    /// From changing jobs too, so that what was acknowledged before is seen.
    Jobs(Locks),
}

/// Ids for a statement: each once, in order, and with the bounds by which the server finds their partitions.
pub(super) struct Ids {
    pub(super) all: Vec<Uuid>,
    pub(super) first: Uuid,
    pub(super) last: Uuid,
}

impl Ids {
    /// `None` where there are none.
    pub(super) fn of(ids: impl IntoIterator<Item = ExecutionId>) -> Option<Self> {
        let mut all: Vec<Uuid> = ids.into_iter().map(Uuid::from).collect();
        all.sort_unstable();
        all.dedup();
        let (first, last) = (*all.first()?, *all.last()?);
        Some(Self { all, first, last })
    }
}

/// Jobs for a statement: each once, in order.
pub(super) fn job_ids(jobs: impl IntoIterator<Item = JobId>) -> Vec<Uuid> {
    let mut all: Vec<Uuid> = jobs.into_iter().map(Uuid::from).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl<'b> Sheet<'b> {
    /// Locks and reads executions, and those that stand in line with them.
    pub(super) async fn load(
        tx: &Tx<'_>,
        against: Against,
        ids: impl IntoIterator<Item = ExecutionId>,
    ) -> Done<Sheet<'b>> {
        let mut sheet = Sheet::default();
        let Some(ids) = Ids::of(ids) else { return Ok(sheet) };
        sheet.records.reserve(ids.all.len());
        let locks = match against {
            Against::Rows => {
                sheet.lock(tx, &ids).await?;
                return Ok(sheet);
            }
            Against::Runs(locks) | Against::Jobs(locks) => locks,
        };
        let allowed = i16::from(Overlap::Allow.code());
        let sql = include_str!("sql/executions/overlapping.sql");
        let key: [&(dyn ToSql + Sync); 4] = [&ids.all, &ids.first, &ids.last, &allowed];
        let (_, overlapping, found) =
            try_join!(share_jobs(tx, against), tx.query(sql, &key), find(tx, &ids, Some(allowed)))?;
        sheet.note(&found)?;
        let jobs = overlapping.iter().map(|row| Columns::of(row).job_id()).collect::<Done<_>>()?;
        sheet.line_up(tx, locks, ids, jobs).await?;
        Ok(sheet)
    }

    /// Locks these jobs' runs against others, and then all rows that are not locked yet.
    async fn line_up(&mut self, tx: &Tx<'_>, locks: Locks, ids: Ids, mut jobs: BTreeSet<JobId>) -> Done<()> {
        let is_missing = |sheet: &Self, id: &Uuid| !sheet.records.contains_key(&ExecutionId::from(*id));
        let mut wanted: BTreeSet<Uuid> = ids.all.into_iter().filter(|id| is_missing(self, id)).collect();
        while !wanted.is_empty() || !jobs.is_empty() {
            if !jobs.is_empty() {
                self.runs.lock(tx, locks, &jobs).await?;
                wanted.extend(self.runs.executions().map(Uuid::from).filter(|id| is_missing(self, id)));
                let guards = load_guards(tx, self.runs.waited_for()).await?;
                self.guards.extend(guards);
            }
            if let Some(ids) = Ids::of(std::mem::take(&mut wanted).into_iter().map(ExecutionId::from)) {
                self.lock(tx, &ids).await?;
            }
            // A newer version with another policy may have come in between.
            let may_not = self.records.values().filter(|record| record.of.overlap != Overlap::Allow);
            jobs = may_not.map(|record| record.of.job).filter(|job| !self.runs.is_locked(*job)).collect();
        }
        Ok(())
    }

    async fn lock(&mut self, tx: &Tx<'_>, ids: &Ids) -> Done<()> {
        let found = find(tx, ids, None).await?;
        self.note(&found)
    }

    fn note(&mut self, found: &[Row]) -> Done<()> {
        for row in found {
            let record = Record::read(row, &mut self.texts)?;
            self.records.insert(record.of.id, record);
        }
        Ok(())
    }

    /// An execution, if there is one.
    pub(super) fn get(&self, id: ExecutionId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// An execution that must be there.
    pub(super) fn at(&mut self, id: ExecutionId) -> Done<&mut Record> {
        self.records.get_mut(&id).ok_or_else(|| Failure::corrupt("execution"))
    }

    /// All executions.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Why an execution must not run, by its job as it is now.
    pub(super) fn stale(&self, record: &Record) -> Option<Reason> {
        let Some(job) = self.guards.get(&record.of.job) else { return Some(Reason::JobDeleted) };
        // A snooze leaves no attempt behind, and yet it was tried.
        let tried = record.attempt.max(u32::from(record.first_start().is_some()));
        let fired = (record.kind, record.job_version, record.of.fire_at, tried);
        discard_reason(fired, (job.state, job.version, job.updated_at))
    }

    /// Changes the state of an execution by an event that may happen to it, and notes what follows. The other columns
    /// are the caller's.
    pub(super) fn change(
        &mut self,
        id: ExecutionId,
        event: Event,
        (at, reason): (Timestamp, Option<Reason>),
        attempt: Option<EndedAttempt<'_>>,
    ) -> Done<&mut Record> {
        let record = self.records.get_mut(&id).ok_or_else(|| Failure::corrupt("execution"))?;
        // What an attempt that was not claimed comes to, comes to it at once.
        let from = match lifecycle::apply(record.state, Event::Claim) {
            Ok(claimed) if event == Event::Succeed => claimed,
            _ => record.state,
        };
        let to = lifecycle::apply(from, event)
            .map_err(|illegal| Error::new(Kind::Bug, format!("execution {id} changed under its writer: {illegal}")))?;
        let of = &record.of;
        self.effects.note(&Transition { of, from: Some(record.state), event, at, reason, attempt });
        record.state = to;
        Ok(record)
    }

    /// Writes what has changed; answers with those that wait from now on.
    pub(super) async fn write(self, tx: &Tx<'_>) -> Done<Vec<Waiting>> {
        let Sheet { records, runs, effects, told, attempts, responses, ready, .. } = self;
        let mut changed: Vec<&Record> = records.values().filter(|record| record.changed.is_some()).collect();
        changed.sort_unstable_by_key(|record| record.of.id);
        let of = |shape| changed.iter().copied().filter(|r| r.changed == Some(shape)).collect::<Vec<&Record>>();
        let tenant = |id: &ExecutionId| records.get(id).map_or(0, |record| i64::from(record.of.tenant.0));
        try_join!(
            write_started(tx, of(Shape::Started)),
            write_ended(tx, of(Shape::Ended)),
            write_instant(tx, of(Shape::Instant)),
            write_deferred(tx, of(Shape::Deferred)),
            write_whole(tx, of(Shape::Whole)),
            write_attempts(tx, &attempts),
            write_responses(tx, &responses, tenant),
            told.write(tx),
            runs.write(tx),
            effects.write(tx),
        )?;
        effects.write_groups(tx).await?;
        Ok(ready)
    }
}

/// Keeps jobs from being changed until the end of the transaction: what was written before is seen by what is read from
/// now on.
async fn share_jobs(tx: &Tx<'_>, against: Against) -> Done<()> {
    if let Against::Jobs(locks) = against {
        tx.query(include_str!("sql/attempts/share_jobs.sql"), &[&locks.jobs]).await?;
    }
    Ok(())
}

/// Reads jobs as they are now.
pub(super) async fn load_guards(tx: &Tx<'_>, jobs: Vec<Uuid>) -> Done<HashMap<JobId, Guard>> {
    if jobs.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.query(include_str!("sql/attempts/load_guards.sql"), &[&jobs]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.job_id()?, Guard::read(&mut columns)?))
    };
    rows.iter().map(read).collect()
}

async fn find(tx: &Tx<'_>, ids: &Ids, overlap: Option<i16>) -> Done<Vec<Row>> {
    tx.query(include_str!("sql/executions/lock.sql"), &[&ids.all, &ids.first, &ids.last, &overlap]).await
}

impl Guard {
    /// Reads the columns `state, version, updated_at`.
    pub(super) fn read(columns: &mut Columns<'_>) -> Done<Self> {
        Ok(Self {
            state: columns.code("job state", JobState::from_code)?,
            version: columns.small()?,
            updated_at: columns.instant()?,
        })
    }
}

impl Record {
    fn read(row: &Row, texts: &mut Texts) -> Done<Self> {
        let mut columns = Columns::of(row);
        let of = Subject {
            id: columns.execution_id()?,
            tenant: columns.tenant()?,
            job: columns.job_id()?,
            pool: texts.share(columns.text()?),
            target: texts.share(columns.text()?),
            overlap: columns.overlap()?,
            watched: columns.code("watches", Some)?,
            fire_at: columns.instant()?,
            first_started_at: columns.instant_or_none()?,
        };
        Ok(Self {
            of,
            kind: columns.code("fire kind", FireKind::from_code)?,
            job_version: columns.small()?,
            state: columns.state()?,
            reason: columns.code_or_none("reason", Reason::from_code)?,
            attempt: columns.small()?,
            fence: columns.number()?,
            priority: columns.code("priority", Priority::from_code)?,
            action: columns.code("action", ActionKind::from_code)?,
            wake_at: columns.instant()?,
            fired_at: columns.instant()?,
            started_at: columns.instant_or_none()?,
            finished_at: columns.instant_or_none()?,
            worker: columns.text_or_none()?.map(|worker| texts.share(worker)),
            outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
            error: columns.error()?,
            covers_from: columns.instant_or_none()?,
            queued_at: columns.instant_or_none()?,
            claimed_at: columns.instant_or_none()?,
            fingerprint: columns.number_or_none()?,
            deliveries: columns.small()?,
            losses: columns.small()?,
            attempts_from: columns.small()?,
            cancel_requested_at: columns.instant_or_none()?,
            cancel_reason: columns.code_or_none("reason", Reason::from_code)?,
            note: columns.next()?,
            changed: None,
        })
    }

    /// Notes that these columns were changed.
    pub(super) fn touch(&mut self, shape: Shape) {
        self.changed = match self.changed {
            Some(other) if other != shape => Some(Shape::Whole),
            _ => Some(shape),
        };
    }

    /// When its first attempt started, if there was one.
    pub(super) fn first_start(&self) -> Option<Timestamp> {
        self.of.first_started_at.or(self.started_at)
    }

    /// Whether an attempt runs.
    pub(super) fn runs(&self) -> bool {
        lifecycle::sources(Event::Succeed).contains(self.state)
    }

    /// As it is dispatched.
    pub(super) fn waiting(&self) -> Waiting {
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
        };
        Waiting { dispatch, wake_at: self.wake_at }
    }

    fn error_kind(&self) -> Option<Cow<'_, str>> {
        self.error.as_ref().map(|error| storable(&error.kind))
    }

    fn error_message(&self) -> Option<Cow<'_, str>> {
        self.error.as_ref().map(|error| storable(&error.message))
    }

    fn worker(&self) -> Option<Cow<'_, str>> {
        self.worker.as_deref().map(storable)
    }
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

/// Rows that are locked are all there.
fn expect(written: u64, rows: usize) -> Done<()> {
    if written == rows as u64 {
        return Ok(());
    }
    Err(Error::new(Kind::Bug, format!("wrote {written} of {rows} locked executions")).into())
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
                &column(&rows, |r| r.worker()),
                &column(&rows, |r| ms(r.started_at)),
                &column(&rows, |r| r.wake_at.millis()),
                &column(&rows, |r| ms(r.queued_at)),
                &column(&rows, |r| ms(r.of.first_started_at)),
                &column(&rows, |r| i64::from(r.deliveries)),
            ],
        )
        .await?;
    expect(written, rows.len())
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
                &column(&rows, |r| r.error_kind()),
                &column(&rows, |r| r.error_message()),
                &column(&rows, |r| i64::from(r.losses)),
                &column(&rows, |r| r.fingerprint.map(|fingerprint| fingerprint as i64)),
            ],
        )
        .await?;
    expect(written, rows.len())
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
                &column(&rows, |r| r.worker()),
                &column(&rows, |r| ms(r.started_at)),
                &column(&rows, |r| ms(r.finished_at)),
                &column(&rows, |r| outcome(r.outcome)),
                &column(&rows, |r| code(r.reason)),
                &column(&rows, |r| ms(r.claimed_at)),
                &column(&rows, |r| ms(r.queued_at)),
                &column(&rows, |r| ms(r.of.first_started_at)),
                &column(&rows, |r| i64::from(r.deliveries)),
            ],
        )
        .await?;
    expect(written, rows.len())
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
            ],
        )
        .await?;
    expect(written, rows.len())
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
                &column(&rows, |r| r.worker()),
                &column(&rows, |r| outcome(r.outcome)),
                &column(&rows, |r| r.error_kind()),
                &column(&rows, |r| r.error_message()),
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
            ],
        )
        .await?;
    expect(written, rows.len())
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
