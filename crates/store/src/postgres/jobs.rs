//! Jobs: put, get, list, and what the wheel loads of them.
//!
//! Writes of jobs follow each other: each takes its numbers from the counter of changes first, and holds that row
//! until it commits. So the order of the numbers is the order of commits, and whoever loads changes by number misses
//! none; and what is judged is what is written. Therefore they are gathered (`gather`), and short.

use super::due;
use super::keys;
use super::rows::{self, Columns, Texts, storable};
use super::write::{column, ms};
use super::{shards, watches};
use crate::core::jobs::{Catalogue, Last, Stored, is_remembered};
use crate::core::shards::{ShardSet, refuse_lost};
use crate::prefix::prefix_end;
use campanile_model::error::{Error, Kind};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::limits;
use campanile_model::shard::{ShardFence, shard_of};
use campanile_model::store::{
    ChangeSeq, Changes, CursorMove, Expected, Idempotency, JobKey, JobQuery, JobWrite, Page, Put, Skip,
};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Failure, Pool, Tx, Uuid};
use futures_util::future::{try_join4, try_join5};
use std::collections::HashMap;

/// The counter that orders writes.
const CHANGE_SEQ: &str = "change_seq";
/// The count of jobs that are not deleted.
const LIVE_JOBS: &str = "live_jobs";
/// The last character there is.
const LAST_CHAR: &str = "\u{10ffff}";

/// Jobs to write, and what it takes.
pub(super) struct Batch<'w> {
    pub(super) writes: &'w [JobWrite],
    /// The advisory lock of changes against claims.
    pub(super) lock: i32,
    /// The channel that is rung.
    pub(super) bell: &'w str,
}

/// Writes jobs, each judged alone, in their order.
pub(super) async fn put(tx: &Tx<'_>, batch: &Batch<'_>) -> Done<Vec<Put>> {
    let (first_seq, mut catalogue) = load(tx, batch).await?;
    let verdicts: Vec<Put> = batch.writes.iter().enumerate().map(|(at, write)| catalogue.judge(at, write)).collect();
    let done: Vec<&JobWrite> = batch
        .writes
        .iter()
        .zip(&verdicts)
        .filter(|(_, verdict)| **verdict == Put::Done)
        .map(|(write, _)| write)
        .collect();
    if done.is_empty() && !verdicts.iter().any(is_remembered) {
        return Ok(verdicts);
    }
    let last = catalogue.last();
    let jobs = column(&last, |&(at, _)| &batch.writes[at].job);
    let skips: Vec<&Skip> = done.iter().filter_map(|write| write.skip.as_ref()).collect();
    let remembered = batch.writes.iter().zip(&verdicts).filter(|(_, verdict)| is_remembered(verdict));
    let keys = keys_of(remembered.map(|(write, _)| write));
    let ring = async {
        if catalogue.live_change != 0 {
            tx.execute(include_str!("sql/counters/add.sql"), &[&LIVE_JOBS, &catalogue.live_change]).await?;
        }
        tx.query(include_str!("sql/jobs/ring.sql"), &[&batch.bell]).await
    };
    try_join5(
        write(tx, batch.writes, (first_seq, &last), catalogue.freed()),
        insert_skips(tx, &skips),
        keys::remember(tx, &keys),
        watches::jobs_written(tx, &jobs),
        ring,
    )
    .await?;
    Ok(verdicts)
}

/// Waits for our turn, and reads what the batch is judged by: with the number of its first write.
async fn load<'w>(tx: &Tx<'_>, batch: &Batch<'w>) -> Done<(i64, Catalogue<'w>)> {
    let Batch { writes, lock, .. } = *batch;
    let count = writes.len() as i64;
    // These two are prepared before, so that they go first: what follows at once is read after them.
    let mut take = tx.prepare(include_str!("sql/counters/add.sql")).await?;
    if planted(Bug("outbox-by-cursor")) {
        // Sketch S13, kamu-cli#1398: numbers from a sequence. One that commits later may have a smaller one.
        const NUMBERS: &str = "SELECT max(nextval(pg_get_serial_sequence('ready', 'seq')))
            FROM generate_series(1, $2::int8) WHERE $1::text <> ''";
        take = tx.prepare(NUMBERS).await?;
    }
    let hold = tx.prepare("SELECT pg_advisory_xact_lock($1, 0)").await?;
    let turn = async {
        let taken = async { Ok::<_, Failure>(tx.raw().query_one(&take, &[&CHANGE_SEQ, &count]).await?) };
        let held = async {
            // A claim that has read a job keeps it from changing until the claim is committed.
            if writes.iter().any(|write| write.expected != Expected::Absent) {
                tx.raw().query(&hold, &[&lock]).await?;
            }
            Ok::<_, Failure>(())
        };
        futures_util::future::try_join(taken, held).await
    };
    let ids: Vec<Uuid> = column(writes, |write| write.job.id.into());
    let tenants: Vec<i64> = column(writes, |write| i64::from(write.job.tenant.0));
    let names = column(writes, |write| storable(&write.job.name));
    let keys = keys_of(writes);
    let ((taken, ()), guards, live, remembered) = try_join4(
        turn,
        tx.query(include_str!("sql/jobs/get_guards.sql"), &[&ids]),
        tx.query(include_str!("sql/jobs/get_live.sql"), &[&tenants, &names]),
        keys::stored(tx, &keys),
    )
    .await?;
    let mut catalogue = Catalogue::new(storable);
    for row in &guards {
        let mut columns = Columns::of(row);
        let id = columns.job_id()?;
        let (tenant, version) = (columns.tenant()?, columns.small()?);
        let state = columns.code("job state", JobState::from_code)?;
        let stored = Stored { tenant, version, state, name: columns.next::<String>()?.into() };
        catalogue.stored.insert(id, stored);
    }
    for row in &live {
        let mut columns = Columns::of(row);
        let name = (columns.tenant()?, columns.next::<String>()?.into());
        catalogue.live.insert(name, columns.job_id()?);
    }
    for ((tenant, key), remembered) in keys.into_iter().zip(remembered) {
        catalogue.keys.extend(remembered.map(|remembered| ((keys::owner(tenant), &*key.scope, &*key.key), remembered)));
    }
    Ok((taken.get::<_, i64>(0) - count + 1, catalogue))
}

fn keys_of<'w>(writes: impl IntoIterator<Item = &'w JobWrite>) -> Vec<(TenantId, &'w Idempotency)> {
    writes.into_iter().filter_map(|write| Some((write.job.tenant, write.idempotency.as_ref()?))).collect()
}

/// Writes the rows: who gives up a name goes before who takes it.
async fn write(tx: &Tx<'_>, writes: &[JobWrite], (first_seq, last): (i64, &[Last]), freed: Vec<JobId>) -> Done<()> {
    if !freed.is_empty() {
        let freed: Vec<Uuid> = column(&freed, |&id| id.into());
        tx.execute(include_str!("sql/jobs/free_names.sql"), &[&freed]).await?;
    }
    let row = |&(at, _): &Last| (&writes[at].job, first_seq + at as i64);
    let (changed, new): (Vec<&Last>, Vec<&Last>) = last.iter().partition(|(_, stored)| stored.is_some());
    if !changed.is_empty() {
        let rows: Vec<_> = changed.iter().map(|last| row(last)).collect();
        let versions: Vec<i64> = changed.iter().filter_map(|(_, stored)| stored.map(i64::from)).collect();
        let mut values = values(&rows);
        values.push(Box::new(versions));
        let written = tx.execute(include_str!("sql/jobs/update.sql"), &refs(&values)).await?;
        if written != rows.len() as u64 {
            return Err(Error::new(Kind::Bug, "jobs changed under their writer").into());
        }
    }
    if !new.is_empty() {
        let rows: Vec<_> = new.iter().map(|last| row(last)).collect();
        tx.execute(include_str!("sql/jobs/insert.sql"), &refs(&values(&rows))).await?;
    }
    Ok(())
}

type Values<'v> = Vec<Box<dyn ToSql + Sync + Send + 'v>>;

fn refs<'v>(values: &'v Values<'_>) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as _).collect()
}

/// Parameters 1 to 40 of `insert.sql` and `update.sql`: a column each, in the order of the table.
fn values<'v>(rows: &'v [(&'v Job, i64)]) -> Values<'v> {
    fn number(ms: Option<u64>) -> Option<i64> {
        ms.map(|ms| ms as i64)
    }
    fn of<'v, T>(rows: &'v [(&'v Job, i64)], value: impl Fn(&'v Job) -> T) -> Box<dyn ToSql + Sync + Send + 'v>
    where
        Vec<T>: ToSql + Sync + Send + 'v,
    {
        Box::new(column(rows, |(job, _)| value(job)))
    }
    vec![
        of(rows, |job| Uuid::from(job.id)),
        of(rows, |job| shard_of(job.id).0 as i16),
        of(rows, |job| i64::from(job.tenant.0)),
        of(rows, |job| i64::from(job.version)),
        of(rows, |job| i16::from(job.state.code())),
        of(rows, |job| job.updated_at.millis()),
        of(rows, |job| storable(&job.plan)),
        of(rows, |job| ms(job.cursor.next_fire_at)),
        of(rows, |job| job.cursor.fires_left.map(i64::from)),
        of(rows, |job| ms(job.window.ends_at)),
        of(rows, |job| job.spread_ms as i64),
        of(rows, |job| i16::from(job.priority.code())),
        of(rows, |job| storable(&job.pool)),
        of(rows, |job| i16::from(job.action.kind.code())),
        of(rows, |job| storable(&job.target)),
        of(rows, |job| i16::from(rows::catch_up_code(job.catch_up.mode).0)),
        of(rows, |job| i64::from(rows::catch_up_code(job.catch_up.mode).1)),
        of(rows, |job| job.catch_up.max_age_ms as i64),
        of(rows, |job| job.catch_up.drip_ms as i64),
        of(rows, |job| i16::from(job.overlap.code())),
        of(rows, |job| number(job.expect.start_within_ms)),
        of(rows, |job| number(job.expect.finish_within_ms)),
        of(rows, |job| number(job.expect.success_every_ms)),
        of(rows, |job| rows::encode_blackouts(&job.blackouts)),
        Box::new(column(rows, |&(_, seq)| seq)),
        of(rows, |job| storable(&job.name)),
        of(rows, |job| storable(&rows::encode_schedule(&job.schedule)).into_owned()),
        of(rows, |job| ms(job.window.starts_at)),
        of(rows, |job| job.window.max_fires.map(i64::from)),
        of(rows, |job| i64::from(job.retry.max_attempts)),
        of(rows, |job| i16::from(job.retry.backoff.code())),
        of(rows, |job| job.retry.initial_delay_ms as i64),
        of(rows, |job| job.retry.max_delay_ms as i64),
        of(rows, |job| number(job.retry.total_timeout_ms)),
        of(rows, |job| job.timeout_ms as i64),
        of(rows, |job| storable(&rows::encode_tags(&job.tags)).into_owned()),
        of(rows, |job| job.created_at.millis()),
        of(rows, |job| ms(job.paused_until)),
        of(rows, |job| storable(&job.action.config)),
        of(rows, |job| storable(&job.payload)),
    ]
}

/// Records skips. The same skip again is the same row.
async fn insert_skips(tx: &Tx<'_>, skips: &[&Skip]) -> Done<()> {
    if skips.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/skips/insert.sql"),
        &[
            &column(skips, |skip| Uuid::from(skip.job)),
            &column(skips, |skip| skip.to.millis()),
            &column(skips, |skip| skip.from.millis()),
            &column(skips, |skip| i16::from(skip.reason.code())),
            &column(skips, |skip| i64::from(skip.tenant.0)),
            &column(skips, |skip| skip.recorded_at.millis()),
        ],
    )
    .await?;
    Ok(())
}

/// Reads jobs by id or name.
pub(super) async fn get(pool: &Pool, tenant: TenantId, keys: &[JobKey]) -> Done<Vec<Option<Job>>> {
    let (mut ids, mut names) = (Vec::new(), Vec::new());
    for key in keys {
        match key {
            JobKey::Id(id) => ids.push(Uuid::from(*id)),
            JobKey::Name(name) => names.push(storable(name)),
        }
    }
    let tenant = i64::from(tenant.0);
    let (mut by_id, mut by_name, mut texts) = (HashMap::new(), HashMap::new(), Texts::default());
    if !ids.is_empty() {
        for row in &pool.query(include_str!("sql/jobs/get_by_id.sql"), &[&ids, &tenant]).await? {
            let job = rows::job(row, &mut texts)?;
            by_id.insert(job.id, job);
        }
    }
    if !names.is_empty() {
        for row in &pool.query(include_str!("sql/jobs/get_by_name.sql"), &[&tenant, &names]).await? {
            let job = rows::job(row, &mut texts)?;
            by_name.insert(job.name.clone(), job);
        }
    }
    let find = |key: &JobKey| match key {
        JobKey::Id(id) => by_id.get(id).cloned(),
        JobKey::Name(name) => by_name.get(&*storable(name)).cloned(),
    };
    Ok(keys.iter().map(find).collect())
}

/// Lists live jobs by name.
pub(super) async fn list(pool: &Pool, query: &JobQuery) -> Done<Page<Job>> {
    let prefix = query.name_prefix.as_deref().map(storable).unwrap_or_default();
    // Where nothing ends the list, what lies behind the longest name does: so there is always an end, and the index
    // finds it.
    let end = prefix_end(&prefix).unwrap_or_else(|| LAST_CHAR.repeat(limits::NAME_BYTES_MAX / LAST_CHAR.len() + 1));
    let found = due::walk(
        pool,
        include_str!("sql/jobs/list.sql"),
        &[
            &i64::from(query.tenant.unwrap_or(TenantId::DEFAULT).0),
            &query.after.as_deref().map(storable).unwrap_or_default(),
            &prefix,
            &end,
            &query.state.map(|state| i16::from(state.code())),
            &query.tag.as_deref().map(storable),
            &(query.limit as i64 + 1),
        ],
    )
    .await?;
    let mut items = read(&found)?;
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(Page { items, has_more })
}

/// Reads paused jobs whose pause is over.
pub(super) async fn load_resumable(pool: &Pool, now: Timestamp, limit: usize) -> Done<Vec<Job>> {
    let paused = i16::from(JobState::Paused.code());
    let sql = include_str!("sql/jobs/load_resumable.sql");
    read(&pool.query(sql, &[&now.millis(), &paused, &(limit as i64)]).await?)
}

fn read(found: &[Row]) -> Done<Vec<Job>> {
    let mut texts = Texts::default();
    found.iter().map(|row| rows::job(row, &mut texts)).collect()
}

/// Reads jobs in the order of their newest writes.
pub(super) async fn load_changed(pool: &Pool, since: ChangeSeq, limit: usize) -> Done<Changes> {
    if limit == 0 {
        let found = pool.query(include_str!("sql/counters/get.sql"), &[&CHANGE_SEQ]).await?;
        let upto = found.first().map_or(0, |row| row.get::<_, i64>(0)) as u64;
        return Ok(Changes { jobs: Vec::new(), upto: ChangeSeq(upto) });
    }
    let after = since.0.min(i64::MAX as u64) as i64;
    let found = pool.query(include_str!("sql/jobs/load_changed.sql"), &[&after, &(limit as i64)]).await?;
    let mut texts = Texts::default();
    let mut changes = Changes { jobs: Vec::with_capacity(found.len()), upto: since };
    for row in &found {
        let mut columns = Columns::of(row);
        changes.jobs.push(rows::planned(&mut columns, &mut texts)?);
        changes.upto = ChangeSeq(columns.number()?);
    }
    Ok(changes)
}

/// Moves cursors forward.
pub(super) async fn advance(tx: &Tx<'_>, fences: &[ShardFence], cursors: &[CursorMove]) -> Done<()> {
    let shards = ShardSet::of(cursors.iter().map(|cursor| shard_of(cursor.job)));
    refuse_lost(&shards::lost(tx, &shards, fences).await?)?;
    let ids: Vec<Uuid> = column(cursors, |cursor| cursor.job.into());
    let versions = column(cursors, |cursor| i64::from(cursor.version));
    let next_fires = column(cursors, |cursor| ms(cursor.cursor.next_fire_at));
    let fires_left = column(cursors, |cursor| cursor.cursor.fires_left.map(i64::from));
    let active = i16::from(JobState::Active.code());
    let sql = include_str!("sql/jobs/advance.sql");
    tx.execute(sql, &[&ids, &versions, &next_fires, &fires_left, &active]).await?;
    Ok(())
}
