//! Loading a working set: everything a batch is about is read at its start, and most of it locked. What is judged by it is in
//! `core`, and how it is written in `write`.
//!
//! # The order of locks
//! Rows of executions whose runs may overlap, in the order of their ids; then jobs whose runs may not, by an advisory
//! lock each, in the order of their keys; then the rows of those runs, the batch's and whoever else stands in line, in
//! the order of their ids; then limits of pools, watches, jobs that fail, and groups of dead executions. Everybody who
//! changes executions comes through here, so nobody waits for somebody who waits for him. Where an execution changes
//! sides meanwhile, because a newer version of its job has another policy, two may meet all the same: PostgreSQL ends
//! one of them, and that one is tried again.
//!
//! A claim or an end of attempts reads its rows without locking them, and writes them if nobody has written them since
//! (`RowLocks::AtWrite`). Nearly always nobody has, since an execution has one message and one runner; otherwise the batch is
//! done again with locks. So are rows beside runs that may not overlap, since those are locked after rows; and where several
//! statements write what was read so, its rows are locked first, in the order of their ids (`write::lock_free`). That is after
//! limits and watches: where a cancel has the row and wants one of these, PostgreSQL ends one of the two as well.

use super::Locks;
use super::jobs::LAST_CHANGE;
use super::rows::{self, Columns, Texts};
use super::write::column;
use crate::core::change::Subject;
use crate::core::record::Record;
use crate::core::set::WorkingSet;
use campanile_model::action::ActionKind;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, FireKind, JobId};
use campanile_model::job::version::InForce;
use campanile_model::job::{Definition, JobState, Priority};
use campanile_model::overlap::Overlap;
use campanile_model::store::ChangeSeq;
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Failure, Tx, Uuid, WrittenBy};
use futures_util::try_join;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Which locks a batch takes.
#[derive(Copy, Clone)]
pub(super) enum LockScope {
    /// Only the rows: runs neither start nor end.
    Rows,
    /// Also the runs of jobs that may not overlap, so that nobody else starts or ends one.
    Runs(Locks),
    /// Also jobs, so that nobody changes one and what was acknowledged before is seen.
    Claims(Locks),
    /// The same; the last change of a job is read as well, which is all that has to be known of most no-ops.
    Jobs(Locks),
}

/// How rows are read whose runs may overlap, which are nearly all. Those of other runs are always locked.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum RowLocks {
    /// They are locked, so that they are still the same when they are written.
    Now,
    /// They are locked by being written, which saves a lock's place in the log; the write finds out whether somebody was
    /// faster (`write::is_changed`). For what nearly nobody else writes at the same time.
    AtWrite,
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

/// Reads executions, with their locks where `row_locks` says so, and those that stand in line with them.
pub(super) async fn load<'b>(
    tx: &Tx<'_>,
    scope: LockScope,
    row_locks: RowLocks,
    ids: impl IntoIterator<Item = ExecutionId>,
) -> Done<WorkingSet<'b>> {
    let mut loading = Loading::default();
    let Some(ids) = Ids::of(ids) else { return Ok(loading.set) };
    loading.set.reserve(ids.all.len());
    let locks = match scope {
        LockScope::Rows => {
            loading.lock(tx, &ids).await?;
            return Ok(loading.set);
        }
        LockScope::Runs(locks) | LockScope::Claims(locks) | LockScope::Jobs(locks) => locks,
    };
    let share = async {
        Ok::<_, Failure>(match scope {
            LockScope::Jobs(locks) => Some(share_jobs_and_read_last_change(tx, locks).await?),
            LockScope::Claims(locks) => {
                share_jobs(tx, locks).await?;
                None
            }
            LockScope::Rows | LockScope::Runs(_) => None,
        })
    };
    let allowed = i16::from(Overlap::Allow.code());
    let jobs = match row_locks {
        RowLocks::AtWrite => {
            let (last_change, found) = try_join!(share, find(tx, row_locks, &ids, None))?;
            loading.set.last_change = last_change;
            let jobs = loading.insert_free(&found)?;
            if !jobs.is_empty() {
                // Rows are locked before runs, as by everybody.
                loading.insert_locked(&find(tx, RowLocks::Now, &ids, Some(allowed)).await?)?;
            }
            jobs
        }
        RowLocks::Now => {
            let sql = include_str!("sql/executions/overlapping.sql");
            let key: [&(dyn ToSql + Sync); 4] = [&ids.all, &ids.first, &ids.last, &allowed];
            let (last_change, overlapping, found) =
                try_join!(share, tx.query(sql, &key), find(tx, row_locks, &ids, Some(allowed)))?;
            loading.set.last_change = last_change;
            loading.insert_locked(&found)?;
            overlapping.iter().map(|row| Columns::of(row).job_id()).collect::<Done<_>>()?
        }
    };
    loading.lock_runs(tx, locks, ids, jobs).await?;
    Ok(loading.set)
}

/// A set that is being filled.
#[derive(Default)]
struct Loading<'b> {
    set: WorkingSet<'b>,
    texts: Texts,
}

impl Loading<'_> {
    /// Locks these jobs' runs against others, and then all rows that are not locked yet.
    async fn lock_runs(&mut self, tx: &Tx<'_>, locks: Locks, ids: Ids, mut jobs: BTreeSet<JobId>) -> Done<()> {
        let is_missing = |set: &WorkingSet<'_>, id: &Uuid| set.get(ExecutionId::from(*id)).is_none();
        let mut wanted: BTreeSet<Uuid> = ids.all.into_iter().filter(|id| is_missing(&self.set, id)).collect();
        while !wanted.is_empty() || !jobs.is_empty() {
            if !jobs.is_empty() {
                load_runs(tx, locks, &jobs, &mut self.set).await?;
                let runs = &self.set.runs;
                wanted.extend(runs.executions().map(Uuid::from).filter(|id| is_missing(&self.set, id)));
            }
            if let Some(ids) = Ids::of(std::mem::take(&mut wanted).into_iter().map(ExecutionId::from)) {
                self.lock(tx, &ids).await?;
            }
            let waited_for: Vec<JobId> = self.set.runs.waited_for().collect();
            load_versions(tx, &mut self.set, waited_for).await?;
            // A newer version with another policy may have come in between.
            let may_not = self.set.records().filter(|record| record.of.overlap != Overlap::Allow);
            jobs = may_not.map(|record| record.of.job).filter(|job| !self.set.runs.has_job(*job)).collect();
        }
        Ok(())
    }

    async fn lock(&mut self, tx: &Tx<'_>, ids: &Ids) -> Done<()> {
        let found = find(tx, RowLocks::Now, ids, None).await?;
        self.insert_locked(&found)
    }

    fn insert_locked(&mut self, found: &[Row]) -> Done<()> {
        for row in found {
            let record = Record { seen: None, ..read(row, &mut self.texts)? };
            self.set.insert(Box::new(record));
        }
        Ok(())
    }

    /// Takes rows in that were read without a lock. Those of runs that may not overlap are left out: their jobs, which are
    /// answered, are locked before them.
    fn insert_free(&mut self, found: &[Row]) -> Done<BTreeSet<JobId>> {
        let mut jobs = BTreeSet::new();
        for row in found {
            let mut record = read(row, &mut self.texts)?;
            if planted(Bug("rows-not-compared")) {
                record.seen = None;
            }
            match record.of.overlap {
                Overlap::Allow => self.set.insert(Box::new(record)),
                _ => _ = jobs.insert(record.of.job),
            }
        }
        Ok(jobs)
    }
}

/// Locks jobs, in an order that is the same for everybody, and reads their runs.
async fn load_runs(tx: &Tx<'_>, locks: Locks, jobs: &BTreeSet<JobId>, set: &mut WorkingSet<'_>) -> Done<()> {
    let keys: BTreeSet<i32> = jobs.iter().map(|job| lock_key(*job)).collect();
    let keys: Vec<i32> = keys.into_iter().collect();
    tx.query(include_str!("sql/overlaps/lock.sql"), &[&locks.runs, &keys]).await?;
    jobs.iter().for_each(|job| set.runs.insert_job(*job));
    // A statement of its own: it sees what whoever had the lock before has written.
    let jobs = job_ids(jobs.iter().copied());
    for row in tx.query(include_str!("sql/overlaps/list.sql"), &[&jobs]).await? {
        let mut columns = Columns::of(&row);
        set.runs.insert(columns.job_id()?, columns.execution_id()?, columns.next()?);
    }
    Ok(())
}

/// The second half of a job's lock. Two jobs with the same one wait for each other, and that is all.
fn lock_key(job: JobId) -> i32 {
    let words = job.as_bytes().as_chunks().0;
    words.iter().fold(0, |key, word| key ^ i32::from_be_bytes(*word))
}

/// Keeps jobs from being changed until the end of the transaction: what was written before is seen by what is read from
/// now on.
pub(super) async fn share_jobs(tx: &Tx<'_>, locks: Locks) -> Done<()> {
    tx.query(include_str!("sql/attempts/share_jobs.sql"), &[&locks.jobs]).await?;
    Ok(())
}

/// The same; says which change of a job was the last one.
async fn share_jobs_and_read_last_change(tx: &Tx<'_>, locks: Locks) -> Done<ChangeSeq> {
    // Prepared before, so that they go in this order: what is told was read under the lock.
    let share = tx.prepare(include_str!("sql/attempts/share_jobs.sql"));
    let (share, tell) = try_join!(share, tx.prepare(include_str!("sql/counters/get.sql")))?;
    let share = async { Ok::<_, Failure>(tx.raw().query(&share, &[&locks.jobs]).await?) };
    let tell = async { Ok::<_, Failure>(tx.raw().query_one(&tell, &[&LAST_CHANGE]).await?) };
    let (_, told) = try_join!(share, tell)?;
    Ok(ChangeSeq(told.get::<_, i64>(0) as u64))
}

/// Loads what decides about starts: the newest versions of these jobs, and of executions that those do not govern, the versions that
/// do.
async fn load_versions(tx: &Tx<'_>, set: &mut WorkingSet<'_>, jobs: Vec<JobId>) -> Done<()> {
    let newest = get_in_force(tx, jobs.into_iter().filter(|job| !set.newest.contains_key(job))).await?;
    add_in_force(tx, set, newest).await
}

/// The newest versions of jobs.
pub(super) async fn get_in_force(tx: &Tx<'_>, jobs: impl IntoIterator<Item = JobId>) -> Done<Vec<(JobId, InForce)>> {
    let jobs = job_ids(jobs);
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.job_id()?, in_force(&mut columns)?))
    };
    tx.query(include_str!("sql/jobs/get_in_force.sql"), &[&jobs]).await?.iter().map(read).collect()
}

/// Adds the newest versions of jobs to the set, and loads the older ones that govern executions.
pub(super) async fn add_in_force(tx: &Tx<'_>, set: &mut WorkingSet<'_>, newest: Vec<(JobId, InForce)>) -> Done<()> {
    if newest.is_empty() {
        return Ok(());
    }
    set.newest.extend(newest);
    load_governing(tx, set).await
}

/// The newest versions of the jobs of these executions, each with what its attempts run by.
pub(super) async fn get_newest(tx: &Tx<'_>, records: &[&Record]) -> Done<Vec<(JobId, InForce, Arc<Definition>)>> {
    let jobs = job_ids(records.iter().map(|record| record.of.job));
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut texts = Texts::default();
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.job_id()?, in_force(&mut columns)?, rows::definition(&mut columns, &mut texts)?))
    };
    tx.query(include_str!("sql/jobs/get_newest.sql"), &[&jobs]).await?.iter().map(read).collect()
}

/// Adds the newest versions to the set, and loads the older ones that executions of these versions run by, or are governed by.
pub(super) async fn add_newest(
    tx: &Tx<'_>,
    set: &mut WorkingSet<'_>,
    newest: Vec<(JobId, InForce, Arc<Definition>)>,
    versions: Vec<(JobId, u32)>,
) -> Done<()> {
    for (job, version, definition) in newest {
        set.newest.insert(job, version);
        set.definitions.insert((job, version.version), definition);
    }
    let is_older = |(job, version): &(JobId, u32)| set.newest.get(job).is_some_and(|newest| newest.version != *version);
    let mut older: Vec<(JobId, u32)> = versions.into_iter().filter(is_older).collect();
    if older.is_empty() {
        return Ok(());
    }
    older.sort_unstable();
    older.dedup();
    let (jobs, numbers) = (column(&older, |(job, _)| Uuid::from(*job)), column(&older, |(_, n)| i64::from(*n)));
    let mut texts = Texts::default();
    for row in &tx.query(include_str!("sql/versions/get_definitions.sql"), &[&jobs, &numbers]).await? {
        let mut columns = Columns::of(row);
        let version = (columns.job_id()?, columns.small()?);
        set.definitions.insert(version, rows::definition(&mut columns, &mut texts)?);
    }
    load_governing(tx, set).await
}

/// Loads the superseded versions that govern executions.
async fn load_governing(tx: &Tx<'_>, set: &mut WorkingSet<'_>) -> Done<()> {
    let needs_older = |record: &&Record| {
        let newest = set.newest.get(&record.of.job);
        let is_known = set.governing.contains_key(&record.of.id);
        !is_known && newest.is_some_and(|newest| record.fired_under().needs_older(newest))
    };
    let records: Vec<&Record> = set.records().filter(needs_older).collect();
    if records.is_empty() {
        return Ok(());
    }
    let rows = tx
        .query(
            include_str!("sql/versions/get_governing.sql"),
            &[
                &column(&records, |record| Uuid::from(record.of.id)),
                &column(&records, |record| Uuid::from(record.of.job)),
                &column(&records, |record| i64::from(record.job_version)),
                &column(&records, |record| record.of.fire_at.millis()),
            ],
        )
        .await?;
    for row in &rows {
        let mut columns = Columns::of(row);
        set.governing.insert(columns.execution_id()?, in_force(&mut columns)?);
    }
    Ok(())
}

/// When the first attempts after their replay started, of those executions that were replayed and tried since.
pub(super) async fn load_first_starts(tx: &Tx<'_>, records: &[&Record]) -> Done<HashMap<ExecutionId, Timestamp>> {
    let replayed: BTreeSet<(ExecutionId, u32)> =
        records.iter().filter(|r| r.attempts_from > 0).map(|r| (r.of.id, r.attempts_from)).collect();
    let replayed: Vec<(ExecutionId, u32)> = replayed.into_iter().collect();
    let Some(ids) = Ids::of(replayed.iter().map(|(id, _)| *id)) else { return Ok(HashMap::new()) };
    let from = column(&replayed, |(_, from)| i64::from(*from));
    let executions = column(&replayed, |(id, _)| Uuid::from(*id));
    let sql = include_str!("sql/attempts/first_since.sql");
    let rows = tx.query(sql, &[&ids.first, &ids.last, &executions, &from]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.execution_id()?, columns.instant()?))
    };
    rows.iter().map(read).collect()
}

async fn find(tx: &Tx<'_>, row_locks: RowLocks, ids: &Ids, overlap: Option<i16>) -> Done<Vec<Row>> {
    let sql = match row_locks {
        RowLocks::Now => concat!(include_str!("sql/executions/read.sql"), "FOR UPDATE"),
        RowLocks::AtWrite => include_str!("sql/executions/read.sql"),
    };
    tx.query(sql, &[&ids.all, &ids.first, &ids.last, &overlap]).await
}

/// Reads the columns `version, state, effective_at`.
fn in_force(columns: &mut Columns<'_>) -> Done<InForce> {
    Ok(InForce {
        version: columns.small()?,
        state: columns.code("job state", JobState::from_code)?,
        effective_at: columns.instant()?,
    })
}

/// Reads an execution, by the columns of `read.sql`.
fn read(row: &Row, texts: &mut Texts) -> Done<Record> {
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
    let (kind, job_version) = (columns.code("fire kind", FireKind::from_code)?, columns.small()?);
    let state = columns.state()?;
    let reason = columns.code_or_none("reason", Reason::from_code)?;
    let (attempt, fence) = (columns.small()?, columns.number()?);
    Ok(Record {
        of,
        kind,
        job_version,
        state,
        reason,
        attempt,
        fence,
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
        response: None,
        changed: None,
        stored: (state, fence),
        seen: Some(columns.next::<WrittenBy>()?.0),
    })
}
