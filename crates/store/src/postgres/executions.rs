//! Executions: fire; and what every write of one execution needs: to end it, to ask it to stop.

use super::Locks;
use super::keys::{self, Used};
use super::overlaps;
use super::rows::storable;
use super::shards;
use super::sheet::{Against, Shape, Sheet, column, ms};
use crate::change::EndedAttempt;
use crate::rules::{in_order, watched};
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::shard::{ShardId, shard_of};
use campanile_model::store::{Fire, FireBatch, FireVerdict, Fired, Skip, Waiting};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Tx, Uuid};
use futures_util::try_join;
use std::collections::{BTreeSet, HashSet};

/// Inserts executions and skips, all or nothing. Answers also with executions that may start because a newer version of
/// their job gave up a turn.
pub(super) async fn fire(tx: &Tx<'_>, locks: Locks, batch: &FireBatch) -> Done<(FireVerdict, Vec<Waiting>)> {
    let guarded = guarded(batch);
    if !guarded.is_empty() {
        let lost = shards::lost(tx, &guarded, &batch.fences).await?;
        if !lost.is_empty() {
            return Ok((FireVerdict::EpochLost(lost), Vec::new()));
        }
    }
    if let Some(verdict) = replay(tx, batch).await? {
        return Ok((verdict, Vec::new()));
    }
    let order = in_order(&batch.fires, |fire| fire.dispatch.execution);
    let state = lifecycle::target(Event::Refire);
    let mut new = insert(tx, order.iter().map(|&i| &batch.fires[i]), state, batch.now, None).await?;
    // The others are there already, or come twice.
    let is_new = |i: &usize| new.remove(&batch.fires[*i].dispatch.execution);
    let (born, existing): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_new);
    let ids = existing.iter().map(|&i| batch.fires[i].dispatch.execution);
    let mut sheet = Sheet::load(tx, Against::Runs(locks), ids).await?;
    let mut verdicts = vec![Fired::Exists; batch.fires.len()];
    for i in born {
        let fire = &batch.fires[i];
        sheet.effects.sums.count(fire.dispatch.tenant, &fire.dispatch.pool, None, Some(state));
        sheet.effects.watches.begin(fire);
        verdicts[i] = Fired::New;
    }
    for i in existing {
        if refire(&mut sheet, &batch.fires[i], batch.now)? {
            verdicts[i] = Fired::New;
        }
    }
    let (_, ready) = try_join!(skip(tx, &batch.skips), sheet.write(tx))?;
    Ok((FireVerdict::Fired(verdicts), ready))
}

/// The shards that must be the caller's. What somebody asked for needs no fence where there is none: no schedule
/// repeats it.
fn guarded(batch: &FireBatch) -> Vec<ShardId> {
    let unfenced = batch.fences.is_empty();
    let fires = batch.fires.iter().filter(|fire| !(unfenced && fire.kind != FireKind::Schedule));
    let jobs = fires.map(|fire| fire.dispatch.job).chain(batch.skips.iter().map(|skip| skip.job));
    let shards: BTreeSet<ShardId> = jobs.map(shard_of).collect();
    shards.into_iter().collect()
}

/// The answer to a batch whose key was used before; otherwise the key is remembered with what the batch does.
async fn replay(tx: &Tx<'_>, batch: &FireBatch) -> Done<Option<FireVerdict>> {
    let (Some(key), Some(fire)) = (&batch.idempotency, batch.fires.first()) else { return Ok(None) };
    let key = [(fire.dispatch.tenant, key)];
    match keys::find(tx, &key, batch.now).await?.pop().flatten() {
        Some(Used::Same(answer)) => Ok(Some(FireVerdict::Replayed(answer))),
        Some(Used::Other) => Ok(Some(FireVerdict::KeyReused)),
        None => keys::remember(tx, &key).await.map(|()| None),
    }
}

/// Inserts executions that are in the order of their ids, in this state, and ended with this reason and note where
/// there is one. What is there stays; answers which were not.
pub(super) async fn insert(
    tx: &Tx<'_>,
    fires: impl Iterator<Item = &Fire>,
    state: State,
    now: Timestamp,
    ended: Option<(Reason, Option<&str>)>,
) -> Done<HashSet<ExecutionId>> {
    let mut fires: Vec<&Fire> = fires.collect();
    fires.dedup_by_key(|fire| fire.dispatch.execution);
    if fires.is_empty() {
        return Ok(HashSet::new());
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
                &column(&fires, |fire| Uuid::from(fire.dispatch.execution)),
                &column(&fires, |fire| i64::from(fire.dispatch.tenant.0)),
                &column(&fires, |fire| Uuid::from(fire.dispatch.job)),
                &column(&fires, |fire| i64::from(fire.dispatch.job_version)),
                &column(&fires, |fire| fire.dispatch.fire_at.millis()),
                &column(&fires, |fire| i16::from(fire.kind.code())),
                &column(&fires, |fire| i16::from(fire.dispatch.priority.code())),
                &column(&fires, |fire| &*fire.dispatch.pool),
                &column(&fires, |fire| i16::from(fire.dispatch.action.code())),
                &column(&fires, |fire| fire.wake_at.millis()),
                &column(&fires, |fire| &*fire.dispatch.target),
                &column(&fires, |fire| i16::from(fire.overlap.code())),
                &column(&fires, |fire| ms(fire.covers_from)),
                &column(&fires, |fire| i16::from(watched(&fire.expect))),
            ],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get::<_, Uuid>(0).into()).collect())
}

/// Gives an execution that is there to a newer version of its job, if that may take it over: it has not begun, and was
/// not skipped for another reason than its version. Says whether it did.
fn refire(sheet: &mut Sheet<'_>, fire: &Fire, now: Timestamp) -> Done<bool> {
    let dispatch = &fire.dispatch;
    // One that is gone again was there long ago.
    let Some(found) = sheet.get(dispatch.execution) else { return Ok(false) };
    let given_way = !found.state.is_final() || found.reason == Some(Reason::StaleVersion);
    let begun = found.attempt > 0 || found.first_start().is_some();
    let legal = lifecycle::sources(Event::Refire).contains(found.state);
    if !legal || !given_way || begun || found.job_version >= dispatch.job_version {
        return Ok(false);
    }
    let state = lifecycle::target(Event::Refire);
    let (was, overlap, pool) = (found.state, found.of.overlap, found.of.pool.clone());
    sheet.effects.sums.count(dispatch.tenant, &pool, Some(was), None);
    sheet.effects.sums.count(dispatch.tenant, &dispatch.pool, None, Some(state));
    let record = sheet.at(dispatch.execution)?;
    record.of.pool = dispatch.pool.clone();
    record.of.target = dispatch.target.clone();
    record.of.overlap = fire.overlap;
    record.of.watched = watched(&fire.expect);
    record.job_version = dispatch.job_version;
    (record.state, record.reason, record.finished_at) = (state, None, None);
    (record.priority, record.action) = (dispatch.priority, dispatch.action);
    (record.wake_at, record.fired_at, record.covers_from) = (fire.wake_at, now, fire.covers_from);
    record.touch(Shape::Whole);
    sheet.effects.watches.begin_again(fire);
    // What waited for its turn asks for it again, by its new policy.
    let leaves = fire.overlap == Overlap::Allow || was == State::Held;
    if overlap != Overlap::Allow && leaves {
        overlaps::over(sheet, (dispatch.job, dispatch.execution), now)?;
    }
    Ok(true)
}

async fn skip(tx: &Tx<'_>, skips: &[Skip]) -> Done<()> {
    if skips.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/executions/skip.sql"),
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

/// Ends an execution that no completion ends; the attempt that runs ends with it, as cancelled. Whoever waited for it
/// is the caller's business.
pub(super) fn end(
    sheet: &mut Sheet<'_>,
    id: ExecutionId,
    event: Event,
    (reason, note): (Reason, Option<&str>),
    now: Timestamp,
) -> Done<()> {
    let found = sheet.at(id)?;
    let runs = found.runs();
    let attempt = found.started_at.filter(|_| runs).map(|started_at| EndedAttempt {
        number: found.attempt,
        started_at,
        error: None,
        fingerprint: None,
    });
    let record = sheet.change(id, event, (now, Some(reason)), attempt)?;
    (record.reason, record.finished_at) = (Some(reason), Some(now));
    if runs {
        record.outcome = Some(AttemptOutcome::Cancelled);
    }
    if let Some(note) = note {
        record.note = Some(note.to_owned());
    }
    record.touch(Shape::Whole);
    Ok(())
}

/// Asks a running attempt to stop until `until`, and answers when its lease ends now. Asking again only makes it
/// earlier, and the first one to ask is remembered.
pub(super) fn ask(
    sheet: &mut Sheet<'_>,
    id: ExecutionId,
    (reason, note): (Reason, Option<&str>),
    until: Timestamp,
    now: Timestamp,
) -> Done<Timestamp> {
    let record = sheet.at(id)?;
    record.wake_at = record.wake_at.min(until);
    if record.cancel_requested_at.is_none() {
        (record.cancel_requested_at, record.cancel_reason) = (Some(now), Some(reason));
    }
    if record.note.is_none() {
        record.note = note.map(str::to_owned);
    }
    record.touch(Shape::Whole);
    Ok(record.wake_at)
}
