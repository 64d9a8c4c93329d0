//! Cancelling: fires that have not come are inserted, what `core::cancel` judges by is locked and read, and what it decides
//! is written.

use super::Locks;
use super::executions;
use super::keys;
use super::load::{self, LockScope, RowLocks};
use super::write;
use crate::core::cancel::{self, execution};
use campanile_model::store::{CancelBatch, CancelVerdict, Verdicts};
use campanile_pg::{Done, Tx};

/// Cancels executions and fires.
pub(super) async fn cancel(tx: &Tx<'_>, locks: Locks, batch: &CancelBatch) -> Done<Verdicts<CancelVerdict>> {
    // First, so that nobody can fire what was looked for and not found.
    let ended = Some((cancel::REASON, batch.note.as_deref()));
    let born = executions::insert(tx, &cancel::unborn(batch), cancel::BORN, batch.now, ended).await?;
    let there = batch.targets.iter().map(execution).filter(|id| !born.contains(id));
    let mut set = load::load(tx, LockScope::Runs(locks), RowLocks::Now, there).await?;
    let (verdicts, all_new) = cancel::cancel(&mut set, batch, born)?;
    let answer = write::write(tx, set, verdicts).await?;
    if let Some(key) = batch.idempotency.as_ref().filter(|_| all_new) {
        keys::remember(tx, &[(batch.tenant, key)]).await?;
    }
    Ok(answer)
}
