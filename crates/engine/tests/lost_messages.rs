//! A queue that several nodes share and that loses messages: what was lost is found, also behind a backlog that never ends; and
//! what a node that leaves kept in mind is done by the others in time.

mod rig;

use campanile_model::action::Runner;
use campanile_model::error::Result;
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::lifecycle::State;
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::shard;
use campanile_model::store::JobKey;
use campanile_model::{ExecutionId, retry::Backoff};
use campanile_queue::memory::MemoryQueue;
use parking_lot::Mutex;
use rig::{Rig, TENANT, Told, draft, every, worker_draft};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue as nodes share it.
struct Shared {
    inner: MemoryQueue,
    waiting: Mutex<HashSet<ExecutionId>>,
    /// Whether what is published now is lost.
    loses: AtomicBool,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryQueue::new(), waiting: Mutex::default(), loses: AtomicBool::new(false) })
    }
}

#[async_trait::async_trait]
impl Queue for Shared {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        if self.loses.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.waiting.lock().extend(batch.iter().map(|dispatch| dispatch.execution));
        self.inner.publish(batch).await
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        let received = self.inner.receive(want).await?;
        let mut waiting = self.waiting.lock();
        for dispatch in &received {
            waiting.remove(&dispatch.execution);
        }
        drop(waiting);
        Ok(received)
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        self.inner.ack(runner, executions).await
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.inner.release(batch).await
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        self.inner.depth(runner).await
    }

    fn outlives(&self) -> bool {
        true
    }

    async fn missing(&self, executions: &[ExecutionId]) -> Result<Vec<ExecutionId>> {
        let waiting = self.waiting.lock();
        Ok(executions.iter().copied().filter(|id| !waiting.contains(id)).collect())
    }

    async fn pools(&self) -> Result<Vec<PoolDepth>> {
        self.inner.pools().await
    }
}

fn succeed(_: &campanile_model::action::Work) -> Outcome {
    Outcome::Succeeded { response: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_behind_a_backlog_is_found() {
    let (queue, told) = (Shared::new(), Told::new());
    told.tell(shard::all(), &["node:a"]);
    let a = Rig::sharing(queue.clone(), told, succeed).await;
    let job = a.create(worker_draft("job", every(3_600_000))).await;
    let key = JobKey::Id(job.id);
    let run = || a.handle.run_now(TENANT, &key, None);
    // Somebody else's, which nobody pulls: the pool is never empty.
    run().await.unwrap();
    a.pass(500).await;
    queue.loses.store(true, Ordering::SeqCst);
    run().await.unwrap();
    a.pass(500).await;
    queue.loses.store(false, Ordering::SeqCst);
    assert_eq!(queue.waiting.lock().len(), 1, "the second message is lost");
    a.pass(40_000).await;
    assert_eq!(queue.waiting.lock().len(), 2, "and was published again");
    assert_eq!(a.metrics.republished.get(), 1, "once, and the other not at all");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_that_was_alone_kept_to_itself_is_published_by_the_next_at_once() {
    let (queue, told) = (Shared::new(), Told::new());
    told.tell(shard::all(), &["node:a"]);
    let a = Rig::sharing(queue.clone(), told, succeed).await;
    let job = a.create(worker_draft("job", every(3_600_000))).await;
    queue.loses.store(true, Ordering::SeqCst);
    a.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    // Longer than what is loaded in any case, shorter than what the reaper takes for lost.
    a.pass(17_000).await;
    a.stop().await;
    queue.loses.store(false, Ordering::SeqCst);
    let told = Told::new();
    told.tell(shard::all(), &["node:b"]);
    let b = a.beside_on(queue.clone(), "node:b", told).await;
    b.pass(500).await;
    assert_eq!(queue.waiting.lock().len(), 1);
    assert_eq!(b.metrics.republished.get(), 0, "it did not wait for the reaper");
}

#[tokio::test(flavor = "multi_thread")]
async fn backoffs_of_a_node_that_leaves_end_in_time() {
    let (queue, to_a, to_b) = (Shared::new(), Told::new(), Told::new());
    let both = ["node:a", "node:b"];
    to_a.tell([], &both);
    // It only works, and what it does fails.
    let failed = |_: &_| Outcome::Failed {
        error: AttemptError { kind: "refused".into(), message: "no".into() },
        retryable: true,
        retry_after_ms: None,
        pause_job: false,
        response: None,
    };
    let a = Rig::sharing(queue.clone(), to_a, failed).await;
    let mut slow = draft("slow", every(3_600_000));
    let retry = &mut slow.definition.retry;
    (retry.backoff, retry.initial_delay_ms, retry.max_delay_ms) = (Backoff::Fixed, 8_000, 8_000);
    let job = a.create(slow).await;
    let execution = a.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0.id;
    a.pass(500).await;
    let state = || async { a.handle.execution(TENANT, execution).await.unwrap() };
    assert_eq!((state().await.state, state().await.attempt), (State::Retrying, 1));
    to_b.tell(shard::all(), &both);
    let b = a.beside_on(queue, "node:b", to_b.clone()).await;
    b.pass(500).await;
    a.stop().await;
    to_b.tell(shard::all(), &["node:b"]);
    b.pass(9_000).await;
    let ended = state().await;
    assert_eq!((ended.state, ended.attempt), (State::Succeeded, 2), "{ended:?}");
}
