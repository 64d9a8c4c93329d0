//! What the benchmarks share: a real engine on a real store with a recording action, and the checks on what it did.

use crate::backends::Scratch;
use crate::clock::SystemClock;
use campanile_actions::EventSender;
use campanile_cluster::solo::Solo;
use campanile_engine::metrics::Metrics;
use campanile_engine::{Injected, Options, Service};
use campanile_model::action::{Action, ActionKind, ActionSpec, Registry, Work};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::coordinator::Coordinator;
use campanile_model::execution::Outcome;
use campanile_model::filter::Filter;
use campanile_model::job::version::{self, Change, Resolved};
use campanile_model::job::{Definition, Job};
use campanile_model::lifecycle::State;
use campanile_model::queue::{Dispatch, Queue};
use campanile_model::random::SplitMix;
use campanile_model::schedule::{HashSeed, Schedule};
use campanile_model::store::{ExecutionQuery, JobWrite, Put, Store};
use campanile_model::time::Offset;
use campanile_model::{Clock, ExecutionId, FieldError, JobId, TenantId, Timestamp, limits};
use campanile_queue::memory::MemoryQueue;
use campanile_store::sqlite;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What workers are asked for.
pub const HANDLER: &str = "bench";

/// When an execution started.
#[derive(Copy, Clone)]
pub struct Start {
    pub execution: ExecutionId,
    pub fire_at: Timestamp,
    pub at: Timestamp,
}

/// An action that does nothing but note when.
#[derive(Default)]
pub struct Recorder {
    starts: Mutex<Vec<Start>>,
}

impl Recorder {
    pub fn starts(&self) -> Vec<Start> {
        self.starts.lock().clone()
    }
}

struct Recording(Arc<Recorder>);

#[async_trait::async_trait]
impl Action for Recording {
    fn kind(&self) -> ActionKind {
        ActionKind::Noop
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn instant(&self, work: &Dispatch, now: Timestamp) -> Option<Outcome> {
        self.0.starts.lock().push(Start { execution: work.execution, fire_at: work.fire_at, at: now });
        Some(Outcome::Succeeded { response: None })
    }

    async fn run(&self, _work: &Work) -> Outcome {
        Outcome::Succeeded { response: None }
    }
}

/// Where stores to measure are made.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The directory of embedded ones; by default the system's for temporary files.
    pub scratch: Option<PathBuf>,
    /// A server, instead: a schema of its own is made in it, and dropped at the end.
    pub server: Option<String>,
}

impl Place {
    /// Whether what is measured is a store that nodes share.
    pub fn is_shared(&self) -> bool {
        self.server.is_some()
    }
}

/// A store of its own, removed at the end.
pub struct Lab {
    dir: tempfile::TempDir,
    server: Option<Scratch>,
}

impl Lab {
    pub fn new(place: &Place) -> Result<Self, String> {
        let dir = match &place.scratch {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        };
        let dir = dir.map_err(|e| format!("cannot create a scratch directory: {e}"))?;
        Ok(Self { dir, server: place.server.as_deref().map(Scratch::new) })
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Whether what is measured is a store that nodes share.
    pub fn is_shared(&self) -> bool {
        self.server.is_some()
    }

    pub async fn store(&self) -> Result<Arc<dyn Store>, String> {
        match &self.server {
            None => open(self.dir.path()),
            Some(scratch) => scratch.store().await.map_err(text),
        }
    }

    /// How many transactions the server has counted so far in this database.
    pub async fn transactions(&self) -> Result<u64, String> {
        match &self.server {
            None => Ok(0),
            Some(scratch) => scratch.transactions().await.map_err(text),
        }
    }

    /// Bytes that the server has written to its log so far.
    pub async fn log_bytes(&self) -> Result<u64, String> {
        match &self.server {
            None => Ok(0),
            Some(scratch) => scratch.log_bytes().await.map_err(text),
        }
    }

    /// What else the engine runs on.
    async fn transport(&self, offset: Offset) -> Result<(Arc<dyn Queue>, Arc<dyn Coordinator>), String> {
        match &self.server {
            None => Ok((Arc::new(MemoryQueue::new()), Arc::new(Solo::new()))),
            Some(scratch) => scratch.transport(offset).await.map_err(text),
        }
    }
}

pub fn open(dir: &Path) -> Result<Arc<dyn Store>, String> {
    let store = sqlite::SqliteStore::open(&sqlite::Options::new(dir.join("campanile.db"))).map_err(text)?;
    Ok(Arc::new(store))
}

/// The engine on `store`, with a recorder for its action.
pub async fn engine(lab: &Lab, store: Arc<dyn Store>) -> Result<(Service, Arc<Recorder>, Arc<Metrics>), String> {
    let (recorder, metrics) = (Arc::new(Recorder::default()), Arc::new(Metrics::default()));
    let service = engine_with(lab, store, recording(&recorder), metrics.clone()).await?;
    Ok((service, recorder, metrics))
}

/// The engine on `store`, with these actions, counting here.
pub async fn engine_with(
    lab: &Lab,
    store: Arc<dyn Store>,
    actions: Registry,
    metrics: Arc<Metrics>,
) -> Result<Service, String> {
    let offset = Offset::default();
    let transport = lab.transport(offset.clone()).await?;
    engine_on(store, transport, offset, actions, metrics).await
}

/// The engine on a directory that somebody else has prepared.
pub async fn engine_in(dir: &Path) -> Result<(Service, Arc<Recorder>, Arc<Metrics>), String> {
    let (recorder, metrics) = (Arc::new(Recorder::default()), Arc::new(Metrics::default()));
    let transport: (Arc<dyn Queue>, Arc<dyn Coordinator>) = (Arc::new(MemoryQueue::new()), Arc::new(Solo::new()));
    let actions = recording(&recorder);
    let service = engine_on(open(dir)?, transport, Offset::default(), actions, metrics.clone()).await?;
    Ok((service, recorder, metrics))
}

/// Actions that only note when they ran.
pub fn recording(recorder: &Arc<Recorder>) -> Registry {
    Registry::new([Arc::new(Recording(recorder.clone())) as Arc<dyn Action>])
}

async fn engine_on(
    store: Arc<dyn Store>,
    (queue, coordinator): (Arc<dyn Queue>, Arc<dyn Coordinator>),
    offset: Offset,
    actions: Registry,
    metrics: Arc<Metrics>,
) -> Result<Service, String> {
    let injected = Injected {
        store,
        queue,
        coordinator,
        actions,
        clock: Arc::new(SystemClock::new().corrected(offset)),
        random: Arc::new(SplitMix::new(now().millis() as u64)),
        sender: Arc::new(EventSender::new(campanile_actions::Options::default())),
        metrics,
        node: node().into(),
    };
    Service::start(injected, Options::default()).await.map_err(text)
}

/// The name of the measured node.
pub fn node() -> String {
    format!("node:bench-{}", std::process::id())
}

pub fn now() -> Timestamp {
    SystemClock::new().now()
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A job that does nothing at `at`.
pub fn one_off(n: usize, at: Timestamp, created_at: Timestamp) -> Job {
    job(n, Schedule::At { at }, created_at)
}

/// A job that does nothing every `every_ms`, the n-th at its own phase.
pub fn recurring(n: usize, every_ms: u64, phase_ms: u64, created_at: Timestamp) -> Job {
    job(n, Schedule::Every { every_ms, phase_ms }, created_at)
}

/// A job that waits for a worker at `at`.
pub fn for_workers(n: usize, at: Timestamp, created_at: Timestamp) -> Job {
    let config = format!("{{\"handler\":\"{HANDLER}\"}}").into();
    let spec = ActionSpec { kind: ActionKind::Worker, config };
    with_action(one_off(n, at, created_at), &(spec, HANDLER.into()))
}

/// The action of a webhook to `url`, and whom it is done to.
pub fn webhook_to(actions: &Registry, url: &str) -> Result<(ActionSpec, Arc<str>), String> {
    let config = format!("{{\"url\":\"{url}\"}}").into();
    let spec = ActionSpec { kind: ActionKind::Webhook, config };
    actions.validate(&spec).map_err(|errors| format!("the webhook was refused: {errors:?}"))
}

/// The same job with another action.
pub fn with_action(mut job: Job, (spec, target): &(ActionSpec, Arc<str>)) -> Job {
    Arc::make_mut(&mut job.definition).action = spec.clone();
    Job { target: target.clone(), ..job }
}

fn job(n: usize, schedule: Schedule, created_at: Timestamp) -> Job {
    let definition = Definition {
        name: format!("bench-{n:09}"),
        schedule,
        payload: "{}".into(),
        catch_up: CatchUp { mode: CatchUpMode::All, max_age_ms: u64::MAX / 4, drip_ms: 0 },
        ..Definition::default()
    };
    let id = JobId::new(created_at, (n >> 20) as u16, n as u64);
    version::create(id, TenantId::DEFAULT, &resolved(definition.into(), "".into()), false, created_at)
}

fn resolved(definition: Arc<Definition>, target: Arc<str>) -> Resolved {
    let seed = HashSeed { tenant: TenantId::DEFAULT_NAME, job: &definition.name };
    let plan = definition.schedule.resolve(seed, Timestamp::MIN).expect("the schedules of benchmarks can be resolved");
    Resolved { definition, plan, target, allow_past: false, kept: true }
}

fn create(job: Job) -> JobWrite {
    let change = Change::Create { resolved: resolved(job.definition, job.target), paused: false };
    JobWrite { id: job.id, tenant: job.tenant, change, expected: None, keyed: None }
}

/// Writes jobs in bulk, straight to the store.
pub async fn put(store: &Arc<dyn Store>, jobs: impl Iterator<Item = Job>, total: usize) -> Result<(), String> {
    let bar = progress("registering", total);
    let mut jobs = jobs.peekable();
    while jobs.peek().is_some() {
        let writes: Vec<JobWrite> = jobs.by_ref().take(5_000).map(create).collect();
        let count = writes.len();
        let puts = store.put_jobs(writes).await.map_err(text)?;
        if let Some(put) = puts.into_iter().find(|put| !matches!(put, Put::Done(_))) {
            return Err(format!("a job was refused: {put:?}"));
        }
        bar.inc(count as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// A progress bar on standard error; invisible when that is not a terminal.
pub fn progress(what: &'static str, total: usize) -> ProgressBar {
    let bar = ProgressBar::new(total as u64);
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} {per_sec} eta {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("##."));
    bar.set_message(what);
    bar
}

/// Waits until `done()` reaches `total`. Fails when nothing moves for a minute after `patience_ms`.
pub async fn wait(what: &'static str, total: usize, patience_ms: u64, done: impl Fn() -> usize) -> Result<(), String> {
    let bar = progress(what, total);
    let clock = SystemClock::new();
    let (mut last, mut moved_at) = (0, clock.monotonic_ms() + patience_ms);
    loop {
        let count = done();
        bar.set_position(count as u64);
        if count >= total {
            bar.finish_and_clear();
            return Ok(());
        }
        if count != last {
            (last, moved_at) = (count, clock.monotonic_ms().max(moved_at));
        } else if clock.monotonic_ms() > moved_at + 60_000 {
            return Err(format!("lost: {what} stands still at {count} of {total}"));
        }
        clock.sleep_ms(2).await;
    }
}

/// Checks that exactly the expected executions started, each once, none early, and that the store has all of them as
/// succeeded on their first attempt.
pub async fn verify(store: &Arc<dyn Store>, starts: &[Start], expected: usize) -> Result<Vec<String>, String> {
    verify_within(store, starts, expected, None).await
}

/// The same for executions that were due in a range, the last instant excluded.
pub async fn verify_within(
    store: &Arc<dyn Store>,
    starts: &[Start],
    expected: usize,
    range: Option<(Timestamp, Timestamp)>,
) -> Result<Vec<String>, String> {
    let early = starts.iter().filter(|start| start.at < start.fire_at).count();
    let distinct: HashSet<ExecutionId> = starts.iter().map(|start| start.execution).collect();
    let doubled = starts.len() - distinct.len();
    if early > 0 || doubled > 0 || distinct.len() != expected {
        return Err(format!("of {expected}: {} started, {doubled} doubled, {early} early", distinct.len()));
    }
    let mut before = None;
    let mut durable = 0;
    loop {
        let query = ExecutionQuery {
            tenant: TenantId::DEFAULT,
            job: None,
            states: Vec::new(),
            from: range.map(|(from, _)| from),
            to: range.map(|(_, to)| to),
            filter: Filter::default(),
            before,
            limit: limits::LOAD_ROWS_MAX,
        };
        let page = store.list_executions(&query).await.map_err(text)?;
        for execution in &page.items {
            let fine = execution.state == State::Succeeded && execution.attempt == 1;
            if !fine || !distinct.contains(&execution.id) {
                return Err(format!(
                    "{} is {} after attempt {}",
                    execution.id,
                    execution.state.as_str(),
                    execution.attempt
                ));
            }
        }
        durable += page.items.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    if durable != expected {
        return Err(format!("of {expected} executions the store has {durable}"));
    }
    Ok(vec![format!("{expected} expected, 0 lost, 0 doubled, 0 early; all durable as SUCCEEDED on attempt 1")])
}

/// The value at or below which `share` of the sorted values lie.
pub fn quantile(sorted: &[u64], share: f64) -> f64 {
    let rank = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or(0) as f64
}

/// Seconds that `work` took.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures the machine's own time")]
pub async fn seconds<T>(work: impl Future<Output = Result<T, String>>) -> Result<(f64, T), String> {
    let start = std::time::Instant::now();
    let value = work.await?;
    Ok((start.elapsed().as_secs_f64().max(1e-6), value))
}
