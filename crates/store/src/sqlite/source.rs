//! An embedded installation that is copied elsewhere: opened while no server has it, and told apart from all others.

use super::failure::{Done, Failure};
use super::lock::Lock;
use super::{MOVED, Options, get_meta, migrations, put_meta};
use crate::states::NOTE;
use campanile_model::error::{Error, Kind, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use std::path::Path;

/// The key under which `meta` keeps what tells an installation apart.
const INSTALLATION: &str = "installation";
/// Facts that are only about this database: what its own history knows, and where it went.
const OWN_FACTS: [&str; 3] = ["pruned_upto", MOVED, NOTE];

/// What the target has in tables of its own: where the fires of jobs stand, and the executions of each job, which this store folds.
const VIEWS: &str = "
    CREATE TEMP VIEW cursors AS SELECT id AS job_id, version, next_fire_at, fires_left FROM main.jobs
    WHERE next_fire_at IS NOT NULL OR fires_left IS NOT NULL;
    CREATE TEMP VIEW history AS SELECT job_id, id AS execution_id FROM main.executions";

/// A database that nobody else writes.
pub(crate) struct Source {
    connection: Connection,
    location: String,
    /// What tells this installation apart; none if nobody has asked before, and nothing may be written.
    pub(crate) installation: Option<String>,
    _lock: Option<Lock>,
}

impl Source {
    /// Opens it for a copy: keeps servers out, and brings its schema up to date.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let location = exists(path)?;
        let lock = Lock::take(path)?;
        let options = Options::new(path);
        super::refuse_other_formats(&options, &location)?;
        let connection = super::open_writer(&options, &location)?;
        migrations::migrate(&connection, &location)?;
        let failed = |failure: Failure| failure.into_error(&location);
        connection.execute_batch(VIEWS).map_err(|error| failed(error.into()))?;
        let installation = identify(&connection).map_err(failed)?;
        Ok(Self { connection, location, installation: Some(installation), _lock: Some(lock) })
    }

    /// Opens it to see what a copy would be like. Writes nothing, and a server may be at work.
    pub(crate) fn look(path: &Path) -> Result<Self> {
        let location = exists(path)?;
        let options = Options::new(path);
        super::refuse_other_formats(&options, &location)?;
        let failed = |failure: Failure| failure.into_error(&location);
        let connection = super::open_reader(&options).map_err(|error| failed(error.into()))?;
        migrations::check(&connection, &location)?;
        connection.execute_batch(VIEWS).map_err(|error| failed(error.into()))?;
        let installation = get_meta(&connection, INSTALLATION).map_err(failed)?;
        Ok(Self { connection, location, installation, _lock: None })
    }

    /// Marks the installation as moved to `place`: from now on no server starts on it.
    pub(crate) fn mark_moved(&self, place: &str) -> Result<()> {
        let mark = || {
            let now = "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now')";
            let at: String = self.connection.query_row(now, [], |row| row.get(0))?;
            put_meta(&self.connection, MOVED, &format!("{place} at {at}"))
        };
        mark().map_err(|failure| failure.into_error(&self.location))
    }

    /// Takes that mark away; answers what it said.
    pub(crate) fn unmark(&self) -> Result<Option<String>> {
        let unmark = || {
            let mark = get_meta(&self.connection, MOVED)?;
            self.connection.execute("DELETE FROM meta WHERE key = ?1", [MOVED])?;
            Done::Ok(mark)
        };
        unmark().map_err(|failure| failure.into_error(&self.location))
    }

    /// Reads rows, each as it comes.
    pub(crate) fn read(&self, sql: &str, mut each: impl FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        let mut read = || {
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(row)?;
            }
            Done::Ok(())
        };
        read().map_err(|failure| failure.into_error(&self.location))
    }

    /// Reads one number; 0 where there is none.
    pub(crate) fn number(&self, sql: &str) -> Result<i64> {
        let read = self.connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).optional();
        Ok(read.map_err(|error| Failure::from(error).into_error(&self.location))?.flatten().unwrap_or_default())
    }

    /// The columns of a table; none where there is no such table.
    pub(crate) fn columns(&self, table: &str) -> Result<Vec<String>> {
        let mut columns = Vec::new();
        let failed = |error: rusqlite::Error| Failure::from(error).into_error(&self.location);
        self.read(&format!("SELECT name FROM pragma_table_info('{table}')"), |row| {
            columns.push(row.get(0).map_err(failed)?);
            Ok(())
        })?;
        Ok(columns)
    }

    /// Facts about the whole installation that hold for its copy too.
    pub(crate) fn facts(&self) -> Result<Vec<(String, String)>> {
        let mut facts = Vec::new();
        let failed = |error: rusqlite::Error| Failure::from(error).into_error(&self.location);
        self.read("SELECT key, value FROM meta ORDER BY key", |row| {
            let fact: (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            if !OWN_FACTS.contains(&fact.0.as_str()) {
                facts.push(fact);
            }
            Ok(())
        })?;
        Ok(facts)
    }

    /// What rows say, as text: equal for equal rows in the same order.
    pub(crate) fn text(&self, sql: &str) -> Result<String> {
        let mut text = String::new();
        self.read(sql, |row| {
            for at in 0..row.as_ref().column_count() {
                let value = row.get_ref(at).map_err(|error| Failure::from(error).into_error(&self.location))?;
                match value {
                    // As the copy has it.
                    ValueRef::Text(bytes) => {
                        text.push_str(&format!("{:?} ", String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")));
                    }
                    ValueRef::Integer(number) => text.push_str(&format!("{number} ")),
                    other => text.push_str(&format!("{other:?} ")),
                }
            }
            text.push('\n');
            Ok(())
        })?;
        Ok(text)
    }
}

/// What tells this installation apart, for ever. SQLite draws it.
fn identify(connection: &Connection) -> Done<String> {
    if let Some(known) = get_meta(connection, INSTALLATION)? {
        return Ok(known);
    }
    let drawn: String = connection.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?;
    put_meta(connection, INSTALLATION, &drawn)?;
    Ok(drawn)
}

fn exists(path: &Path) -> Result<String> {
    let location = path.display().to_string();
    if path.is_file() {
        return Ok(location);
    }
    Err(Error::new(Kind::NotFound, format!("there is no database at {location}")))
}
