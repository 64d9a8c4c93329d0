//! Jobs: put, get, list, and what the wheel loads of them.

use super::counters;
use super::failure::Done;
use super::keys::Keys;
use super::rows::{self, Columns, Texts};
use super::shards;
use super::skips;
use super::versions;
use super::watches;
use crate::core::jobs::{self as rules, Stored};
use crate::core::shards::{ShardSet, refuse_lost};
use crate::definition;
use crate::prefix::prefix_end;
use campanile_model::error::{Error, Kind};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::version::{Change, Changed};
use campanile_model::job::{Job, JobState};
use campanile_model::shard::ShardFence;
use campanile_model::store::{ChangeSeq, Changes, CursorMove, JobKey, JobQuery, JobWrite, Page, Put};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, ToSql, params};

/// Changes jobs at `now`, each judged alone, in their order: two of one batch may claim the same name or key.
pub(super) fn put(connection: &Connection, writes: &[JobWrite], now: Timestamp) -> Done<Vec<Put>> {
    let mut put = Statements::prepare(connection)?;
    let first_seq = counters::take(connection, counters::CHANGE_SEQ, writes.len())?;
    let (mut live_change, mut last_change) = (0, None);
    let mut verdicts = Vec::with_capacity(writes.len());
    for (write, seq) in writes.iter().zip(first_seq..) {
        let verdict = put.one(write, seq, now)?;
        if matches!(verdict, Put::Done(_)) {
            live_change += rules::live_change(write);
            if !rules::is_new(write) {
                last_change = Some(seq);
            }
        }
        verdicts.push(verdict);
    }
    if let Some(seq) = last_change {
        counters::set(connection, counters::LAST_CHANGE, seq)?;
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
    get: CachedStatement<'c>,
    get_live: CachedStatement<'c>,
    keys: Keys<'c>,
    put_skip: CachedStatement<'c>,
    texts: Texts,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Done<Self> {
        Ok(Self {
            connection,
            insert: connection.prepare_cached(include_str!("sql/jobs/insert.sql"))?,
            update: connection.prepare_cached(include_str!("sql/jobs/update.sql"))?,
            get: connection.prepare_cached(include_str!("sql/jobs/get_by_id.sql"))?,
            get_live: connection.prepare_cached(include_str!("sql/jobs/get_live.sql"))?,
            keys: Keys::prepare(connection)?,
            put_skip: connection.prepare_cached(include_str!("sql/skips/insert.sql"))?,
            texts: Texts::default(),
        })
    }

    fn one(&mut self, write: &JobWrite, seq: u64, now: Timestamp) -> Done<Put> {
        if let Some(keyed) = &write.keyed
            && let Some(used) = self.keys.find(write.tenant, &keyed.key, now)?
        {
            return Ok(rules::replayed(used));
        }
        let verdict = match write.change {
            Change::Create { .. } => self.create(write, seq, now)?,
            _ => self.change(write, seq, now)?,
        };
        if let Put::Done(job) = &verdict {
            watches::job_written(self.connection, job)?;
        }
        if let Some(keyed) = &write.keyed
            && let Some(answer) = rules::remembered(keyed, &verdict, now)
        {
            self.keys.remember(write.tenant, &answer)?;
        }
        Ok(verdict)
    }

    /// Inserts first: nearly always nothing is in the way, and then the unique indexes have judged.
    fn create(&mut self, write: &JobWrite, seq: u64, now: Timestamp) -> Done<Put> {
        let job = rules::apply(write, None, now).job;
        bind(&mut self.insert, &job, seq)?;
        if self.insert.raw_execute()? == 1 {
            return Ok(Put::Done(Box::new(job)));
        }
        let (there, named) = (self.there(write.id)?, self.named(write)?);
        match rules::refusal(write, there.as_ref(), named) {
            None => Err(Error::new(Kind::Bug, format!("job {} was not inserted", write.id)).into()),
            Some(refusal) => Ok(refusal),
        }
    }

    fn change(&mut self, write: &JobWrite, seq: u64, now: Timestamp) -> Done<Put> {
        let (there, named) = (self.there(write.id)?, self.named(write)?);
        if let Some(refusal) = rules::refusal(write, there.as_ref(), named) {
            return Ok(refusal);
        }
        let Some(job) = there else { return Ok(Put::Gone) };
        let owed_from = match write.change {
            Change::Delete => versions::owed_from(self.connection, job.id)?,
            _ => None,
        };
        let judged_by = job.version;
        let Changed { job, superseded, skips: skipped } = rules::apply(write, Some(&Stored { job, owed_from }), now);
        bind(&mut self.update, &job, seq)?;
        bind_named(&mut self.update, ":judged_by", judged_by)?;
        if self.update.raw_execute()? != 1 {
            return Err(Error::new(Kind::Bug, format!("job {} changed under its writer", job.id)).into());
        }
        for old in &superseded {
            versions::insert(self.connection, old)?;
        }
        if job.state == JobState::Deleted {
            versions::close(self.connection, job.id)?;
        }
        for skip in &skipped {
            skips::insert(&mut self.put_skip, skip)?;
        }
        Ok(Put::Done(Box::new(job)))
    }

    fn there(&mut self, id: JobId) -> Done<Option<Job>> {
        let mut found = self.get.query(params![id.as_bytes(), None::<u32>])?;
        found.next()?.map(|row| rows::job(&mut Columns::of(row), &mut self.texts)).transpose()
    }

    /// The live job that has the name which a write wants.
    fn named(&mut self, write: &JobWrite) -> Done<Option<JobId>> {
        let Some(name) = rules::new_name(write) else { return Ok(None) };
        let id = self.get_live.query_row(params![write.tenant.0, name], |row| row.get(0));
        Ok(id.optional()?.map(JobId::from_bytes))
    }
}

/// Binds the columns of a job.
fn bind(statement: &mut CachedStatement<'_>, job: &Job, seq: u64) -> Done<()> {
    let millis = |instant: Option<Timestamp>| instant.map(Timestamp::millis);
    let s = statement;
    bind_named(s, ":id", job.id.as_bytes())?;
    bind_named(s, ":tenant", job.tenant.0)?;
    bind_named(s, ":version", job.version)?;
    bind_named(s, ":state", job.state.code())?;
    bind_named(s, ":next_fire_at", millis(job.cursor.next_fire_at))?;
    bind_named(s, ":fires_left", job.cursor.fires_left)?;
    bind_named(s, ":plan", &*job.plan)?;
    bind_named(s, ":firing", definition::encode_firing(&job.firing())?)?;
    bind_named(s, ":change_seq", seq as i64)?;
    bind_named(s, ":name", job.name())?;
    bind_named(s, ":tags", rows::encode_tags(&job.definition.tags))?;
    bind_named(s, ":created_at", job.created_at.millis())?;
    bind_named(s, ":effective_at", job.effective_at.millis())?;
    bind_named(s, ":paused_until", millis(job.paused_until))?;
    bind_named(s, ":definition", definition::encode(&job.definition)?)
}

/// Binds a parameter by its name, if the statement has one of that name.
pub(super) fn bind_named(statement: &mut CachedStatement<'_>, name: &str, value: impl ToSql) -> Done<()> {
    if let Some(index) = statement.parameter_index(name)? {
        statement.raw_bind_parameter(index, value)?;
    }
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
        jobs.push(found.next()?.map(|row| rows::job(&mut Columns::of(row), &mut texts)).transpose()?);
    }
    Ok(jobs)
}

/// Lists live jobs by name.
pub(super) fn list(connection: &Connection, query: &JobQuery) -> Done<Page<Job>> {
    let mut list = connection.prepare_cached(match query.pause_ends_by {
        Some(_) => include_str!("sql/jobs/list_pauses.sql"),
        None => include_str!("sql/jobs/list.sql"),
    })?;
    let prefix = query.name_prefix.as_deref().unwrap_or_default();
    let one_more = query.limit as i64 + 1;
    let mut found = match query.pause_ends_by {
        Some(by) => list.query(params![by.millis(), query.tenant.map(|tenant| tenant.0), one_more])?,
        None => list.query(params![
            query.tenant.unwrap_or(TenantId::DEFAULT).0,
            query.after.as_deref().unwrap_or_default(),
            prefix,
            prefix_end(prefix),
            query.state.map(JobState::code),
            query.tag,
            one_more,
        ])?,
    };
    let mut texts = Texts::default();
    let mut items = Vec::new();
    while let Some(row) = found.next()? {
        items.push(rows::job(&mut Columns::of(row), &mut texts)?);
    }
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(Page { items, has_more })
}

/// Reads jobs in the order of their newest changes, each after what its superseded versions still owe.
pub(super) fn load_changed(connection: &Connection, since: ChangeSeq, limit: usize) -> Done<Changes> {
    if limit == 0 {
        let upto = ChangeSeq(counters::get(connection, counters::CHANGE_SEQ)?);
        return Ok(Changes { jobs: Vec::new(), count: 0, upto });
    }
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_changed.sql"))?;
    let mut found = load.query(params![since.0.min(i64::MAX as u64) as i64, limit as i64])?;
    let mut texts = Texts::default();
    let mut changes = Changes { jobs: Vec::new(), count: 0, upto: since };
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let job = rows::planned(&mut columns, &mut texts)?;
        if job.version > 1 {
            versions::load_open(connection, job.id, &mut texts, &mut changes.jobs)?;
        }
        changes.jobs.push(job);
        changes.count += 1;
        changes.upto = ChangeSeq(columns.number()?);
    }
    Ok(changes)
}

pub(super) fn advance(connection: &Connection, fences: &[ShardFence], cursors: &[CursorMove]) -> Done<()> {
    let shards = ShardSet::of(cursors.iter().map(|cursor| campanile_model::shard::shard_of(cursor.job)));
    refuse_lost(&shards::lost(connection, &shards, fences)?)?;
    let mut advance = connection.prepare_cached(include_str!("sql/jobs/advance.sql"))?;
    // In key order, so that neighbours share pages.
    let mut ordered: Vec<&CursorMove> = cursors.iter().collect();
    ordered.sort_by_key(|cursor| cursor.job);
    for cursor in ordered {
        let moved = advance.execute(params![
            cursor.job.as_bytes(),
            cursor.version,
            cursor.cursor.next_fire_at.map(Timestamp::millis),
            cursor.cursor.fires_left,
            JobState::Active.code(),
        ])?;
        if moved == 0 {
            versions::advance(connection, cursor)?;
        }
    }
    Ok(())
}
