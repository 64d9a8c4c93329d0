//! Partitions: executions and what hangs on them, a day each, by the instant that their ids begin with. What is old is
//! dropped with its day, and not deleted row by row.
//!
//! A day is days since the Unix epoch, UTC; its partitions are named `executions_d20774` and so on. They are made a
//! week ahead. What belongs to a day that has none (a fire far in the past or future, or nobody made them) is in the
//! default partition, `executions_rest`, and works as well there; when the day gets its partition, it moves there.
//!
//! Nobody waits for this: locks are waited for shortly, and given up and tried again; one node does it at a time.

use super::Locks;
use super::migrations::patiently;
use campanile_model::error::Result;
use campanile_model::ids::ExecutionId;
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool, Tx};
use futures_util::future::BoxFuture;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// The tables, each with the column that it is partitioned by. Executions come first, and the list of them goes with them: whatever
/// else is left of a day after a crash in the middle of a drop belongs to nobody, and goes at the next try.
pub(super) const TABLES: [(&str, &str); 6] = [
    ("executions", "id"),
    (HISTORY, "execution_id"),
    ("attempts", "execution_id"),
    ("responses", "execution_id"),
    ("progress", "execution_id"),
    ("logs", "execution_id"),
];

/// The list of a job's executions.
const HISTORY: &str = "history";
/// Executions are written two or three times each: what is left free in a page keeps the new row beside the old one, which saves a
/// third of the log. What died there is used again, so that the table is no larger.
const EXECUTIONS_TERMS: &str = " WITH (fillfactor = 50)";
/// Days that have partitions, counted from today.
const AHEAD: std::ops::RangeInclusive<i64> = -1..=7;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// The second half of the advisory lock on upkeep under which partitions are made and dropped.
const TURN: i32 = 1;
/// How long others may have to wait behind us: we wait for whoever works on the table, and they for us.
const TERMS: &str = "SET LOCAL lock_timeout = '300ms'";
/// How often we try, and how long we let others work in between.
const TRIES: (u32, Duration) = (8, Duration::from_millis(200));

/// A day that has partitions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Day {
    /// Days since the Unix epoch.
    pub(super) number: i64,
    /// The smallest id of the day.
    pub(super) from: ExecutionId,
    /// The smallest id of the next day.
    pub(super) to: ExecutionId,
}

impl Day {
    pub(super) fn new(number: i64) -> Self {
        let floor = |day: i64| ExecutionId::floor(Timestamp::from_millis(day * DAY_MS));
        Self { number, from: floor(number), to: floor(number + 1) }
    }

    /// The instant at which the day begins.
    pub(super) fn start(self) -> Timestamp {
        Timestamp::from_millis(self.number * DAY_MS)
    }

    /// The instant at which the day ends.
    pub(super) fn end(self) -> Timestamp {
        Timestamp::from_millis((self.number + 1) * DAY_MS)
    }
}

/// The name of a table's partition of a day.
pub(super) fn name(table: &str, day: i64) -> String {
    format!("{table}_d{day}")
}

fn day_of(table: &str, partition: &str) -> Option<i64> {
    partition.strip_prefix(table)?.strip_prefix("_d")?.parse().ok()
}

/// Makes the partitions of yesterday and the coming days, where they are missing. When they are there, that is one
/// look. To be called at least once a day; where nobody does, or others hold the locks for long, everything still
/// works, in the default partition.
pub(super) async fn ensure(pool: &Pool) -> Result<()> {
    ensure_also(pool, &[]).await
}

/// The same, and those of other days.
pub(super) async fn ensure_also(pool: &Pool, also: &[i64]) -> Result<()> {
    let (today, made) = made(pool).await?;
    let wanted: BTreeSet<i64> = AHEAD.map(|ahead| today + ahead).chain(also.iter().copied()).collect();
    let lock = Locks::of(pool.target()).upkeep;
    for (table, key) in TABLES {
        let missing = |day: &&i64| !made.contains(&(table.to_owned(), **day));
        let days: Vec<i64> = wanted.iter().filter(missing).copied().collect();
        if days.is_empty() {
            continue;
        }
        let what = (lock, table, key, days);
        let done = patiently(pool, TRIES, &what, |tx, (lock, table, key, days)| {
            Box::pin(make(tx, *lock, (*table, *key), days))
        });
        match done.await {
            Err(error) if error.code() == "store_locked" => {
                tracing::warn!(%error, table, "cannot make partitions now; rows go to the default one until then");
            }
            done => done?,
        }
    }
    Ok(())
}

/// The days that have partitions, oldest first. One that is only partly dropped is among them.
pub(super) async fn list(pool: &Pool) -> Result<Vec<Day>> {
    let mut days: Vec<i64> = made(pool).await?.1.into_iter().map(|(_, day)| day).collect();
    days.sort_unstable();
    days.dedup();
    Ok(days.into_iter().map(Day::new).collect())
}

/// What must hold for a day to be dropped, judged in the transaction that drops it: `|tx, day, of| Box::pin(..)`.
pub(super) type Guard<A> = for<'a> fn(&'a Tx<'a>, Day, &'a A) -> BoxFuture<'a, Done<bool>>;

/// Drops all partitions of a day; says whether it did. `guard` is asked while nobody can write executions of the
/// day (they can be read, from `name("executions", day.number)` too), and may write, in the transaction that drops
/// them. It should be quick, and say no for a day that must stay. It is not asked for a day whose executions have been
/// dropped before. No, too, where another node is at it. An error with the code `store_locked` means: try again later.
pub(super) async fn drop_day<A: Sync>(pool: &Pool, day: Day, of: &A, guard: Guard<A>) -> Result<bool> {
    let lock = Locks::of(pool.target()).upkeep;
    for (table, _) in TABLES {
        let what = (lock, table, day, of, guard);
        let dropped = patiently(pool, TRIES, &what, |tx, (lock, table, day, of, guard)| {
            Box::pin(drop_one(tx, *lock, table, *day, *of, *guard))
        });
        if !dropped.await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// All partitions that are made, without the default ones: table and day. Before them, the day it is for the server.
async fn made(pool: &Pool) -> Result<(i64, HashSet<(String, i64)>)> {
    let tables: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    let found = pool.query(include_str!("sql/partitions/list.sql"), &[&tables]).await?;
    let known = |row: &Row| {
        let table: String = row.get(0);
        let day = day_of(&table, row.get(1))?;
        Some((table, day))
    };
    Ok((found.first().map_or(0, |row| row.get(2)), found.iter().filter_map(known).collect()))
}

/// Makes the partitions of one table. Attaching a table that was made before does not keep others from reading and
/// writing, but for the default partition, which must not have rows of that day.
async fn make(tx: &Tx<'_>, lock: i32, (table, key): (&str, &str), days: &[i64]) -> Done<()> {
    if !turn(tx, lock).await? {
        return Ok(());
    }
    let found = tx.query(include_str!("sql/partitions/list.sql"), &[&vec![table]]).await?;
    let there: HashSet<i64> = found.iter().filter_map(|row| day_of(table, row.get(1))).collect();
    let missing: Vec<i64> = days.iter().filter(|day| !there.contains(day)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let terms = if table == "executions" { EXECUTIONS_TERMS } else { "" };
    let make = |&day: &i64| format!("CREATE TABLE {} (LIKE {table} INCLUDING ALL){terms}", name(table, day));
    let made: Vec<String> = missing.iter().map(make).collect();
    tx.batch(&made.join(";\n")).await?;
    // A row that is on its way to the default partition when its day gets one of its own would be refused there. So
    // where rows may be on their way, everybody waits before they choose; that is, after nobody made partitions for a
    // week.
    let today: i64 = found.first().map_or(0, |row| row.get(2));
    let busy = if missing[0] <= today + 1 { format!("{table}, ") } else { String::new() };
    tx.batch(&format!("LOCK TABLE ONLY {busy}{table}_rest IN ACCESS EXCLUSIVE MODE")).await?;
    for day in missing {
        let new = name(table, day);
        let Day { from, to, .. } = Day::new(day);
        let (from, to) = (literal(from), literal(to));
        tx.batch(&format!(
            "WITH moved AS (DELETE FROM {table}_rest WHERE {key} >= {from} AND {key} < {to} RETURNING *)
             INSERT INTO {new} SELECT * FROM moved;
             ALTER TABLE {table} ATTACH PARTITION {new} FOR VALUES FROM ({from}) TO ({to})"
        ))
        .await?;
    }
    Ok(())
}

/// Drops one partition of a day, if it is there; says no when it must stay.
async fn drop_one<A>(tx: &Tx<'_>, lock: i32, table: &str, day: Day, of: &A, guard: Guard<A>) -> Done<bool> {
    if !turn(tx, lock).await? {
        return Ok(false);
    }
    let partition = name(table, day.number);
    let found = tx.query(include_str!("sql/partitions/list.sql"), &[&vec![table]]).await?;
    if !found.iter().any(|row| row.get::<_, &str>(1) == partition) {
        return Ok(true);
    }
    if table == TABLES[0].0 {
        tx.batch(&format!("LOCK TABLE {partition} IN SHARE ROW EXCLUSIVE MODE")).await?;
        if !guard(tx, day, of).await? {
            return Ok(false);
        }
    }
    // This is what everybody waits for: whoever uses the table, in any of its partitions. Whoever fires into the day meanwhile
    // writes both into the default partitions afterwards; if the list went later, it would take theirs along.
    let list = name(HISTORY, day.number);
    let also = if table == TABLES[0].0 { format!("DROP TABLE IF EXISTS {list}") } else { String::new() };
    tx.batch(&format!("DROP TABLE {partition}; {also}")).await?;
    Ok(true)
}

/// Sets the terms, and says whether it is our turn.
async fn turn(tx: &Tx<'_>, lock: i32) -> Done<bool> {
    tx.batch(TERMS).await?;
    let found = tx.query_opt("SELECT pg_try_advisory_xact_lock($1, $2)", &[&lock, &TURN]).await?;
    Ok(found.is_some_and(|row| row.get(0)))
}

/// An id as SQL spells it.
fn literal(id: ExecutionId) -> String {
    let digits: String = id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("'{digits}'::uuid")
}

#[cfg(test)]
mod tests {
    use super::super::{Options, PostgresStore};
    use super::*;
    use campanile_model::ids::{JobId, TenantId};
    use campanile_pg::{Failure, Uuid};
    use campanile_testkit::postgres;

    async fn count(pool: &Pool, sql: &str) -> i64 {
        pool.query(sql, &[]).await.unwrap()[0].get(0)
    }

    /// An execution in a state, with a log, at an instant.
    async fn put(pool: &Pool, at: i64, state: i16) {
        let at = Timestamp::from_millis(at);
        let id = Uuid::from(ExecutionId::scheduled(TenantId::DEFAULT, JobId::new(at, 0, 0), at));
        let execution =
            "INSERT INTO executions (id, tenant, job_id, job_version, fire_at, kind, state, attempt, fence, priority,
                                                 pool, action, wake_at, fired_at, target, overlap, deliveries, losses,
                                                 attempts_from, watched)
                         VALUES ($1, 1, $1, 1, 0, 0, $2, 0, 0, 2, 'short', 0, 0, 0, '', 0, 0, 0, 0, 0)";
        pool.execute(execution, &[&id, &state]).await.unwrap();
        let log = "INSERT INTO logs (execution_id, seq, fence, at, level, message) VALUES ($1, 1, 1, 0, '', '')";
        pool.execute(log, &[&id]).await.unwrap();
    }

    /// A day goes when all of its executions are over; the guard may write, too.
    async fn is_over(tx: &Tx<'_>, day: Day, over: i16) -> Done<bool> {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {} WHERE state <> $1)", name("executions", day.number));
        let found = tx.query(&sql, &[&over]).await?;
        tx.execute("INSERT INTO meta (key, value) VALUES ('asked', '') ON CONFLICT DO NOTHING", &[]).await?;
        Ok(!found[0].get::<_, bool>(0))
    }

    #[tokio::test]
    async fn a_day_is_dropped_whole_or_not_at_all() {
        let options =
            Options { schema: postgres::schema(), connections: 4, ..Options::new(postgres::url(), "node:test") };
        let store = PostgresStore::open(&options).await.unwrap();
        let pool = Pool::new(&options).unwrap();
        let days = list(&pool).await.unwrap();
        assert_eq!(days.len(), 9);
        let (day, next) = (days[2], days[3]);
        assert_eq!((next.number, next.from, day.end().millis()), (day.number + 1, day.to, next.number * DAY_MS));
        put(&pool, day.number * DAY_MS, 4).await;
        put(&pool, next.number * DAY_MS - 1, 2).await;
        put(&pool, next.number * DAY_MS, 4).await;
        let guard: Guard<i16> = |tx, day, over| Box::pin(is_over(tx, day, *over));
        assert!(!drop_day(&pool, day, &4, guard).await.unwrap(), "one runs");
        assert_eq!(
            count(&pool, "SELECT count(*) FROM meta WHERE key = 'asked'").await,
            1,
            "what a guard wrote is kept"
        );
        assert_eq!(count(&pool, "SELECT count(*) FROM executions").await, 3);
        pool.execute("UPDATE executions SET state = 4", &[]).await.unwrap();
        let failing: Guard<i16> = |_, _, _| Box::pin(async { Err(Failure::corrupt("anything")) });
        assert!(drop_day(&pool, day, &4, failing).await.is_err());
        assert_eq!(list(&pool).await.unwrap().len(), 9);
        assert!(drop_day(&pool, day, &4, guard).await.unwrap());
        assert!(!list(&pool).await.unwrap().contains(&day));
        for table in ["executions", "logs"] {
            assert_eq!(count(&pool, &format!("SELECT count(*) FROM {table}")).await, 1, "{table}");
        }
        let left = format!(
            "SELECT count(*) FROM pg_class WHERE relname ~ '_d{}$' AND relnamespace = current_schema::regnamespace",
            day.number
        );
        assert_eq!(count(&pool, &left).await, 0);
        assert!(drop_day(&pool, day, &4, failing).await.unwrap(), "what is gone is gone");
        // Somebody uses the table for long: nothing is dropped, and nobody waits for us longer than for a moment.
        let mut holder = pool.get().await.unwrap();
        let held = holder.transaction().await.unwrap();
        held.batch_execute("SELECT FROM executions").await.unwrap();
        let error = drop_day(&pool, next, &4, guard);
        let (error, _) = futures_util::future::join(error, async {
            for _ in 0..5 {
                held.batch_execute("SELECT 1").await.unwrap();
                put(&pool, (next.number + 1) * DAY_MS + 7, 4).await;
                pool.execute("DELETE FROM executions WHERE fire_at = 0 AND id > $1", &[&Uuid::from(next.to)])
                    .await
                    .unwrap();
                pool.execute("DELETE FROM logs WHERE execution_id > $1", &[&Uuid::from(next.to)]).await.unwrap();
            }
        })
        .await;
        assert_eq!(error.unwrap_err().code(), "store_locked");
        held.rollback().await.unwrap();
        assert!(drop_day(&pool, next, &4, guard).await.unwrap());
        drop(store);
        drop(holder);
        pool.execute(&format!("DROP SCHEMA {} CASCADE", options.schema), &[]).await.unwrap();
    }
}
