//! Cancelling: fires that have not come are inserted, what `core::cancel` judges by is loaded, and what it decides is written.

use super::executions::insert;
use super::failure::Done;
use super::history;
use super::keys;
use super::load;
use super::write::write;
use crate::core::cancel::{self, execution};
use campanile_model::store::{CancelBatch, CancelTarget, CancelVerdict, Verdicts};
use rusqlite::Connection;

/// Cancels executions and fires.
pub(super) fn cancel(connection: &Connection, batch: &CancelBatch) -> Done<Verdicts<CancelVerdict>> {
    let unborn = cancel::unborn(batch);
    let ended = Some((cancel::REASON, batch.note.as_deref()));
    let born = insert(connection, unborn.iter().copied(), cancel::BORN, batch.now, ended)?;
    let pairs = unborn.iter().map(|fire| (fire.dispatch.job, fire.dispatch.execution));
    history::append(connection, pairs.filter(|(_, execution)| born.contains(execution)))?;
    let there = batch.targets.iter().map(execution).filter(|id| !born.contains(id));
    let mut set = load::load(connection, there)?;
    let (verdicts, all_new) = cancel::cancel(&mut set, batch, born)?;
    let answer = write(connection, set, verdicts)?;
    if let Some(key) = batch.idempotency.as_ref().filter(|_| all_new) {
        keys::Keys::prepare(connection)?.remember(batch.tenant, key)?;
    }
    Ok(answer)
}

/// How many executions a batch may make.
pub(super) fn births(batch: &CancelBatch) -> usize {
    batch.targets.iter().filter(|target| matches!(target, CancelTarget::Fire(_))).count()
}
