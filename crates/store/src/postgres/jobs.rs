//! Jobs: put, get, list, and what the wheel loads of them.
//!
//! Writes of jobs follow each other: each takes its numbers from the counter of changes first, and holds that row
//! until it commits. So the order of the numbers is the order of commits, and whoever loads changes by number misses
//! none; and what is judged is what is written. Therefore they are gathered (`gather`), and short. New jobs in bulk are copied
//! in without looking first whether another has their id or name: nearly always none has, and the unique indexes tell.

use super::Locks;
use super::bulk::{self, Stream};
use super::due;
use super::keys;
use super::load::share_jobs;
use super::rows::{self, Columns, Texts, encode_tags, storable};
use super::write::{column, ms};
use super::{shards, skips, versions, watches};
use crate::clock::StoreClock;
use crate::core::jobs::{Catalogue, Last, Made, Stored, is_new, key_name, new_name};
use crate::core::shards::{ShardSet, refuse_lost};
use crate::definition;
use crate::prefix::prefix_end;
use campanile_model::error::{Error, Kind};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Cursor, Job};
use campanile_model::limits;
use campanile_model::shard::{ShardFence, shard_of};
use campanile_model::store::{
    CallerKey, ChangeSeq, Changes, CursorMove, Idempotency, JobKey, JobQuery, JobWrite, Page, Put,
};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::{ToSql, Type};
use campanile_pg::{Done, Failure, Pool, Tx, Uuid};
use futures_util::future::try_join5;
use futures_util::try_join;
use std::collections::HashMap;

/// The counter that orders writes.
const CHANGE_SEQ: &str = "change_seq";
/// The last of them that changed a job which was there.
pub(super) const LAST_CHANGE: &str = "last_change";
/// The count of jobs that are not deleted.
const LIVE_JOBS: &str = "live_jobs";
/// The last character there is.
const LAST_CHAR: &str = "\u{10ffff}";

/// Changes of jobs, and what they take.
pub(super) struct Batch<'w> {
    pub(super) writes: &'w [JobWrite],
    /// The advisory lock of changes against claims.
    pub(super) lock: i32,
    /// The channel that is rung.
    pub(super) bell: &'w str,
    pub(super) clock: &'w StoreClock,
    /// Whether to look first for jobs that have the ids or names of new ones. If not, and one has, nothing is written, and the error
    /// says so (`bulk::is_conflict`).
    pub(super) check_conflicts: bool,
}

/// Whether these are new jobs in bulk, which need not be looked for first.
pub(super) fn are_new(writes: &[JobWrite]) -> bool {
    writes.len() >= bulk::ROWS_MIN && writes.iter().all(|write| is_new(write) && write.keyed.is_none())
}

/// Changes jobs, each judged alone, in their order.
pub(super) async fn put(tx: &Tx<'_>, batch: &Batch<'_>) -> Done<Vec<Put>> {
    let written = change(tx, batch).await;
    if batch.check_conflicts { written } else { written.map_err(bulk::as_conflict) }
}

async fn change(tx: &Tx<'_>, batch: &Batch<'_>) -> Done<Vec<Put>> {
    let Turn { first_seq, now, mut catalogue } = load(tx, batch).await?;
    let judge = |(at, write)| catalogue.judge(at, write, now);
    let verdicts: Vec<Put> = batch.writes.iter().enumerate().map(judge).collect();
    let (last, freed) = (catalogue.last(), catalogue.freed());
    let Made { superseded, skips: skipped, answers, deleted, live_change } = &catalogue.made;
    if last.is_empty() && answers.is_empty() {
        return Ok(verdicts);
    }
    let jobs = column(&last, |last| last.job);
    let keys: Vec<(TenantId, &Idempotency)> = answers.iter().map(|(tenant, answer)| (*tenant, answer)).collect();
    let versions = async {
        versions::insert(tx, superseded).await?;
        versions::close(tx, deleted).await
    };
    let ring = async {
        if *live_change != 0 {
            tx.execute(include_str!("sql/counters/add.sql"), &[&LIVE_JOBS, live_change]).await?;
        }
        tx.query(include_str!("sql/jobs/ring.sql"), &[&batch.bell]).await
    };
    try_join!(
        write(tx, first_seq, &last, freed),
        versions,
        skips::insert(tx, skipped),
        keys::remember(tx, &keys),
        watches::jobs_written(tx, &jobs),
        ring,
    )?;
    Ok(verdicts)
}

/// What a batch is judged by, when its turn has come.
struct Turn<'w> {
    /// The number of its first change.
    first_seq: i64,
    /// Since when its changes count.
    now: Timestamp,
    catalogue: Catalogue<'w>,
}

/// Waits for our turn, and reads what the batch is judged by.
async fn load<'w>(tx: &Tx<'_>, batch: &Batch<'w>) -> Done<Turn<'w>> {
    let Batch { writes, lock, clock, .. } = *batch;
    let count = writes.len() as i64;
    // These are prepared before, so that they go first and in this order: what follows at once is read after them.
    let mut take = tx.prepare(include_str!("sql/counters/add.sql")).await?;
    if planted(Bug("outbox-by-cursor")) {
        // Sketch S13, kamu-cli#1398: numbers from a sequence. One that commits later may have a smaller one.
        const NUMBERS: &str = "SELECT max(nextval(pg_get_serial_sequence('ready', 'seq')))
            FROM generate_series(1, $2::int8) WHERE $1::text <> ''";
        take = tx.prepare(NUMBERS).await?;
    }
    let hold = tx.prepare("SELECT pg_advisory_xact_lock($1, 0)").await?;
    let tell = tx.prepare(include_str!("sql/jobs/now.sql")).await?;
    let given = ms(clock.given());
    let turn = async {
        let taken = async { Ok::<_, Failure>(tx.raw().query_one(&take, &[&CHANGE_SEQ, &count]).await?) };
        let held = async {
            // A claim that has read a job keeps it from changing until the claim is committed. So between the instant from
            // which a change counts and its commit, nothing starts.
            if !writes.iter().all(is_new) {
                tx.raw().query(&hold, &[&lock]).await?;
            }
            Ok::<_, Failure>(())
        };
        let told = async { Ok::<_, Failure>(tx.raw().query_one(&tell, &[&given]).await?) };
        try_join!(taken, held, told)
    };
    let mut catalogue = Catalogue::new(storable);
    if !batch.check_conflicts {
        let (taken, (), told) = turn.await?;
        return Ok(Turn {
            first_seq: taken.get::<_, i64>(0) - count + 1,
            now: Timestamp::from_millis(told.get(0)),
            catalogue,
        });
    }
    let ids: Vec<Uuid> = column(writes, |write| write.id.into());
    let named: Vec<(TenantId, &str)> =
        writes.iter().filter_map(|write| Some((write.tenant, new_name(write)?))).collect();
    let tenants: Vec<i64> = column(&named, |(tenant, _)| i64::from(tenant.0));
    let names = column(&named, |(_, name)| storable(name));
    let keys: Vec<(TenantId, &CallerKey)> =
        writes.iter().filter_map(|write| Some((write.tenant, &write.keyed.as_ref()?.key))).collect();
    let ((taken, (), told), stored, cursors, live, remembered) = try_join5(
        turn,
        tx.query(include_str!("sql/jobs/lock.sql"), &[&ids]),
        tx.query(include_str!("sql/cursors/lock.sql"), &[&ids]),
        tx.query(include_str!("sql/jobs/get_live.sql"), &[&tenants, &names]),
        keys::stored(tx, &keys),
    )
    .await?;
    let mut texts = Texts::default();
    for row in &stored {
        let mut columns = Columns::of(row);
        let job = rows::job(&mut columns, &mut texts)?;
        catalogue.stored.insert(job.id, Stored { job, owed_from: columns.instant_or_none()? });
    }
    for row in &cursors {
        let mut columns = Columns::of(row);
        if let Some(stored) = catalogue.stored.get_mut(&columns.job_id()?) {
            stored.job.cursor = columns.cursor()?;
        }
    }
    for row in &live {
        let mut columns = Columns::of(row);
        let name = (columns.tenant()?, columns.next::<String>()?.into());
        catalogue.live.insert(name, columns.job_id()?);
    }
    for ((tenant, key), remembered) in keys.into_iter().zip(remembered) {
        catalogue.keys.extend(remembered.map(|remembered| (key_name(tenant, key), remembered)));
    }
    let (first_seq, now) = (taken.get::<_, i64>(0) - count + 1, Timestamp::from_millis(told.get(0)));
    Ok(Turn { first_seq, now, catalogue })
}

/// Writes the rows: who gives up a name goes before who takes it.
async fn write(tx: &Tx<'_>, first_seq: i64, last: &[Last<'_>], freed: Vec<JobId>) -> Done<()> {
    if !freed.is_empty() {
        let freed: Vec<Uuid> = column(&freed, |&id| id.into());
        tx.execute(include_str!("sql/jobs/free_names.sql"), &[&freed]).await?;
    }
    let (changed, new): (Vec<&Last<'_>>, Vec<&Last<'_>>) = last.iter().partition(|last| last.stored.is_some());
    if let Some(newest) = changed.last() {
        let seq = first_seq + newest.at as i64;
        tx.execute(include_str!("sql/counters/set.sql"), &[&LAST_CHANGE, &seq]).await?;
        let judged_by: Vec<i64> = changed.iter().filter_map(|last| last.stored.map(i64::from)).collect();
        let mut values = values(first_seq, &changed)?;
        values.push(Box::new(judged_by));
        let written = tx.execute(include_str!("sql/jobs/update.sql"), &refs(&values)).await?;
        if written != changed.len() as u64 {
            return Err(Error::new(Kind::Bug, "jobs changed under their writer").into());
        }
        tx.execute(include_str!("sql/cursors/update.sql"), &refs(&cursors(&column(&changed, |last| last.job)))).await?;
    }
    if new.is_empty() {
        return Ok(());
    }
    let firing: Vec<&Job> = new.iter().map(|last| last.job).filter(|job| job.cursor != Cursor::default()).collect();
    if new.len() >= bulk::ROWS_MIN {
        copy(tx, first_seq, &new).await?;
        copy_cursors(tx, &firing).await?;
    } else {
        tx.execute(include_str!("sql/jobs/insert.sql"), &refs(&values(first_seq, &new)?)).await?;
        tx.execute(include_str!("sql/cursors/insert.sql"), &refs(&cursors(&firing))).await?;
    }
    Ok(())
}

/// Writes new rows as a stream.
async fn copy(tx: &Tx<'_>, first_seq: i64, new: &[&Last<'_>]) -> Done<()> {
    let mut rows = Stream::begin(tx, include_str!("sql/jobs/copy.sql"), &COLUMNS).await?;
    for last in new {
        let job = last.job;
        let tags = encode_tags(&job.definition.tags);
        rows.put(&[
            &Uuid::from(job.id),
            &(shard_of(job.id).0 as i16),
            &i64::from(job.tenant.0),
            &i64::from(job.version),
            &i16::from(job.state.code()),
            &storable(&job.plan),
            &stored_firing(job)?,
            &(first_seq + last.at as i64),
            &storable(job.name()),
            &storable(&tags),
            &job.created_at.millis(),
            &job.effective_at.millis(),
            &ms(job.paused_until),
            &stored_definition(job)?,
        ])
        .await?;
    }
    rows.end().await
}

/// The types of the columns of `jobs/copy.sql`.
const COLUMNS: [Type; 14] = [
    Type::UUID,
    Type::INT2,
    Type::INT8,
    Type::INT8,
    Type::INT2,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
];

/// Writes the cursors of new jobs as a stream.
async fn copy_cursors(tx: &Tx<'_>, firing: &[&Job]) -> Done<()> {
    let mut rows = Stream::begin(tx, include_str!("sql/cursors/copy.sql"), &CURSOR_COLUMNS).await?;
    for job in firing {
        rows.put(&[
            &Uuid::from(job.id),
            &i64::from(job.version),
            &ms(job.cursor.next_fire_at),
            &job.cursor.fires_left.map(i64::from),
            &(shard_of(job.id).0 as i16),
        ])
        .await?;
    }
    rows.end().await
}

/// The types of the columns of `cursors/copy.sql`.
const CURSOR_COLUMNS: [Type; 5] = [Type::UUID, Type::INT8, Type::INT8, Type::INT8, Type::INT2];

/// Parameters of `cursors/insert.sql` and `cursors/update.sql`: a column each, in the order of the table.
fn cursors<'v>(jobs: &[&'v Job]) -> Values<'v> {
    vec![
        Box::new(column(jobs, |job| Uuid::from(job.id))),
        Box::new(column(jobs, |job| i64::from(job.version))),
        Box::new(column(jobs, |job| ms(job.cursor.next_fire_at))),
        Box::new(column(jobs, |job| job.cursor.fires_left.map(i64::from))),
        Box::new(column(jobs, |job| shard_of(job.id).0 as i16)),
    ]
}

type Values<'v> = Vec<Box<dyn ToSql + Sync + Send + 'v>>;

fn refs<'v>(values: &'v Values<'_>) -> Vec<&'v (dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as _).collect()
}

/// Parameters 1 to 14 of `jobs/insert.sql` and `jobs/update.sql`: a column each, in the order of the table.
fn values<'v>(first_seq: i64, rows: &[&Last<'v>]) -> Done<Values<'v>> {
    fn of<'v, T>(rows: &[&Last<'v>], value: impl Fn(&'v Job) -> T) -> Box<dyn ToSql + Sync + Send + 'v>
    where
        Vec<T>: ToSql + Sync + Send + 'v,
    {
        Box::new(column(rows, |last| value(last.job)))
    }
    let firing: Vec<String> = rows.iter().map(|last| stored_firing(last.job)).collect::<Done<_>>()?;
    let definitions: Vec<String> = rows.iter().map(|last| stored_definition(last.job)).collect::<Done<_>>()?;
    Ok(vec![
        of(rows, |job| Uuid::from(job.id)),
        of(rows, |job| shard_of(job.id).0 as i16),
        of(rows, |job| i64::from(job.tenant.0)),
        of(rows, |job| i64::from(job.version)),
        of(rows, |job| i16::from(job.state.code())),
        of(rows, |job| storable(&job.plan)),
        Box::new(firing),
        Box::new(column(rows, |last| first_seq + last.at as i64)),
        of(rows, |job| storable(job.name())),
        of(rows, |job| storable(&encode_tags(&job.definition.tags)).into_owned()),
        of(rows, |job| job.created_at.millis()),
        of(rows, |job| job.effective_at.millis()),
        of(rows, |job| ms(job.paused_until)),
        Box::new(definitions),
    ])
}

/// What the wheel needs of a job, as a column has it.
pub(super) fn stored_firing(job: &Job) -> Done<String> {
    Ok(storable(&definition::encode_firing(&job.firing())?).into_owned())
}

/// A job's definition, as a column has it.
pub(super) fn stored_definition(job: &Job) -> Done<String> {
    Ok(storable(&definition::encode(&job.definition)?).into_owned())
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
            let job = rows::job(&mut Columns::of(row), &mut texts)?;
            by_id.insert(job.id, job);
        }
    }
    if !names.is_empty() {
        for row in &pool.query(include_str!("sql/jobs/get_by_name.sql"), &[&tenant, &names]).await? {
            let job = rows::job(&mut Columns::of(row), &mut texts)?;
            by_name.insert(job.name().to_owned(), job);
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
    let one_more = query.limit as i64 + 1;
    if let Some(by) = query.pause_ends_by {
        let (sql, tenant) = (include_str!("sql/jobs/list_pauses.sql"), query.tenant.map(|tenant| i64::from(tenant.0)));
        return page(query, &pool.query(sql, &[&by.millis(), &tenant, &one_more]).await?);
    }
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
            &one_more,
        ],
    )
    .await?;
    page(query, &found)
}

fn page(query: &JobQuery, found: &[Row]) -> Done<Page<Job>> {
    let mut items = read(found)?;
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(Page { items, has_more })
}

fn read(found: &[Row]) -> Done<Vec<Job>> {
    let mut texts = Texts::default();
    found.iter().map(|row| rows::job(&mut Columns::of(row), &mut texts)).collect()
}

/// Reads jobs in the order of their newest changes, each after what its superseded versions still owe.
pub(super) async fn load_changed(pool: &Pool, since: ChangeSeq, limit: usize) -> Done<Changes> {
    if limit == 0 {
        let found = pool.query(include_str!("sql/counters/get.sql"), &[&CHANGE_SEQ]).await?;
        let upto = found.first().map_or(0, |row| row.get::<_, i64>(0)) as u64;
        return Ok(Changes { jobs: Vec::new(), count: 0, upto: ChangeSeq(upto) });
    }
    let after = since.0.min(i64::MAX as u64) as i64;
    let found = pool.query(include_str!("sql/jobs/load_changed.sql"), &[&after, &(limit as i64)]).await?;
    let mut texts = Texts::default();
    let mut changes = Changes { jobs: Vec::with_capacity(found.len()), count: found.len(), upto: since };
    for row in &found {
        let mut columns = Columns::of(row);
        changes.jobs.push(rows::planned(&mut columns, &mut texts)?);
        changes.upto = ChangeSeq(columns.number()?);
    }
    let changed: Vec<JobId> = changes.jobs.iter().filter(|job| job.version > 1).map(|job| job.id).collect();
    let mut owed = versions::load_open(pool, &changed).await?;
    owed.append(&mut changes.jobs);
    changes.jobs = owed;
    Ok(changes)
}

pub(super) async fn advance(tx: &Tx<'_>, locks: Locks, fences: &[ShardFence], cursors: &[CursorMove]) -> Done<()> {
    share_jobs(tx, locks).await?;
    let shards = ShardSet::of(cursors.iter().map(|cursor| shard_of(cursor.job)));
    refuse_lost(&shards::lost(tx, &shards, fences).await?)?;
    let (going, ended): (Vec<&CursorMove>, Vec<&CursorMove>) =
        cursors.iter().partition(|step| step.cursor.next_fire_at.is_some() || step.cursor.fires_left.is_some());
    let (moved, gone) = try_join!(move_on(tx, &going), end(tx, &ended))?;
    // Those of superseded versions are elsewhere. The newest come first, as for whoever changes the job.
    if moved + gone < cursors.len() as u64 {
        let (ids, versions, next_fires, fires_left) = columns_of(cursors.iter());
        let superseded = column(cursors, |cursor| cursor.superseded);
        let sql = include_str!("sql/versions/advance.sql");
        tx.execute(sql, &[&ids, &versions, &next_fires, &fires_left, &superseded]).await?;
    }
    Ok(())
}

/// Moves the cursors of newest versions; answers how many.
async fn move_on(tx: &Tx<'_>, steps: &[&CursorMove]) -> Done<u64> {
    if steps.is_empty() {
        return Ok(0);
    }
    let (ids, versions, next_fires, fires_left) = columns_of(steps.iter().copied());
    tx.execute(include_str!("sql/cursors/advance.sql"), &[&ids, &versions, &next_fires, &fires_left]).await
}

/// Deletes the cursors of newest versions that are over; answers how many.
async fn end(tx: &Tx<'_>, steps: &[&CursorMove]) -> Done<u64> {
    if steps.is_empty() {
        return Ok(0);
    }
    let (ids, versions, ..) = columns_of(steps.iter().copied());
    tx.execute(include_str!("sql/cursors/end.sql"), &[&ids, &versions]).await
}

/// Job, version, next fire, fires left.
type MoveColumns = (Vec<Uuid>, Vec<i64>, Vec<Option<i64>>, Vec<Option<i64>>);

fn columns_of<'m>(steps: impl Iterator<Item = &'m CursorMove> + Clone) -> MoveColumns {
    (
        steps.clone().map(|step| step.job.into()).collect(),
        steps.clone().map(|step| i64::from(step.version)).collect(),
        steps.clone().map(|step| ms(step.cursor.next_fire_at)).collect(),
        steps.map(|step| step.cursor.fires_left.map(i64::from)).collect(),
    )
}
