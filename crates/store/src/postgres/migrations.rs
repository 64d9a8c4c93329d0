//! Numbered, forward-only migrations. Those that were applied are noted in `schema_migrations`. After them comes what
//! follows from the states, see `crate::states`.
//!
//! Any number of nodes may start at once, and others may be at work meanwhile: each migration is a transaction that
//! one node runs at a time, and none waits for a lock longer than a moment, because whoever comes after it would wait
//! too. A node that finds everything up to date reads, and locks nothing.

use super::rows::Columns;
use super::shards;
use crate::states;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::store::StoreStatus;
use campanile_pg::pool::Write;
use campanile_pg::{Done, Pool, Tx};
use std::time::Duration;

/// All migrations, first one first; the first is number 1. Never edit one that was released.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_start.sql")];

/// The number of the newest migration this binary knows.
const NEWEST: i64 = MIGRATIONS.len() as i64;

/// Views and indexes of some states.
const STATES: &str = include_str!("states.sql");

/// What every migration starts with. It waits shortly for locks, but may work long.
const TERMS: &str = "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '1h'";
/// Where the numbers of migrations are noted.
const NOTES: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    number     int8 PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)";

/// How often somebody who does not get a lock tries again, and how long it lets others work in between.
const TRIES: (u32, Duration) = (120, Duration::from_millis(500));

/// What is to be done next.
struct Next {
    /// The migration to apply; none when only what follows from the states is to be made anew.
    number: Option<i64>,
    schema_is_missing: bool,
    schema: String,
    lock: i32,
}

/// Brings the schema up to date. Refuses one that is not ours, or that a newer release wrote.
pub(super) async fn run(pool: &Pool) -> Result<()> {
    while let Some(next) = look(pool).await? {
        // The second half is always the same: one migration at a time, whichever it is.
        let applied = patiently(pool, TRIES, &next, |tx, next| Box::pin(apply(tx, next))).await?;
        if applied {
            let number = next.number.unwrap_or(NEWEST);
            tracing::info!(number, location = &**pool.target().location(), "migrated the store");
        }
    }
    Ok(())
}

/// What is to be applied next. Reads only.
async fn look(pool: &Pool) -> Result<Option<Next>> {
    let (schema, location) = (&**pool.target().schema(), pool.target().location());
    let notes = format!("\"{schema}\".schema_migrations");
    let found = pool.query(include_str!("sql/migrations/look.sql"), &[&schema, &notes]).await?;
    let (exists, used, ours) = found.first().map_or((false, false, false), |row| (row.get(0), row.get(1), row.get(2)));
    if used && !ours {
        let message = format!("{location} belongs to another application; it was left untouched");
        return Err(Error::new(Kind::Conflict, message).with_code("store_foreign"));
    }
    let applied = if ours { newest(pool).await? } else { 0 };
    if applied > NEWEST {
        let message = format!(
            "{location} was written by a newer release: its schema is {applied}, this binary knows up to {NEWEST}; \
             it was left untouched"
        );
        return Err(Error::new(Kind::Conflict, message).with_code("store_newer"));
    }
    let noted = if applied > 0 { noted(pool).await? } else { None };
    states::check(noted.as_deref(), location)?;
    let is_to_date = applied == NEWEST && noted.is_some_and(|noted| noted == states::note(STATES));
    Ok((!is_to_date).then(|| Next {
        number: (applied < NEWEST).then_some(applied + 1),
        schema_is_missing: !exists,
        schema: schema.to_owned(),
        lock: pool.target().lock_class("migrations"),
    }))
}

/// The note of what was made for the states.
async fn noted(pool: &Pool) -> Result<Option<String>> {
    let found = pool.query(include_str!("sql/meta/get.sql"), &[&states::NOTE]).await?;
    Ok(found.first().map(|row| row.get(0)))
}

async fn newest(pool: &Pool) -> Result<i64> {
    let found = pool.query(include_str!("sql/migrations/newest.sql"), &[]).await?;
    Ok(found.first().map_or(0, |row| row.get(0)))
}

/// Applies a migration, unless another node did: then it says no. With the last one, or without any, the views are made
/// anew, and the indexes if the states have changed: nobody sees the one without the other.
async fn apply(tx: &Tx<'_>, next: &Next) -> Done<bool> {
    tx.batch(TERMS).await?;
    tx.query("SELECT pg_advisory_xact_lock($1, 0)", &[&next.lock]).await?;
    if next.schema_is_missing {
        // Only where it is missing: whoever may not make schemas may be given one.
        tx.batch(&format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", next.schema)).await?;
    }
    tx.batch(NOTES).await?;
    let applied = tx.query(include_str!("sql/migrations/newest.sql"), &[]).await?;
    let applied = applied.first().map_or(0, |row| row.get::<_, i64>(0));
    if let Some(number) = next.number {
        if applied >= number {
            return Ok(false);
        }
        tx.batch(&states::drops(STATES)).await?;
        tx.batch(MIGRATIONS[number as usize - 1]).await?;
        tx.execute(include_str!("sql/migrations/note.sql"), &[&number]).await?;
    }
    if next.number.unwrap_or(applied) == NEWEST {
        let noted = tx.query_opt(include_str!("sql/meta/get.sql"), &[&states::NOTE]).await?;
        let is_noted = noted.is_some_and(|row| row.get::<_, String>(0) == states::note(STATES));
        if is_noted && next.number.is_none() {
            return Ok(false);
        }
        tx.batch(if is_noted { states::views(STATES) } else { STATES }).await?;
        tx.execute(include_str!("sql/meta/put.sql"), &[&states::NOTE, &states::note(STATES)]).await?;
    }
    Ok(true)
}

/// Runs what waits for locks only shortly, and again after a pause as long as it does not get them.
pub(super) async fn patiently<A, T>(
    pool: &Pool,
    (tries, pause): (u32, Duration),
    what: &A,
    write: Write<A, T>,
) -> Result<T>
where
    A: ?Sized + Sync,
{
    let mut tried = 0;
    loop {
        tried += 1;
        match pool.write(what, write).await {
            Err(error) if error.code() == "store_locked" && tried < tries => {
                tracing::debug!(%error, tried, "others hold the locks; trying again");
                tokio::time::sleep(pause).await;
            }
            done => return done,
        }
    }
}

pub(super) async fn status(pool: &Pool) -> Done<StoreStatus> {
    let target = pool.target();
    let found = pool.query(include_str!("sql/meta/status.sql"), &[&&**target.schema()]).await?;
    let mut status = StoreStatus {
        kind: "postgres".into(),
        location: target.location().to_string(),
        schema: 0,
        bytes: 0,
        jobs: 0,
        shards: shards::list(pool).await?,
    };
    if let Some(row) = found.first() {
        let mut columns = Columns::of(row);
        status.schema = columns.small()?;
        status.bytes = columns.number()?;
        status.jobs = columns.number()?;
    }
    Ok(status)
}
