//! Job writes of many callers, gathered into few transactions: writes of jobs follow each other in the whole
//! installation, so a node that brings many at once waits once for all of them.
//!
//! One task takes what is there when it is free. Whoever comes meanwhile is in the next transaction; nobody waits for
//! others to come. It ends when the store is dropped, after what it has taken.

use super::bulk;
use super::jobs::{self, Batch};
use super::{JOBS_BELL, Locks};
use crate::clock::StoreClock;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::fault::Step;
use campanile_model::store::{JobWrite, Put};
use campanile_pg::Pool;
use tokio::sync::{mpsc, oneshot};

/// Callers that may wait; more wait to get in.
const CALLERS_MAX: usize = 1_024;
/// Writes of a transaction, beyond which no other caller joins it. A caller's own are never split.
const ROWS_MAX: usize = 2_000;

/// What a caller wants written, and where it waits for the verdicts.
struct Order {
    writes: Vec<JobWrite>,
    answer: oneshot::Sender<Result<Vec<Put>>>,
}

/// The way to the task.
pub(super) struct Gather(mpsc::Sender<Order>);

impl Gather {
    pub(super) fn start(pool: Pool, locks: Locks, clock: StoreClock) -> Self {
        let (orders, queue) = mpsc::channel(CALLERS_MAX);
        let bell = pool.target().channel(JOBS_BELL);
        tokio::spawn(Writer { pool, lock: locks.jobs, bell, clock }.run(queue));
        Self(orders)
    }

    /// Writes jobs: one verdict each, in their order.
    pub(super) async fn put(&self, writes: Vec<JobWrite>) -> Result<Vec<Put>> {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::new(Kind::OutcomeUnknown, "the store was closed while it wrote jobs");
        self.0.send(Order { writes, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

struct Writer {
    pool: Pool,
    lock: i32,
    bell: String,
    clock: StoreClock,
}

impl Writer {
    async fn run(self, mut queue: mpsc::Receiver<Order>) {
        while let Some(first) = queue.recv().await {
            let mut rows = first.writes.len();
            let mut orders = vec![first];
            while rows < ROWS_MAX
                && let Ok(next) = queue.try_recv()
            {
                rows += next.writes.len();
                orders.push(next);
            }
            self.write(orders).await;
        }
    }

    async fn write(&self, mut orders: Vec<Order>) {
        let counts: Vec<usize> = orders.iter().map(|order| order.writes.len()).collect();
        let writes: Vec<JobWrite> = orders.iter_mut().flat_map(|order| order.writes.drain(..)).collect();
        match self.put(&writes).await {
            Ok(verdicts) => {
                let mut verdicts = verdicts.into_iter();
                for (order, count) in orders.into_iter().zip(counts) {
                    // Whoever does not wait any more has its jobs all the same.
                    let _ = order.answer.send(Ok(verdicts.by_ref().take(count).collect()));
                }
            }
            // Something that one of them wants cannot be written: the others get theirs.
            Err(error) if orders.len() > 1 && !is_everybodys(&error) => {
                let mut rest = &writes[..];
                for (order, count) in orders.into_iter().zip(counts) {
                    let (own, others) = rest.split_at(count);
                    rest = others;
                    let _ = order.answer.send(self.put(own).await);
                }
            }
            Err(error) => {
                for order in orders {
                    let _ = order.answer.send(Err(error.clone()));
                }
            }
        }
    }

    async fn put(&self, writes: &[JobWrite]) -> Result<Vec<Put>> {
        if jobs::are_new(writes) {
            match self.write_batch(writes, false).await {
                Err(error) if bulk::is_conflict(&error) => {}
                verdicts => return verdicts,
            }
        }
        self.write_batch(writes, true).await
    }

    async fn write_batch(&self, writes: &[JobWrite], check_conflicts: bool) -> Result<Vec<Put>> {
        let batch = Batch { writes, lock: self.lock, bell: &self.bell, clock: &self.clock, check_conflicts };
        self.pool.write_step(Step("put_jobs"), &batch, |tx, batch| Box::pin(jobs::put(tx, batch))).await
    }
}

/// Whether an error is not about what was to be written. What may have happened must not be done again.
fn is_everybodys(error: &Error) -> bool {
    matches!(error.kind(), Kind::Unavailable | Kind::OutcomeUnknown)
}
