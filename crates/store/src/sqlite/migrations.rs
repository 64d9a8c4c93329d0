//! Numbered, forward-only migrations. The number of the newest one applied is the file's `user_version`. After them comes
//! what follows from the states, see `crate::states`.

use super::failure::{Done, classify};
use super::{get_meta, put_meta};
use crate::states;
use campanile_model::error::{Error, Kind, Result};
use rusqlite::Connection;

/// Marks a file as ours in its header: "Camp".
pub(super) const APPLICATION_ID: i32 = 0x4361_6d70;

/// All migrations, first one first; the first is number 1. Never edit one that was released.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_start.sql")];

/// The number of the newest migration this binary knows.
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Views and indexes of some states.
const STATES: &str = include_str!("states.sql");

/// Refuses files that are not ours, or that a newer release wrote. Reads only.
pub(super) fn check(connection: &Connection, location: &str) -> Result<()> {
    let failed = |error| classify(&error, location);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(());
    }
    if application != i64::from(APPLICATION_ID) {
        let message = format!("{location} is an SQLite database of another application; it was left untouched");
        return Err(Error::new(Kind::Conflict, message).with_code("store_foreign"));
    }
    if version > i64::from(NEWEST) {
        let message = format!(
            "{location} was written by a newer release: its schema is {version}, this binary knows up to {NEWEST}; \
             it was left untouched"
        );
        return Err(Error::new(Kind::Conflict, message).with_code("store_newer"));
    }
    let noted = get_meta(connection, states::NOTE).map_err(|failure| failure.into_error(location))?;
    states::check(noted.as_deref(), location)
}

/// Brings the schema up to date, each migration in a transaction of its own.
pub(super) fn migrate(connection: &Connection, location: &str) -> Result<()> {
    let failed = |error| classify(&error, location);
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    for (number, sql) in (1..).zip(MIGRATIONS).skip(version as usize) {
        let transaction = connection.unchecked_transaction().map_err(failed)?;
        transaction.execute_batch(&states::drops(STATES)).map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        transaction.pragma_update(None, "user_version", number).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        tracing::info!(number, location, "migrated the store");
    }
    let done = make_views(connection);
    done.map_err(|failure| failure.into_error(location))
}

/// Makes the views that are missing after a migration; and, where the states have changed, all views and indexes anew.
fn make_views(connection: &Connection) -> Done<()> {
    let transaction = connection.unchecked_transaction()?;
    let is_noted = get_meta(&transaction, states::NOTE)?.is_some_and(|noted| noted == states::note(STATES));
    let has_views = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'view')";
    if is_noted && transaction.query_row(has_views, [], |row| row.get(0))? {
        return Ok(());
    }
    transaction.execute_batch(if is_noted { states::views(STATES) } else { STATES })?;
    put_meta(&transaction, states::NOTE, &states::note(STATES))?;
    Ok(transaction.commit()?)
}
