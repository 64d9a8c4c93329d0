//! Watches: what jobs are expected to do, as instants by which it must have happened.
//!
//! An execution is watched from its fire until it starts (`started`) and ends (`ended`); a job with `success_every` has
//! one watch that each success moves on (`succeeded`). A watch that is still there at its instant is broken:
//! `break_due` tells so, and the job counts as failing until it succeeds again. All of it happens in the transactions
//! of the state changes. Several nodes may look for broken watches at once: each takes those that nobody else is at
//! work on.

use super::outbox::Outbox;
use super::rows::{Columns, encode_schedule};
use super::sheet::{Ids, column, job_ids};
use crate::event::{Facts, Happened};
use crate::rules::{after, widths};
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::notify::{Broken, EventKind, WatchKind};
use campanile_model::schedule::Schedule;
use campanile_model::store::Fire;
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Failure, Tx, Uuid};
use futures_util::try_join;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is expected in a batch, and what becomes of it.
#[derive(Default)]
pub(super) struct Watches {
    /// Watches that begin, by execution and the code of their kind: whose they are, and until when.
    begun: BTreeMap<(ExecutionId, u8), (JobId, TenantId, Timestamp)>,
    /// Executions whose first attempt starts.
    started: Vec<ExecutionId>,
    /// Executions that end, or begin anew.
    ended: Vec<ExecutionId>,
    /// Jobs that must succeed in every period: how long that is, by when, and whether that was moved.
    success: HashMap<JobId, (u64, Timestamp, bool)>,
    /// Jobs that fail, and since when: before the batch, and now.
    failed_before: BTreeMap<JobId, (TenantId, Timestamp)>,
    failing: BTreeMap<JobId, (TenantId, Timestamp)>,
}

impl Watches {
    /// Locks and reads what is expected of these executions, of these jobs that succeed, and which of all these jobs
    /// fail.
    pub(super) async fn load(tx: &Tx<'_>, watched: Option<Ids>, succeeded: Vec<Uuid>, jobs: Vec<Uuid>) -> Done<Self> {
        // Always in this order: whoever looks for broken watches has theirs before he tells that jobs fail.
        let executions = async {
            match watched {
                Some(ids) => tx.query(include_str!("sql/watches/lock.sql"), &[&ids.all]).await,
                None => Ok(Vec::new()),
            }
        };
        let success = async {
            match succeeded.is_empty() {
                true => Ok(Vec::new()),
                false => tx.query(include_str!("sql/watches/lock_success.sql"), &[&succeeded]).await,
            }
        };
        let failing = async {
            match jobs.is_empty() {
                true => Ok(Vec::new()),
                false => tx.query(include_str!("sql/watches/lock_failing.sql"), &[&jobs]).await,
            }
        };
        let (_, success, failing) = try_join!(executions, success, failing)?;
        let mut watches = Self::default();
        for row in &success {
            let mut columns = Columns::of(row);
            watches.success.insert(columns.job_id()?, (columns.number()?, columns.instant()?, false));
        }
        for row in &failing {
            let mut columns = Columns::of(row);
            watches.failing.insert(columns.job_id()?, (columns.tenant()?, columns.instant()?));
        }
        watches.failed_before = watches.failing.clone();
        Ok(watches)
    }

    /// Watches a fire.
    pub(super) fn begin(&mut self, fire: &Fire) {
        let dispatch = &fire.dispatch;
        for (kind, width) in widths(&fire.expect) {
            let until = after(dispatch.fire_at, width);
            self.begun.insert((dispatch.execution, kind.code()), (dispatch.job, dispatch.tenant, until));
        }
    }

    /// Watches a fire that a newer version of its job makes again: the older one may have expected something else.
    pub(super) fn begin_again(&mut self, fire: &Fire) {
        if widths(&fire.expect).next().is_some() {
            self.ended(fire.dispatch.execution);
            self.begin(fire);
        }
    }

    /// The first attempt of a watched execution starts.
    pub(super) fn started(&mut self, execution: ExecutionId) {
        self.started.push(execution);
    }

    /// A watched execution reaches a final state.
    pub(super) fn ended(&mut self, execution: ExecutionId) {
        self.begun.retain(|(begun, _), _| *begun != execution);
        self.ended.push(execution);
    }

    /// A job succeeds: its next success is expected a period from now, and if it was failing, it has recovered: answers
    /// whose it is, and since when it failed.
    pub(super) fn succeeded(&mut self, job: JobId, now: Timestamp) -> Option<(TenantId, Timestamp)> {
        if let Some((every_ms, due_at, moved)) = self.success.get_mut(&job) {
            let next = after(now, *every_ms);
            if next > *due_at {
                (*due_at, *moved) = (next, true);
            }
        }
        self.failing.remove(&job)
    }

    /// An execution of a job is dead.
    pub(super) fn failed(&mut self, tenant: TenantId, job: JobId, since: Timestamp) {
        self.failing.entry(job).or_insert((tenant, since));
    }

    /// Writes what became of it.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Done<()> {
        let started: Vec<Uuid> = self.started.iter().map(|id| Uuid::from(*id)).collect();
        let kinds = vec![i16::from(WatchKind::Start.code()); started.len()];
        let ended: Vec<Uuid> = self.ended.iter().map(|id| Uuid::from(*id)).collect();
        let moved = self.success.iter().filter(|(_, (.., moved))| *moved);
        let moved: Vec<(JobId, Timestamp)> = moved.map(|(job, (_, due_at, _))| (*job, *due_at)).collect();
        let recovered = self.failed_before.iter().filter(|(job, was)| self.failing.get(job) != Some(was));
        let recovered = job_ids(recovered.map(|(job, _)| *job));
        let failed = self.failing.iter().filter(|(job, is)| self.failed_before.get(job) != Some(is));
        let failed: Vec<(JobId, TenantId, Timestamp)> = failed.map(|(job, is)| (*job, is.0, is.1)).collect();
        // What begins anew ends first.
        let executions = async {
            delete_all(tx, &ended).await?;
            self.write_begun(tx).await
        };
        let jobs = async {
            forget_failing(tx, &recovered).await?;
            note_failing(tx, &failed).await
        };
        try_join!(delete(tx, &started, &kinds), executions, move_success(tx, &moved), jobs)?;
        Ok(())
    }

    async fn write_begun(&self, tx: &Tx<'_>) -> Done<()> {
        let begun: Vec<_> = self.begun.iter().collect();
        if begun.is_empty() {
            return Ok(());
        }
        tx.execute(
            include_str!("sql/watches/insert.sql"),
            &[
                &column(&begun, |((execution, _), _)| Uuid::from(*execution)),
                &column(&begun, |((_, kind), _)| i16::from(*kind)),
                &column(&begun, |(_, (job, ..))| Uuid::from(*job)),
                &column(&begun, |(_, (_, tenant, _))| i64::from(tenant.0)),
                &column(&begun, |(_, (.., until))| until.millis()),
            ],
        )
        .await?;
        Ok(())
    }
}

async fn delete(tx: &Tx<'_>, executions: &[Uuid], kinds: &[i16]) -> Done<()> {
    if !executions.is_empty() {
        tx.execute(include_str!("sql/watches/delete.sql"), &[&executions, &kinds]).await?;
    }
    Ok(())
}

async fn delete_all(tx: &Tx<'_>, executions: &[Uuid]) -> Done<()> {
    if !executions.is_empty() {
        tx.execute(include_str!("sql/watches/delete_all.sql"), &[&executions]).await?;
    }
    Ok(())
}

async fn move_success(tx: &Tx<'_>, moved: &[(JobId, Timestamp)]) -> Done<()> {
    if !moved.is_empty() {
        let jobs = column(moved, |(job, _)| Uuid::from(*job));
        let due = column(moved, |(_, due_at)| due_at.millis());
        tx.execute(include_str!("sql/watches/move_success.sql"), &[&jobs, &due]).await?;
    }
    Ok(())
}

async fn forget_success(tx: &Tx<'_>, jobs: &[Uuid]) -> Done<()> {
    if !jobs.is_empty() {
        tx.execute(include_str!("sql/watches/delete_success.sql"), &[&jobs]).await?;
    }
    Ok(())
}

async fn forget_failing(tx: &Tx<'_>, jobs: &[Uuid]) -> Done<()> {
    if !jobs.is_empty() {
        tx.execute(include_str!("sql/watches/delete_failing.sql"), &[&jobs]).await?;
    }
    Ok(())
}

/// Jobs count as failing; those that did before stay as they were.
async fn note_failing(tx: &Tx<'_>, failed: &[(JobId, TenantId, Timestamp)]) -> Done<()> {
    if !failed.is_empty() {
        let jobs = column(failed, |(job, ..)| Uuid::from(*job));
        let tenants = column(failed, |(_, tenant, _)| i64::from(tenant.0));
        let since = column(failed, |(.., since)| since.millis());
        tx.execute(include_str!("sql/watches/insert_failing.sql"), &[&jobs, &tenants, &since]).await?;
    }
    Ok(())
}

/// Jobs are written: their successes are watched as long as they are active, from their start on. Another period begins
/// anew.
pub(super) async fn jobs_written(tx: &Tx<'_>, jobs: &[&Job]) -> Done<()> {
    let mut left = jobs.to_vec();
    while !left.is_empty() {
        // A job that was written twice is looked at twice, one after the other.
        let mut seen = HashSet::new();
        let (now, later) = left.into_iter().partition(|job| seen.insert(job.id));
        written_once(tx, now).await?;
        left = later;
    }
    Ok(())
}

async fn written_once(tx: &Tx<'_>, jobs: Vec<&Job>) -> Done<()> {
    let every = |job: &Job| job.expect.success_every_ms.filter(|_| job.state == JobState::Active);
    let (expected, others): (Vec<&Job>, Vec<&Job>) = jobs.into_iter().partition(|job| every(job).is_some());
    if !expected.is_empty() {
        let due_at = |job: &Job| {
            let from = job.window.starts_at.map_or(job.updated_at, |start| start.max(job.updated_at));
            after(from, every(job).unwrap_or_default()).millis()
        };
        tx.execute(
            include_str!("sql/watches/put_success.sql"),
            &[
                &column(&expected, |job| Uuid::from(job.id)),
                &column(&expected, |job| i64::from(job.tenant.0)),
                &column(&expected, |job| every(job).unwrap_or_default() as i64),
                &column(&expected, |job| due_at(job)),
            ],
        )
        .await?;
    }
    // What is new was not watched before.
    let old: Vec<&Job> = others.into_iter().filter(|job| job.version > 1).collect();
    forget_success(tx, &job_ids(old.iter().map(|job| job.id))).await?;
    let deleted = old.iter().filter(|job| job.state == JobState::Deleted);
    forget_failing(tx, &job_ids(deleted.map(|job| job.id))).await
}

/// Ends watches whose instant has come, and tells of them.
pub(super) async fn break_due(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let mut broken = break_executions(tx, now, limit).await?;
    broken.extend(rearm_jobs(tx, now, limit - broken.len().min(limit)).await?);
    broken.sort_by_key(|watch| watch.due_at);
    let may = broken.iter().map(|watch| (watch.tenant, watch.job, EventKind::Late)).collect();
    let mut outbox = Outbox::load(tx, may).await?;
    let mut failed: BTreeMap<JobId, (TenantId, Timestamp)> = BTreeMap::new();
    for watch in &broken {
        let Broken { tenant, job, execution, kind, due_at } = *watch;
        let facts = Facts::Broken { expectation: kind, due_at };
        outbox.emit(&Happened { tenant, kind: EventKind::Late, job, execution, at: now, facts });
        failed.entry(job).or_insert((tenant, due_at));
    }
    let failed: Vec<_> = failed.into_iter().map(|(job, (tenant, since))| (job, tenant, since)).collect();
    try_join!(note_failing(tx, &failed), outbox.write(tx))?;
    Ok(broken)
}

/// Ends the watches of executions. A version that expects nothing may have made the fire again; and who started or
/// ended has met what was expected: those are not broken.
async fn break_executions(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let rows = tx.query(include_str!("sql/watches/load_due.sql"), &[&now.millis(), &(limit as i64)]).await?;
    let mut due = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut columns = Columns::of(row);
        let id = columns.execution_id()?;
        let kind = columns.code("watch kind", WatchKind::from_code)?;
        let (job, tenant, due_at) = (columns.job_id()?, columns.tenant()?, columns.instant()?);
        due.push((id, Broken { execution: Some(id), kind, job, tenant, due_at }));
    }
    let Some(bounds) = Ids::of(due.iter().map(|(id, _)| *id)) else { return Ok(Vec::new()) };
    let ids = column(&due, |(id, _)| Uuid::from(*id));
    let kinds = column(&due, |(_, watch)| i16::from(watch.kind.code()));
    let sql = include_str!("sql/watches/is_open.sql");
    let key: [&(dyn ToSql + Sync); 4] = [&bounds.first, &bounds.last, &ids, &kinds];
    let (rows, ()) = try_join!(tx.query(sql, &key), delete(tx, &ids, &kinds))?;
    let mut open = HashSet::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        open.insert((columns.execution_id()?, columns.code("watch kind", WatchKind::from_code)?));
    }
    due.retain(|(id, watch)| open.contains(&(*id, watch.kind)));
    Ok(due.into_iter().map(|(_, watch)| watch).collect())
}

/// Moves the watches of jobs that had no success in their period to the end of the period that runs now. A job whose
/// schedule is over is watched no more: there was its last success, or it is dead and that was told.
async fn rearm_jobs(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let unscheduled = encode_schedule(&Schedule::None);
    let sql = include_str!("sql/watches/load_due_success.sql");
    let (mut due, mut moved, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for row in &tx.query(sql, &[&now.millis(), &(limit as i64), &unscheduled]).await? {
        let mut columns = Columns::of(row);
        let (job, tenant) = (columns.job_id()?, columns.tenant()?);
        let (every_ms, due_at) = (columns.number()?, columns.instant()?);
        if !columns.next::<bool>()? {
            over.push(job);
            continue;
        }
        let periods = now.ms_since(due_at).checked_div(every_ms).ok_or_else(|| Failure::corrupt("period"))? + 1;
        moved.push((job, after(due_at, periods.saturating_mul(every_ms))));
        due.push(Broken { tenant, job, execution: None, kind: WatchKind::Success, due_at });
    }
    let over = job_ids(over);
    try_join!(forget_success(tx, &over), move_success(tx, &moved))?;
    Ok(due)
}
