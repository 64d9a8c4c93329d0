//! All parts together: start, handle, drain.
//!
//! `Service` owns the tasks, `Handle` is what everybody else holds: cheap to clone, one method per thing a user can ask
//! for. Stopping drains: nothing new is received, what runs gets time to end, outcomes and cursors are written.

use crate::context::Context;
use crate::dispatch::{self, Dispatcher};
use crate::fire::{self, Bell};
use crate::intake::{self, Accepted, Change, Create, JobDraft};
use crate::worker::Running;
use crate::{complete, reap, rezone, worker};
use campanile_model::action::Runner;
use campanile_model::execution::Execution;
use campanile_model::ids::FireKind;
use campanile_model::job::{Job, JobState};
use campanile_model::queue::{Depth, Dispatch};
use campanile_model::schedule::zone_database_version;
use campanile_model::store::{
    Answer, Applied, Fire, FireBatch, FireVerdict, Idempotency, JobKey, Store, StoreStatus, Waiting,
};
use campanile_model::{Error, ExecutionId, Kind, Result, TenantId, Timestamp, limits};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Attempts that run at the same time.
    pub slots: usize,
    /// How long running attempts get to end when the node stops.
    pub drain_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { slots: limits::SLOTS_MAX, drain_ms: 10_000 }
    }
}

/// The running engine.
pub struct Service {
    handle: Handle,
    options: Options,
    stop: watch::Sender<bool>,
    fire: JoinHandle<Result<()>>,
    dispatch: JoinHandle<()>,
    work: Vec<JoinHandle<()>>,
    complete: JoinHandle<()>,
    done: mpsc::Sender<Vec<complete::Finished>>,
}

/// What everybody else holds of the engine.
#[derive(Clone)]
pub struct Handle {
    ctx: Context,
    dispatcher: Dispatcher,
    bell: Arc<Bell>,
    running: Running,
    started_mono_ms: u64,
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
    /// The queue.
    pub queue: Depth,
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

/// What writing the last outcomes gets at least when the node stops.
const WRITE_OUT_MS: u64 = 2_000;
/// Batches of outcomes on their way to the completer.
const OUTCOME_BATCHES_MAX: usize = 64;

impl Service {
    /// Joins, and starts all parts. Returns when the node is a member; `Handle::is_ready` says when it fires.
    pub async fn start(ctx: Context, options: Options) -> Result<Self> {
        ctx.coordinator.join(&ctx.node).await?;
        rezone::run(&ctx).await?;
        let (stop, stopped) = watch::channel(false);
        let (dispatcher, waiting) = dispatch::channel();
        let (done, finished) = mpsc::channel(OUTCOME_BATCHES_MAX);
        let running = Running::new(options.slots);
        let bell = Arc::new(Bell::default());
        let handle = Handle {
            dispatcher: dispatcher.clone(),
            bell: bell.clone(),
            running: running.clone(),
            started_mono_ms: ctx.clock.monotonic_ms(),
            ctx: ctx.clone(),
        };
        let fire = tokio::spawn(fire::run(ctx.clone(), dispatcher.clone(), bell, stopped.clone()));
        let dispatch = tokio::spawn(dispatch::run(ctx.clone(), waiting));
        let complete = tokio::spawn(complete::run(ctx.clone(), dispatcher.clone(), finished));
        let work = vec![
            tokio::spawn(worker::run(ctx.clone(), running, done.clone(), stopped.clone())),
            tokio::spawn(reap::run(ctx, dispatcher, done.clone(), stopped)),
        ];
        Ok(Self { handle, options, stop, fire, dispatch, work, complete, done })
    }

    /// The handle.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether a part has ended by itself, which they do only on an error that trying again cannot mend.
    pub fn has_failed(&self) -> bool {
        let others = [&self.dispatch, &self.complete].into_iter().chain(&self.work);
        self.fire.is_finished() || others.into_iter().any(JoinHandle::is_finished)
    }

    /// Stops taking, lets what runs end, writes what is left, leaves.
    pub async fn stop(self) -> Result<()> {
        let Self { handle, options, stop, fire, dispatch, work, complete, done } = self;
        let _ = stop.send(true);
        let fired = fire.await.map_err(|_| Error::new(Kind::Bug, "the firing part panicked"))?;
        for task in work {
            let _ = task.await;
        }
        let ctx = &handle.ctx;
        let deadline = ctx.clock.monotonic_ms() + options.drain_ms;
        while !handle.running.is_empty() && ctx.clock.monotonic_ms() < deadline {
            ctx.clock.sleep_ms(20).await;
        }
        // Attempts that are still running are left to the next start, which finds their node gone.
        if !handle.running.is_empty() {
            tracing::warn!(attempts = handle.running.len(), "attempts did not end in time; they will be tried again");
        }
        handle.running.close();
        drop(done);
        let left_ms = deadline.saturating_sub(ctx.clock.monotonic_ms()).max(WRITE_OUT_MS);
        tokio::select! {
            biased;
            _ = complete => {}
            () = ctx.clock.sleep_ms(left_ms) => tracing::warn!("outcomes could not be written; their attempts count as lost"),
        }
        // It would wait as long as a handle exists; what it holds is in the store.
        dispatch.abort();
        ctx.coordinator.leave().await?;
        fired
    }
}

impl Handle {
    /// Checks and resolves a draft without writing anything.
    pub fn check(&self, tenant: TenantId, draft: &JobDraft) -> Result<Job> {
        intake::check(&self.ctx, tenant, draft)
    }

    /// Creates jobs. Each is judged alone.
    pub async fn create(&self, tenant: TenantId, creates: Vec<Create>) -> Vec<Result<Accepted>> {
        let verdicts = intake::create(&self.ctx, tenant, creates).await;
        self.bell.changed.notify_one();
        verdicts
    }

    /// Gives a job another definition.
    pub async fn replace(&self, tenant: TenantId, key: &JobKey, draft: JobDraft, change: Change) -> Result<Accepted> {
        self.changed(intake::replace(&self.ctx, tenant, key, draft, change).await)
    }

    /// The job that `replace` would make.
    pub async fn preview_replace(&self, tenant: TenantId, key: &JobKey, draft: JobDraft) -> Result<Job> {
        intake::preview_replace(&self.ctx, tenant, key, draft).await
    }

    /// Deletes a job.
    pub async fn delete(&self, tenant: TenantId, key: &JobKey, change: Change) -> Result<Accepted> {
        self.changed(intake::set_state(&self.ctx, tenant, key, JobState::Deleted, change).await)
    }

    /// Stops a job's fires until it is resumed.
    pub async fn pause(&self, tenant: TenantId, key: &JobKey, change: Change) -> Result<Accepted> {
        self.changed(intake::set_state(&self.ctx, tenant, key, JobState::Paused, change).await)
    }

    /// Lets a paused job fire again, from now on.
    pub async fn resume(&self, tenant: TenantId, key: &JobKey, change: Change) -> Result<Accepted> {
        self.changed(intake::set_state(&self.ctx, tenant, key, JobState::Active, change).await)
    }

    /// The job that `pause`, `resume` or `delete` would make.
    pub async fn preview_state(&self, tenant: TenantId, key: &JobKey, state: JobState) -> Result<Job> {
        intake::preview_state(&self.ctx, tenant, key, state).await
    }

    /// Fires a job now, whatever its schedule. With a key, asking again names the same execution.
    pub async fn run_now(
        &self,
        tenant: TenantId,
        key: &JobKey,
        caller_key: Option<String>,
    ) -> Result<(Execution, bool)> {
        let ctx = &self.ctx;
        let job = intake::find(ctx, tenant, key).await?;
        let now = ctx.clock.now();
        let salt = ctx.random.next().to_be_bytes();
        let execution =
            ExecutionId::manual(tenant, job.id, now, caller_key.as_ref().map_or(&salt[..], |k| k.as_bytes()));
        let dispatch = Dispatch {
            execution,
            job: job.id,
            fire_at: now,
            pool: job.pool.clone(),
            tenant,
            job_version: job.version,
            attempt: 0,
            priority: job.priority,
            action: job.action.kind,
        };
        let idempotency = caller_key.map(|key| Idempotency {
            scope: format!("{} run {}", tenant.0, job.id),
            key,
            fingerprint: 0,
            answer: Answer { status: 202, body: execution.to_string() },
            expires_at: now.saturating_add_ms(limits::IDEMPOTENCY_MS as i64),
        });
        let fire = Fire { dispatch: dispatch.clone(), kind: FireKind::Manual };
        let batch = FireBatch { fences: Arc::new([]), fires: vec![fire], skips: Vec::new(), now, idempotency };
        match ctx.store.fire(batch).await? {
            FireVerdict::Fired(_) => {
                ctx.metrics.fired.add(1);
                self.dispatcher.send(vec![Waiting { dispatch, wake_at: now }]);
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

    /// Cancels an execution. A cancel that is acknowledged before the start means no start.
    pub async fn cancel(&self, tenant: TenantId, execution: ExecutionId) -> Result<Execution> {
        self.cancel_once(tenant, execution, None).await.map(|(execution, _)| execution)
    }

    /// The same under a caller's key: asking again gets the same answer, and says that it was asked before.
    pub async fn cancel_once(
        &self,
        tenant: TenantId,
        execution: ExecutionId,
        caller_key: Option<String>,
    ) -> Result<(Execution, bool)> {
        let now = self.ctx.clock.now();
        let idempotency = caller_key.map(|key| Idempotency {
            scope: format!("{} cancel {execution}", tenant.0),
            key,
            fingerprint: 0,
            answer: Answer { status: 202, body: execution.to_string() },
            expires_at: now.saturating_add_ms(limits::IDEMPOTENCY_MS as i64),
        });
        if let Some(key) = &idempotency
            && self.ctx.store.recall(tenant, &key.scope, &key.key, now).await?.is_some()
        {
            return Ok((self.execution(tenant, execution).await?, true));
        }
        let verdict = self.ctx.store.cancel(tenant, vec![execution], now, idempotency).await?.pop();
        match verdict {
            Some(Applied::Done) => {
                self.running.abort(execution);
                Ok((self.execution(tenant, execution).await?, false))
            }
            Some(Applied::Stale { state }) => {
                let message = format!("{execution} is {} already", state.as_str());
                Err(Error::new(Kind::Conflict, message).with_code("execution_final"))
            }
            Some(Applied::Gone) | None => Err(no_execution(execution)),
        }
    }

    /// One execution.
    pub async fn execution(&self, tenant: TenantId, execution: ExecutionId) -> Result<Execution> {
        let found = self.ctx.store.get_executions(tenant, &[execution]).await?.pop().flatten();
        found.ok_or_else(|| no_execution(execution))
    }

    /// The store, for reads.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.ctx.store
    }

    /// What time the engine thinks it is.
    pub fn now(&self) -> Timestamp {
        self.ctx.clock.now()
    }

    /// Whether this node fires.
    pub fn is_ready(&self) -> bool {
        self.bell.ready.load(Ordering::Acquire)
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
            queue: self.ctx.queue.depth(Runner::Node).await?,
            planned_jobs: metrics.planned_jobs.get(),
            waiting: metrics.waiting.get(),
            running: self.running.len() as u64,
            cursors_dirty: metrics.cursors_dirty.get(),
            counters: metrics.counters(),
            lateness_p50_ms: metrics.lateness_ms.quantile(0.5),
            lateness_p99_ms: metrics.lateness_ms.quantile(0.99),
            lateness_max_ms: metrics.lateness_ms.quantile(1.0),
        })
    }

    fn changed(&self, answer: Result<Accepted>) -> Result<Accepted> {
        self.bell.changed.notify_one();
        answer
    }
}

fn no_execution(execution: ExecutionId) -> Error {
    Error::new(Kind::NotFound, format!("no execution has the id {execution}")).with_code("execution_not_found")
}
