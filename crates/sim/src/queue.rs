//! A queue that loses, delays, repeats and reorders.
//!
//! Either every process has its own, which ends with it, or all share one, which outlives them. A process that stands
//! still or has ended takes nothing out of it.

use crate::process::Process;
use crate::world::World;
use campanile_model::action::Runner;
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::{Error, ExecutionId, Kind, Result};
use campanile_queue::memory::MemoryQueue;
use std::sync::Arc;

/// A queue as one process sees it.
pub struct SimQueue {
    pub world: Arc<World>,
    pub process: Arc<Process>,
    pub inner: Arc<MemoryQueue>,
    /// Whether others share it.
    pub shared: bool,
}

#[async_trait::async_trait]
impl Queue for SimQueue {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.process.switch.pass().await;
        let odds = self.world.odds.lock().clone();
        if self.world.chance(odds.unpublished) {
            self.world.sometimes("publication refused");
            return Err(Error::new(Kind::Unavailable, "the queue refuses"));
        }
        let mut now = Vec::with_capacity(batch.len());
        for dispatch in batch {
            if self.world.chance(odds.lost) {
                self.world.sometimes("message lost");
                self.world.note(&self.process.name, format_args!("lose {}", dispatch.execution));
                continue;
            }
            if self.world.chance(odds.twice) {
                self.world.sometimes("message repeated");
                now.push(dispatch.clone());
            }
            if self.world.chance(odds.late) {
                self.world.sometimes("message late");
                self.put_late(dispatch);
                continue;
            }
            now.push(dispatch);
        }
        if now.len() > 1 && self.world.chance(odds.late) {
            self.world.sometimes("messages reordered");
            now.reverse();
        }
        self.inner.publish(now).await
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        loop {
            self.process.switch.pass().await;
            tokio::select! {
                biased;
                () = self.process.switch.stopped() => {}
                received = self.inner.receive(want) => return received,
            }
        }
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        self.process.switch.pass().await;
        self.inner.ack(runner, executions).await
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.process.switch.pass().await;
        self.inner.release(batch).await
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        self.process.switch.pass().await;
        self.inner.depth(runner).await
    }

    fn outlives(&self) -> bool {
        self.shared
    }

    async fn pools(&self) -> Result<Vec<PoolDepth>> {
        self.process.switch.pass().await;
        self.inner.pools().await
    }
}

impl SimQueue {
    fn put_late(&self, dispatch: Dispatch) {
        let (world, inner) = (self.world.clone(), self.inner.clone());
        let ms = world.between(1, 15_000);
        tokio::spawn(async move {
            world.time.sleep(ms).await;
            // Full, or not: a message may be lost.
            let _ = inner.publish(vec![dispatch]).await;
        });
    }
}
