//! Pruning: final executions beyond their retention, with everything that hangs on them; and old deliveries, rollups
//! and skips.
//!
//! Days that are over for all states are dropped whole (`days`). What is too old in younger days, or too much, is found
//! by a scan (`crate::core::retention`) and deleted, if it still is what it was. One node at a time deletes; others leave it
//! to that one.
//!
//! A superseded version of a job is kept while an execution of it is. An execution is kept, however old, while its job's cursor has
//! not passed it: a start from that cursor would find its instant without an execution, and run it again.

mod days;

use super::Locks;
use super::dead;
use super::fold;
use super::load::Ids;
use super::partitions;
use super::rows::{Columns, Texts};
use super::skips;
use super::write::column;
use crate::core::retention::{self, EXECUTIONS_OF_VERSION_MAX, Found, OldVersion, Order, Sweep, last_fire_of};
use crate::core::skips::stays_behind;
use crate::core::sums::Sums;
use campanile_model::error::Result;
use campanile_model::fault::Step;
use campanile_model::ids::{ExecutionId, FireKind, JobId};
use campanile_model::lifecycle::{State, UNHAPPY};
use campanile_model::limits;
use campanile_model::store::{Keep, Pruned, Retention};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx, Uuid};
use futures_util::future::try_join3;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The second half of the advisory lock on upkeep under which one node prunes.
const TURN: i32 = 3;
/// How often partitions are looked after.
const PARTITIONS_MS: u64 = 60_000;
/// Rollups that were written late are folded up to this long after.
const FOLD_BACK_MS: i64 = 300_000;
/// Rows that one statement of a scan reads.
const SLICE_ROWS: usize = 4_096;
/// Rows that hang on executions and are deleted by one transaction, about: one execution may have thousands of lines of
/// log.
const DEPENDENT_ROWS_MAX: usize = 16 * 1_024;

/// Where this node's upkeep stands. In memory only: a new start begins anew.
#[derive(Default)]
pub(super) struct Progress {
    scans: retention::Progress,
    days: days::Progress,
    /// When partitions were looked after last.
    partitions_at: Option<Timestamp>,
    /// When rollups were folded last.
    folded_at: Option<Timestamp>,
}

/// Does the upkeep of tables, then deletes what is beyond its retention: a whole day, or at most `limit` rows.
pub(super) async fn prune(
    pool: &Pool,
    locks: Locks,
    progress: &Mutex<Progress>,
    retention: &Retention,
    now: Timestamp,
    limit: usize,
) -> Result<Pruned> {
    if limit == 0 {
        return Ok(Pruned::default());
    }
    keep_tables(pool, locks, progress, now).await?;
    let order = Order { retention: retention.clone(), now, limit, rows_max: limits::SCAN_ROWS_MAX };
    while let Some(executions) = drop_day(pool, locks, progress, &order).await? {
        // A day that was empty is not worth a turn of its own.
        if executions > 0 {
            return Ok(Pruned { executions, others: 0, more: true });
        }
    }
    let scans = progress.lock().scans.clone();
    let found = find(pool, &order, scans).await.map_err(|failure| failure.into_error(pool.target().location()))?;
    let what = (locks.upkeep, &order, &found);
    let deleted = pool
        .write_step(Step("prune"), &what, |tx, (lock, order, found)| Box::pin(delete(tx, *lock, order, found)))
        .await?;
    // If another node is at it, this one has nothing to do.
    let Some((pruned, all)) = deleted else { return Ok(Pruned::default()) };
    if all {
        progress.lock().scans = found.progress;
    }
    Ok(pruned)
}

/// Drops the oldest day that may be dropped, if there is one. How many executions it had.
async fn drop_day(pool: &Pool, locks: Locks, progress: &Mutex<Progress>, order: &Order) -> Result<Option<usize>> {
    let looked = progress.lock().days.clone();
    let (dropped, looked) = days::drop_next(pool, locks, order, looked).await?;
    progress.lock().days = looked;
    Ok(dropped)
}

/// Makes partitions of the coming days, and folds what was appended.
async fn keep_tables(pool: &Pool, locks: Locks, progress: &Mutex<Progress>, now: Timestamp) -> Result<()> {
    let (partitions_at, folded_at) = {
        let progress = progress.lock();
        (progress.partitions_at, progress.folded_at)
    };
    if partitions_at.is_none_or(|at| now < at || now.ms_since(at) >= PARTITIONS_MS) {
        partitions::ensure(pool).await?;
        progress.lock().partitions_at = Some(now);
    }
    let since = folded_at.map_or(Timestamp::MIN, |at| at.min(now).saturating_add_ms(-FOLD_BACK_MS));
    fold::run(pool, locks, since).await?;
    progress.lock().folded_at = Some(now);
    Ok(())
}

/// Finds executions to delete.
async fn find(pool: &Pool, order: &Order, progress: retention::Progress) -> Done<Found> {
    let mut in_state = [0; State::CODES];
    if order.keeps().any(|keep| keep.count.is_some()) {
        for row in pool.query(include_str!("sql/prune/count.sql"), &[]).await? {
            let mut columns = Columns::of(&row);
            let state = columns.state()?;
            in_state[usize::from(state.code())] = columns.next::<i64>()?.max(0) as u64;
        }
    }
    let mut found = Found::new(order, progress);
    for keep in order.keeps() {
        if let Some(sweep) = Sweep::new(order, keep, &found.progress, in_state[usize::from(keep.state.code())]) {
            scan(pool, keep, sweep, &mut found).await?;
        }
    }
    find_versions(pool, order, &mut found).await?;
    found.finish();
    Ok(found)
}

/// Finds superseded versions that are old, and of which no execution is left.
async fn find_versions(pool: &Pool, order: &Order, found: &mut Found) -> Done<()> {
    let (ended_at, job, version) = found.progress.versions;
    let before = order.ago(order.retention.versions_ms).millis();
    let position = (Uuid(job), i64::from(version), found.versions_max() as i64);
    let sql = include_str!("sql/prune/scan_versions.sql");
    let rows = pool.query(sql, &[&before, &ended_at, &position.0, &position.1, &position.2]).await?;
    let mut looked: Vec<OldVersion> = Vec::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        let old = (columns.next()?, columns.next::<Uuid>()?.0, columns.small()?);
        if !has_executions(pool, old).await? {
            found.versions.push(old);
        }
        looked.push(old);
    }
    found.close_versions(&looked);
    Ok(())
}

/// Whether an execution of a version is kept.
async fn has_executions(pool: &Pool, (ended_at, job, version): OldVersion) -> Done<bool> {
    let end = Uuid::from(ExecutionId::floor(last_fire_of(Timestamp::from_millis(ended_at))));
    let (version, max) = (i64::from(version), EXECUTIONS_OF_VERSION_MAX as i64);
    let rows = pool.query(include_str!("sql/prune/has_executions.sql"), &[&Uuid(job), &end, &version, &max]).await?;
    Ok(rows.first().is_none_or(|row| row.get(0)))
}

/// Goes on with the scan of one state.
async fn scan(pool: &Pool, keep: &Keep, mut sweep: Sweep, found: &mut Found) -> Done<()> {
    let sql = match UNHAPPY.contains(keep.state) {
        true => include_str!("sql/prune/scan_unhappy.sql"),
        false => include_str!("sql/prune/scan.sql"),
    };
    let over = 'over: loop {
        let wanted = found.rows_left().min(SLICE_ROWS);
        if wanted == 0 {
            break false;
        }
        let (after, end) = sweep.range();
        let rows = pool.query(sql, &[&Uuid(after), &Uuid(end), &(wanted as i64)]).await?;
        for row in &rows {
            if found.rows_left() == 0 {
                break 'over false;
            }
            let mut columns = Columns::of(row);
            let which = (columns.execution_id()?, columns.state()?);
            if !sweep.look(found, which, columns.instant_or_none()?) {
                break 'over true;
            }
        }
        if rows.len() < wanted {
            break true;
        }
    };
    found.close(&sweep, over);
    Ok(())
}

/// Whether it is our turn; if not, another node is at it.
async fn is_our_turn(tx: &Tx<'_>, lock: i32) -> Done<bool> {
    let row = tx.query_opt("SELECT pg_try_advisory_xact_lock($1, $2)", &[&lock, &TURN]).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Deletes what was found, and other rows that are too old: as many rows as `limit` leaves. Says too whether all of
/// what was found is deleted, so that the next scan goes on behind it. None if another node is at it.
async fn delete(tx: &Tx<'_>, lock: i32, order: &Order, found: &Found) -> Done<Option<(Pruned, bool)>> {
    if !is_our_turn(tx, lock).await? {
        return Ok(None);
    }
    let victims = not_sealed(tx, &found.victims).await?;
    let victims_now = as_many_as_fit(tx, &victims).await?;
    let all = victims_now.len() == victims.len();
    let executions = delete_executions(tx, victims_now, order.now).await?;
    let mut left = order.limit.saturating_sub(found.victims.len() + found.versions.len());
    let mut more = found.more || left == 0 || !all;
    let mut others = 0;
    if !found.versions.is_empty() {
        let jobs = column(&found.versions, |(_, job, _)| Uuid(*job));
        let numbers = column(&found.versions, |(.., version)| i64::from(*version));
        others += tx.execute(include_str!("sql/prune/versions.sql"), &[&jobs, &numbers]).await? as usize;
    }
    let retention = &order.retention;
    for (sql, age_ms) in [
        (include_str!("sql/prune/deliveries.sql"), retention.deliveries_ms),
        (include_str!("sql/prune/rollups.sql"), retention.rollups_ms),
        (include_str!("sql/prune/skips.sql"), retention.skips_ms),
        (include_str!("sql/prune/pruned_runs.sql"), retention.skips_ms),
    ] {
        let deleted = tx.execute(sql, &[&order.ago(age_ms).millis(), &(left as i64)]).await? as usize;
        others += deleted;
        left -= deleted;
        more |= left == 0;
    }
    Ok(Some((Pruned { executions, others, more }, all)))
}

/// Those that are not in a day that is about to be dropped: its rows are counted.
async fn not_sealed(tx: &Tx<'_>, victims: &[(ExecutionId, State)]) -> Done<Vec<(ExecutionId, State)>> {
    if victims.is_empty() {
        return Ok(Vec::new());
    }
    let sealed = days::sealed(tx).await?;
    let is_sealed = |id: ExecutionId| sealed.iter().any(|(day, _)| id >= day.from && id < day.to);
    let mut victims: Vec<_> = victims.iter().copied().filter(|(id, _)| !is_sealed(*id)).collect();
    victims.sort_unstable_by_key(|(id, _)| *id);
    Ok(victims)
}

/// The first of them, on which no more lines of log hang than one transaction should delete; at least one.
async fn as_many_as_fit<'v>(tx: &Tx<'_>, victims: &'v [(ExecutionId, State)]) -> Done<&'v [(ExecutionId, State)]> {
    let Some(ids) = Ids::of(victims.iter().map(|(id, _)| *id)) else { return Ok(victims) };
    let sql = include_str!("sql/prune/log_lines.sql");
    let lines = tx.query(sql, &[&ids.all, &ids.first, &ids.last]).await?;
    let lines: HashMap<Uuid, i64> = lines.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut sum = 0;
    let fits = victims.iter().take_while(|(id, _)| {
        let before = sum;
        sum += lines.get(&Uuid::from(*id)).map_or(0, |lines| *lines as usize);
        before < DEPENDENT_ROWS_MAX
    });
    let fits = fits.count();
    Ok(&victims[..fits])
}

/// Deletes executions that are still in their states, and everything that hangs on them. How many there were.
async fn delete_executions(tx: &Tx<'_>, victims: &[(ExecutionId, State)], now: Timestamp) -> Done<usize> {
    let Some(ids) = Ids::of(victims.iter().map(|(id, _)| *id)) else { return Ok(0) };
    let each = column(victims, |(id, _)| Uuid::from(*id));
    let states = column(victims, |(_, state)| i16::from(state.code()));
    let sql = include_str!("sql/prune/executions.sql");
    let deleted = tx.query(sql, &[&each, &ids.first, &ids.last, &states]).await?;
    let mut texts = Texts::default();
    let mut sums = Sums::default();
    let mut gone: Vec<(ExecutionId, JobId)> = Vec::new();
    let (mut risen, mut ran) = (Vec::new(), skips::Ran::new());
    for row in &deleted {
        let mut columns = Columns::of(row);
        let (id, tenant) = (columns.execution_id()?, columns.tenant()?);
        let (pool, job, state) = (texts.share(columns.text()?), columns.job_id()?, columns.state()?);
        sums.count(tenant, &pool, Some(state), None);
        if let Some(fingerprint) = columns.number_or_none()?.filter(|_| state == State::Dead) {
            risen.push((tenant, fingerprint, id));
        }
        let (fire_at, kind) = (columns.instant()?, columns.code("kind", FireKind::from_code)?);
        if stays_behind(kind, state, columns.number()?) {
            ran.push((tenant, job, fire_at));
        }
        gone.push((id, job));
    }
    let Some(ids) = Ids::of(gone.iter().map(|(id, _)| *id)) else { return Ok(0) };
    let jobs = column(&gone, |(_, job)| Uuid::from(*job));
    let of_jobs = column(&gone, |(id, _)| Uuid::from(*id));
    tx.execute(include_str!("sql/prune/history.sql"), &[&jobs, &of_jobs, &ids.first, &ids.last]).await?;
    for sql in [
        include_str!("sql/prune/attempts.sql"),
        include_str!("sql/prune/responses.sql"),
        include_str!("sql/prune/progress.sql"),
        include_str!("sql/prune/logs.sql"),
    ] {
        tx.execute(sql, &[&ids.all, &ids.first, &ids.last]).await?;
    }
    let counts: Vec<_> = sums.counts().map(|(tenant, pool, state, by)| (tenant, pool.clone(), state, by)).collect();
    try_join3(
        tx.execute(include_str!("sql/prune/watches.sql"), &[&ids.all]),
        tx.execute(include_str!("sql/prune/overlaps.sql"), &[&jobs, &of_jobs]),
        fold::append_counts(tx, &counts),
    )
    .await?;
    dead::shrink(tx, &risen).await?;
    skips::leave_behind(tx, &ran, now).await?;
    Ok(gone.len())
}
