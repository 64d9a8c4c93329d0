//! The thread that copies the log into the file, beside the writer and not in its way.
//!
//! Left to itself, SQLite does this inside a commit, and the callers of that commit wait for it. Here a thread with its
//! own connection does it in passive mode, which blocks nobody. The log starts over when all of it is copied at the
//! moment of a write. Under writes without a pause that moment never comes by itself, so the writer keeps SQLite's own
//! checkpoint as a bound: when the log is `Options::log_bytes` long, a commit copies the little that is left.

use campanile_model::error::{Error, Kind, Result};
use rusqlite::Connection;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the log is measured.
const PERIOD: Duration = Duration::from_millis(100);

/// The handle; dropping it stops the thread.
pub(super) struct Checkpointer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. It copies when more than `pages` of the log are not copied, and all when nobody writes.
    pub(super) fn start(connection: Connection, pages: i64) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut last = 0;
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // A failure here loses nothing: the log stays, and the next round or the writer tries again.
                match copy(&connection, pages, last) {
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
    let lengths = |mode: &str| {
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
    };
    let (logged, copied) = lengths("NOOP")?;
    if logged - copied > pages || (logged == last && copied < logged) {
        lengths("PASSIVE")?;
    }
    Ok(logged)
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
}
