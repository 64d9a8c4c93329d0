//! Folding: counts and rollups are appended to by every batch, so that nobody waits for anybody, and add up when they
//! are read. Here the rows that add up to one number become one row.
//!
//! Nobody notices: who reads sees all of the rows or their sum, because both change in one transaction; who writes only
//! appends. A row that is appended meanwhile is folded the next time. Rollups of the current minute are left to grow.

use super::Locks;
use super::rows::{self, Columns, Texts};
use super::write::column;
use campanile_model::error::Result;
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::State;
use campanile_model::stats::Tally;
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx};
use std::collections::HashMap;
use std::sync::Arc;

/// The second half of the advisory lock on upkeep under which one node folds.
const TURN: i32 = 2;
/// Minute, tenant, pool, target.
type Key = (Timestamp, TenantId, Arc<str>, Arc<str>);

/// Rows that one transaction folds, about.
const ROWS_MAX: i64 = 20_000;

/// Folds counts, and rollups of minutes from `since` on; answers how many rows became fewer. Where there is nothing to
/// fold, that is one look.
pub(super) async fn run(pool: &Pool, locks: Locks, since: Timestamp) -> Result<usize> {
    let looked = pool.query(include_str!("sql/fold/look.sql"), &[&since.millis()]).await?;
    let (counts, rollups) = looked.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    let mut folded = 0;
    let mut more = counts;
    while more {
        let rows = pool.write(&locks.upkeep, |tx, lock| Box::pin(fold_counts(tx, *lock))).await?;
        folded += rows;
        more = rows as i64 >= ROWS_MAX;
    }
    let what = (locks.upkeep, since);
    more = rollups;
    while more {
        let rows = pool.write(&what, |tx, (lock, since)| Box::pin(fold_rollups(tx, *lock, *since))).await?;
        folded += rows;
        more = rows as i64 >= ROWS_MAX;
    }
    Ok(folded)
}

/// Whether it is our turn; if not, another node is at it.
async fn is_our_turn(tx: &Tx<'_>, lock: i32) -> Done<bool> {
    let row = tx.query_opt("SELECT pg_try_advisory_xact_lock($1, $2)", &[&lock, &TURN]).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

async fn fold_counts(tx: &Tx<'_>, lock: i32) -> Done<usize> {
    if !is_our_turn(tx, lock).await? {
        return Ok(0);
    }
    let gone = tx.query_opt(include_str!("sql/fold/counts.sql"), &[&ROWS_MAX]).await?;
    Ok(gone.map_or(0, |row| row.get::<_, i64>(0) as usize))
}

async fn fold_rollups(tx: &Tx<'_>, lock: i32, since: Timestamp) -> Done<usize> {
    if !is_our_turn(tx, lock).await? {
        return Ok(0);
    }
    let gone = tx.query(include_str!("sql/fold/rollups.sql"), &[&since.millis(), &ROWS_MAX]).await?;
    let mut texts = Texts::default();
    let mut sums: HashMap<Key, Tally> = HashMap::new();
    for row in &gone {
        let mut columns = Columns::of(row);
        let (minute, tenant) = (columns.instant()?, columns.tenant()?);
        let key = (minute, tenant, texts.share(columns.text()?), texts.share(columns.text()?));
        sums.entry(key).or_default().add(&rows::tally(&mut columns)?);
    }
    append_rollups(tx, &sums.into_iter().collect::<Vec<_>>()).await?;
    Ok(gone.len())
}

/// Adds to counts: tenant, pool, state, and by how much.
pub(super) async fn append_counts(tx: &Tx<'_>, changes: &[(TenantId, Arc<str>, State, i64)]) -> Done<()> {
    if changes.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/counts/add.sql"),
        &[
            &column(changes, |(tenant, ..)| i64::from(tenant.0)),
            &column(changes, |(_, pool, ..)| &**pool),
            &column(changes, |(.., state, _)| i16::from(state.code())),
            &column(changes, |(.., by)| *by),
        ],
    )
    .await?;
    Ok(())
}

async fn append_rollups(tx: &Tx<'_>, sums: &[(Key, Tally)]) -> Done<()> {
    if sums.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/rollups/add.sql"),
        &[
            &column(sums, |((minute, ..), _)| minute.millis()),
            &column(sums, |((_, tenant, ..), _)| i64::from(tenant.0)),
            &column(sums, |((_, _, pool, _), _)| &**pool),
            &column(sums, |((.., target), _)| &**target),
            &column(sums, |(_, tally)| tally.succeeded as i64),
            &column(sums, |(_, tally)| tally.failed as i64),
            &column(sums, |(_, tally)| tally.dead as i64),
            &column(sums, |(_, tally)| tally.cancelled as i64),
            &column(sums, |(_, tally)| tally.skipped as i64),
            &column(sums, |(_, tally)| rows::encode_histogram(&tally.lateness)),
            &column(sums, |(_, tally)| rows::encode_histogram(&tally.duration)),
        ],
    )
    .await?;
    Ok(())
}
