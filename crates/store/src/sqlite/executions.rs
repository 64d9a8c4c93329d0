//! Executions: fires are inserted, what `core::fire` judges by is loaded, and what it decides is written; and how executions are
//! read.

use super::cache;
use super::failure::Done;
use super::history;
use super::keys::Keys;
use super::load;
use super::rows::{self, Columns, Texts};
use super::shards;
use super::skips;
use super::write::write;
use crate::core::fire;
use crate::core::keys::Used;
use crate::core::rules::watched;
use crate::core::set::IdSet;
use crate::core::shards::ShardSet;
use campanile_model::execution::{Attempt, Execution, Reason};
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{Fire, FireBatch, FireVerdict, Waiting, WaitingQuery};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, params};

/// Inserts executions and skips, all or nothing.
pub(super) fn fire(connection: &Connection, batch: &FireBatch) -> Done<FireVerdict> {
    let lost = shards::lost(connection, &fire::guarded(batch), &batch.fences)?;
    if !lost.is_empty() {
        return Ok(FireVerdict::EpochLost(lost));
    }
    if let Some(verdict) = replay(connection, batch)? {
        return Ok(verdict);
    }
    // In id order, so that the trees append; the answers stay in the order of the batch.
    let newest = fire::newest(&batch.fires);
    let fires = newest.iter().map(|&i| &batch.fires[i]);
    let born = insert(connection, fires.clone(), fire::BORN, batch.now, None)?;
    let pairs = fires.clone().map(|fire| (fire.dispatch.job, fire.dispatch.execution));
    history::append(connection, pairs.filter(|(_, execution)| born.contains(execution)))?;
    for fire in fires.clone().filter(|fire| born.contains(&fire.dispatch.execution)) {
        cache::put_fired(fire, batch.now);
    }
    let there = fires.map(|fire| fire.dispatch.execution).filter(|id| !born.contains(id));
    let mut set = load::load(connection, there)?;
    let verdicts = fire::fire(&mut set, batch, &newest, &born)?;
    let mut put_skip = connection.prepare_cached(include_str!("sql/skips/insert.sql"))?;
    for skip in &batch.skips {
        skips::insert(&mut put_skip, skip)?;
    }
    Ok(FireVerdict::Fired(write(connection, set, verdicts)?))
}

/// The answer to a batch whose key was used before; otherwise the key is remembered with what the batch does.
fn replay(connection: &Connection, batch: &FireBatch) -> Done<Option<FireVerdict>> {
    let (Some(keyed), Some(fire)) = (&batch.idempotency, batch.fires.first()) else { return Ok(None) };
    let mut keys = Keys::prepare(connection)?;
    match keys.find(fire.dispatch.tenant, &keyed.key, batch.now)? {
        Some(Used::Same(answer)) => Ok(Some(FireVerdict::Replayed(answer))),
        Some(Used::Other) => Ok(Some(FireVerdict::KeyReused)),
        None => keys.remember(fire.dispatch.tenant, keyed).map(|()| None),
    }
}

/// Inserts executions, in this state, and ended with this reason and note where there is one. What is there stays; answers which
/// were not.
pub(super) fn insert<'f>(
    connection: &Connection,
    fires: impl Iterator<Item = &'f Fire>,
    state: State,
    now: Timestamp,
    ended: Option<(Reason, Option<&str>)>,
) -> Done<IdSet<ExecutionId>> {
    let mut insert = connection.prepare_cached(include_str!("sql/executions/fire.sql"))?;
    let mut born = IdSet::with_capacity_and_hasher(fires.size_hint().0, Default::default());
    let (reason, note) = ended.unzip();
    for fire in fires {
        let dispatch = &fire.dispatch;
        insert.raw_bind_parameter(1, dispatch.execution.as_bytes())?;
        insert.raw_bind_parameter(2, dispatch.tenant.0)?;
        insert.raw_bind_parameter(3, dispatch.job.as_bytes())?;
        insert.raw_bind_parameter(4, dispatch.job_version)?;
        insert.raw_bind_parameter(5, dispatch.fire_at.millis())?;
        insert.raw_bind_parameter(6, fire.kind.code())?;
        insert.raw_bind_parameter(7, state.code())?;
        insert.raw_bind_parameter(8, dispatch.priority.code())?;
        insert.raw_bind_parameter(9, &*dispatch.pool)?;
        insert.raw_bind_parameter(10, dispatch.action.code())?;
        insert.raw_bind_parameter(11, fire.wake_at.millis())?;
        insert.raw_bind_parameter(12, now.millis())?;
        insert.raw_bind_parameter(13, &*dispatch.target)?;
        insert.raw_bind_parameter(14, fire.overlap.code())?;
        insert.raw_bind_parameter(15, fire.covers_from.map(Timestamp::millis))?;
        insert.raw_bind_parameter(16, watched(&fire.expect))?;
        insert.raw_bind_parameter(17, reason.map(Reason::code))?;
        insert.raw_bind_parameter(18, ended.map(|_| now.millis()))?;
        insert.raw_bind_parameter(19, note.flatten())?;
        if insert.raw_execute()? == 1 {
            born.insert(dispatch.execution);
        }
    }
    Ok(born)
}

/// Reads executions that wait.
pub(super) fn load_waiting(connection: &Connection, query: &WaitingQuery) -> Done<Vec<Waiting>> {
    let shards = ShardSet::filter(&query.shards);
    let mut load = connection.prepare_cached(include_str!("sql/executions/load_waiting.sql"))?;
    let (after_at, after_id) = query.after.unwrap_or((Timestamp::MIN, ExecutionId::from_bytes([0; 16])));
    let mut found = load.query(params![
        query.before.millis(),
        after_at.millis(),
        after_id.as_bytes(),
        lifecycle::sources(Event::Claim).mask(),
        query.fired_until.millis(),
    ])?;
    let mut texts = Texts::default();
    let mut waiting = Vec::new();
    while waiting.len() < query.limit {
        let Some(row) = found.next()? else { break };
        let mut columns = Columns::of(row);
        let dispatch = rows::dispatch(&mut columns, &mut texts)?;
        if shards.as_ref().is_none_or(|shards| shards.has_job(dispatch.job)) {
            waiting.push(Waiting { dispatch, wake_at: columns.instant()? });
        }
    }
    Ok(waiting)
}

pub(super) fn get(connection: &Connection, tenant: TenantId, ids: &[ExecutionId]) -> Done<Vec<Option<Execution>>> {
    let mut get = connection.prepare_cached(include_str!("sql/executions/get.sql"))?;
    let mut texts = Texts::default();
    let mut executions = Vec::with_capacity(ids.len());
    for id in ids {
        let mut found = get.query(params![id.as_bytes(), tenant.0])?;
        executions.push(found.next()?.map(|row| rows::execution(row, &mut texts)).transpose()?);
    }
    Ok(executions)
}

/// Lists the attempts of an execution: those with rows of their own, then the one in the execution's row.
pub(super) fn list_attempts(connection: &Connection, tenant: TenantId, execution: ExecutionId) -> Done<Vec<Attempt>> {
    let mut list = connection.prepare_cached(include_str!("sql/attempts/list.sql"))?;
    let mut newest = connection.prepare_cached(include_str!("sql/attempts/get_newest.sql"))?;
    let key = params![execution.as_bytes(), tenant.0];
    let mut attempts = Vec::new();
    let mut found = list.query(key)?;
    while let Some(row) = found.next()? {
        attempts.push(rows::attempt(row)?);
    }
    let mut found = newest.query(key)?;
    if let Some(row) = found.next()? {
        let newest = rows::attempt(row)?;
        // After a failure that is tried again, it has a row of its own.
        if attempts.last().is_none_or(|last: &Attempt| last.fence != newest.fence) {
            attempts.push(newest);
        }
    }
    Ok(attempts)
}
