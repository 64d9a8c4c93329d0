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
//! A lock file beside the database keeps a second process out, and a mark all others once it was moved to PostgreSQL.
//! The header's application id tells our files from others, its user version tells what a newer release wrote; neither
//! kind is touched.
//!
//! Reading order: `writer`, `reader`, `checkpointer`, `migrations`; then `load`, `write` and `cache`, through which every
//! change of state goes, and the verbs by noun, as they stand below, judged in `crate::core`; then lists and upkeep
//! (`listing`, `stats`, `prune`, `reconcile`), `records`, and notifications (`outbox`, `watches`, and what the writer has
//! `known` of them); `rows` and `failure` translate.

mod writer;
mod reader;
mod checkpointer;
mod lock;
mod migrations;
pub mod backup;
pub(crate) mod source;
mod jobs;
mod versions;
mod due;
mod pulse;
mod shards;
mod load;
mod write;
mod cache;
mod executions;
mod skips;
mod history;
mod claims;
mod attempts;
mod leases;
mod capacities;
mod cancels;
mod dead;
mod progress;
mod effects;
mod keys;
mod counters;
mod listing;
mod stats;
mod prune;
mod reconcile;
mod records;
mod outbox;
mod watches;
mod known;
mod rows;
mod failure;

use crate::clock::StoreClock;
use crate::records::{Row, delete_step, put_step};
use campanile_model::capacity::Count;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::execution::{Attempt, Execution};
use campanile_model::fault::{Bug, Step, planted};
use campanile_model::ids::{EndpointId, ExecutionId, JobId, TenantId};
use campanile_model::job::Job;
use campanile_model::limits;
use campanile_model::notify::{Broken, Delivery, Endpoint};
use campanile_model::shard::ShardFence;
use campanile_model::stats::{Rollup, StatsQuery};
use campanile_model::store::{
    Answer, Applied, CallerKey, CancelBatch, CancelVerdict, ChangeSeq, Changes, Claim, Claimed, Completion, CursorMove,
    DeadGroup, Deferral, DeliveryWrite, DueQuery, ExecutionPage, ExecutionQuery, Expected, Extended, Extension,
    FireBatch, FireVerdict, JobKey, JobQuery, JobVersion, JobWrite, Jobs, Page, Path, PlannedJob, Pruned, Pulse, Put,
    Reads, Record, RecordKey, RecordQuery, Records, Reports, Resolve, Retention, RunningAttempt, RunningQuery, Skips,
    StoreStatus, Stored, Verdicts, Waiting, WaitingQuery,
};
use campanile_model::time::{Clock, Timestamp};
use checkpointer::Checkpointer;
use failure::classify;
use lock::Lock;
use parking_lot::Mutex;
use reader::Readers;
use rusqlite::config::DbConfig;
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
const STATEMENTS_MAX: usize = 256;
/// Claims or outcomes in one write: 15 ms of the writer's time, 35 ms where a no-op is claimed by its outcome.
const WRITE_ROWS_MAX: usize = 4_096;
/// The key under which `meta` keeps where and when the installation was moved to.
const MOVED: &str = "moved";

/// A store in an SQLite file. Dropping it finishes what was sent to it and closes the file.
pub struct SqliteStore {
    // In this order they are dropped: the writer is the last to close the file, and so folds the log into it.
    _checkpointer: Option<Checkpointer>,
    readers: Readers,
    writer: Writer,
    due: Arc<due::Rest>,
    pruned: Mutex<prune::Progress>,
    location: Arc<str>,
    clock: StoreClock,
    _lock: Option<Lock>,
}

impl SqliteStore {
    /// Opens the file, creates it where it is missing, and brings its schema up to date. Blocks while it does.
    pub fn open(options: &Options) -> Result<Self> {
        let location: Arc<str> = options.path.display().to_string().into();
        let lock = Lock::take(&options.path)?;
        refuse_other_formats(options, &location)?;
        let connection = open_writer(options, &location)?;
        migrations::migrate(&connection, &location)?;
        refuse_moved(&connection, &location)?;
        let failed = |error| classify(&error, &location);
        let checkpointer = open_checkpointer(options).map_err(failed)?;
        let readers = (0..options.readers.max(1)).map(|_| open_reader(options).map_err(failed));
        let readers = readers.collect::<Result<Vec<Connection>>>()?;
        let writer = Writer::start(connection, location.to_string())?;
        let readers = Readers::start(readers, location.clone())?;
        let checkpointer = Checkpointer::start(checkpointer, COPY_PAGES)?;
        Ok(Self {
            _checkpointer: Some(checkpointer),
            readers,
            writer,
            due: Arc::default(),
            pruned: Mutex::default(),
            location,
            clock: StoreClock::default(),
            _lock: Some(lock),
        })
    }

    /// A new store in memory, without threads: every call runs within its first poll, so that a simulation on one thread
    /// repeats exactly. One per thread at a time, because what the writer remembers belongs to its thread. For tests.
    #[doc(hidden)]
    pub fn inline() -> Result<Self> {
        let location: Arc<str> = "memory".into();
        let failed = |error| classify(&error, &location);
        let connection = Connection::open_in_memory().map_err(failed)?;
        plan_once(&connection).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        migrations::migrate(&connection, &location)?;
        known::forget();
        cache::forget();
        let connection = Arc::new(Mutex::new(connection));
        Ok(Self {
            _checkpointer: None,
            readers: Readers::inline(connection.clone(), location.clone()),
            writer: Writer::inline(connection, location.to_string()),
            due: Arc::default(),
            pruned: Mutex::default(),
            location,
            clock: StoreClock::default(),
            _lock: None,
        })
    }

    /// Has this clock say when changes of jobs count, in place of the machine's.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = StoreClock(Some(clock));
        self
    }

    /// Forgets the records that the writer keeps: somebody else has written to the file. For tests.
    #[doc(hidden)]
    pub async fn forget_cache(&self) -> Result<()> {
        self.writer
            .run(0, |_| {
                cache::forget();
                Ok(())
            })
            .await
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

/// An installation that lives elsewhere now must not fire here too.
fn refuse_moved(connection: &Connection, location: &str) -> Result<()> {
    match get_meta(connection, MOVED).map_err(|failure| failure.into_error(location))? {
        None => Ok(()),
        Some(place) => {
            let message = format!("{location} was moved to {place}; both would fire the same jobs");
            Err(Error::new(Kind::Conflict, message).with_code("store_moved"))
        }
    }
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
    // NATS JetStream 2.12.1, by Jepsen: acknowledged first, synced later.
    let synced = if planted(Bug("acknowledged-before-the-disk")) { "NORMAL" } else { "FULL" };
    connection.pragma_update(None, "synchronous", synced)?;
    connection.pragma_update(None, "cache_size", -(options.cache_bytes as i64 / 1_024))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "wal_autocheckpoint", (options.log_bytes / PAGE_BYTES) as i64)?;
    connection.pragma_update(None, "journal_size_limit", options.log_bytes as i64)?;
    plan_once(connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

/// Has a statement planned once, whatever is bound to it. Without this SQLite plans again whenever another value is bound
/// where a partial index might help, which was a fifth of the writer's time.
fn plan_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
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
    plan_once(&connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

#[async_trait::async_trait]
impl Jobs for SqliteStore {
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let clock = self.clock.clone();
        self.writer.step(Step("put_jobs"), writes.len(), move |c| jobs::put(c, &writes, clock.now())).await
    }

    async fn recall(&self, tenant: TenantId, key: &CallerKey, now: Timestamp) -> Result<Option<(u128, Answer)>> {
        let key = key.clone();
        self.readers.run(move |c| keys::recall(c, tenant, &key, now)).await
    }
}

#[async_trait::async_trait]
impl Path for SqliteStore {
    fn write_rows_max(&self) -> usize {
        WRITE_ROWS_MAX
    }

    async fn pulse(&self, now: Timestamp) -> Result<Pulse> {
        self.readers.run(move |c| pulse::get(c, now)).await
    }

    async fn wait_for_remote_change(&self) {
        std::future::pending().await
    }

    async fn load_shards(&self) -> Result<Vec<ShardFence>> {
        self.readers.run(shards::load).await
    }

    async fn open_shards(&self, seen: &[ShardFence], owner: &str) -> Result<Vec<ShardFence>> {
        let (seen, owner) = (seen.to_vec(), owner.to_owned());
        self.writer.step(Step("open_shards"), seen.len(), move |c| shards::open(c, &seen, &owner)).await
    }

    async fn load_due(&self, query: &DueQuery) -> Result<Vec<PlannedJob>> {
        let query = query.clone();
        let load = self.due.begin();
        self.readers.run(move |c| due::load(c, &query, &load)).await
    }

    async fn load_changed(&self, since: ChangeSeq, limit: usize) -> Result<Changes> {
        self.readers.run(move |c| jobs::load_changed(c, since, limit)).await
    }

    async fn fire(&self, batch: FireBatch) -> Result<FireVerdict> {
        if batch.fires.is_empty() && batch.skips.is_empty() {
            return Ok(FireVerdict::Fired(Verdicts::default()));
        }
        let rows = batch.fires.len() + batch.skips.len();
        let verdict = self.writer.step(Step("fire"), rows, move |c| executions::fire(c, &batch)).await?;
        if let FireVerdict::Fired(fired) = &verdict {
            self.writer.note_fires(fired.verdicts.len());
        }
        Ok(verdict)
    }

    async fn advance(&self, fences: Arc<[ShardFence]>, cursors: Vec<CursorMove>) -> Result<()> {
        if cursors.is_empty() {
            return Ok(());
        }
        let rows = cursors.len();
        let moving = due::Moving::new(&self.due, &cursors);
        let advance = move |c: &Connection| {
            let _until_committed = &moving;
            jobs::advance(c, &fences, &cursors)
        };
        self.writer.step(Step("advance"), rows, advance).await
    }

    async fn load_waiting(&self, query: &WaitingQuery) -> Result<Vec<Waiting>> {
        let query = query.clone();
        self.readers.run(move |c| executions::load_waiting(c, &query)).await
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Verdicts<Claimed>> {
        if claims.is_empty() {
            return Ok(Verdicts::default());
        }
        self.writer.step(Step("claim"), claims.len(), move |c| claims::claim(c, &claims)).await
    }

    async fn defer(&self, deferrals: Vec<Deferral>) -> Result<Vec<Applied>> {
        if deferrals.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.step(Step("defer"), deferrals.len(), move |c| leases::defer(c, &deferrals)).await
    }

    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>> {
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.step(Step("extend"), extensions.len(), move |c| leases::extend(c, &extensions)).await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Verdicts<Applied>> {
        if completions.is_empty() {
            return Ok(Verdicts::default());
        }
        self.writer
            .step(crate::step::of(&completions), completions.len(), move |c| attempts::complete(c, &completions))
            .await
    }

    async fn load_running(&self, query: &RunningQuery) -> Result<Vec<RunningAttempt>> {
        let query = query.clone();
        self.readers
            .run(move |c| match &query {
                RunningQuery::Of(ids) => Ok(leases::load_running(c, ids)?.into_iter().flatten().collect()),
                RunningQuery::Expired { now, limit } => leases::load_expired(c, *now, *limit),
                RunningQuery::Orphans { live_nodes, limit } => {
                    leases::load_orphans(c, &live_nodes.iter().cloned().collect(), *limit)
                }
            })
            .await
    }

    async fn cancel(&self, batch: CancelBatch) -> Result<Verdicts<CancelVerdict>> {
        if batch.targets.is_empty() {
            return Ok(Verdicts::default());
        }
        let births = cancels::births(&batch);
        let cancelled =
            self.writer.step(Step("cancel"), batch.targets.len(), move |c| cancels::cancel(c, &batch)).await?;
        self.writer.note_fires(births);
        Ok(cancelled)
    }

    async fn resolve_dead(&self, tenant: TenantId, dead: Vec<Resolve>, now: Timestamp) -> Result<Verdicts<Applied>> {
        if dead.is_empty() {
            return Ok(Verdicts::default());
        }
        self.writer.step(Step("resolve_dead"), dead.len(), move |c| dead::resolve(c, tenant, &dead, now)).await
    }

    async fn break_watches(&self, now: Timestamp, limit: usize) -> Result<Vec<Broken>> {
        self.writer.step(Step("break_watches"), limit, move |c| watches::break_due(c, now, limit)).await
    }

    async fn load_deliveries(
        &self,
        now: Timestamp,
        except: &[EndpointId],
        limit: usize,
    ) -> Result<Vec<(Delivery, Endpoint)>> {
        let except = except.to_vec();
        self.readers.run(move |c| outbox::load(c, records::list_endpoints(c)?, (now, &except), limit)).await
    }

    async fn put_deliveries(&self, writes: Vec<DeliveryWrite>) -> Result<Vec<bool>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.step(Step("put_deliveries"), writes.len(), move |c| outbox::put(c, &writes)).await
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, limit: usize) -> Result<Pruned> {
        if limit == 0 {
            return Ok(Pruned::default());
        }
        let rows_max = limits::SCAN_ROWS_MAX;
        let order = Arc::new(prune::Order { retention: retention.clone(), now, limit, rows_max });
        let progress = self.pruned.lock().clone();
        let found = self.readers.run({
            let order = order.clone();
            move |c| prune::find(c, &order, progress)
        });
        let found = found.await?;
        let progress = found.progress.clone();
        let delete = move |c: &Connection| {
            let (mut pruned, all) = prune::delete(c, &order, &found)?;
            let left = limit.saturating_sub(pruned.executions + pruned.others);
            let keys = keys::forget(c, now, left)?;
            (pruned.others, pruned.more) = (pruned.others + keys, pruned.more || keys == left);
            Ok((pruned, all))
        };
        let (pruned, all) = self.writer.step(Step("prune"), limit, delete).await?;
        if all {
            *self.pruned.lock() = progress;
        }
        Ok(pruned)
    }

    async fn reconcile(&self) -> Result<u64> {
        let drift = self.readers.run(reconcile::find).await?;
        let by = drift.sum();
        if by > 0 {
            self.writer.run(drift.len(), move |c| reconcile::correct(c, &drift)).await?;
        }
        Ok(by)
    }
}

#[async_trait::async_trait]
impl Reads for SqliteStore {
    async fn get_jobs(&self, tenant: TenantId, keys: &[JobKey]) -> Result<Vec<Option<Job>>> {
        let keys = keys.to_vec();
        self.readers.run(move |c| jobs::get(c, tenant, &keys)).await
    }

    async fn list_jobs(&self, query: &JobQuery) -> Result<Page<Job>> {
        let query = query.clone();
        self.readers.run(move |c| jobs::list(c, &query)).await
    }

    async fn list_versions(
        &self,
        tenant: TenantId,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Page<JobVersion>> {
        self.readers.run(move |c| versions::list(c, (tenant, job), before, limit)).await
    }

    async fn get_executions(&self, tenant: TenantId, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>> {
        let ids = ids.to_vec();
        self.readers.run(move |c| executions::get(c, tenant, &ids)).await
    }

    async fn list_executions(&self, query: &ExecutionQuery) -> Result<ExecutionPage> {
        let query = query.clone();
        self.readers.run(move |c| listing::list(c, &query, limits::SCAN_ROWS_MAX)).await
    }

    async fn list_attempts(&self, tenant: TenantId, execution: ExecutionId) -> Result<Vec<Attempt>> {
        self.readers.run(move |c| executions::list_attempts(c, tenant, execution)).await
    }

    async fn reports(&self, tenant: TenantId, execution: ExecutionId, after: u64, limit: usize) -> Result<Reports> {
        self.readers.run(move |c| progress::reports(c, tenant, execution, after, limit)).await
    }

    async fn list_skips(
        &self,
        tenant: TenantId,
        job: JobId,
        within: Option<(Timestamp, Timestamp)>,
        limit: usize,
    ) -> Result<Skips> {
        self.readers.run(move |c| skips::list(c, tenant, job, within, limit)).await
    }

    async fn dead_groups(&self, tenant: TenantId, limit: usize) -> Result<Vec<DeadGroup>> {
        self.readers.run(move |c| dead::groups(c, tenant, limit)).await
    }

    async fn counts(&self, tenant: Option<TenantId>) -> Result<Vec<Count>> {
        self.readers.run(move |c| capacities::counts(c, tenant)).await
    }

    async fn stats(&self, query: &StatsQuery) -> Result<Vec<Rollup>> {
        let query = query.clone();
        self.readers.run(move |c| stats::list(c, &query)).await
    }

    async fn list_deliveries(
        &self,
        tenant: TenantId,
        endpoint: EndpointId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Delivery>> {
        self.readers.run(move |c| outbox::list(c, tenant, endpoint, before, limit)).await
    }

    async fn status(&self) -> Result<StoreStatus> {
        let location = self.location.clone();
        self.readers.run(move |c| status(c, &location)).await
    }
}

#[async_trait::async_trait]
impl Records for SqliteStore {
    async fn put_record(&self, record: Record, expected: Option<Expected>) -> Result<bool> {
        let row = Row::of(&record)?;
        self.writer.step(put_step(row.key.kind), 1, move |c| records::put(c, &row, expected)).await
    }

    async fn get_record(&self, key: &RecordKey) -> Result<Option<Stored>> {
        let key = key.clone();
        self.readers.run(move |c| records::get(c, &key)).await
    }

    async fn list_records(&self, query: &RecordQuery) -> Result<Page<Stored>> {
        let query = query.clone();
        self.readers.run(move |c| records::list(c, &query)).await
    }

    async fn delete_record(&self, key: &RecordKey) -> Result<bool> {
        loop {
            let key = key.clone();
            let step = self.writer.step(delete_step(key.kind), 1, move |c| records::delete(c, &key));
            if let Some(was_there) = step.await? {
                return Ok(was_there);
            }
        }
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
        shards: shards::list(connection)?,
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
