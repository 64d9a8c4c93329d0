//! The store in PostgreSQL: any number of nodes write side by side, and every acknowledged write is on the server's disk.
//!
//! # How a write works
//! In one transaction: what the batch is about is read, judged in memory in the order of the batch (`crate::core`), and what changed
//! is written back (by one statement per table). So a batch costs a handful of round trips however large it is. Most verbs lock
//! what they read; claims and ends of attempts lock nearly nothing, and compare when they write. In which order locks are
//! taken, and which cycles are left to PostgreSQL, is in `load`.
//!
//! # Crash story
//! A commit is answered when its log is on disk. Where the connection is lost before the answer, the server is asked by the
//! transaction's number (`campanile_pg::pool`). A node that is stopped inside a transaction holds others up until the
//! server ends that, after `idle_in_transaction_session_timeout`, or until its successor ends its sessions.
//!
//! # Who may write
//! Owners of shards fire under epochs: `fire` locks the rows of its shards (`FOR SHARE`), so that a take-over, which updates them,
//! waits for it, and refuses it if it came first. A job is changed under an advisory lock that claims share: a job that was
//! changed or deleted before a claim is seen by it.
//!
//! Reading order: `migrations`, `partitions`; then the verbs by noun, as in the embedded store, with `load` and `write` for what
//! every change of state reads and writes; then lists and upkeep.

mod migrations;
mod partitions;
mod bulk;
mod jobs;
mod versions;
mod gather;
mod due;
mod pulse;
mod shards;
mod load;
mod write;
mod executions;
mod skips;
mod claims;
mod attempts;
mod leases;
mod capacities;
mod cancels;
mod dead;
mod progress;
mod effects;
mod keys;
mod reads;
mod listing;
mod stats;
mod prune;
mod fold;
mod reconcile;
mod records;
mod outbox;
mod deliveries;
mod watches;
mod rows;

use crate::clock::StoreClock;
use crate::records::{Row, put_step};
use campanile_model::capacity::Count;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::execution::{Attempt, Execution};
use campanile_model::fault::Step;
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
use campanile_pg::{Done, Listener, Pool, Target};
use load::RowLocks;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use campanile_pg::Options;

/// The channel that is rung after jobs were written.
const JOBS_BELL: &str = "jobs";
/// Claims or outcomes in one write: some 50 ms of the database's time.
const WRITE_ROWS_MAX: usize = 1_024;

/// Advisory locks, which belong to the whole database: the first half of their keys.
#[derive(Copy, Clone, Debug)]
struct Locks {
    /// Changes of jobs (exclusive) against claims and moves of cursors (shared); the second half is 0.
    jobs: i32,
    /// Runs of a job that must not overlap; the second half is of the job's id.
    runs: i32,
    /// Upkeep that one node does at a time; the second half says what.
    upkeep: i32,
}

impl Locks {
    fn of(target: &Target) -> Self {
        Self { jobs: target.lock_class("jobs"), runs: target.lock_class("runs"), upkeep: target.lock_class("upkeep") }
    }
}

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: Pool,
    locks: Locks,
    listener: Listener,
    /// Whether fires are made again that are there, as after a start with cursors that lag: then they are looked for.
    repeats: Arc<AtomicBool>,
    /// Job writes of many callers, gathered into few transactions: each of them holds the counter of changes.
    puts: gather::Gather,
    /// Where the running passes of `prune` stand.
    pruning: Mutex<prune::Progress>,
}

impl PostgresStore {
    /// Connects, brings the schema up to date, and makes the partitions of the coming days.
    pub async fn open(options: &Options) -> Result<Self> {
        Self::open_with_clock(options, None).await
    }

    /// The same, with a clock that says when changes of jobs count, in place of the server's. For tests: the clocks of two nodes
    /// differ.
    #[doc(hidden)]
    pub async fn open_with_clock(options: &Options, clock: Option<Arc<dyn Clock>>) -> Result<Self> {
        let pool = Pool::new(options)?;
        Self::prepare(&pool, &[]).await?;
        crate::copy::refuse_unfinished(&pool).await?;
        let locks = Locks::of(pool.target());
        let listener = Listener::start(pool.target(), &[JOBS_BELL]);
        let puts = gather::Gather::start(pool.clone(), locks, StoreClock(clock));
        Ok(Self { pool, locks, listener, repeats: Arc::default(), puts, pruning: Mutex::default() })
    }

    /// Brings the schema up to date, and makes the partitions of the coming days and of other ones.
    pub(crate) async fn prepare(pool: &Pool, days: &[i64]) -> Result<()> {
        migrations::run(pool).await?;
        partitions::ensure_also(pool, days).await
    }

    /// What all nodes use under this key: what is there, or `proposal` where nothing is.
    pub async fn agree(&self, key: &str, proposal: &str) -> Result<String> {
        let rows = self.pool.query(include_str!("sql/meta/agree.sql"), &[&key, &proposal]).await?;
        rows.first().map(|row| row.get(0)).ok_or_else(|| Error::new(Kind::Bug, "an upsert answered with nothing"))
    }

    async fn fire_once(&self, fires: &executions::Fires) -> Result<FireVerdict> {
        self.pool.write_step(Step("fire"), fires, |tx, fires| Box::pin(executions::fire(tx, fires))).await
    }

    async fn claim_once(&self, what: &(Locks, RowLocks, Vec<Claim>)) -> Result<Verdicts<Claimed>> {
        self.pool
            .write_step(Step("claim"), what, |tx, (locks, row_locks, claims)| {
                Box::pin(claims::claim(tx, *locks, *row_locks, claims))
            })
            .await
    }

    async fn complete_once(&self, what: &(Locks, RowLocks, Vec<Completion>)) -> Result<Verdicts<Applied>> {
        self.pool
            .write_step(crate::step::of(&what.2), what, |tx, (locks, row_locks, completions)| {
                Box::pin(attempts::complete(tx, *locks, *row_locks, completions))
            })
            .await
    }

    /// An answer of something that read.
    fn told<T>(&self, done: Done<T>) -> Result<T> {
        done.map_err(|failure| failure.into_error(self.pool.target().location()))
    }
}

#[async_trait::async_trait]
impl Jobs for PostgresStore {
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.puts.put(writes).await
    }

    async fn recall(&self, tenant: TenantId, key: &CallerKey, now: Timestamp) -> Result<Option<(u128, Answer)>> {
        self.told(keys::recall(&self.pool, tenant, key, now).await)
    }
}

#[async_trait::async_trait]
impl Path for PostgresStore {
    fn write_rows_max(&self) -> usize {
        WRITE_ROWS_MAX
    }

    async fn pulse(&self, now: Timestamp) -> Result<Pulse> {
        self.told(pulse::get(&self.pool, now).await)
    }

    async fn wait_for_remote_change(&self) {
        self.listener.bell(JOBS_BELL).notified().await;
    }

    async fn load_shards(&self) -> Result<Vec<ShardFence>> {
        self.told(shards::load(&self.pool).await)
    }

    async fn open_shards(&self, seen: &[ShardFence], owner: &str) -> Result<Vec<ShardFence>> {
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        let what = (seen.to_vec(), owner.to_owned());
        self.pool
            .write_step(Step("open_shards"), &what, |tx, (seen, owner)| Box::pin(shards::open(tx, seen, owner)))
            .await
    }

    async fn load_due(&self, query: &DueQuery) -> Result<Vec<PlannedJob>> {
        self.told(due::load(&self.pool, query).await)
    }

    async fn load_changed(&self, since: ChangeSeq, limit: usize) -> Result<Changes> {
        self.told(jobs::load_changed(&self.pool, since, limit).await)
    }

    async fn fire(&self, batch: FireBatch) -> Result<FireVerdict> {
        if batch.fires.is_empty() && batch.skips.is_empty() {
            return Ok(FireVerdict::Fired(Verdicts::default()));
        }
        let are_new = batch.fires.len() >= bulk::ROWS_MIN && !self.repeats.load(Ordering::Relaxed);
        let mut fires = executions::Fires { locks: self.locks, batch, are_new, repeats: self.repeats.clone() };
        match self.fire_once(&fires).await {
            Err(error) if bulk::is_conflict(&error) => {
                fires.are_new = false;
                self.fire_once(&fires).await
            }
            fired => fired,
        }
    }

    async fn advance(&self, fences: Arc<[ShardFence]>, cursors: Vec<CursorMove>) -> Result<()> {
        if cursors.is_empty() {
            return Ok(());
        }
        let what = (self.locks, fences, cursors);
        self.pool
            .write_step(Step("advance"), &what, |tx, (locks, fences, cursors)| {
                Box::pin(jobs::advance(tx, *locks, fences, cursors))
            })
            .await
    }

    async fn load_waiting(&self, query: &WaitingQuery) -> Result<Vec<Waiting>> {
        self.told(reads::load_waiting(&self.pool, query).await)
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Verdicts<Claimed>> {
        if claims.is_empty() {
            return Ok(Verdicts::default());
        }
        let mut what = (self.locks, RowLocks::AtWrite, claims);
        match self.claim_once(&what).await {
            Err(error) if write::is_changed(&error) => {
                what.1 = RowLocks::Now;
                self.claim_once(&what).await
            }
            claimed => claimed,
        }
    }

    async fn defer(&self, deferrals: Vec<Deferral>) -> Result<Vec<Applied>> {
        if deferrals.is_empty() {
            return Ok(Vec::new());
        }
        self.pool.write_step(Step("defer"), &deferrals, |tx, deferrals| Box::pin(leases::defer(tx, deferrals))).await
    }

    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>> {
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        self.pool
            .write_step(Step("extend"), &extensions, |tx, extensions| Box::pin(leases::extend(tx, extensions)))
            .await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Verdicts<Applied>> {
        if completions.is_empty() {
            return Ok(Verdicts::default());
        }
        let mut what = (self.locks, RowLocks::AtWrite, completions);
        match self.complete_once(&what).await {
            Err(error) if write::is_changed(&error) => {
                what.1 = RowLocks::Now;
                self.complete_once(&what).await
            }
            completed => completed,
        }
    }

    async fn load_running(&self, query: &RunningQuery) -> Result<Vec<RunningAttempt>> {
        self.told(match query {
            RunningQuery::Of(ids) => reads::load_running(&self.pool, ids).await,
            RunningQuery::Expired { now, limit } => reads::load_expired(&self.pool, *now, *limit).await,
            RunningQuery::Orphans { live_nodes, limit } => reads::load_orphans(&self.pool, live_nodes, *limit).await,
        })
    }

    async fn cancel(&self, batch: CancelBatch) -> Result<Verdicts<CancelVerdict>> {
        if batch.targets.is_empty() {
            return Ok(Verdicts::default());
        }
        let what = (self.locks, batch);
        self.pool
            .write_step(Step("cancel"), &what, |tx, (locks, batch)| Box::pin(cancels::cancel(tx, *locks, batch)))
            .await
    }

    async fn resolve_dead(&self, tenant: TenantId, dead: Vec<Resolve>, now: Timestamp) -> Result<Verdicts<Applied>> {
        if dead.is_empty() {
            return Ok(Verdicts::default());
        }
        let what = (self.locks, tenant, dead, now);
        self.pool
            .write_step(Step("resolve_dead"), &what, |tx, (locks, tenant, dead, now)| {
                Box::pin(dead::resolve(tx, *locks, (*tenant, dead, *now)))
            })
            .await
    }

    async fn break_watches(&self, now: Timestamp, limit: usize) -> Result<Vec<Broken>> {
        let what = (now, limit);
        self.pool
            .write_step(Step("break_watches"), &what, |tx, (now, limit)| Box::pin(watches::break_due(tx, *now, *limit)))
            .await
    }

    async fn load_deliveries(
        &self,
        now: Timestamp,
        except: &[EndpointId],
        limit: usize,
    ) -> Result<Vec<(Delivery, Endpoint)>> {
        self.told(deliveries::load(&self.pool, now, except, limit).await)
    }

    async fn put_deliveries(&self, writes: Vec<DeliveryWrite>) -> Result<Vec<bool>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.pool.write_step(Step("put_deliveries"), &writes, |tx, writes| Box::pin(deliveries::put(tx, writes))).await
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, limit: usize) -> Result<Pruned> {
        if limit == 0 {
            return Ok(Pruned::default());
        }
        let mut pruned = prune::prune(&self.pool, self.locks, &self.pruning, retention, now, limit).await?;
        let left = limit.saturating_sub(pruned.executions + pruned.others);
        let keys = self.told(keys::forget(&self.pool, now, left).await)?;
        (pruned.others, pruned.more) = (pruned.others + keys, pruned.more || keys == left);
        Ok(pruned)
    }

    async fn reconcile(&self) -> Result<u64> {
        reconcile::reconcile(&self.pool).await
    }
}

#[async_trait::async_trait]
impl Reads for PostgresStore {
    async fn get_jobs(&self, tenant: TenantId, keys: &[JobKey]) -> Result<Vec<Option<Job>>> {
        self.told(jobs::get(&self.pool, tenant, keys).await)
    }

    async fn list_jobs(&self, query: &JobQuery) -> Result<Page<Job>> {
        self.told(jobs::list(&self.pool, query).await)
    }

    async fn list_versions(
        &self,
        tenant: TenantId,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Page<JobVersion>> {
        self.told(versions::list(&self.pool, (tenant, job), before, limit).await)
    }

    async fn get_executions(&self, tenant: TenantId, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>> {
        self.told(reads::get(&self.pool, tenant, ids).await)
    }

    async fn list_executions(&self, query: &ExecutionQuery) -> Result<ExecutionPage> {
        self.told(listing::list(&self.pool, query, limits::SCAN_ROWS_MAX).await)
    }

    async fn list_attempts(&self, tenant: TenantId, execution: ExecutionId) -> Result<Vec<Attempt>> {
        self.told(reads::list_attempts(&self.pool, tenant, execution).await)
    }

    async fn reports(&self, tenant: TenantId, execution: ExecutionId, after: u64, limit: usize) -> Result<Reports> {
        self.told(reads::reports(&self.pool, tenant, execution, after, limit).await)
    }

    async fn list_skips(
        &self,
        tenant: TenantId,
        job: JobId,
        within: Option<(Timestamp, Timestamp)>,
        limit: usize,
    ) -> Result<Skips> {
        self.told(skips::list(&self.pool, tenant, job, within, limit).await)
    }

    async fn dead_groups(&self, tenant: TenantId, limit: usize) -> Result<Vec<DeadGroup>> {
        self.told(reads::dead_groups(&self.pool, tenant, limit).await)
    }

    async fn counts(&self, tenant: Option<TenantId>) -> Result<Vec<Count>> {
        self.told(capacities::counts(&self.pool, tenant).await)
    }

    async fn stats(&self, query: &StatsQuery) -> Result<Vec<Rollup>> {
        self.told(stats::list(&self.pool, query).await)
    }

    async fn list_deliveries(
        &self,
        tenant: TenantId,
        endpoint: EndpointId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Delivery>> {
        self.told(deliveries::list(&self.pool, tenant, endpoint, before, limit).await)
    }

    async fn status(&self) -> Result<StoreStatus> {
        self.told(migrations::status(&self.pool).await)
    }
}

#[async_trait::async_trait]
impl Records for PostgresStore {
    async fn put_record(&self, record: Record, expected: Option<Expected>) -> Result<bool> {
        let what = (self.locks, Row::of(&record)?, expected);
        self.pool
            .write_step(put_step(what.1.key.kind), &what, |tx, (locks, row, expected)| {
                Box::pin(records::put(tx, *locks, row, *expected))
            })
            .await
    }

    async fn get_record(&self, key: &RecordKey) -> Result<Option<Stored>> {
        self.told(records::get(&self.pool, key).await)
    }

    async fn list_records(&self, query: &RecordQuery) -> Result<Page<Stored>> {
        self.told(records::list(&self.pool, query).await)
    }

    async fn delete_record(&self, key: &RecordKey) -> Result<bool> {
        records::delete(&self.pool, key).await
    }
}
