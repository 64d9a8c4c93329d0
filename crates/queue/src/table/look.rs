//! The loop that looks at the table: which lanes hold something.
//!
//! One for all receivers of a node. It looks when the bell rang and somebody is there to receive; less often if all of
//! them have something to fetch anyway. Without the bell it looks every two seconds, as long as somebody is there.
//!
//! Where there are more lanes than one look shows, the next one goes on behind the last. What is known grows until it
//! is complete, and shrinks by fetching.

use super::Shared;
use super::fetch::Tries;
use super::known::{Lane, Stamp};
use super::rows::{read_lane, runner_code};
use super::side::Side;
use super::{CHANNEL, State};
use crate::RUNNERS;
use campanile_model::action::Runner;
use campanile_model::{Result, TenantId};
use campanile_pg::Listener;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks, when the bell did not ring.
const POLL: Duration = Duration::from_millis(2_000);
/// Between two looks, when the bell rang and somebody has nothing to fetch.
const GAP: Duration = Duration::from_millis(15);
/// The same, when all have something to fetch.
const GAP_BUSY: Duration = Duration::from_millis(100);
/// Receivers that come that soon one after the other need not be in line to be there.
const BUSY: Duration = Duration::from_millis(1_000);
/// And always so many times longer than the last look took.
const GAP_SHARE: u32 = 4;
/// Lanes that one look shows, of each kind of runner.
const LANES_MAX: usize = 1_000;

/// When to look, and where.
#[derive(Default)]
pub(super) struct Looking {
    /// When the last look began, and how long it took.
    last: Option<(Instant, Duration)>,
    /// Whether there may be more than the last look found.
    is_stale: bool,
    /// Where the next look goes on, by runner.
    after: [Option<Lane>; 2],
    /// When a receiver came.
    asked_at: Option<Instant>,
}

impl Looking {
    /// A receiver came; whether it may be time to look, also if something is known for it: others may have put what is
    /// more urgent.
    pub fn asked(&mut self, now: Instant) -> bool {
        self.asked_at = Some(now);
        self.is_stale || self.last.is_none_or(|(began, _)| now - began > POLL)
    }

    /// When to look next; never, as long as nobody is in line or was a moment ago.
    fn due(&self, sides: &[Side; 2], now: Instant) -> Option<Instant> {
        let is_asked = self.asked_at.is_some_and(|at| now - at < BUSY);
        if !is_asked && !sides.iter().any(Side::is_waited_for) {
            return None;
        }
        let Some((began, took)) = self.last else { return Some(now) };
        let gap = match (self.is_stale, sides.iter().any(Side::is_starving)) {
            (false, _) => POLL,
            (true, true) => GAP,
            (true, false) => GAP_BUSY,
        };
        Some(began + gap.max(took * GAP_SHARE))
    }
}

/// Looks until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, listener: Listener) {
    let bell = listener.bell(CHANNEL);
    let mut tries = Tries::default();
    loop {
        let due = {
            let state = shared.state.lock();
            state.looking.due(&state.sides, Instant::now())
        };
        tokio::select! {
            () = bell.notified() => {
                shared.state.lock().looking.is_stale = true;
                continue;
            }
            () = shared.look.notified() => continue,
            () = until(due) => {}
        }
        match look(&shared).await {
            Ok(()) => tries = Tries::default(),
            Err(error) => {
                tracing::debug!(%error, "cannot look into the queue; trying again");
                if tries.is_not_the_first() {
                    let mut state = shared.state.lock();
                    RUNNERS.into_iter().for_each(|runner| state.side(runner).despair(&error));
                }
                tokio::time::sleep(tries.wait()).await;
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn look(shared: &Shared) -> Result<()> {
    let began = Instant::now();
    let (after, since) = {
        let mut state = shared.state.lock();
        // What rings from now on may be too late for this look.
        state.looking.is_stale = false;
        (state.looking.after.clone(), RUNNERS.map(|runner| state.side(runner).stamp()))
    };
    let start = Lane { pool: Arc::default(), level: 0, target: Arc::default(), tenant: TenantId(0) };
    let [nodes, workers] = after.each_ref().map(|after| after.as_ref().unwrap_or(&start));
    // Before everything, if not behind a lane: no tenant has such a number.
    let [node_tenant, worker_tenant] =
        after.each_ref().map(|after| after.as_ref().map_or(-1, |lane| i64::from(lane.tenant.0)));
    let rows = shared
        .database
        .query(
            include_str!("sql/look.sql"),
            &[
                &&*nodes.pool,
                &i16::from(nodes.level),
                &node_tenant,
                &&*workers.pool,
                &i16::from(workers.level),
                &&*workers.target,
                &worker_tenant,
                &(LANES_MAX as i64),
            ],
        )
        .await;
    let mut state = shared.state.lock();
    let rows = rows.inspect_err(|_| state.looking.is_stale = true)?;
    for runner in RUNNERS {
        let of_runner = rows.iter().filter(|row| row.get::<_, i16>(0) == runner_code(runner));
        // One that cannot be read is a newer release's, which other nodes are.
        let lanes: Vec<(Lane, i64)> = of_runner.filter_map(read_lane).collect();
        state.found(runner, lanes, after[runner as usize].is_none(), since[runner as usize]);
        if state.side(runner).has_for_somebody() {
            shared.fetch[runner as usize].notify_one();
        }
    }
    state.looking.last = Some((began, began.elapsed()));
    Ok(())
}

impl State {
    /// What a look found behind the last one, or from the beginning.
    fn found(&mut self, runner: Runner, lanes: Vec<(Lane, i64)>, is_from_the_beginning: bool, since: Stamp) {
        let is_full = lanes.len() >= LANES_MAX;
        self.looking.after[runner as usize] = lanes.last().filter(|_| is_full).map(|(lane, _)| lane.clone());
        // After the last lanes come the first ones again.
        self.looking.is_stale |= is_full || !is_from_the_beginning;
        self.side(runner).found(lanes, is_from_the_beginning && !is_full, since);
    }
}
