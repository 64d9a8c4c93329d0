//! The thread that copies the log into the file, beside the writer and not in its way.
//!
//! Left to itself, SQLite does this inside a commit, and the callers of that commit wait for it. Here a thread with its
//! own connection does it in passive mode, which blocks nobody. The log starts over when all of it is copied at the
//! moment of a write. Under writes without a pause that moment never comes by itself, so the writer keeps SQLite's own
//! checkpoint as a bound: when the log is `Options::log_bytes` long, a commit copies the little that is left.
//!
//! What is there is copied at least once a second, and if the log is long then, it is started over. Many small commits
//! write the same pages again and again: the log would grow by megabytes for a file of a few hundred kilobytes, fill a small
//! disk, and leave the file no room to grow into.

use campanile_model::error::{Error, Kind, Result};
use rusqlite::Connection;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the log is measured.
const PERIOD: Duration = Duration::from_millis(100);
/// After so many of these times whatever is there is copied.
const ROUNDS_MAX: u32 = 10;
/// A log of more pages than this is started over when it is nearly copied: 4 MB.
const LONG_PAGES: i64 = 1_024;
/// Pages that are left to copy when it is. The writer waits for that, and for the sync of what was copied since the last one: for
/// some milliseconds, if the disk is not slow.
const LEFT_PAGES_MAX: i64 = 256;
/// How long the writer, and then the readers, are waited for; meanwhile nobody writes.
const START_OVER_WAIT: Duration = Duration::from_millis(10);

/// The handle; dropping it stops the thread.
pub(super) struct Checkpointer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. It copies when more than `pages` of the log are not copied, when nobody writes, and once a second.
    pub(super) fn start(connection: Connection, pages: i64) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let (mut last, mut rounds) = (0, 0);
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                rounds = (rounds + 1) % ROUNDS_MAX;
                let copied =
                    if rounds == 0 { copy_and_start_over(&connection) } else { copy(&connection, pages, last) };
                // A failure here loses nothing: the log stays, and the next round or the writer tries again.
                match copied {
                    Ok(logged) => last = logged,
                    Err(error) => tracing::debug!(%error, "cannot copy the log into the file"),
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-checkpointer".into()).spawn(run);
        let thread =
            thread.map_err(|e| Error::new(Kind::Unavailable, format!("cannot start the checkpointer: {e}")))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies the log if it is long, or as long as it was `last` time: then it is short work, and afterwards readers need not
/// look into the log at all. Answers how long it is.
fn copy(connection: &Connection, pages: i64, last: i64) -> rusqlite::Result<i64> {
    let (logged, copied) = checkpoint(connection, "NOOP")?;
    if logged - copied > pages || (logged == last && copied < logged) {
        checkpoint(connection, "PASSIVE")?;
    }
    Ok(logged)
}

/// Copies what is there; a long log is started over, unless much of it was written meanwhile. Answers how long it is.
fn copy_and_start_over(connection: &Connection) -> rusqlite::Result<i64> {
    let (logged, copied) = checkpoint(connection, "PASSIVE")?;
    if logged > LONG_PAGES && logged - copied <= LEFT_PAGES_MAX {
        connection.busy_timeout(START_OVER_WAIT)?;
        checkpoint(connection, "RESTART")?;
    }
    Ok(logged)
}

/// How many pages the log has, and how many of them are copied, after a checkpoint of this mode.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<(i64, i64)> {
    let lengths = |row: &rusqlite::Row<'_>| Ok((row.get(1)?, row.get(2)?));
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_copied_and_a_short_one_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let connection = Connection::open(directory.path().join("x.db")).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
        connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))").unwrap();
        let left = |connection: &Connection| -> i64 {
            connection
                .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
                .unwrap()
        };
        let logged = left(&connection);
        assert!(logged > 20, "{logged}");
        assert_eq!(copy(&connection, 1_000, 0).unwrap(), logged);
        assert_eq!(left(&connection), logged, "short, and just written");
        copy(&connection, 10, 0).unwrap();
        assert_eq!(left(&connection), 0, "long");
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let logged = copy(&connection, 1_000, 0).unwrap();
        assert_eq!(left(&connection), logged);
        copy(&connection, 1_000, logged).unwrap();
        assert_eq!(left(&connection), 0, "nobody wrote since");
    }

    #[test]
    fn a_long_log_is_started_over_although_others_write() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Connection::open(directory.path().join("x.db")).unwrap();
        let (writer, checkpointer) = (open(), open());
        writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)").unwrap();
        // Many commits of the same page.
        let fill = || {
            for n in 0..2 * LONG_PAGES {
                writer.execute("UPDATE t SET x = ?1", [n]).unwrap();
            }
        };
        writer.execute("INSERT INTO t VALUES (0)", []).unwrap();
        fill();
        let log = || std::fs::metadata(directory.path().join("x.db-wal")).unwrap().len();
        let long = log();
        copy_and_start_over(&checkpointer).unwrap();
        fill();
        assert_eq!(log(), long, "written from its start again");
        // A reader that needs the log keeps it from being started over, and is not waited for.
        let reader = open();
        reader.execute_batch("BEGIN").unwrap();
        reader.query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
        fill();
        copy_and_start_over(&checkpointer).unwrap();
        fill();
        assert!(log() > long);
    }
}
