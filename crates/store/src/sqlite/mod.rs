//! The store in one SQLite file: nothing to install, and every acknowledged write on disk.
//!
//! # Threads
//! One thread writes (`writer`, with group commit), several read (`reader`, each with its own read-only connection), one
//! copies the log into the file (`checkpointer`), and async callers wait for their answers on channels. Nothing of SQLite ever runs on the async runtime.
//!
//! # Crash story
//! The file is in WAL mode with `synchronous = FULL`: a commit returns after its log is synced, and only then is anybody
//! told. After a crash, power cut included, SQLite replays the log up to its last whole commit. Checkpoints copy the log
//! into the file after syncing it, so that a crash between loses nothing.
//!
//! # Who may open it
//! A lock file beside the database keeps a second process out. The header's application id tells our files from others,
//! its user version tells what a newer release wrote; neither kind is touched.
//!
//! Reading order: `writer`, `reader`, `checkpointer`, `migrations`, then the verbs by noun: `jobs`, `shards`, `executions`, `history`,
//! `attempts`; `rows` and `failure` translate.

mod writer;
mod reader;
mod checkpointer;
mod lock;
mod migrations;
mod jobs;
mod due;
mod shards;
mod executions;
mod history;
mod attempts;
mod keys;
mod counters;
mod rows;
mod failure;

use campanile_model::error::{Error, Kind, Result};
use campanile_model::execution::{Attempt, Execution};
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::Job;
use campanile_model::shard::{ShardFence, ShardId};
use campanile_model::store::{
    Answer, Applied, ChangeSeq, Changes, Claim, Claimed, Completion, CursorMove, DueQuery, ExecutionQuery, Expired,
    Extension, FireBatch, FireVerdict, Idempotency, JobKey, JobQuery, JobWrite, Page, PlannedJob, Put, Skip, Store,
    StoreStatus, Waiting, WaitingQuery,
};
use campanile_model::time::Timestamp;
use checkpointer::Checkpointer;
use failure::classify;
use lock::Lock;
use reader::Readers;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use writer::Writer;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database file; its directory is created where it is missing.
    pub path: PathBuf,
    /// Threads that read.
    pub readers: usize,
    /// Page cache of the writer, in bytes.
    pub cache_bytes: u64,
    /// How much of the file readers map into memory, in bytes.
    pub map_bytes: u64,
    /// How long to wait for a foreign connection that locks the file.
    pub busy_ms: u64,
    /// A commit that leaves the log longer than this, in bytes, waits until all of it is copied into the file.
    pub log_bytes: u64,
}

impl Options {
    /// The defaults for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            readers: 2,
            cache_bytes: 256 << 20,
            map_bytes: 0,
            busy_ms: 5_000,
            log_bytes: 256 << 20,
        }
    }
}

const PAGE_BYTES: u64 = 4_096;
/// Pages of the log that gather before they are copied into the file: 16 MB.
const COPY_PAGES: i64 = 4_096;
/// Page cache of a reader, beside what it maps.
const READER_CACHE_BYTES: i64 = 4 << 20;
/// Prepared statements kept per connection; more than there are `.sql` files.
const STATEMENTS_MAX: usize = 64;
/// The key under which `meta` keeps the zone database that the cursors were computed with.
const ZONE_DATABASE: &str = "zone_database";

/// A store in an SQLite file. Dropping it finishes what was sent to it and closes the file.
pub struct SqliteStore {
    // In this order they are dropped: the writer is the last to close the file, and so folds the log into it.
    _checkpointer: Checkpointer,
    readers: Readers,
    writer: Writer,
    due: Arc<due::Rest>,
    location: Arc<str>,
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the file, creates it where it is missing, and brings its schema up to date. Blocks while it does.
    pub fn open(options: &Options) -> Result<Self> {
        let location: Arc<str> = options.path.display().to_string().into();
        let lock = Lock::take(&options.path)?;
        refuse_other_formats(options, &location)?;
        let connection = open_writer(options, &location)?;
        migrations::migrate(&connection, &location)?;
        let failed = |error| classify(&error, &location);
        let checkpointer = open_checkpointer(options).map_err(failed)?;
        let readers = (0..options.readers.max(1)).map(|_| open_reader(options).map_err(failed));
        let readers = readers.collect::<Result<Vec<Connection>>>()?;
        let writer = Writer::start(connection, location.to_string())?;
        let readers = Readers::start(readers, location.clone())?;
        let checkpointer = Checkpointer::start(checkpointer, COPY_PAGES)?;
        Ok(Self { _checkpointer: checkpointer, readers, writer, due: Arc::default(), location, _lock: lock })
    }

    /// Limits the size of the file, as a full disk would. For tests.
    #[doc(hidden)]
    pub async fn limit_pages(&self, pages: u32) -> Result<()> {
        self.writer.run(0, move |c| Ok(c.pragma_update(None, "max_page_count", pages)?)).await
    }
}

/// A file that is there must be an SQLite database, or empty.
fn refuse_other_formats(options: &Options, location: &str) -> Result<()> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let unreadable = |error| Error::new(Kind::Unavailable, format!("cannot read {location}: {error}"));
    let mut start = Vec::new();
    match std::fs::File::open(&options.path) {
        Ok(file) => {
            use std::io::Read;
            file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(unreadable)?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    }
    if start.is_empty() || start == MAGIC {
        return Ok(());
    }
    let message =
        format!("{location} is not a Campanile database, and not an SQLite file at all; it was left untouched");
    Err(Error::new(Kind::Conflict, message).with_code("store_foreign"))
}

fn open_writer(options: &Options, location: &str) -> Result<Connection> {
    let failed = |error| classify(&error, location);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags).map_err(failed)?;
    connection.busy_timeout(Duration::from_millis(options.busy_ms)).map_err(failed)?;
    // Before anything is written: is it ours?
    migrations::check(&connection, location)?;
    if connection.is_readonly("main").map_err(failed)? {
        let message = format!("not allowed to write {location}: it is read-only");
        return Err(Error::new(Kind::Unavailable, message).with_code("store_read_only"));
    }
    set_up_writer(&connection, options).map_err(failed)?;
    Ok(connection)
}

fn set_up_writer(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some(format!("this file system has no write-ahead log: journal mode is {mode}")),
        ));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -(options.cache_bytes as i64 / 1_024))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "wal_autocheckpoint", (options.log_bytes / PAGE_BYTES) as i64)?;
    connection.pragma_update(None, "journal_size_limit", options.log_bytes as i64)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

fn open_checkpointer(options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags)?;
    connection.busy_timeout(Duration::from_millis(options.busy_ms))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn open_reader(options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags)?;
    connection.busy_timeout(Duration::from_millis(options.busy_ms))?;
    connection.pragma_update(None, "mmap_size", options.map_bytes as i64)?;
    connection.pragma_update(None, "cache_size", -(READER_CACHE_BYTES / 1_024))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

#[async_trait::async_trait]
impl Store for SqliteStore {
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.run(writes.len(), move |c| jobs::put(c, &writes)).await
    }

    async fn get_jobs(&self, tenant: TenantId, keys: &[JobKey]) -> Result<Vec<Option<Job>>> {
        let keys = keys.to_vec();
        self.readers.run(move |c| jobs::get(c, tenant, &keys)).await
    }

    async fn list_jobs(&self, query: &JobQuery) -> Result<Page<Job>> {
        let query = query.clone();
        self.readers.run(move |c| jobs::list(c, &query)).await
    }

    async fn open_shards(&self, shards: &[ShardId], owner: &str) -> Result<Vec<ShardFence>> {
        let (shards, owner) = (shards.to_vec(), owner.to_owned());
        self.writer.run(shards.len(), move |c| shards::open(c, &shards, &owner)).await
    }

    async fn load_due(&self, query: &DueQuery) -> Result<Vec<PlannedJob>> {
        let query = query.clone();
        let rest = self.due.clone();
        self.readers.run(move |c| due::load(c, &query, &rest)).await
    }

    async fn load_changed(&self, since: ChangeSeq, limit: usize) -> Result<Changes> {
        self.readers.run(move |c| jobs::load_changed(c, since, limit)).await
    }

    async fn fire(&self, batch: FireBatch) -> Result<FireVerdict> {
        if batch.fires.is_empty() && batch.skips.is_empty() {
            return Ok(FireVerdict::Fired(Vec::new()));
        }
        let rows = batch.fires.len() + batch.skips.len();
        let verdict = self.writer.run(rows, move |c| executions::fire(c, &batch)).await?;
        if let FireVerdict::Fired(fired) = &verdict {
            self.writer.note_fires(fired.len());
        }
        Ok(verdict)
    }

    async fn advance(&self, fences: Arc<[ShardFence]>, cursors: Vec<CursorMove>) -> Result<()> {
        if cursors.is_empty() {
            return Ok(());
        }
        self.writer.run(cursors.len(), move |c| jobs::advance(c, &fences, &cursors)).await
    }

    async fn load_waiting(&self, query: &WaitingQuery) -> Result<Vec<Waiting>> {
        let query = query.clone();
        self.readers.run(move |c| executions::load_waiting(c, &query)).await
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.run(claims.len(), move |c| attempts::claim(c, &claims)).await
    }

    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Applied>> {
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.run(extensions.len(), move |c| attempts::extend(c, &extensions)).await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Vec<Applied>> {
        if completions.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.run(completions.len(), move |c| attempts::complete(c, &completions)).await
    }

    async fn load_expired(&self, now: Timestamp, live_nodes: &[String], limit: usize) -> Result<Vec<Expired>> {
        let live_nodes = live_nodes.iter().cloned().collect();
        self.readers.run(move |c| attempts::load_expired(c, now, &live_nodes, limit)).await
    }

    async fn cancel(
        &self,
        tenant: TenantId,
        executions: Vec<ExecutionId>,
        now: Timestamp,
        idempotency: Option<Idempotency>,
    ) -> Result<Vec<Applied>> {
        if executions.is_empty() {
            return Ok(Vec::new());
        }
        let work = move |c: &Connection| executions::cancel(c, tenant, &executions, now, idempotency.as_ref());
        self.writer.run(1, work).await
    }

    async fn get_executions(&self, tenant: TenantId, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>> {
        let ids = ids.to_vec();
        self.readers.run(move |c| executions::get(c, tenant, &ids)).await
    }

    async fn list_executions(&self, query: &ExecutionQuery) -> Result<Page<Execution>> {
        let query = query.clone();
        self.readers.run(move |c| executions::list(c, &query)).await
    }

    async fn list_attempts(&self, tenant: TenantId, execution: ExecutionId) -> Result<Vec<Attempt>> {
        self.readers.run(move |c| executions::list_attempts(c, tenant, execution)).await
    }

    async fn list_skips(&self, tenant: TenantId, job: JobId, limit: usize) -> Result<Vec<Skip>> {
        self.readers.run(move |c| executions::list_skips(c, tenant, job, limit)).await
    }

    async fn recall(&self, tenant: TenantId, scope: &str, key: &str, now: Timestamp) -> Result<Option<(u128, Answer)>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.readers.run(move |c| keys::recall(c, tenant, &scope, &key, now)).await
    }

    async fn forget_keys(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.writer.run(limit, move |c| keys::forget(c, now, limit)).await
    }

    async fn mark_zone_database(&self, version: &str) -> Result<()> {
        let version = version.to_owned();
        self.writer.run(1, move |c| put_meta(c, ZONE_DATABASE, &version)).await
    }

    async fn status(&self) -> Result<StoreStatus> {
        let location = self.location.clone();
        self.readers.run(move |c| status(c, &location)).await
    }
}

fn status(connection: &Connection, location: &str) -> failure::Done<StoreStatus> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let log_bytes = std::fs::metadata(format!("{location}-wal")).map_or(0, |file| file.len());
    Ok(StoreStatus {
        kind: "sqlite".into(),
        location: location.into(),
        schema: number("user_version")? as u32,
        bytes: number("page_count")? as u64 * number("page_size")? as u64 + log_bytes,
        jobs: counters::get(connection, counters::LIVE_JOBS)?,
        zone_database: get_meta(connection, ZONE_DATABASE)?.unwrap_or_default(),
    })
}

fn get_meta(connection: &Connection, key: &str) -> failure::Done<Option<String>> {
    let mut get = connection.prepare_cached(include_str!("sql/meta/get.sql"))?;
    Ok(get.query_row([key], |row| row.get(0)).optional()?)
}

fn put_meta(connection: &Connection, key: &str, value: &str) -> failure::Done<()> {
    let mut put = connection.prepare_cached(include_str!("sql/meta/put.sql"))?;
    put.execute([key, value])?;
    Ok(())
}

#[cfg(test)]
mod tests;
