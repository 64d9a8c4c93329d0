//! The loop that fetches, for all receivers of one kind that are in line.

use super::rows::{self, QuotaColumns, Row};
use super::side::{Fetch, Next};
use super::{End, Shared};
use campanile_model::Result;
use campanile_model::action::Runner;
use campanile_model::fault::{self, Point};
use campanile_model::queue::Dispatch;
use std::sync::Arc;
use std::time::Duration;

/// Shortest and longest wait before the next try, while the database is gone.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(1_000));

/// Fetches until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, runner: Runner) {
    let mut tries = Tries::default();
    loop {
        let (next, must_ring) = {
            let mut state = shared.state.lock();
            let side = state.side(runner);
            let next = side.next();
            let must_ring = matches!(next, Next::Rest) && side.must_ring();
            // Whoever is in line and gets nothing of this may have to look.
            if side.is_starving() {
                shared.look.notify_one();
            }
            (next, must_ring)
        };
        if must_ring {
            shared.bell.ring();
        }
        let done = match next {
            Next::Rest => {
                shared.fetch[runner as usize].notified().await;
                continue;
            }
            Next::PutBack(batch) => put_back(&shared, runner, batch).await,
            Next::Fetch(fetch) => fetch_all(&shared, runner, fetch).await,
        };
        match done {
            Ok(()) => tries = Tries::default(),
            Err(error) => {
                tracing::debug!(%error, "cannot fetch from the queue; trying again");
                if tries.is_not_the_first() {
                    shared.state.lock().side(runner).despair(&error);
                }
                tokio::time::sleep(tries.wait()).await;
            }
        }
    }
}

async fn put_back(shared: &Shared, runner: Runner, batch: Vec<Dispatch>) -> Result<()> {
    let put = shared.insert(&batch, End::Front).await;
    if put.is_err() {
        shared.state.lock().side(runner).keep(batch);
    }
    put
}

/// Carries out a fetch, round by round.
async fn fetch_all(shared: &Shared, runner: Runner, fetch: Fetch) -> Result<()> {
    let mut next = Some(fetch);
    while let Some(fetch) = next {
        let taken = take(shared, runner, &fetch).await;
        let mut state = shared.state.lock();
        next = match taken {
            Ok(rows) => state.side(runner).fetched(fetch, rows),
            Err(error) => {
                state.side(runner).not_fetched(fetch);
                return Err(error);
            }
        };
    }
    Ok(())
}

async fn take(shared: &Shared, runner: Runner, fetch: &Fetch) -> Result<Vec<Row>> {
    let sql = match runner {
        Runner::Node => include_str!("sql/take_nodes.sql"),
        Runner::Worker => include_str!("sql/take_workers.sql"),
    };
    fault::reach(Point("queue.take.before"));
    let rows = shared.database.query(sql, &QuotaColumns::of(&fetch.quotas).params(runner)).await?;
    fault::reach(Point("queue.take.after"));
    Ok(rows::read(&rows))
}

/// Tries that failed, one after the other.
#[derive(Default)]
pub(super) struct Tries {
    failed: u32,
}

impl Tries {
    /// A connection may be lost and the next one be there at once: nobody need hear of the first failure.
    pub fn is_not_the_first(&self) -> bool {
        self.failed > 0
    }

    /// How long to wait before the next try.
    pub fn wait(&mut self) -> Duration {
        let wait = RETRY.0 * 2u32.pow(self.failed.min(5));
        self.failed += 1;
        wait.min(RETRY.1)
    }
}
