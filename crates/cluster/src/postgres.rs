//! The coordinator of any number of nodes on one PostgreSQL database.
//!
//! Every member has a row in `members`, which it renews about once per second, and one connection of its own, outside
//! the pool, that holds locks: one that says that it is alive, and one for each shard that it owns. Everything else
//! follows:
//!
//! - Who is alive: whose row is fresh and whose lock is held. A process that was killed loses its lock at once,
//!   because the server ends its session; one that was stopped or cut off is silent for a lease. Whoever sees a dead
//!   member deletes its row and ends its sessions, so that nothing it has locked holds others up.
//! - Who should own what: a pure function of the names of the live schedulers ([`crate::assign`]), or one of them
//!   owns all.
//! - Who owns what: the holder of a shard's lock. The old owner releases it when its engine has given the shard up,
//!   and rings; the new one takes it then. Nobody waits for a lock on the server.
//! - Whoever loses the connection has lost its shards. Whoever gets no answer stops a second before its lease is
//!   over, by the monotonic clock.
//!
//! Each beat also compares this machine's clock with the database's, which is the one that counts. A clock that is
//! too far off owns nothing until it is back.
//!
//! All of it is liveness. An engine may fire for a moment after its lock went to somebody else; the epochs in the
//! store decide.
//!
//! Reading order: `ledger` (what is wanted, held and told), `judge` (who is dead), `skew` (the clock), all pure;
//! `session` (the SQL), `session_loop` (the loop).

mod ledger;
mod judge;
mod skew;
mod session;
mod session_loop;

use campanile_model::coordinator::{Assignment, Coordinator, Introduction, Member};
use campanile_model::time::Offset;
use campanile_model::{Clock, Error, Kind, Result};
use campanile_pg::Target;
use campanile_pg::tokio_postgres::Client;
use ledger::Ledger;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// A member that is silent for longer is dead.
pub const LEASE_MS: u64 = 3_000;
/// How often a member says that it is alive.
const BEAT_MS: u64 = 1_000;
/// Without an answer for so long, a node owns nothing: before others take over.
const FENCE_MS: u64 = LEASE_MS - 1_000;
/// How long leaving may take before the connection is simply dropped.
const LEAVE_MS: u64 = 2_000;

/// How shards are shared.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Evenly among all schedulers.
    Shards,
    /// One scheduler owns all of them as long as it lives; the others stand by.
    Leader,
}

/// What the coordinator needs.
pub struct PgOptions {
    pub pg: campanile_pg::Options,
    /// How shards are shared.
    pub mode: Mode,
    /// This machine's clock as it is, without the offset.
    pub clock: Arc<dyn Clock>,
    /// Where to put how far that clock is off.
    pub offset: Offset,
}

/// The coordinator of any number of nodes on one database.
pub struct PgCoordinator {
    shared: Arc<Shared>,
    /// The session with the database, from `join` to `leave`.
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the callers share with the loop of the session.
struct Shared {
    target: Target,
    mode: Mode,
    clock: Arc<dyn Clock>,
    offset: Offset,
    lag_ms: AtomicU64,
    state: Mutex<State>,
    /// There may be something new to answer.
    changed: Notify,
    /// There is something to do before the next beat.
    wake: Notify,
}

#[derive(Default)]
struct State {
    phase: Phase,
    ledger: Ledger,
    is_resigned: bool,
    is_leaving: bool,
    /// The session's connection, while there is one.
    client: Option<Arc<Client>>,
    /// When the last beat that was answered was sent, by the monotonic clock.
    heard_at: u64,
    /// Who waits for something to be done.
    waiters: Vec<oneshot::Sender<()>>,
}

#[derive(Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Out,
    In,
    Left,
}

impl PgCoordinator {
    /// A coordinator that nobody has joined. Connects to nothing.
    pub fn new(options: PgOptions) -> Result<Self> {
        let PgOptions { pg, mode, clock, offset } = options;
        let shared = Shared {
            target: Target::new(&pg)?,
            mode,
            clock,
            offset,
            lag_ms: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Notify::new(),
            wake: Notify::new(),
        };
        Ok(Self { shared: Arc::new(shared), task: Mutex::new(None) })
    }
}

impl Drop for PgCoordinator {
    /// As if the process had ended: the others notice.
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

#[async_trait::async_trait]
impl Coordinator for PgCoordinator {
    async fn join(&self, me: Introduction) -> Result<()> {
        let (tell, joined) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if state.phase == Phase::In {
                let message = format!("cannot join as `{}`: this node has joined already", me.node);
                return Err(Error::new(Kind::Conflict, message));
            }
            *state = State { phase: Phase::In, ..State::default() };
            *self.task.lock() = Some(tokio::spawn(session_loop::run(self.shared.clone(), me, tell)));
        }
        joined.await.unwrap_or_else(|_| Err(Error::new(Kind::Unavailable, "left while joining")))
    }

    async fn assignment(&self) -> Result<Option<Assignment>> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut state = self.shared.state.lock();
                match state.phase {
                    Phase::Out => return Err(Error::new(Kind::Conflict, "cannot be assigned shards before joining")),
                    Phase::Left => return Ok(None),
                    Phase::In => {}
                }
                if state.ledger.called() {
                    self.shared.wake.notify_one();
                }
                if let Some(assignment) = state.ledger.answer() {
                    return Ok(Some(assignment));
                }
            }
            changed.await;
        }
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let client = self.shared.state.lock().client.clone();
        session::list(&self.shared.target, client.as_deref()).await
    }

    fn report(&self, lag_ms: u64) {
        self.shared.lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    async fn resign(&self) -> Result<()> {
        let done = {
            let mut state = self.shared.state.lock();
            if state.phase != Phase::In || state.is_resigned {
                return Ok(());
            }
            state.is_resigned = true;
            state.ledger.resigned();
            let (tell, done) = oneshot::channel();
            // Without a connection there is nothing to release, and the row will say so when there is one again.
            if state.client.is_some() {
                state.waiters.push(tell);
            }
            done
        };
        self.shared.changed.notify_waiters();
        self.shared.wake.notify_one();
        // Answered when it is done, dropped when the connection is lost: either way nothing is held any more.
        let _ = done.await;
        Ok(())
    }

    async fn leave(&self) -> Result<()> {
        {
            let mut state = self.shared.state.lock();
            (state.phase, state.is_leaving) = (Phase::Left, true);
        }
        self.shared.changed.notify_waiters();
        self.shared.wake.notify_one();
        let task = self.task.lock().take();
        if let Some(mut task) = task {
            tokio::select! {
                _ = &mut task => {}
                () = self.shared.clock.sleep_ms(LEAVE_MS) => task.abort(),
            }
        }
        Ok(())
    }
}
