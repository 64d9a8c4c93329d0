//! What everybody else holds of the engine: the calls behind the API.

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::gate::TargetStatus;
use crate::intake::{self, Accepted, Conditions, Create, Draft};
use crate::operate::{self, BackfillPlan, BackfillSpec, Progress, ReplaySpec};
use crate::pull::{self, Beat, Finish, Finishing};
use crate::pulse::Bells;
use crate::why::{self, Why};
use crate::workers::{Directive, Introduction, WorkerStatus};
use crate::{rezone, upkeep, versions, worker};
use campanile_model::action::Runner;
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::coordinator::Member;
use campanile_model::execution::Execution;
use campanile_model::filter::Filter;
use campanile_model::ids::FireKind;
use campanile_model::job::version::Change;
use campanile_model::job::{Job, next_fire};
use campanile_model::lifecycle::State;
use campanile_model::notify::{Endpoint, Expectation};
use campanile_model::operation::{Operation, OperationKind};
use campanile_model::queue::{Depth, PoolDepth};
use campanile_model::schedule::zone_database_version;
use campanile_model::store::{
    Answer, Applied, CallerKey, CancelBatch, CancelTarget, CancelVerdict, DeliveryWrite, ExecutionQuery, Extended,
    Fire, FireBatch, FireVerdict, Idempotency, JobKey, Page, RECORDS_PAGE, Reads, Record, RecordKey, RecordKind,
    RecordQuery, Resolve, ShardOwner, StoreStatus, Waiting, list_all,
};
use campanile_model::{
    EndpointId, Error, ExecutionId, FieldError, Kind, OperationId, Result, TenantId, Timestamp, limits,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// What everybody else holds of the engine.
#[derive(Clone)]
pub struct Handle {
    pub(crate) ctx: Context,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) bells: Arc<Bells>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) started_mono_ms: u64,
}

/// Facts for operators.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    /// This node.
    pub node: String,
    /// Whether it fires.
    pub ready: bool,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// What time it thinks it is.
    pub now: Timestamp,
    /// The zone database in the binary.
    pub zone_database: String,
    /// The store.
    pub store: StoreStatus,
    /// The zone database that the store's cursors were computed with.
    pub store_zone_database: String,
    /// The queue, as far as this node's own work is concerned.
    pub queue: Depth,
    /// External workers heard of within the last hour.
    pub workers: u64,
    /// Jobs in memory: those that fire within the horizon.
    pub planned_jobs: u64,
    /// Executions in memory that wait for their instant.
    pub waiting: u64,
    /// Attempts that run in this process.
    pub running: u64,
    /// Jobs whose stored cursor lags.
    pub cursors_dirty: u64,
    /// Counters since the start, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Lateness of first attempts since the start: the median, in milliseconds.
    pub lateness_p50_ms: u64,
    /// The 99th percentile.
    pub lateness_p99_ms: u64,
    /// The largest.
    pub lateness_max_ms: u64,
}

/// The nodes, and what they own.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    /// Which node answers.
    pub node: String,
    /// Those that are alive.
    pub members: Vec<Member>,
    /// Who opened which shard last, in which epoch.
    pub shards: Vec<ShardOwner>,
}

/// How to cancel.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// How long a running attempt of an external worker gets to stop by itself; `None` ends it at once.
    pub grace_ms: Option<u64>,
    /// Why, for people.
    pub note: Option<String>,
    /// The caller's key.
    pub caller_key: Option<String>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self { grace_ms: Some(limits::CANCEL_GRACE_MS), note: None, caller_key: None }
    }
}

impl Handle {
    /// Checks and resolves a draft without writing anything.
    pub fn check(&self, tenant: TenantId, draft: &Draft) -> Result<Job> {
        intake::check(&self.ctx, tenant, draft)
    }

    /// Creates jobs. Each is judged alone.
    pub async fn create(&self, tenant: TenantId, creates: Vec<Create>) -> Vec<Result<Accepted>> {
        let verdicts = intake::create(&self.ctx, tenant, creates).await;
        self.bells.changed.notify_one();
        verdicts
    }

    /// Gives a job another definition.
    pub async fn replace(
        &self,
        tenant: TenantId,
        key: &JobKey,
        draft: Draft,
        conditions: Conditions,
    ) -> Result<Accepted> {
        self.changed(intake::replace(&self.ctx, tenant, key, draft, conditions).await)
    }

    /// The job that `replace` would make.
    pub async fn preview_replace(&self, tenant: TenantId, key: &JobKey, draft: Draft) -> Result<Job> {
        intake::preview_replace(&self.ctx, tenant, key, draft).await
    }

    /// Deletes a job.
    pub async fn delete(&self, tenant: TenantId, key: &JobKey, conditions: Conditions) -> Result<Accepted> {
        self.changed(intake::set_state(&self.ctx, tenant, key, Change::Delete, conditions).await)
    }

    /// Stops a job's fires until it is resumed, or until an instant.
    pub async fn pause(
        &self,
        tenant: TenantId,
        key: &JobKey,
        until: Option<Timestamp>,
        conditions: Conditions,
    ) -> Result<Accepted> {
        self.changed(intake::set_state(&self.ctx, tenant, key, Change::Pause(until), conditions).await)
    }

    /// Lets a paused job fire again, from now on.
    pub async fn resume(&self, tenant: TenantId, key: &JobKey, conditions: Conditions) -> Result<Accepted> {
        self.changed(intake::set_state(&self.ctx, tenant, key, Change::Resume, conditions).await)
    }

    /// The job that `pause`, `resume` or `delete` would make.
    pub async fn preview_state(&self, tenant: TenantId, key: &JobKey, change: Change) -> Result<Job> {
        intake::preview_state(&self.ctx, tenant, key, change).await
    }

    /// Gives a job the definition that it had in an earlier version.
    pub async fn revert(&self, tenant: TenantId, key: &JobKey, to: u32, conditions: Conditions) -> Result<Accepted> {
        self.changed(intake::revert(&self.ctx, tenant, key, to, conditions).await)
    }

    /// The job that `revert` would make.
    pub async fn preview_revert(&self, tenant: TenantId, key: &JobKey, to: u32) -> Result<Job> {
        intake::preview_revert(&self.ctx, tenant, key, to).await
    }

    /// Fires a job now, whatever its schedule. With a key, asking again names the same execution.
    pub async fn run_now(
        &self,
        tenant: TenantId,
        key: &JobKey,
        caller_key: Option<String>,
    ) -> Result<(Execution, bool)> {
        let (handle, key) = (self.clone(), key.clone());
        to_the_end(async move { handle.fire_now(tenant, &key, caller_key).await }).await
    }

    async fn fire_now(&self, tenant: TenantId, key: &JobKey, caller_key: Option<String>) -> Result<(Execution, bool)> {
        let ctx = &self.ctx;
        let job = intake::find(ctx, tenant, key).await?;
        let now = ctx.clock.now();
        let salt = ctx.random.next().to_be_bytes();
        let execution =
            ExecutionId::manual(tenant, job.id, now, caller_key.as_ref().map_or(&salt[..], |k| k.as_bytes()));
        let dispatch = job.dispatch(execution, now);
        let scope = format!("{} run {}", tenant.0, job.id);
        let idempotency = caller_key.map(|key| named(execution, scope, key, now));
        let fire = Fire {
            dispatch: dispatch.clone(),
            kind: FireKind::Manual,
            wake_at: now,
            overlap: job.definition.overlap,
            covers_from: None,
            expect: job.definition.expect,
        };
        let batch = FireBatch { fences: Arc::new([]), fires: vec![fire], skips: Vec::new(), now, idempotency };
        match ctx.store.fire(batch).await? {
            FireVerdict::Fired(fired) => {
                ctx.metrics.fired.add(1);
                self.dispatcher.send(vec![Waiting { dispatch, wake_at: now }]);
                self.dispatcher.send(fired.ready);
                Ok((self.execution(tenant, execution).await?, false))
            }
            FireVerdict::Replayed(answer) => {
                let execution =
                    answer.body.parse().map_err(|_| Error::new(Kind::Corrupt, "a remembered answer is no id"))?;
                Ok((self.execution(tenant, execution).await?, true))
            }
            FireVerdict::EpochLost(_) | FireVerdict::KeyReused => {
                Err(Error::new(Kind::Bug, "the store refused a manual fire"))
            }
        }
    }

    /// Cancels an execution. A cancel that is acknowledged before the start means no start; a running attempt of a worker is
    /// asked to stop, and loses its lease after `cancel.grace_ms`. Under a caller's key, asking again gets the same answer,
    /// and says that it was asked before.
    pub async fn cancel(&self, tenant: TenantId, execution: ExecutionId, cancel: Cancel) -> Result<(Execution, bool)> {
        self.cancel_target(tenant, execution, CancelTarget::Execution(execution), cancel).await
    }

    /// Cancels one fire of a job, whether it has come or not. `at` must be an instant of its schedule, in the version that governs
    /// `at`.
    pub async fn cancel_fire(
        &self,
        tenant: TenantId,
        key: &JobKey,
        at: Timestamp,
        cancel: Cancel,
    ) -> Result<(Execution, bool)> {
        let newest = intake::find(&self.ctx, tenant, key).await?;
        let before = at.saturating_add_ms(-1);
        let mut governing = versions::governing(&self.ctx, newest.clone(), before, at).await?;
        let job = governing.pop().map_or(newest, |version| version.job);
        let plan = intake::decode(&job.plan)?;
        if next_fire(&plan, job.spread_offset_ms(), before) != Some(at) {
            let message = format!("`{}` does not fire at {at}", job.name());
            return Err(Error::invalid(vec![FieldError::new("/at", "not_a_fire", message)]));
        }
        let execution = ExecutionId::scheduled(tenant, job.id, at);
        let dispatch = job.dispatch(execution, at);
        let fire = Fire {
            dispatch,
            kind: FireKind::Schedule,
            wake_at: at,
            overlap: job.definition.overlap,
            covers_from: None,
            expect: Expectation::default(),
        };
        self.cancel_target(tenant, execution, CancelTarget::Fire(Box::new(fire)), cancel).await
    }

    async fn cancel_target(
        &self,
        tenant: TenantId,
        execution: ExecutionId,
        target: CancelTarget,
        cancel: Cancel,
    ) -> Result<(Execution, bool)> {
        let handle = self.clone();
        to_the_end(async move { handle.cancel_now(tenant, execution, target, cancel).await }).await
    }

    async fn cancel_now(
        &self,
        tenant: TenantId,
        execution: ExecutionId,
        target: CancelTarget,
        cancel: Cancel,
    ) -> Result<(Execution, bool)> {
        let now = self.ctx.clock.now();
        let scope = format!("{} cancel {execution}", tenant.0);
        let idempotency = cancel.caller_key.map(|key| named(execution, scope, key, now));
        if let Some(answered) = &idempotency
            && self.ctx.store.recall(tenant, &answered.key, now).await?.is_some()
        {
            return Ok((self.execution(tenant, execution).await?, true));
        }
        let (targets, note, grace_ms) = (vec![target], cancel.note, cancel.grace_ms);
        let batch = CancelBatch { tenant, targets, note, now, grace_ms, idempotency };
        let mut cancelled = self.ctx.store.cancel(batch).await?;
        self.dispatcher.send(cancelled.ready);
        match cancelled.verdicts.pop() {
            Some(CancelVerdict::Done) => {
                worker::ended(&self.ctx, execution).await;
                Ok((self.execution(tenant, execution).await?, false))
            }
            Some(CancelVerdict::Asked { .. }) => Ok((self.execution(tenant, execution).await?, false)),
            Some(CancelVerdict::Stale { state }) => {
                let message = format!("{execution} is {} already", state.as_str());
                Err(Error::new(Kind::Conflict, message).with_code("execution_final"))
            }
            Some(CancelVerdict::Gone) | None => Err(no_execution(execution)),
        }
    }

    // External workers.

    /// Takes executions for a worker, waiting up to `wait_ms` for the first.
    pub async fn pull(&self, intro: &Introduction, wait_ms: u64) -> Result<pull::Answer> {
        pull::claim(&self.ctx, &self.dispatcher, intro, wait_ms, &mut self.stop.clone()).await
    }

    /// How long a worker keeps an execution without a heartbeat.
    pub fn lease_ms(&self) -> u64 {
        self.ctx.lease_ms
    }

    /// Prolongs a worker's leases. One verdict each.
    pub async fn heartbeat(&self, worker: &Arc<str>, beats: Vec<Beat>) -> Result<(Vec<Extended>, Directive)> {
        pull::heartbeat(&self.ctx, worker, beats).await
    }

    /// Ends a worker's attempts. One verdict each; the same one again gets the same answer.
    pub async fn finish(&self, tenant: TenantId, finishes: Vec<Finish>) -> Result<Vec<Finishing>> {
        let handle = self.clone();
        to_the_end(async move { pull::finish(&handle.ctx, &handle.dispatcher, tenant, finishes).await }).await
    }

    /// The workers heard of within the last hour.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.ctx.workers.list()
    }

    /// Tells a worker what to do with its next claim or heartbeat.
    pub fn direct(&self, worker: &str, directive: Directive) -> Result<()> {
        if self.ctx.workers.direct(worker, directive) {
            // Its claim may be waiting: it looks again.
            self.ctx.gate.opened.notify_waiters();
            return Ok(());
        }
        let message = format!("no worker `{worker}` was heard of within the last hour");
        Err(Error::new(Kind::NotFound, message).with_code("worker_not_found"))
    }

    /// How many present workers would take an execution of this pool and handler.
    pub fn serving(&self, pool: &str, handler: &str) -> usize {
        self.ctx.workers.serving(pool, handler, self.now())
    }

    // Pools and targets.

    /// The limits of pools or targets.
    pub async fn capacities(&self, tenant: TenantId, scope: Scope) -> Result<Vec<Capacity>> {
        list_all(&*self.ctx.store, RecordQuery::new(scope.into(), Some(tenant), RECORDS_PAGE)).await
    }

    /// Sets the limits of a pool or target; they hold when this returns.
    pub async fn put_capacity(&self, capacity: Capacity) -> Result<()> {
        let tenant = capacity.tenant;
        let record = Record::Limits(capacity);
        if self.ctx.store.get_record(&record.key()).await?.is_none() {
            let known = RecordQuery::limits(Some(tenant), limits::CAPACITIES_MAX);
            if self.ctx.store.list_records(&known).await?.items.len() >= limits::CAPACITIES_MAX {
                let message = format!("there are {} pools and targets with limits already", limits::CAPACITIES_MAX);
                return Err(Error::new(Kind::Conflict, message).with_code("capacities_too_many"));
            }
        }
        self.ctx.store.put_record(record, None).await?;
        upkeep::refresh(&self.ctx).await.map(|_| ())
    }

    /// Forgets the limits of a pool or target.
    pub async fn delete_capacity(&self, tenant: TenantId, scope: Scope, name: &str) -> Result<bool> {
        let deleted = self.ctx.store.delete_record(&RecordKey::new(scope.into(), tenant, name)).await?;
        upkeep::refresh(&self.ctx).await?;
        Ok(deleted)
    }

    /// What waits in the queue, by pool.
    pub async fn queue_depths(&self) -> Result<Vec<PoolDepth>> {
        self.ctx.queue.pools().await
    }

    /// The targets that this node has something to say about.
    pub fn targets(&self, tenant: TenantId) -> Vec<TargetStatus> {
        self.ctx.gate.targets(tenant)
    }

    // Operations.

    /// What a replay would do: how many, whether there are more, and the first few.
    pub async fn preview_replay(&self, tenant: TenantId, spec: &ReplaySpec) -> Result<(u64, bool, Vec<Execution>)> {
        operate::preview_replay(&self.ctx, tenant, spec).await
    }

    /// Accepts a replay of dead executions.
    pub async fn replay(&self, tenant: TenantId, mut spec: ReplaySpec) -> Result<Operation> {
        spec.before_ms = self.now().millis();
        let (count, more, _) = operate::preview_replay(&self.ctx, tenant, &spec).await?;
        let progress = Progress { total: (!more).then_some(count), ..Progress::default() };
        let operation = operate::create(&self.ctx, tenant, OperationKind::Replay, &spec, &progress).await?;
        self.bells.operations.notify_one();
        Ok(operation)
    }

    /// What a backfill would do.
    pub async fn preview_backfill(&self, tenant: TenantId, spec: &BackfillSpec) -> Result<BackfillPlan> {
        operate::preview_backfill(&self.ctx, tenant, spec).await
    }

    /// Accepts a backfill.
    pub async fn backfill(&self, tenant: TenantId, spec: BackfillSpec) -> Result<Operation> {
        let plan = operate::preview_backfill(&self.ctx, tenant, &spec).await?;
        if plan.fires == 0 {
            let message = "the schedule has no fire in that range";
            return Err(Error::invalid(vec![FieldError::new("/from", "range_invalid", message)]));
        }
        let progress = Progress { total: Some(plan.starts), ..Progress::default() };
        let operation = operate::create(&self.ctx, tenant, OperationKind::Backfill, &spec, &progress).await?;
        self.bells.operations.notify_one();
        Ok(operation)
    }

    /// One operation.
    pub async fn operation(&self, tenant: TenantId, id: OperationId) -> Result<Operation> {
        Ok(operate::get(&self.ctx, tenant, id).await?.1)
    }

    /// A page of operations, newest first, before the one with this id.
    pub async fn operations(
        &self,
        tenant: TenantId,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        operate::list(&self.ctx, tenant, before, limit).await
    }

    /// Stops an operation; what it started goes on.
    pub async fn cancel_operation(&self, tenant: TenantId, id: OperationId) -> Result<Operation> {
        operate::cancel(&self.ctx, tenant, id).await
    }

    /// Runs a few dead executions again, at once. One verdict each; for many there is `replay`.
    pub async fn replay_now(&self, tenant: TenantId, ids: Vec<ExecutionId>) -> Result<Vec<Applied>> {
        let handle = self.clone();
        to_the_end(async move {
            let now = handle.now();
            let replays = ids.into_iter().map(|execution| Resolve::Replay { execution, wake_at: now }).collect();
            let moved = handle.ctx.store.resolve_dead(tenant, replays, now).await?;
            handle.dispatcher.send(moved.ready);
            Ok(moved.verdicts)
        })
        .await
    }

    /// Gives up all dead executions that match a filter; says how many.
    pub async fn bury_matching(&self, tenant: TenantId, filter: Filter, note: &str) -> Result<u64> {
        let (from, to) = filter.window();
        let (states, limit) = (vec![State::Dead], limits::PAGE_ITEMS_MAX);
        let mut query = ExecutionQuery { tenant, job: None, states, from, to, filter, before: None, limit };
        let mut buried = 0;
        loop {
            let page = self.ctx.store.list_executions(&query).await?;
            let ids = page.items.iter().map(|execution| execution.id).collect();
            let verdicts = self.bury(tenant, ids, note).await?;
            buried += verdicts.iter().filter(|verdict| **verdict == Applied::Done).count() as u64;
            match page.next {
                Some(next) => query.before = Some(next),
                None => return Ok(buried),
            }
        }
    }

    /// Gives dead executions up. One verdict each.
    pub async fn bury(&self, tenant: TenantId, ids: Vec<ExecutionId>, note: &str) -> Result<Vec<Applied>> {
        let note: Arc<str> = note.into();
        let given_up = ids.into_iter().map(|execution| Resolve::Discard { execution, note: note.clone() });
        Ok(self.ctx.store.resolve_dead(tenant, given_up.collect(), self.now()).await?.verdicts)
    }

    // Notifications.

    /// All endpoints, in the order of their ids.
    pub async fn endpoints(&self, tenant: TenantId) -> Result<Vec<Endpoint>> {
        list_all(&*self.ctx.store, RecordQuery::new(RecordKind::Endpoint, Some(tenant), RECORDS_PAGE)).await
    }

    /// Makes an endpoint; its URL is checked by the rules for webhooks.
    pub async fn put_endpoint(&self, endpoint: Endpoint) -> Result<Endpoint> {
        if let Err(message) = self.ctx.sender.check(&endpoint.url) {
            return Err(Error::invalid(vec![FieldError::new("/url", "url_invalid", message)]));
        }
        let known = self.endpoints(endpoint.tenant).await?;
        if known.len() >= limits::ENDPOINTS_MAX && !known.iter().any(|known| known.id == endpoint.id) {
            let message = format!("there are {} endpoints already", limits::ENDPOINTS_MAX);
            return Err(Error::new(Kind::Conflict, message).with_code("endpoints_too_many"));
        }
        self.ctx.store.put_record(endpoint.clone().into(), None).await?;
        self.bells.deliveries.notify_one();
        Ok(endpoint)
    }

    /// Forgets an endpoint and what waits for it; says whether there was one.
    pub async fn delete_endpoint(&self, tenant: TenantId, id: EndpointId) -> Result<bool> {
        self.ctx.store.delete_record(&RecordKey::new(RecordKind::Endpoint, tenant, id.to_digits())).await
    }

    /// A new id for an endpoint.
    pub fn new_endpoint_id(&self) -> EndpointId {
        EndpointId::new(self.now(), (self.ctx.random.next() >> 48) as u16, self.ctx.random.next())
    }

    /// Has a delivery sent again.
    pub async fn replay_delivery(&self, tenant: TenantId, endpoint: EndpointId, seq: u64) -> Result<bool> {
        let again = DeliveryWrite::Replay { tenant, endpoint, seq, now: self.now() };
        let found = self.ctx.store.put_deliveries(vec![again]).await?;
        self.bells.deliveries.notify_one();
        Ok(found == [true])
    }

    /// Did it run, and why not?
    pub async fn why(&self, tenant: TenantId, key: &JobKey, at: Timestamp) -> Result<Why> {
        why::why(&self.ctx, tenant, key, at, self.is_ready()).await
    }

    /// Compares the counters with the rows, and corrects them; says by how much.
    pub async fn reconcile(&self) -> Result<u64> {
        upkeep::reconcile(&self.ctx).await
    }

    /// One execution.
    pub async fn execution(&self, tenant: TenantId, execution: ExecutionId) -> Result<Execution> {
        let found = self.ctx.store.get_executions(tenant, &[execution]).await?.pop().flatten();
        found.ok_or_else(|| no_execution(execution))
    }

    /// What the store tells people, for those who only read.
    pub fn reads(&self) -> Arc<dyn Reads> {
        self.ctx.store.clone()
    }

    /// What time the engine thinks it is.
    pub fn now(&self) -> Timestamp {
        self.ctx.clock.now()
    }

    /// Whether this node fires.
    pub fn is_ready(&self) -> bool {
        self.bells.ready.load(Ordering::Acquire)
    }

    /// Facts for operators.
    pub async fn status(&self) -> Result<EngineStatus> {
        let metrics = &self.ctx.metrics;
        Ok(EngineStatus {
            node: self.ctx.node.to_string(),
            ready: self.is_ready(),
            uptime_ms: self.ctx.clock.monotonic_ms() - self.started_mono_ms,
            now: self.now(),
            zone_database: zone_database_version().to_owned(),
            store: self.ctx.store.status().await?,
            store_zone_database: rezone::noted(&self.ctx).await?.unwrap_or_default(),
            queue: self.ctx.queue.depth(Runner::Node).await?,
            workers: self.ctx.workers.list().len() as u64,
            planned_jobs: metrics.planned_jobs.get(),
            waiting: metrics.waiting.get(),
            running: self.ctx.running.len() as u64,
            cursors_dirty: metrics.cursors_dirty.get(),
            counters: metrics.counters(),
            lateness_p50_ms: metrics.lateness_ms.quantile(0.5),
            lateness_p99_ms: metrics.lateness_ms.quantile(0.99),
            lateness_max_ms: metrics.lateness_ms.quantile(1.0),
        })
    }

    /// Who is alive, and who owns what.
    pub async fn cluster(&self) -> Result<ClusterStatus> {
        Ok(ClusterStatus {
            node: self.ctx.node.to_string(),
            members: self.ctx.coordinator.members().await?,
            shards: self.ctx.store.status().await?.shards,
        })
    }

    fn changed(&self, answer: Result<Accepted>) -> Result<Accepted> {
        self.bells.changed.notify_one();
        answer
    }
}

/// Runs something to its end, also when whoever asked hangs up on the way: what a commit has made possible must be
/// dispatched.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a request panicked")))
}

/// The answer that names an execution, under a caller's key.
fn named(execution: ExecutionId, scope: String, text: String, now: Timestamp) -> Idempotency {
    Idempotency {
        key: CallerKey { scope, text, fingerprint: 0 },
        answer: Answer { status: 202, body: execution.to_string() },
        expires_at: now.saturating_add_ms(limits::IDEMPOTENCY_MS as i64),
    }
}

fn no_execution(execution: ExecutionId) -> Error {
    Error::new(Kind::NotFound, format!("no execution has the id {execution}")).with_code("execution_not_found")
}
