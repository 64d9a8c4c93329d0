//! A queue in a table of PostgreSQL, shared by any number of nodes.
//!
//! Before: dispatch. After: worker. The table is `ready`; the store's migrations make it, and what waits in it are rows
//! that whoever receives them deletes. So a message is delivered at most once; what a node that is gone had received is
//! published again by the reaper, as everywhere.
//!
//! ```text
//! publish ──► INSERT ──► bell ─ ─ ─ ─ ► look (which lanes hold something; shared by all receivers of a node)
//!    │           │                       │
//!    │           └──── lanes known ◄─────┘
//!    │                     │
//!    │    receive ──► in line ──► plan (whose turn it is) ──► fetch: one DELETE for everybody in line ──► laid down
//!    └─ receivers of this node have room for all of it, and it is nobody else's turn ────────────────────────┘
//! ```
//!
//! - *Turns* are those of `memory`, with the same shares: pools, priorities, handlers, tenants. A node counts them for
//!   itself. It plans from what it knows to hold something (`known`), without knowing how much; whoever gets less than
//!   planned because a lane ran dry is served again at once, or asks again.
//! - *What is known* comes from this node's own publishing, and from looking at the table, which jumps from lane to
//!   lane and reads one row of each. One looks when the bell rang, and every two seconds; never just because somebody
//!   asked. So receivers may wait in any number, give up and come again, and an idle node makes one statement in two
//!   seconds.
//! - *The bell* is a notification, at most one in 5 ms per node. None is sent for what this node's own receivers have
//!   room for. One that is missed costs two seconds.
//! - *Receivers* wait in line as in `memory`, longest waiting first, and one fetch serves all of them. What was fetched
//!   for one that gave up goes to the next who wants it, or back into the table, in front.
//! - *Errors*: while the database is gone, whoever waits is told after the second try, and tries become rarer.
//!
//! One lock per call, never held across an await. Reading order: `known` (what waits where, and whose turn it is),
//! `side` (who waits for it), `fetch` and `look` (the two loops), `level` (how full it is), `bell`, `rows`, `database`.

mod known;
mod side;
mod fetch;
mod look;
mod level;
mod bell;
mod rows;
mod database;

use self::bell::Bell;
use self::database::Database;
use self::level::Age;
use self::look::Looking;
use self::rows::{Columns, runner_code};
use self::side::Side;
use crate::want::Want;
use crate::{RUNNERS, counts_of};
use campanile_model::action::Runner;
use campanile_model::fault::{self, Point};
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::{Error, ExecutionId, Kind, Result, Timestamp, limits};
use campanile_pg::{Listener, Options, Uuid};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The channel that is rung after rows were put into the table.
const CHANNEL: &str = "ready";
/// Rows that are counted of one pool and priority, for those who ask what waits.
const POOL_ROWS_MAX: i64 = 100_000;

/// A queue in a table of PostgreSQL, shared by any number of nodes.
pub struct TableQueue {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl TableQueue {
    /// The queue of an installation, which holds up to `limits::QUEUE_ITEMS_MAX` waiting executions. Its table must be
    /// there.
    pub async fn open(options: &Options) -> Result<Self> {
        Self::bounded(options, limits::QUEUE_ITEMS_MAX).await
    }

    /// The same with another bound. A batch beyond it is refused whole, as unavailable; the store keeps it until there
    /// is room. What waits is estimated, so the bound is not exact where several nodes publish. What is released is
    /// always taken back.
    pub async fn bounded(options: &Options, items_max: usize) -> Result<Self> {
        let database = Database::open(options).await?;
        let listener = Listener::start(database.target(), &[CHANNEL]);
        let shared = Arc::new(Shared {
            bell: Bell::new(database.target().channel(CHANNEL)),
            database,
            items_max,
            state: Mutex::default(),
            fetch: Default::default(),
            look: Notify::new(),
        });
        let mut tasks =
            vec![tokio::spawn(look::run(Arc::clone(&shared), listener)), tokio::spawn(bell::run(Arc::clone(&shared)))];
        tasks.extend(RUNNERS.map(|runner| tokio::spawn(fetch::run(Arc::clone(&shared), runner))));
        Ok(Self { shared, tasks })
    }

    /// Whether nothing is in the table. It is looked at only if nothing is believed to be.
    pub(crate) async fn is_empty(&self) -> Result<bool> {
        for runner in RUNNERS {
            if self.depth(runner).await?.waiting > 0 {
                return Ok(false);
            }
        }
        let rows = self.shared.database.query(include_str!("table/sql/is_empty.sql"), &[]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Puts rows where they are the next to be taken.
    pub(crate) async fn put_in_front(&self, batch: Vec<Dispatch>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        to_the_end(async move { shared.insert(&batch, End::Front).await }).await
    }

    /// That many of the taken ones were decided, or come back.
    pub(crate) fn settle(&self, runner: Runner, count: usize) {
        self.shared.state.lock().side(runner).level.settle(count);
    }
}

impl Drop for TableQueue {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[async_trait::async_trait]
impl Queue for TableQueue {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        to_the_end(async move {
            for (runner, more) in RUNNERS.into_iter().zip(counts_of(&batch)) {
                if more > 0 {
                    shared.check_room(runner, more).await?;
                }
            }
            fault::reach(Point("queue.publish.before"));
            let count = batch.len();
            let left = shared.hand_over(batch);
            match shared.insert(&left, End::Back).await {
                // Of a batch that was handed over in part, the rest is not refused: it is put into the table when that can be done.
                Err(_) if left.len() < count => shared.keep(left),
                done => done?,
            }
            fault::reach(Point("queue.publish.after"));
            Ok(())
        })
        .await
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        if want.limit == 0 {
            return Ok(Vec::new());
        }
        let (runner, limit) = (want.runner, want.limit);
        let want = Arc::new(Want::of(want));
        let (mut place, bell) = {
            let mut state = self.shared.state.lock();
            let (ticket, bell) = state.side(runner).stand_in_line(&want, limit);
            (Place { shared: &self.shared, runner, want, ticket: Some(ticket) }, bell)
        };
        self.shared.somebody_waits(runner, &place.want);
        bell.notified().await;
        // Nothing is awaited from here on: a receiver dropped before it answered has taken nothing.
        place.pick_up()
    }

    async fn missing(&self, executions: &[ExecutionId]) -> Result<Vec<ExecutionId>> {
        let ids: Vec<Uuid> = executions.iter().copied().map(Uuid::from).collect();
        let rows = self.shared.database.query(include_str!("table/sql/missing.sql"), &[&ids]).await?;
        Ok(rows.iter().map(|row| row.get::<_, Uuid>(0).into()).collect())
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        self.settle(runner, executions.len());
        Ok(())
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        let counts = counts_of(&batch);
        self.put_in_front(batch).await?;
        RUNNERS.into_iter().zip(counts).for_each(|(runner, count)| self.settle(runner, count));
        Ok(())
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        self.shared.estimate(runner).await?;
        Ok(self.shared.state.lock().side(runner).depth())
    }

    fn outlives(&self) -> bool {
        true
    }

    async fn pools(&self) -> Result<Vec<PoolDepth>> {
        let rows = self.shared.database.query(include_str!("table/sql/pools.sql"), &[&POOL_ROWS_MAX]).await?;
        let depth = |row: &campanile_pg::tokio_postgres::Row| PoolDepth {
            pool: row.get::<_, &str>(1).into(),
            runner: if row.get::<_, i16>(0) == runner_code(Runner::Node) { Runner::Node } else { Runner::Worker },
            waiting: usize::try_from(row.get::<_, i64>(2)).unwrap_or(0),
            oldest_queued_at: row.get::<_, Option<i64>>(3).map(Timestamp::from_millis),
        };
        let mut depths: Vec<PoolDepth> = rows.iter().map(depth).collect();
        depths.sort_by(|a, b| (&a.pool, a.runner).cmp(&(&b.pool, b.runner)));
        Ok(depths)
    }
}

/// Does it whether or not the caller waits for it: what is in the table is known here, and its bell is rung.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a call of the queue panicked")))
}

/// A receiver's place in line; given up when it is dropped.
struct Place<'a> {
    shared: &'a Arc<Shared>,
    runner: Runner,
    want: Arc<Want>,
    ticket: Option<u64>,
}

impl Place<'_> {
    /// Takes what was laid down; nothing was if the database is gone.
    fn pick_up(&mut self) -> Result<Vec<Dispatch>> {
        let mut state = self.shared.state.lock();
        let side = state.side(self.runner);
        let laid_down = self.ticket.take().map(|ticket| side.leave(&self.want, ticket)).unwrap_or_default();
        if laid_down.is_empty() { Err(side.trouble()) } else { Ok(laid_down) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut state = self.shared.state.lock();
            let side = state.side(self.runner);
            let laid_down = side.leave(&self.want, ticket);
            if !laid_down.is_empty() {
                side.give_up(laid_down);
                self.shared.fetch[self.runner as usize].notify_one();
            }
        }
    }
}

/// At which end of their lanes rows are put.
#[derive(Copy, Clone, PartialEq)]
enum End {
    Front,
    Back,
}

/// What the calls and the loops share.
struct Shared {
    database: Database,
    items_max: usize,
    state: Mutex<State>,
    /// Something may be fetched; by runner.
    fetch: [Notify; 2],
    /// It may be time to look.
    look: Notify,
    bell: Bell,
}

#[derive(Default)]
struct State {
    sides: [Side; 2],
    looking: Looking,
}

impl State {
    fn side(&mut self, runner: Runner) -> &mut Side {
        &mut self.sides[runner as usize]
    }
}

impl Shared {
    /// Hands over what receivers of this node have room for; returns the rest. A crash loses the same as right after a fetch.
    fn hand_over(&self, batch: Vec<Dispatch>) -> Vec<Dispatch> {
        let mut state = self.state.lock();
        let (workers, nodes): (Vec<_>, Vec<_>) = batch.into_iter().partition(|d| d.action.runner() == Runner::Worker);
        let mut left = state.side(Runner::Node).hand_over(nodes);
        left.extend(state.side(Runner::Worker).hand_over(workers));
        left
    }

    /// Keeps what could not be put into the table, until it can.
    fn keep(&self, left: Vec<Dispatch>) {
        let mut state = self.state.lock();
        let (workers, nodes): (Vec<_>, Vec<_>) = left.into_iter().partition(|d| d.action.runner() == Runner::Worker);
        for (runner, batch) in [(Runner::Node, nodes), (Runner::Worker, workers)] {
            state.side(runner).keep(batch);
            self.fetch[runner as usize].notify_one();
        }
    }

    /// Puts rows into the table, and lets everybody know.
    async fn insert(&self, batch: &[Dispatch], end: End) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let sql = match end {
            End::Front => include_str!("table/sql/release.sql"),
            End::Back => include_str!("table/sql/publish.sql"),
        };
        let counts = counts_of(batch);
        {
            let mut state = self.state.lock();
            RUNNERS.iter().zip(counts).for_each(|(&runner, count)| state.side(runner).level.begin(count));
        }
        let put = self.database.query(sql, &Columns::of(batch).params()).await;
        let mut must_ring = false;
        {
            let mut state = self.state.lock();
            RUNNERS.iter().zip(counts).for_each(|(&runner, count)| state.side(runner).level.end(count));
            let first_seq = put?.first().and_then(|row| row.get::<_, Option<i64>>(0)).unwrap_or(i64::MIN);
            for (runner, count) in RUNNERS.into_iter().zip(counts).filter(|&(_, count)| count > 0) {
                let items = batch.iter().filter(|item| item.action.runner() == runner);
                let news = state.side(runner).was_put(items, count, first_seq);
                must_ring |= news.is_for_others;
                if news.is_wanted_here {
                    self.fetch[runner as usize].notify_one();
                }
            }
        }
        if must_ring {
            self.bell.ring();
        }
        Ok(())
    }

    /// Refuses what there is no room for.
    async fn check_room(self: &Arc<Self>, runner: Runner, more: usize) -> Result<()> {
        self.estimate(runner).await?;
        let waiting = self.state.lock().side(runner).depth().waiting;
        if waiting + more <= self.items_max {
            return Ok(());
        }
        let message = format!("the queue is full: {waiting} waiting, at most {}", self.items_max);
        Err(Error::new(Kind::Unavailable, message).with_code("queue_full"))
    }

    /// Sees to it that the estimate of what waits is not too old.
    async fn estimate(self: &Arc<Self>, runner: Runner) -> Result<()> {
        let age = self.state.lock().side(runner).level.age(Instant::now());
        match age {
            Age::Fresh => Ok(()),
            Age::Stale => {
                let shared = Arc::clone(self);
                tokio::spawn(async move {
                    if let Err(error) = shared.count(runner).await {
                        tracing::debug!(%error, "cannot count what waits");
                    }
                });
                Ok(())
            }
            Age::Unknown => self.count(runner).await,
        }
    }

    async fn count(&self, runner: Runner) -> Result<()> {
        let counting = self.state.lock().side(runner).level.begin_count(Instant::now());
        let rows_max = i64::try_from(self.items_max).unwrap_or(i64::MAX).saturating_add(1);
        let rows = self.database.query(include_str!("table/sql/count.sql"), &[&runner_code(runner), &rows_max]).await;
        let counted = rows.map(|rows| rows.first().map_or(0, |row| row.get(0)));
        self.state.lock().side(runner).level.end_count(counting, counted.as_ref().ok().copied(), Instant::now());
        counted.map(|_| ())
    }

    /// Somebody stands in line: something is known for it, or it may be time to look, or both.
    fn somebody_waits(&self, runner: Runner, want: &Want) {
        let mut state = self.state.lock();
        let is_known = state.side(runner).has(want);
        if is_known {
            self.fetch[runner as usize].notify_one();
        }
        if state.looking.asked(Instant::now()) || !is_known {
            self.look.notify_one();
        }
    }
}
