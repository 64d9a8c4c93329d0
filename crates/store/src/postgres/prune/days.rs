//! Days that are dropped whole: that is a matter of moments, where deleting their rows would take hours.
//!
//! A day goes when it is older than the longest time for which any state is kept, and holds nothing that must stay: no
//! execution that has not ended, none in a state that is kept without end, none that ended late, none that a cursor has
//! not passed.
//!
//! Its rows must be counted, because counters count them, and that takes a while. Meanwhile nobody may change them, and
//! nobody else may wait; a lock would let all wait, since whoever uses the table may lock all of its partitions. So the
//! partition is *sealed* before: a constraint that no row meets, and that is not asked of the rows that are there,
//! refuses whoever wants to write such an old execution (a backfill, or a replay). It gets an error for the moment, and
//! tries again. A day that turns out to have something that must stay is unsealed. A crash leaves a sealed day, and the
//! next pruning goes on with it.

use super::super::Locks;
use super::super::fold;
use super::super::migrations::patiently;
use super::super::partitions::{self, Day, TABLES};
use super::super::rows::{Columns, Texts};
use super::super::skips;
use super::super::write::column;
use super::is_our_turn;
use crate::core::retention::Order;
use campanile_model::error::Result;
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::{self, State, StateSet};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx, Uuid};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a day is left alone that has something that must stay, and one that others are at work on.
const LOOK_AGAIN_MS: (i64, i64) = (3_600_000, 60_000);
/// Younger days are never dropped: they would be made again.
const YOUNG_MS: u64 = 86_400_000;
/// How long others may have to wait behind us, and how long a count may take.
const TERMS: &str = "SET LOCAL lock_timeout = '300ms'; SET LOCAL statement_timeout = '10min'";
/// How often we try, and how long we let others work in between.
const TRIES: (u32, Duration) = (20, Duration::from_millis(200));

/// Days that could not be dropped, with the instant at which they are looked at again.
pub(super) type Progress = HashMap<i64, Timestamp>;

/// What a day holds.
#[derive(Default)]
struct Tally {
    counts: Vec<(TenantId, Arc<str>, State, i64)>,
    /// When the last one ended, by the same places.
    finished_at: Vec<Option<Timestamp>>,
    /// Tenant, fingerprint, and how many died of it.
    dead: Vec<(i64, i64, i64)>,
}

/// What became of a day, or what is to.
enum Fate<T> {
    Goes(T),
    /// Something of it must stay.
    Stays,
    /// Others are at work on it.
    Busy,
}

/// Drops the oldest day that may be dropped. How many executions it had; none if there is no such day now.
pub(super) async fn drop_next(
    pool: &Pool,
    locks: Locks,
    order: &Order,
    mut looked: Progress,
) -> Result<(Option<usize>, Progress)> {
    let Some(longest) = order.keeps().filter_map(|keep| keep.age_ms).max() else { return Ok((None, looked)) };
    let longest = longest.max(YOUNG_MS);
    let days = partitions::list(pool).await?;
    let old = |day: &Day| day.end() <= order.ago(longest) && looked.get(&day.number).is_none_or(|&at| at <= order.now);
    let Some(day) = days.into_iter().find(old) else { return Ok((None, looked)) };
    let fate = match drop_if_over(pool, locks, order, day).await {
        Err(error) if error.code() == "store_locked" => {
            tracing::warn!(%error, day = day.number, "cannot drop an old day now; trying again");
            Fate::Busy
        }
        fate => fate?,
    };
    let wait_ms = match fate {
        Fate::Goes(executions) => {
            tracing::info!(day = day.number, executions, "dropped an old day");
            looked.remove(&day.number);
            return Ok((Some(executions), looked));
        }
        Fate::Stays => LOOK_AGAIN_MS.0,
        Fate::Busy => LOOK_AGAIN_MS.1,
    };
    looked.insert(day.number, order.now.saturating_add_ms(wait_ms));
    Ok((None, looked))
}

/// Drops a day, if nothing of it must stay. How many executions it had.
async fn drop_if_over(pool: &Pool, locks: Locks, order: &Order, day: Day) -> Result<Fate<usize>> {
    match count(pool, locks, order, day).await? {
        Fate::Goes(_) => {}
        Fate::Stays => return Ok(Fate::Stays),
        Fate::Busy => return Ok(Fate::Busy),
    }
    let what = (locks.upkeep, day);
    let sealed = patiently(pool, TRIES, &what, |tx, (lock, day)| Box::pin(seal(tx, *lock, *day))).await?;
    let counted = match sealed {
        Fate::Goes(Some(seal)) => (seal, count(pool, locks, order, day).await?),
        // Its executions were dropped before a crash; the rest follows.
        Fate::Goes(None) => (0, Fate::Goes(Tally::default())),
        Fate::Stays | Fate::Busy => return Ok(Fate::Busy),
    };
    let (seal, tally) = match counted {
        (seal, Fate::Goes(tally)) => (seal, tally),
        (_, Fate::Busy) => return Ok(Fate::Busy),
        (_, Fate::Stays) => {
            patiently(pool, TRIES, &what, |tx, (lock, day)| Box::pin(unseal(tx, *lock, *day))).await?;
            return Ok(Fate::Stays);
        }
    };
    let executions = tally.counts.iter().map(|(.., n)| *n as usize).sum();
    let what = (seal, tally, order.now);
    let dropped = partitions::drop_day(pool, day, &what, |tx, day, (seal, tally, now)| {
        Box::pin(leave(tx, day, (*seal, tally), *now))
    });
    Ok(if dropped.await? { Fate::Goes(executions) } else { Fate::Busy })
}

async fn count(pool: &Pool, locks: Locks, order: &Order, day: Day) -> Result<Fate<Tally>> {
    let what = (locks.upkeep, order, day);
    pool.write(&what, |tx, (lock, order, day)| Box::pin(look(tx, *lock, order, *day))).await
}

/// Counts a day that may be dropped.
async fn look(tx: &Tx<'_>, lock: i32, order: &Order, day: Day) -> Done<Fate<Tally>> {
    if !is_our_turn(tx, lock).await? {
        return Ok(Fate::Busy);
    }
    tx.batch(TERMS).await?;
    let (from, to) = (Uuid::from(day.from), Uuid::from(day.to));
    let aged = |state: &State| order.keeps().any(|keep| keep.state == *state && keep.age_ms.is_some());
    let endless: StateSet = lifecycle::FINAL.iter().filter(|state| !aged(state)).collect();
    // Successes are in no index: they are only looked for where none of them may go.
    let happy_ones_stay = !endless.and(lifecycle::HAPPY).is_empty();
    let endless: Vec<i16> = endless.iter().map(|state| i16::from(state.code())).collect();
    let sql = include_str!("../sql/prune/look.sql");
    let must_stay = tx.query_opt(sql, &[&from, &to, &endless, &day.end().millis(), &happy_ones_stay]).await?;
    if must_stay.is_none_or(|row| row.get(0)) {
        return Ok(Fate::Stays);
    }
    let tally = tally(tx, from, to).await?;
    Ok(if tally.is_over(order) { Fate::Goes(tally) } else { Fate::Stays })
}

async fn tally(tx: &Tx<'_>, from: Uuid, to: Uuid) -> Done<Tally> {
    let mut tally = Tally::default();
    let mut texts = Texts::default();
    for row in tx.query(include_str!("../sql/prune/tally.sql"), &[&from, &to]).await? {
        let mut columns = Columns::of(&row);
        let (tenant, pool) = (columns.tenant()?, texts.share(columns.text()?));
        tally.counts.push((tenant, pool, columns.state()?, columns.next()?));
        tally.finished_at.push(columns.instant_or_none()?);
    }
    for row in tx.query(include_str!("../sql/prune/tally_dead.sql"), &[&from, &to]).await? {
        tally.dead.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    }
    Ok(tally)
}

impl Tally {
    /// Whether the time of all of them is over. What ran long after its instant is as old as its end.
    fn is_over(&self, order: &Order) -> bool {
        self.counts.iter().zip(&self.finished_at).all(|((.., state, _), finished_at)| {
            let age_ms = order.keeps().filter(|keep| keep.state == *state).find_map(|keep| keep.age_ms);
            age_ms.is_some_and(|age_ms| finished_at.is_none_or(|at| at < order.ago(age_ms)))
        })
    }
}

/// The days that are sealed, each with the number of its seal.
pub(super) async fn sealed(tx: &Tx<'_>) -> Done<Vec<(Day, i64)>> {
    let found = tx.query(include_str!("../sql/prune/sealed.sql"), &[]).await?;
    let day = |name: &str| name.strip_prefix(TABLES[0].0)?.strip_prefix("_d")?.parse().ok();
    Ok(found.iter().filter_map(|row| Some((Day::new(day(row.get(0))?), row.get(1)))).collect())
}

async fn seal_of(tx: &Tx<'_>, day: Day) -> Done<Option<i64>> {
    Ok(sealed(tx).await?.into_iter().find(|(sealed, _)| *sealed == day).map(|(_, seal)| seal))
}

/// Seals a day, if it is not sealed yet: from now on nobody writes to it. Answers with the number of the seal; none
/// where the executions of the day were dropped before.
async fn seal(tx: &Tx<'_>, lock: i32, day: Day) -> Done<Fate<Option<i64>>> {
    if !is_our_turn(tx, lock).await? {
        return Ok(Fate::Busy);
    }
    if let Some(seal) = seal_of(tx, day).await? {
        return Ok(Fate::Goes(Some(seal)));
    }
    tx.batch(TERMS).await?;
    let partition = partitions::name(TABLES[0].0, day.number);
    tx.batch(&format!("ALTER TABLE IF EXISTS {partition} ADD CONSTRAINT sealed CHECK (false) NOT VALID")).await?;
    Ok(Fate::Goes(seal_of(tx, day).await?))
}

/// Lets a day be written to again.
async fn unseal(tx: &Tx<'_>, lock: i32, day: Day) -> Done<()> {
    if is_our_turn(tx, lock).await? {
        tx.batch(TERMS).await?;
        let partition = partitions::name(TABLES[0].0, day.number);
        tx.batch(&format!("ALTER TABLE IF EXISTS {partition} DROP CONSTRAINT IF EXISTS sealed")).await?;
    }
    Ok(())
}

/// Takes the executions of a day out of all counts, in the transaction that drops them, if they are still those that
/// were counted.
async fn leave(tx: &Tx<'_>, day: Day, (seal, tally): (i64, &Tally), now: Timestamp) -> Done<bool> {
    if seal_of(tx, day).await? != Some(seal) {
        return Ok(false);
    }
    let gone: Vec<_> =
        tally.counts.iter().map(|(tenant, pool, state, n)| (*tenant, pool.clone(), *state, -n)).collect();
    fold::append_counts(tx, &gone).await?;
    let (from, to) = (Uuid::from(day.from), Uuid::from(day.to));
    if !tally.dead.is_empty() {
        let (tenants, fingerprints) = (column(&tally.dead, |dead| dead.0), column(&tally.dead, |dead| dead.1));
        let counts = column(&tally.dead, |dead| dead.2);
        let sql = include_str!("../sql/prune/leave_groups.sql");
        tx.execute(sql, &[&tenants, &fingerprints, &counts, &from, &to]).await?;
    }
    skips::leave_day_behind(tx, (from, to), (day.start(), day.end()), now).await?;
    tx.execute(include_str!("../sql/prune/leave_watches.sql"), &[&from, &to]).await?;
    tx.execute(include_str!("../sql/prune/leave_overlaps.sql"), &[&from, &to]).await?;
    Ok(true)
}
