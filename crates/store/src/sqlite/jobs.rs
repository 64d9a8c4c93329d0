//! Jobs: put, get, list, and what the wheel loads of them.

use super::counters;
use super::failure::Done;
use super::keys::Keys;
use super::rows::{self, Columns, Texts};
use super::shards;
use super::watches;
use crate::core::jobs::{self as judge, Stored};
use crate::core::shards::{ShardSet, refuse_lost};
use crate::prefix::prefix_end;
use campanile_model::error::{Error, Kind};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::shard::ShardFence;
use campanile_model::store::{ChangeSeq, Changes, CursorMove, Expected, JobKey, JobQuery, JobWrite, Page, Put, Skip};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

/// Writes jobs, each judged alone, in their order: two of one batch may claim the same name or key.
pub(super) fn put(connection: &Connection, writes: &[JobWrite]) -> Done<Vec<Put>> {
    let mut put = Statements::prepare(connection)?;
    let first_seq = counters::take(connection, counters::CHANGE_SEQ, writes.len())?;
    let mut live_change = 0;
    let mut verdicts = Vec::with_capacity(writes.len());
    for (write, seq) in writes.iter().zip(first_seq..) {
        let verdict = put.one(write, seq)?;
        if verdict == Put::Done {
            live_change += judge::live_change(write);
        }
        verdicts.push(verdict);
    }
    if live_change != 0 {
        counters::add(connection, counters::LIVE_JOBS, live_change)?;
    }
    Ok(verdicts)
}

struct Statements<'c> {
    connection: &'c Connection,
    insert: CachedStatement<'c>,
    update: CachedStatement<'c>,
    get_guard: CachedStatement<'c>,
    get_live: CachedStatement<'c>,
    keys: Keys<'c>,
    put_skip: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Done<Self> {
        Ok(Self {
            connection,
            insert: connection.prepare_cached(include_str!("sql/jobs/insert.sql"))?,
            update: connection.prepare_cached(include_str!("sql/jobs/update.sql"))?,
            get_guard: connection.prepare_cached(include_str!("sql/jobs/get_guard.sql"))?,
            get_live: connection.prepare_cached(include_str!("sql/jobs/get_live.sql"))?,
            keys: Keys::prepare(connection)?,
            put_skip: connection.prepare_cached(include_str!("sql/skips/insert.sql"))?,
        })
    }

    fn one(&mut self, write: &JobWrite, seq: u64) -> Done<Put> {
        let job = &write.job;
        if let Some(key) = &write.idempotency
            && let Some(used) = self.keys.find(job.tenant, key, job.updated_at)?
        {
            return Ok(judge::replayed(used));
        }
        let verdict = match write.expected {
            Expected::Absent => self.insert(write, seq)?,
            Expected::Version(version) => self.update(write, version, seq)?,
        };
        if verdict == Put::Done {
            watches::job_written(self.connection, job)?;
            if let Some(skip) = &write.skip {
                insert_skip(&mut self.put_skip, skip)?;
            }
        }
        if let Some(key) = write.idempotency.as_ref().filter(|_| judge::is_remembered(&verdict)) {
            self.keys.remember(job.tenant, key)?;
        }
        Ok(verdict)
    }

    /// Inserts first: nearly always nothing is in the way, and then the unique indexes have judged.
    fn insert(&mut self, write: &JobWrite, seq: u64) -> Done<Put> {
        bind_job(&mut self.insert, &write.job, seq)?;
        if self.insert.raw_execute()? == 1 {
            return Ok(Put::Done);
        }
        let (stored, named) = (self.stored(&write.job)?, self.live(&write.job)?);
        match judge::judge(write, stored.as_ref(), named) {
            Put::Done => Err(Error::new(Kind::Bug, format!("job {} was not inserted", write.job.id)).into()),
            refused => Ok(refused),
        }
    }

    fn update(&mut self, write: &JobWrite, expected: u32, seq: u64) -> Done<Put> {
        let job = &write.job;
        let (stored, named) = (self.stored(job)?, self.live(job)?);
        let verdict = judge::judge(write, stored.as_ref(), named);
        if verdict != Put::Done {
            return Ok(verdict);
        }
        bind_job(&mut self.update, job, seq)?;
        self.update.raw_bind_parameter(40, expected)?;
        match self.update.raw_execute()? {
            1 => Ok(Put::Done),
            _ => Err(Error::new(Kind::Bug, format!("job {} changed under its writer", job.id)).into()),
        }
    }

    fn stored(&mut self, job: &Job) -> Done<Option<Stored<'static>>> {
        let mut found = self.get_guard.query([job.id.as_bytes()])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let mut columns = Columns::of(row);
        let (tenant, version) = (columns.tenant()?, columns.next()?);
        let state = columns.code("job state", JobState::from_code)?;
        Ok(Some(Stored { tenant, version, state, name: columns.next::<String>()?.into() }))
    }

    fn live(&mut self, job: &Job) -> Done<Option<JobId>> {
        let id = self.get_live.query_row(params![job.tenant.0, job.name], |row| row.get(0));
        Ok(id.optional()?.map(JobId::from_bytes))
    }
}

/// Binds parameters 1 to 39 of `insert.sql` and `update.sql`.
fn bind_job(statement: &mut CachedStatement<'_>, job: &Job, seq: u64) -> Done<()> {
    let (mode, n) = rows::catch_up_code(job.catch_up.mode);
    let millis = |instant: Option<Timestamp>| instant.map(Timestamp::millis);
    let s = statement;
    s.raw_bind_parameter(1, job.id.as_bytes())?;
    s.raw_bind_parameter(2, job.tenant.0)?;
    s.raw_bind_parameter(3, job.version)?;
    s.raw_bind_parameter(4, job.state.code())?;
    s.raw_bind_parameter(5, job.updated_at.millis())?;
    s.raw_bind_parameter(6, &*job.plan)?;
    s.raw_bind_parameter(7, millis(job.cursor.next_fire_at))?;
    s.raw_bind_parameter(8, job.cursor.fires_left)?;
    s.raw_bind_parameter(9, millis(job.window.ends_at))?;
    s.raw_bind_parameter(10, job.spread_ms as i64)?;
    s.raw_bind_parameter(11, job.priority.code())?;
    s.raw_bind_parameter(12, &*job.pool)?;
    s.raw_bind_parameter(13, job.action.kind.code())?;
    s.raw_bind_parameter(14, mode)?;
    s.raw_bind_parameter(15, n)?;
    s.raw_bind_parameter(16, job.catch_up.max_age_ms as i64)?;
    s.raw_bind_parameter(17, seq as i64)?;
    s.raw_bind_parameter(18, &*job.name)?;
    s.raw_bind_parameter(19, rows::encode_schedule(&job.schedule))?;
    s.raw_bind_parameter(20, millis(job.window.starts_at))?;
    s.raw_bind_parameter(21, job.window.max_fires)?;
    s.raw_bind_parameter(22, job.retry.max_attempts)?;
    s.raw_bind_parameter(23, job.retry.backoff.code())?;
    s.raw_bind_parameter(24, job.retry.initial_delay_ms as i64)?;
    s.raw_bind_parameter(25, job.retry.max_delay_ms as i64)?;
    s.raw_bind_parameter(26, job.timeout_ms as i64)?;
    s.raw_bind_parameter(27, rows::encode_tags(&job.tags))?;
    s.raw_bind_parameter(28, job.created_at.millis())?;
    s.raw_bind_parameter(29, &*job.action.config)?;
    s.raw_bind_parameter(30, &*job.payload)?;
    s.raw_bind_parameter(31, &*job.target)?;
    s.raw_bind_parameter(32, job.catch_up.drip_ms as i64)?;
    s.raw_bind_parameter(33, job.overlap.code())?;
    s.raw_bind_parameter(34, job.expect.start_within_ms.map(|ms| ms as i64))?;
    s.raw_bind_parameter(35, job.expect.finish_within_ms.map(|ms| ms as i64))?;
    s.raw_bind_parameter(36, job.expect.success_every_ms.map(|ms| ms as i64))?;
    s.raw_bind_parameter(37, rows::encode_blackouts(&job.blackouts))?;
    s.raw_bind_parameter(38, job.retry.total_timeout_ms.map(|ms| ms as i64))?;
    s.raw_bind_parameter(39, millis(job.paused_until))?;
    Ok(())
}

/// Records a skip. The same skip again is the same row.
pub(super) fn insert_skip(statement: &mut CachedStatement<'_>, skip: &Skip) -> Done<()> {
    statement.execute(params![
        skip.job.as_bytes(),
        skip.to.millis(),
        skip.from.millis(),
        skip.reason.code(),
        skip.tenant.0,
        skip.recorded_at.millis(),
    ])?;
    Ok(())
}

/// Reads jobs by id or name.
pub(super) fn get(connection: &Connection, tenant: TenantId, keys: &[JobKey]) -> Done<Vec<Option<Job>>> {
    let mut by_id = connection.prepare_cached(include_str!("sql/jobs/get_by_id.sql"))?;
    let mut by_name = connection.prepare_cached(include_str!("sql/jobs/get_by_name.sql"))?;
    let mut texts = Texts::default();
    let mut jobs = Vec::with_capacity(keys.len());
    for key in keys {
        let mut found = match key {
            JobKey::Id(id) => by_id.query(params![id.as_bytes(), tenant.0])?,
            JobKey::Name(name) => by_name.query(params![tenant.0, name])?,
        };
        jobs.push(found.next()?.map(|row| rows::job(row, &mut texts)).transpose()?);
    }
    Ok(jobs)
}

/// Lists live jobs by name.
pub(super) fn list(connection: &Connection, query: &JobQuery) -> Done<Page<Job>> {
    let mut list = connection.prepare_cached(include_str!("sql/jobs/list.sql"))?;
    let prefix = query.name_prefix.as_deref().unwrap_or_default();
    let mut found = list.query(params![
        query.tenant.unwrap_or(TenantId::DEFAULT).0,
        query.after.as_deref().unwrap_or_default(),
        prefix,
        prefix_end(prefix),
        query.state.map(JobState::code),
        query.tag,
        query.limit as i64 + 1,
    ])?;
    let mut texts = Texts::default();
    let mut items = Vec::new();
    while let Some(row) = found.next()? {
        items.push(rows::job(row, &mut texts)?);
    }
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(Page { items, has_more })
}

/// Reads paused jobs whose pause is over.
pub(super) fn load_resumable(connection: &Connection, now: Timestamp, limit: usize) -> Done<Vec<Job>> {
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_resumable.sql"))?;
    let mut found = load.query(params![now.millis(), JobState::Paused.code(), limit as i64])?;
    let mut texts = Texts::default();
    let mut jobs = Vec::new();
    while let Some(row) = found.next()? {
        jobs.push(rows::job(row, &mut texts)?);
    }
    Ok(jobs)
}

/// Reads jobs in the order of their newest writes.
pub(super) fn load_changed(connection: &Connection, since: ChangeSeq, limit: usize) -> Done<Changes> {
    if limit == 0 {
        let upto = ChangeSeq(counters::get(connection, counters::CHANGE_SEQ)?);
        return Ok(Changes { jobs: Vec::new(), upto });
    }
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_changed.sql"))?;
    let mut found = load.query(params![since.0.min(i64::MAX as u64) as i64, limit as i64])?;
    let mut texts = Texts::default();
    let mut changes = Changes { jobs: Vec::new(), upto: since };
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        changes.jobs.push(rows::planned(&mut columns, &mut texts)?);
        changes.upto = ChangeSeq(columns.number()?);
    }
    Ok(changes)
}

/// Moves cursors forward.
pub(super) fn advance(connection: &Connection, fences: &[ShardFence], cursors: &[CursorMove]) -> Done<()> {
    let shards = ShardSet::of(cursors.iter().map(|cursor| campanile_model::shard::shard_of(cursor.job)));
    refuse_lost(&shards::lost(connection, &shards, fences)?)?;
    let mut advance = connection.prepare_cached(include_str!("sql/jobs/advance.sql"))?;
    // In key order, so that neighbours share pages.
    let mut ordered: Vec<&CursorMove> = cursors.iter().collect();
    ordered.sort_by_key(|cursor| cursor.job);
    for cursor in ordered {
        advance.execute(params![
            cursor.job.as_bytes(),
            cursor.version,
            cursor.cursor.next_fire_at.map(Timestamp::millis),
            cursor.cursor.fires_left,
            JobState::Active.code(),
        ])?;
    }
    Ok(())
}
