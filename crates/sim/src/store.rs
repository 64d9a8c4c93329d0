//! The real store as one process sees it: over a network that is slow, cut, or silent about what became of a write.
//!
//! A read is lost with its caller. A write is on its way by itself: it may be done when its caller is long dead, and in
//! what order the store does two of them is a matter of chance.

use crate::monitor;
use crate::process::Process;
use crate::switch::Mode;
use crate::world::World;
use campanile_model::capacity::Count;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::execution::{Attempt, Execution};
use campanile_model::ids::{EndpointId, ExecutionId, JobId, TenantId};
use campanile_model::job::Job;
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
use campanile_model::time::Timestamp;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::oneshot;
use xxhash_rust::xxh3::xxh3_64;

/// The store as one process sees it.
pub struct SimStore {
    /// The world, with the store itself.
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

/// What becomes of a write.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Fate {
    Done,
    Refused,
    UnknownDone,
    UnknownUndone,
}

/// How long a call to a store that cannot be reached takes before it fails.
const CUT_OFF_MS: (u64, u64) = (5, 1_500);

impl SimStore {
    fn fate(&self, is_write: bool) -> Fate {
        let odds = self.world.odds.lock().clone();
        let fates = [
            (odds.refused, Fate::Refused),
            (odds.unknown_done, Fate::UnknownDone),
            (odds.unknown_undone, Fate::UnknownUndone),
        ];
        let mut drawn = self.world.draw() % 1_000;
        for (thousandths, fate) in fates {
            if drawn < thousandths {
                return if is_write { fate } else { Fate::Refused };
            }
            drawn -= thousandths;
        }
        Fate::Done
    }

    /// How long a message takes, one way.
    fn latency_ms(&self) -> u64 {
        let slow = self.world.odds.lock().slow;
        match self.world.chance(slow) {
            true => self.world.between(100, 6_000),
            false => self.world.between(0, 4),
        }
    }

    fn unavailable(&self, verb: &str) -> Error {
        self.world.sometimes("store refused a call");
        self.world.note(&self.process.name, format_args!("{verb} refused"));
        Error::new(Kind::Unavailable, "the store cannot be reached")
    }

    fn unknown(&self, verb: &str) -> Error {
        self.world.note(&self.process.name, format_args!("{verb} unknown"));
        Error::new(Kind::OutcomeUnknown, "the connection broke before the answer")
    }

    async fn read<T: Debug>(&self, verb: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.process.switch.pass().await;
        let (fate, there_ms, back_ms) = (self.fate(false), self.latency_ms(), self.latency_ms());
        self.world.time.sleep(there_ms).await;
        if fate == Fate::Refused || !self.process.has_store() {
            let cut_ms = self.world.between(CUT_OFF_MS.0, CUT_OFF_MS.1);
            self.world.time.sleep(cut_ms).await;
            self.process.switch.pass().await;
            return Err(self.unavailable(verb));
        }
        let answer = call.await;
        note(&self.world, &self.process.name, verb, &answer);
        self.world.time.sleep(back_ms).await;
        self.process.switch.pass().await;
        answer
    }

    /// Sends a write. `judge` sees its answer at the moment when it is done.
    async fn write<T: Debug + Send + 'static>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send + 'static,
        judge: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T> {
        self.process.switch.pass().await;
        let (fate, there_ms, back_ms) = (self.fate(true), self.latency_ms(), self.latency_ms());
        if fate == Fate::Refused || !self.process.has_store() {
            let cut_ms = self.world.between(CUT_OFF_MS.0, CUT_OFF_MS.1);
            self.world.time.sleep(cut_ms).await;
            self.process.switch.pass().await;
            return Err(self.unavailable(verb));
        }
        let (tell, told) = oneshot::channel();
        let (world, process) = (self.world.clone(), self.process.clone());
        tokio::spawn(async move {
            world.time.sleep(there_ms).await;
            let lost_on_the_way = process.switch.mode() == Mode::Dead && world.chance(500);
            if fate == Fate::UnknownUndone || lost_on_the_way {
                world.sometimes("unknown commit that did not happen");
                return;
            }
            if process.switch.mode() == Mode::Dead {
                world.sometimes("write done after its node had died");
            }
            let answer = call.await;
            note(&world, &process.name, verb, &answer);
            if let Ok(answer) = &answer {
                judge(answer);
            }
            world.time.sleep(back_ms).await;
            // Nobody listens where the caller gave up.
            let _ = tell.send(answer);
        });
        let answer = told.await;
        self.process.switch.pass().await;
        match answer {
            Ok(Ok(_)) if fate == Fate::UnknownDone || !self.process.has_store() => {
                self.world.sometimes("unknown commit that happened");
                Err(self.unknown(verb))
            }
            Ok(answer) => answer,
            Err(_) => Err(self.unknown(verb)),
        }
    }
}

/// Notes an answer; an error that no fault explains is a bug.
fn note<T: Debug>(world: &World, who: &str, verb: &str, answer: &Result<T>) {
    let text = format!("{answer:?}");
    world.note(who, format_args!("{verb} {:016x}", xxh3_64(text.as_bytes())));
    if let Err(error) = answer
        && !(error.kind() == Kind::Conflict && verb == "advance")
    {
        world.violated(format!("{who}: the store answered {verb} with {error:?}"));
    }
}

#[async_trait::async_trait]
impl Jobs for SimStore {
    async fn put_jobs(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>> {
        let s = self.world.store.clone();
        let (world, who) = (self.world.clone(), self.process.name.clone());
        let judge = move |puts: &Vec<Put>| {
            monitor::changed(&world, &who, puts);
            let unheard = world.odds.lock().unheard;
            if world.chance(unheard) {
                world.sometimes("bell not heard");
            } else {
                world.rung.notify_waiters();
            }
        };
        self.write("put_jobs", async move { s.put_jobs(writes).await }, judge).await
    }

    async fn recall(&self, tenant: TenantId, key: &CallerKey, now: Timestamp) -> Result<Option<(u128, Answer)>> {
        self.read("recall", self.world.store.recall(tenant, key, now)).await
    }
}

#[async_trait::async_trait]
impl Path for SimStore {
    fn write_rows_max(&self) -> usize {
        self.world.store.write_rows_max()
    }

    async fn pulse(&self, now: Timestamp) -> Result<Pulse> {
        self.read("pulse", self.world.store.pulse(now)).await
    }

    async fn wait_for_remote_change(&self) {
        self.world.rung.notified().await;
        self.process.switch.pass().await;
    }

    async fn load_shards(&self) -> Result<Vec<ShardFence>> {
        self.read("load_shards", self.world.store.load_shards()).await
    }

    async fn open_shards(&self, seen: &[ShardFence], owner: &str) -> Result<Vec<ShardFence>> {
        let (s, seen, owner) = (self.world.store.clone(), seen.to_vec(), owner.to_owned());
        let (world, count) = (self.world.clone(), seen.len());
        world.note(&self.process.name, format_args!("opens {count} shards"));
        let judge = move |fences: &Vec<ShardFence>| monitor::opened(&world, fences);
        self.write("open_shards", async move { s.open_shards(&seen, &owner).await }, judge).await
    }

    async fn load_due(&self, query: &DueQuery) -> Result<Vec<PlannedJob>> {
        self.read("load_due", self.world.store.load_due(query)).await
    }

    async fn load_changed(&self, since: ChangeSeq, limit: usize) -> Result<Changes> {
        self.read("load_changed", self.world.store.load_changed(since, limit)).await
    }

    async fn fire(&self, batch: FireBatch) -> Result<FireVerdict> {
        let s = self.world.store.clone();
        let (world, who, seen) = (self.world.clone(), self.process.name.clone(), batch.clone());
        let judge = move |verdict: &FireVerdict| monitor::fired(&world, &who, &seen, verdict);
        self.write("fire", async move { s.fire(batch).await }, judge).await
    }

    async fn advance(&self, fences: Arc<[ShardFence]>, cursors: Vec<CursorMove>) -> Result<()> {
        let s = self.world.store.clone();
        self.write("advance", async move { s.advance(fences, cursors).await }, |()| {}).await
    }

    async fn load_waiting(&self, query: &WaitingQuery) -> Result<Vec<Waiting>> {
        self.read("load_waiting", self.world.store.load_waiting(query)).await
    }

    async fn claim(&self, claims: Vec<Claim>) -> Result<Verdicts<Claimed>> {
        let s = self.world.store.clone();
        let (world, who, seen) = (self.world.clone(), self.process.name.clone(), claims.clone());
        let error_ms = self.process.clock.error_ms();
        let judge =
            move |claimed: &Verdicts<Claimed>| monitor::claimed(&world, &who, error_ms, &seen, &claimed.verdicts);
        self.write("claim", async move { s.claim(claims).await }, judge).await
    }

    async fn defer(&self, deferrals: Vec<Deferral>) -> Result<Vec<Applied>> {
        let s = self.world.store.clone();
        self.write("defer", async move { s.defer(deferrals).await }, |_| {}).await
    }

    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>> {
        let s = self.world.store.clone();
        self.write("extend", async move { s.extend(extensions).await }, |_| {}).await
    }

    async fn complete(&self, completions: Vec<Completion>) -> Result<Verdicts<Applied>> {
        let s = self.world.store.clone();
        let (world, who, seen) = (self.world.clone(), self.process.name.clone(), completions.clone());
        let judge = move |moved: &Verdicts<Applied>| monitor::completed(&world, &who, &seen, moved);
        self.write("complete", async move { s.complete(completions).await }, judge).await
    }

    async fn load_running(&self, query: &RunningQuery) -> Result<Vec<RunningAttempt>> {
        self.read("load_running", self.world.store.load_running(query)).await
    }

    async fn cancel(&self, batch: CancelBatch) -> Result<Verdicts<CancelVerdict>> {
        let s = self.world.store.clone();
        self.write("cancel", async move { s.cancel(batch).await }, |_| {}).await
    }

    async fn resolve_dead(&self, tenant: TenantId, dead: Vec<Resolve>, now: Timestamp) -> Result<Verdicts<Applied>> {
        let s = self.world.store.clone();
        self.write("resolve_dead", async move { s.resolve_dead(tenant, dead, now).await }, |_| {}).await
    }

    async fn break_watches(&self, now: Timestamp, limit: usize) -> Result<Vec<Broken>> {
        let s = self.world.store.clone();
        self.write("break_watches", async move { s.break_watches(now, limit).await }, |_| {}).await
    }

    async fn load_deliveries(
        &self,
        now: Timestamp,
        except: &[EndpointId],
        limit: usize,
    ) -> Result<Vec<(Delivery, Endpoint)>> {
        self.read("load_deliveries", self.world.store.load_deliveries(now, except, limit)).await
    }

    async fn put_deliveries(&self, writes: Vec<DeliveryWrite>) -> Result<Vec<bool>> {
        let s = self.world.store.clone();
        self.write("put_deliveries", async move { s.put_deliveries(writes).await }, |_| {}).await
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, limit: usize) -> Result<Pruned> {
        let (s, retention) = (self.world.store.clone(), retention.clone());
        self.write("prune", async move { s.prune(&retention, now, limit).await }, |_| {}).await
    }

    async fn reconcile(&self) -> Result<u64> {
        let s = self.world.store.clone();
        self.write("reconcile", async move { s.reconcile().await }, |_| {}).await
    }
}

#[async_trait::async_trait]
impl Reads for SimStore {
    async fn get_jobs(&self, tenant: TenantId, keys: &[JobKey]) -> Result<Vec<Option<Job>>> {
        self.read("get_jobs", self.world.store.get_jobs(tenant, keys)).await
    }

    async fn list_jobs(&self, query: &JobQuery) -> Result<Page<Job>> {
        self.read("list_jobs", self.world.store.list_jobs(query)).await
    }

    async fn list_versions(
        &self,
        tenant: TenantId,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Page<JobVersion>> {
        self.read("list_versions", self.world.store.list_versions(tenant, job, before, limit)).await
    }

    async fn get_executions(&self, tenant: TenantId, ids: &[ExecutionId]) -> Result<Vec<Option<Execution>>> {
        self.read("get_executions", self.world.store.get_executions(tenant, ids)).await
    }

    async fn list_executions(&self, query: &ExecutionQuery) -> Result<ExecutionPage> {
        self.read("list_executions", self.world.store.list_executions(query)).await
    }

    async fn list_attempts(&self, tenant: TenantId, execution: ExecutionId) -> Result<Vec<Attempt>> {
        self.read("list_attempts", self.world.store.list_attempts(tenant, execution)).await
    }

    async fn reports(&self, tenant: TenantId, execution: ExecutionId, after: u64, limit: usize) -> Result<Reports> {
        self.read("reports", self.world.store.reports(tenant, execution, after, limit)).await
    }

    async fn list_skips(
        &self,
        tenant: TenantId,
        job: JobId,
        within: Option<(Timestamp, Timestamp)>,
        limit: usize,
    ) -> Result<Skips> {
        self.read("list_skips", self.world.store.list_skips(tenant, job, within, limit)).await
    }

    async fn dead_groups(&self, tenant: TenantId, limit: usize) -> Result<Vec<DeadGroup>> {
        self.read("dead_groups", self.world.store.dead_groups(tenant, limit)).await
    }

    async fn counts(&self, tenant: Option<TenantId>) -> Result<Vec<Count>> {
        self.read("counts", self.world.store.counts(tenant)).await
    }

    async fn stats(&self, query: &StatsQuery) -> Result<Vec<Rollup>> {
        self.read("stats", self.world.store.stats(query)).await
    }

    async fn list_deliveries(
        &self,
        tenant: TenantId,
        endpoint: EndpointId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Delivery>> {
        self.read("list_deliveries", self.world.store.list_deliveries(tenant, endpoint, before, limit)).await
    }

    async fn status(&self) -> Result<StoreStatus> {
        self.read("status", self.world.store.status()).await
    }
}

#[async_trait::async_trait]
impl Records for SimStore {
    async fn put_record(&self, record: Record, expected: Option<Expected>) -> Result<bool> {
        let s = self.world.store.clone();
        self.write("put_record", async move { s.put_record(record, expected).await }, |_| {}).await
    }

    async fn get_record(&self, key: &RecordKey) -> Result<Option<Stored>> {
        self.read("get_record", self.world.store.get_record(key)).await
    }

    async fn list_records(&self, query: &RecordQuery) -> Result<Page<Stored>> {
        self.read("list_records", self.world.store.list_records(query)).await
    }

    async fn delete_record(&self, key: &RecordKey) -> Result<bool> {
        let (s, key) = (self.world.store.clone(), key.clone());
        self.write("delete_record", async move { s.delete_record(&key).await }, |_| {}).await
    }
}
