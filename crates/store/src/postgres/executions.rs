//! Fires: new executions are inserted, what `core::fire` judges by is locked and read, and what it decides is written.

use super::Locks;
use super::bulk::{self, Stream};
use super::keys;
use super::load::{self, LockScope, RowLocks};
use super::rows::storable;
use super::shards;
use super::skips;
use super::write::{column, ms, write};
use crate::core::fire;
use crate::core::keys::Used;
use crate::core::rules::watched;
use crate::core::set::IdSet;
use campanile_model::execution::Reason;
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::State;
use campanile_model::store::{Fire, FireBatch, FireVerdict};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::types::Type;
use campanile_pg::{Done, Tx, Uuid};
use futures_util::try_join;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A batch to fire.
pub(super) struct Fires {
    pub(super) locks: Locks,
    pub(super) batch: FireBatch,
    /// Whether they are written without looking whether one is there. If one is, nothing is written, and the error says so
    /// (`bulk::is_conflict`).
    pub(super) are_new: bool,
    /// Told whether some of a large batch were there, where it was looked.
    pub(super) repeats: Arc<AtomicBool>,
}

/// Inserts executions and skips, all or nothing.
pub(super) async fn fire(tx: &Tx<'_>, what: &Fires) -> Done<FireVerdict> {
    let Fires { locks, batch, are_new, repeats } = what;
    let guarded = fire::guarded(batch);
    if !guarded.is_empty() {
        let lost = shards::lost(tx, &guarded, &batch.fences).await?;
        if !lost.is_empty() {
            return Ok(FireVerdict::EpochLost(lost));
        }
    }
    if let Some(verdict) = replay(tx, batch).await? {
        return Ok(verdict);
    }
    let newest = fire::newest(&batch.fires);
    let fires: Vec<&Fire> = newest.iter().map(|&i| &batch.fires[i]).collect();
    let born = match are_new {
        true => copy(tx, &fires, batch.now).await.map_err(bulk::as_conflict)?,
        false => insert(tx, &fires, fire::BORN, batch.now, None).await?,
    };
    if fires.len() >= bulk::ROWS_MIN {
        repeats.store(born.len() < fires.len(), Ordering::Relaxed);
    }
    let there = fires.iter().map(|fire| fire.dispatch.execution).filter(|id| !born.contains(id));
    let mut set = load::load(tx, LockScope::Runs(*locks), RowLocks::Now, there).await?;
    let verdicts = fire::fire(&mut set, batch, &newest, &born)?;
    let (_, answer) = try_join!(skips::insert(tx, &batch.skips), write(tx, set, verdicts))?;
    Ok(FireVerdict::Fired(answer))
}

/// The answer to a batch whose key was used before; otherwise the key is remembered with what the batch does.
async fn replay(tx: &Tx<'_>, batch: &FireBatch) -> Done<Option<FireVerdict>> {
    let (Some(answered), Some(fire)) = (&batch.idempotency, batch.fires.first()) else { return Ok(None) };
    let tenant = fire.dispatch.tenant;
    match keys::find(tx, &[(tenant, &answered.key)], batch.now).await?.pop().flatten() {
        Some(Used::Same(answer)) => Ok(Some(FireVerdict::Replayed(answer))),
        Some(Used::Other) => Ok(Some(FireVerdict::KeyReused)),
        None => keys::remember(tx, &[(tenant, answered)]).await.map(|()| None),
    }
}

/// Inserts executions as a stream; answers with their ids: all of them.
async fn copy(tx: &Tx<'_>, fires: &[&Fire], now: Timestamp) -> Done<IdSet<ExecutionId>> {
    let mut rows = Stream::begin(tx, include_str!("sql/executions/copy.sql"), &COLUMNS).await?;
    let zero = 0_i64;
    for fire in fires {
        let dispatch = &fire.dispatch;
        rows.put(&[
            &Uuid::from(dispatch.execution),
            &Uuid::from(dispatch.job),
            &i64::from(dispatch.tenant.0),
            &i64::from(dispatch.job_version),
            &dispatch.fire_at.millis(),
            &now.millis(),
            &i16::from(fire.kind.code()),
            &i16::from(dispatch.priority.code()),
            &i16::from(dispatch.action.code()),
            &i16::from(fire.overlap.code()),
            &i16::from(watched(&fire.expect)),
            &ms(fire.covers_from),
            &&*dispatch.pool,
            &&*dispatch.target,
            &i16::from(fire::BORN.code()),
            &fire.wake_at.millis(),
            &zero,
            &zero,
            &zero,
            &zero,
            &zero,
        ])
        .await?;
    }
    rows.end().await?;
    let mut rows =
        Stream::begin(tx, include_str!("sql/executions/copy_history.sql"), &[Type::UUID, Type::UUID]).await?;
    for fire in fires {
        rows.put(&[&Uuid::from(fire.dispatch.job), &Uuid::from(fire.dispatch.execution)]).await?;
    }
    rows.end().await?;
    Ok(fires.iter().map(|fire| fire.dispatch.execution).collect())
}

/// The types of the columns of `executions/copy.sql`.
const COLUMNS: [Type; 21] = [
    Type::UUID,
    Type::UUID,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT2,
    Type::INT2,
    Type::INT2,
    Type::INT2,
    Type::INT2,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::INT2,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
];

/// Inserts executions that are in the order of their ids, each once, in this state, and ended with this reason and note where
/// there is one. What is there stays; answers which were not.
pub(super) async fn insert(
    tx: &Tx<'_>,
    fires: &[&Fire],
    state: State,
    now: Timestamp,
    ended: Option<(Reason, Option<&str>)>,
) -> Done<IdSet<ExecutionId>> {
    if fires.is_empty() {
        return Ok(IdSet::default());
    }
    let (reason, note) = ended.unzip();
    let rows = tx
        .query(
            include_str!("sql/executions/fire.sql"),
            &[
                &i16::from(state.code()),
                &now.millis(),
                &reason.map(|reason| i16::from(reason.code())),
                &ended.map(|_| now.millis()),
                &note.flatten().map(storable),
                &column(fires, |fire| Uuid::from(fire.dispatch.execution)),
                &column(fires, |fire| i64::from(fire.dispatch.tenant.0)),
                &column(fires, |fire| Uuid::from(fire.dispatch.job)),
                &column(fires, |fire| i64::from(fire.dispatch.job_version)),
                &column(fires, |fire| fire.dispatch.fire_at.millis()),
                &column(fires, |fire| i16::from(fire.kind.code())),
                &column(fires, |fire| i16::from(fire.dispatch.priority.code())),
                &column(fires, |fire| &*fire.dispatch.pool),
                &column(fires, |fire| i16::from(fire.dispatch.action.code())),
                &column(fires, |fire| fire.wake_at.millis()),
                &column(fires, |fire| &*fire.dispatch.target),
                &column(fires, |fire| i16::from(fire.overlap.code())),
                &column(fires, |fire| ms(fire.covers_from)),
                &column(fires, |fire| i16::from(watched(&fire.expect))),
            ],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get::<_, Uuid>(0).into()).collect())
}
