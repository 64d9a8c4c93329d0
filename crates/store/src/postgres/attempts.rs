//! The end of attempts: what `core::complete` judges by is locked and read, and what it decides is written.

use super::Locks;
use super::claims::load_starts;
use super::effects;
use super::load::{self, LockScope, RowLocks};
use super::progress;
use super::write;
use crate::core::complete::{self, jobs_to_judge, may_start, unclaimed};
use crate::core::effects::Preload;
use crate::core::record::Record;
use campanile_model::store::{Applied, Completion, Verdicts};
use campanile_pg::{Done, Tx};
use futures_util::try_join;

pub(super) async fn complete(
    tx: &Tx<'_>,
    locks: Locks,
    row_locks: RowLocks,
    completions: &[Completion],
) -> Done<Verdicts<Applied>> {
    let unclaimed = unclaimed(completions)?;
    let scope = if unclaimed.is_empty() { LockScope::Runs(locks) } else { LockScope::Jobs(locks) };
    let mut set = load::load(tx, scope, row_locks, completions.iter().map(Completion::execution)).await?;
    let wanted: Vec<&Record> = unclaimed.iter().filter_map(|claim| may_start(&set, claim)).collect();
    let logging = completions.iter().filter(|completion| !completion.logs.is_empty()).map(Completion::execution);
    let ((pools, fences), newest, (watches, outbox), reports) = try_join!(
        load_starts(tx, &wanted),
        load::get_in_force(tx, jobs_to_judge(&set, &unclaimed)),
        effects::preload(tx, Preload::of(&set, completions)),
        progress::load_reports(tx, logging),
    )?;
    load::add_in_force(tx, &mut set, newest).await?;
    (set.pools, set.fences) = (pools, fences.into_iter());
    (set.effects.watches, set.effects.outbox, set.reports) = (watches, outbox, reports);
    let verdicts = complete::complete(&mut set, completions)?;
    write::write(tx, set, verdicts).await
}
