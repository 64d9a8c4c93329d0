//! What follows from changes of state, as it is written. Counts and rollups are appended and not added to: a row that every
//! batch changes would let batches wait for each other. The sum counts, and upkeep folds what has piled up.

use super::dead;
use super::load::{Ids, job_ids};
use super::outbox;
use super::rows::encode_histogram;
use super::watches;
use super::write::column;
use crate::core::effects::{Effects, Preload};
use crate::core::outbox::Outbox;
use crate::core::sums::Sums;
use crate::core::watches::Watches;
use campanile_pg::{Done, Tx};
use futures_util::try_join;

/// Reads what may follow from completions. Locks what is expected of their executions and jobs.
pub(super) async fn preload(tx: &Tx<'_>, preload: Preload) -> Done<(Watches, Outbox)> {
    let Preload { watched, succeeding, ending, events } = preload;
    let watches = watches::load(tx, Ids::of(watched), job_ids(succeeding), job_ids(ending));
    try_join!(watches, outbox::load(tx, &events))
}

/// Writes everything but the groups of dead executions.
pub(super) async fn write(tx: &Tx<'_>, effects: &Effects) -> Done<()> {
    try_join!(
        watches::write(tx, &effects.watches),
        outbox::write(tx, &effects.outbox),
        write_counts(tx, &effects.sums),
        write_rollups(tx, &effects.sums),
    )?;
    Ok(())
}

pub(super) async fn write_groups(tx: &Tx<'_>, effects: &Effects) -> Done<()> {
    dead::grow(tx, &effects.sums.dead).await?;
    dead::shrink(tx, &effects.risen).await
}

async fn write_counts(tx: &Tx<'_>, sums: &Sums) -> Done<()> {
    let counts: Vec<_> = sums.counts().collect();
    if counts.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/counts/add.sql"),
        &[
            &column(&counts, |(tenant, ..)| i64::from(tenant.0)),
            &column(&counts, |(_, pool, ..)| &***pool),
            &column(&counts, |(_, _, state, _)| i16::from(state.code())),
            &column(&counts, |(.., by)| *by),
        ],
    )
    .await?;
    Ok(())
}

async fn write_rollups(tx: &Tx<'_>, sums: &Sums) -> Done<()> {
    let rollups = sums.rollups();
    if rollups.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/rollups/add.sql"),
        &[
            &column(rollups, |((minute, ..), _)| *minute),
            &column(rollups, |((_, tenant, ..), _)| i64::from(tenant.0)),
            &column(rollups, |((_, _, pool, _), _)| &**pool),
            &column(rollups, |((.., target), _)| &**target),
            &column(rollups, |(_, tally)| tally.succeeded as i64),
            &column(rollups, |(_, tally)| tally.failed as i64),
            &column(rollups, |(_, tally)| tally.dead as i64),
            &column(rollups, |(_, tally)| tally.cancelled as i64),
            &column(rollups, |(_, tally)| tally.skipped as i64),
            &column(rollups, |(_, tally)| encode_histogram(&tally.lateness)),
            &column(rollups, |(_, tally)| encode_histogram(&tally.duration)),
        ],
    )
    .await?;
    Ok(())
}
