//! What everybody else holds of the engine: the calls behind the API.

use crate::accept::{self, Create, Draft, manual};
use crate::bells::Bells;
use crate::calls::to_the_end;
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::executions;
use crate::gate::TargetStatus;
use crate::jobs::{Accepted, Conditions};
use crate::keep::{limits, upkeep};
use crate::notify::endpoints;
use crate::operate::{self, BackfillPlan, BackfillSpec, Cancel, ReplaySpec};
use crate::run::pull::{self, Beat, Finish, Finishing};
use crate::status::{self, ClusterStatus, EngineStatus};
use crate::why::{self, Why};
use crate::workers::{Directive, Introduction, WorkerStatus};
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::execution::Execution;
use campanile_model::filter::Filter;
use campanile_model::job::Job;
use campanile_model::job::version::Change;
use campanile_model::notify::Endpoint;
use campanile_model::operation::Operation;
use campanile_model::queue::PoolDepth;
use campanile_model::store::{Applied, CancelTarget, Extended, JobKey, Page, Reads};
use campanile_model::{EndpointId, ExecutionId, OperationId, Result, TenantId, Timestamp};
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

impl Handle {
    /// Checks and resolves a draft without writing anything.
    pub fn check(&self, tenant: TenantId, draft: &Draft) -> Result<Job> {
        accept::check(&self.ctx, tenant, draft)
    }

    /// Creates jobs. Each is judged alone.
    pub async fn create(&self, tenant: TenantId, creates: Vec<Create>) -> Vec<Result<Accepted>> {
        let verdicts = accept::create(&self.ctx, tenant, creates).await;
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
        self.changed(accept::replace(&self.ctx, tenant, key, draft, conditions).await)
    }

    /// The job that `replace` would make.
    pub async fn preview_replace(&self, tenant: TenantId, key: &JobKey, draft: Draft) -> Result<Job> {
        accept::preview_replace(&self.ctx, tenant, key, draft).await
    }

    pub async fn delete(&self, tenant: TenantId, key: &JobKey, conditions: Conditions) -> Result<Accepted> {
        self.changed(accept::set_state(&self.ctx, tenant, key, Change::Delete, conditions).await)
    }

    /// Stops a job's fires until it is resumed, or until an instant.
    pub async fn pause(
        &self,
        tenant: TenantId,
        key: &JobKey,
        until: Option<Timestamp>,
        conditions: Conditions,
    ) -> Result<Accepted> {
        self.changed(accept::set_state(&self.ctx, tenant, key, Change::Pause(until), conditions).await)
    }

    /// Lets a paused job fire again, from now on.
    pub async fn resume(&self, tenant: TenantId, key: &JobKey, conditions: Conditions) -> Result<Accepted> {
        self.changed(accept::set_state(&self.ctx, tenant, key, Change::Resume, conditions).await)
    }

    /// The job that `pause`, `resume` or `delete` would make.
    pub async fn preview_state(&self, tenant: TenantId, key: &JobKey, change: Change) -> Result<Job> {
        accept::preview_state(&self.ctx, tenant, key, change).await
    }

    /// Gives a job the definition that it had in an earlier version.
    pub async fn revert(&self, tenant: TenantId, key: &JobKey, to: u32, conditions: Conditions) -> Result<Accepted> {
        self.changed(accept::revert(&self.ctx, tenant, key, to, conditions).await)
    }

    /// The job that `revert` would make.
    pub async fn preview_revert(&self, tenant: TenantId, key: &JobKey, to: u32) -> Result<Job> {
        accept::preview_revert(&self.ctx, tenant, key, to).await
    }

    /// Fires a job now, whatever its schedule. With a key, asking again names the same execution.
    pub async fn run_now(
        &self,
        tenant: TenantId,
        key: &JobKey,
        caller_key: Option<String>,
    ) -> Result<(Execution, bool)> {
        let (handle, key) = (self.clone(), key.clone());
        to_the_end(async move { manual::run_now(&handle.ctx, &handle.dispatcher, tenant, &key, caller_key).await })
            .await
    }

    /// Cancels an execution. A cancel that is acknowledged before the start means no start; a running attempt of a worker is
    /// asked to stop, and loses its lease after `cancel.grace_ms`. Under a caller's key, asking again gets the same answer,
    /// and says that it was asked before.
    pub async fn cancel(&self, tenant: TenantId, execution: ExecutionId, cancel: Cancel) -> Result<(Execution, bool)> {
        self.cancel_one(tenant, (execution, CancelTarget::Execution(execution)), cancel).await
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
        let fire = operate::fire_at(&self.ctx, tenant, key, at).await?;
        self.cancel_one(tenant, fire, cancel).await
    }

    async fn cancel_one(
        &self,
        tenant: TenantId,
        target: (ExecutionId, CancelTarget),
        cancel: Cancel,
    ) -> Result<(Execution, bool)> {
        let handle = self.clone();
        to_the_end(async move { operate::cancel(&handle.ctx, &handle.dispatcher, tenant, target, cancel).await }).await
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
        pull::direct(&self.ctx, worker, directive)
    }

    /// How many present workers would take an execution of this pool and handler.
    pub fn serving(&self, pool: &str, handler: &str) -> usize {
        self.ctx.workers.serving(pool, handler, self.now())
    }

    // Pools and targets.

    /// The limits of pools or targets.
    pub async fn capacities(&self, tenant: TenantId, scope: Scope) -> Result<Vec<Capacity>> {
        limits::list(&self.ctx, tenant, scope).await
    }

    /// Sets the limits of a pool or target; they hold when this returns.
    pub async fn put_capacity(&self, capacity: Capacity) -> Result<()> {
        limits::put(&self.ctx, capacity).await
    }

    /// Forgets the limits of a pool or target.
    pub async fn delete_capacity(&self, tenant: TenantId, scope: Scope, name: &str) -> Result<bool> {
        limits::delete(&self.ctx, tenant, scope, name).await
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
    pub async fn replay(&self, tenant: TenantId, spec: ReplaySpec) -> Result<Operation> {
        operate::accept_replay(&self.ctx, &self.bells, tenant, spec).await
    }

    /// What a backfill would do.
    pub async fn preview_backfill(&self, tenant: TenantId, spec: &BackfillSpec) -> Result<BackfillPlan> {
        operate::preview_backfill(&self.ctx, tenant, spec).await
    }

    pub async fn backfill(&self, tenant: TenantId, spec: BackfillSpec) -> Result<Operation> {
        operate::accept_backfill(&self.ctx, &self.bells, tenant, &spec).await
    }

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
        operate::stop(&self.ctx, tenant, id).await
    }

    /// Runs a few dead executions again, at once. One verdict each; for many there is `replay`.
    pub async fn replay_now(&self, tenant: TenantId, ids: Vec<ExecutionId>) -> Result<Vec<Applied>> {
        let handle = self.clone();
        to_the_end(async move { operate::replay_now(&handle.ctx, &handle.dispatcher, tenant, ids).await }).await
    }

    /// Gives up all dead executions that match a filter; says how many.
    pub async fn bury_matching(&self, tenant: TenantId, filter: Filter, note: &str) -> Result<u64> {
        operate::bury_matching(&self.ctx, tenant, filter, note).await
    }

    /// Gives dead executions up. One verdict each.
    pub async fn bury(&self, tenant: TenantId, ids: Vec<ExecutionId>, note: &str) -> Result<Vec<Applied>> {
        operate::bury(&self.ctx, tenant, ids, note).await
    }

    // Notifications.

    /// All endpoints, in the order of their ids.
    pub async fn endpoints(&self, tenant: TenantId) -> Result<Vec<Endpoint>> {
        endpoints::list(&self.ctx, tenant).await
    }

    /// Makes an endpoint; its URL is checked by the rules for webhooks.
    pub async fn put_endpoint(&self, endpoint: Endpoint) -> Result<Endpoint> {
        endpoints::put(&self.ctx, &self.bells, endpoint).await
    }

    /// Forgets an endpoint and what waits for it; says whether there was one.
    pub async fn delete_endpoint(&self, tenant: TenantId, id: EndpointId) -> Result<bool> {
        endpoints::delete(&self.ctx, tenant, id).await
    }

    /// A new id for an endpoint.
    pub fn new_endpoint_id(&self) -> EndpointId {
        endpoints::new_id(&self.ctx)
    }

    /// Has a delivery sent again.
    pub async fn replay_delivery(&self, tenant: TenantId, endpoint: EndpointId, seq: u64) -> Result<bool> {
        endpoints::send_again(&self.ctx, &self.bells, tenant, endpoint, seq).await
    }

    /// Did it run, and why not?
    pub async fn why(&self, tenant: TenantId, key: &JobKey, at: Timestamp) -> Result<Why> {
        why::why(&self.ctx, tenant, key, at, self.is_ready()).await
    }

    /// Compares the counters with the rows, and corrects them; says by how much.
    pub async fn reconcile(&self) -> Result<u64> {
        upkeep::reconcile(&self.ctx).await
    }

    pub async fn execution(&self, tenant: TenantId, execution: ExecutionId) -> Result<Execution> {
        executions::get(&self.ctx, tenant, execution).await
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

    pub async fn status(&self) -> Result<EngineStatus> {
        status::engine(&self.ctx, self.started_mono_ms, self.is_ready()).await
    }

    /// Who is alive, and who owns what.
    pub async fn cluster(&self) -> Result<ClusterStatus> {
        status::cluster(&self.ctx).await
    }

    fn changed(&self, answer: Result<Accepted>) -> Result<Accepted> {
        self.bells.changed.notify_one();
        answer
    }
}
