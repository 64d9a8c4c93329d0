//! Copies of the database in one file, made while a server is at work, and put back while none is.
//!
//! A backup reads one snapshot, beside the writer and without holding it up; meanwhile the log cannot be cut, so it
//! grows by what is written. The copy is checked before it gets its name: whoever finds a file of that name finds a
//! whole one.
//!
//! # Crash story
//! Backup: what is unfinished is called `.tmp`, and the next one writes over it. Restore: the new database is whole and
//! synced before the old one is touched; the old one gets its second name, loses its log, and is replaced by a rename.
//!
//! # What goes back in time
//! A restored installation knows nothing of what happened after its backup. Numbers that others have seen must not come
//! again: fences, which targets compare, and the numbers of events, by which endpoints tell repetitions. Both leave a
//! gap.

use super::failure::classify;
use super::lock::Lock;
use super::migrations;
use campanile_model::error::{Error, Kind, Result};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pages that are copied between two words about the progress: 16 MB.
const STEP_PAGES: i32 = 4_096;
/// How long to wait when somebody locks the file as a whole.
const BUSY: Duration = Duration::from_millis(5_000);
/// More than an installation hands out between two backups.
const GAP: i64 = 1_000_000_000;
/// What SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What a copy holds.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Size of the file.
    pub bytes: u64,
    /// Jobs that are not deleted.
    pub jobs: u64,
    /// Executions, whatever became of them.
    pub executions: u64,
    /// The number of its schema.
    pub schema: u32,
}

/// A restored database, and where the one before it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    pub summary: Summary,
    /// The database that was there.
    pub kept: Option<PathBuf>,
}

/// Copies a database, whether or not a server has it open, into one file that needs no other. `told` hears of pages
/// done and of all pages.
pub fn backup(database: &Path, to: &Path, force: bool, told: &mut dyn FnMut(u64, u64)) -> Result<Summary> {
    if is_same_file(database, to) {
        return Err(Error::new(Kind::Invalid, format!("{} is the database itself", to.display())));
    }
    if !force && to.exists() {
        return Err(exists(to));
    }
    let aside = with_suffix(to, ".tmp");
    let copied = copy(database, &aside, told).and_then(|summary| {
        put_in_place(&aside, to).map_err(|error| cannot("write", to, &error))?;
        Ok(summary)
    });
    copied.inspect_err(|_| remove(&aside))
}

/// Makes a backup the database. Nobody may have that open. The database that is there already is only replaced with
/// `force`, and kept beside it.
pub fn restore(from: &Path, database: &Path, force: bool, told: &mut dyn FnMut(u64, u64)) -> Result<Restored> {
    if is_same_file(from, database) {
        return Err(Error::new(Kind::Invalid, format!("{} is the database itself", from.display())));
    }
    let _lock = Lock::take(database)?;
    if !force && database.exists() {
        return Err(exists(database));
    }
    let aside = with_suffix(database, ".restore");
    let restored = copy(from, &aside, told).and_then(|summary| {
        leave_a_gap(&aside)?;
        let failed = |error| cannot("replace", database, &error);
        let kept = keep_old(database).map_err(failed)?;
        put_in_place(&aside, database).map_err(failed)?;
        Ok(Restored { summary, kept })
    });
    restored.inspect_err(|_| remove(&aside))
}

/// Copies a snapshot of a database into a new file, and checks it there.
fn copy(from: &Path, to: &Path, told: &mut dyn FnMut(u64, u64)) -> Result<Summary> {
    let source = open_ours(from)?;
    remove(to);
    // It holds what the database holds, so it is for its owner alone too.
    let made = File::options().write(true).create_new(true).mode(0o600).open(to);
    made.map_err(|error| cannot("write", to, &error))?;
    let from = from.display().to_string();
    copy_pages(&source, to, told).map_err(|error| classify(&error, &from))?;
    drop(source);
    let summary = check(to, &from)?;
    let synced = File::open(to).and_then(|file| file.sync_all());
    synced.map_err(|error| cannot("write", to, &error))?;
    Ok(summary)
}

/// Opens a file that must be a database of ours. Reads only.
fn open_ours(path: &Path) -> Result<Connection> {
    let location = path.display().to_string();
    if !path.is_file() {
        return Err(Error::new(Kind::NotFound, format!("there is no database at {location}")));
    }
    super::refuse_other_formats(&super::Options::new(path), &location)?;
    let failed = |error| classify(&error, &location);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    migrations::check(&connection, &location)?;
    if number(&connection, "PRAGMA user_version").map_err(failed)? == 0 {
        return Err(Error::new(Kind::Conflict, format!("{location} is empty")).with_code("store_foreign"));
    }
    Ok(connection)
}

fn copy_pages(source: &Connection, to: &Path, told: &mut dyn FnMut(u64, u64)) -> rusqlite::Result<()> {
    // A transaction of our own keeps the snapshot from the first page to the last. Without it, every write of the
    // server's would make the copy start again.
    let snapshot = source.unchecked_transaction()?;
    number(&snapshot, "SELECT count(*) FROM sqlite_schema")?;
    let mut copy = Connection::open(to)?;
    // Unfinished it is worth nothing, and finished it is synced once.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    let backup = Backup::new(source, &mut copy)?;
    loop {
        match backup.step(STEP_PAGES)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {
                let progress = backup.progress();
                let total = progress.pagecount.max(0) as u64;
                told(total - (progress.remaining.max(0) as u64).min(total), total);
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Makes a copy a file that needs no other, and checks every page and index of it.
fn check(path: &Path, from: &str) -> Result<Summary> {
    let location = path.display().to_string();
    let failed = |error| classify(&error, &location);
    let connection = Connection::open(path).map_err(failed)?;
    // It would have a log beside it otherwise, as the server's has.
    connection.pragma_update(None, "journal_mode", "DELETE").map_err(failed)?;
    let told: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if told != "ok" {
        let message = format!("{from} is damaged: {told}");
        return Err(Error::new(Kind::Corrupt, message).with_code("store_corrupt"));
    }
    migrations::check(&connection, &location)?;
    let number = |sql| number(&connection, sql).map_err(failed);
    Ok(Summary {
        bytes: std::fs::metadata(path).map_or(0, |file| file.len()),
        jobs: number("SELECT value FROM counters WHERE name = 'live_jobs'")? as u64,
        executions: number("SELECT count(*) FROM executions")? as u64,
        schema: number("PRAGMA user_version")? as u32,
    })
}

/// Moves the numbers on that others have seen.
fn leave_a_gap(path: &Path) -> Result<()> {
    let location = path.display().to_string();
    let lift = || {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.unchecked_transaction()?;
        transaction.execute("UPDATE counters SET value = value + ?1 WHERE name = 'fence'", [GAP])?;
        let outbox = "SELECT 1 FROM sqlite_schema WHERE name = 'outbox'";
        if transaction.query_row(outbox, [], |_| Ok(())).optional()?.is_some() {
            let lifted = "UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'outbox'";
            if transaction.execute(lifted, [GAP])? == 0 {
                transaction.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox', ?1)", [GAP])?;
            }
        }
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    };
    lift().map_err(|error| classify(&error, &location))
}

/// Gives the database a second name, under which it stays when the first one goes to another file. The log of the old
/// one must be gone before that: SQLite would apply it to the new one.
fn keep_old(database: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut kept = None;
    if database.exists() {
        // What is in the log goes into the file, if it still can.
        if let Ok(connection) = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        let name = |n: u32| match n {
            1 => with_suffix(database, ".before-restore"),
            n => with_suffix(database, &format!(".before-restore.{n}")),
        };
        let free = (1..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(1));
        link_or_copy(database, &free)?;
        let log = with_suffix(database, COMPANIONS[0]);
        if log.exists() {
            link_or_copy(&log, &with_suffix(&free, COMPANIONS[0]))?;
        }
        kept = Some(free);
    }
    remove_companions(database);
    sync_directory(database)?;
    Ok(kept)
}

fn link_or_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::hard_link(from, to).or_else(|_| {
        std::fs::copy(from, to)?;
        File::open(to)?.sync_all()
    })
}

fn put_in_place(aside: &Path, path: &Path) -> std::io::Result<()> {
    std::fs::rename(aside, path)?;
    sync_directory(path)
}

fn sync_directory(of: &Path) -> std::io::Result<()> {
    let parent = of.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// Removes a file of ours that was never finished, and what SQLite kept beside it.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    remove_companions(path);
}

fn remove_companions(of: &Path) {
    for suffix in COMPANIONS {
        let _ = std::fs::remove_file(with_suffix(of, suffix));
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}

fn exists(path: &Path) -> Error {
    Error::new(Kind::Conflict, format!("{} exists already", path.display()))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Kind::Unavailable, format!("cannot {what} {}: {error}", path.display())).with_code("store_io")
}
