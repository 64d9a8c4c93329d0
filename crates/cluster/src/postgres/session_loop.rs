//! The loop of a member's session with the database, from `join` to `leave`: beats, verdicts, locks; and again on a new
//! connection when one is lost.

use super::judge::{Judge, Seen};
use super::session::{Beat, Beaten, Other, Session};
use super::skew::{OFF_MS, Sample, Skew};
use super::{BEAT_MS, FENCE_MS, LEASE_MS, Mode, Phase, Shared};
use crate::assign;
use campanile_model::coordinator::{Introduction, Roles};
use campanile_model::shard::{self, ShardId};
use campanile_model::{Error, Kind, Result};
use campanile_pg::failure::classify;
use campanile_pg::tokio_postgres;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

/// Doorbells that ring sooner after a beat are answered together.
const SPACING_MS: u64 = 50;
/// How often a lock that somebody else holds is tried again, and for how long that often; later with every beat.
const RETRY_MS: u64 = 100;
const RETRY_FOR_MS: u64 = 5_000;
/// Shortest and longest wait before the next try to connect.
const CONNECT_MS: (u64, u64) = (50, 1_000);

/// Runs until the member leaves.
pub async fn run(shared: Arc<Shared>, me: Introduction, joined: oneshot::Sender<Result<()>>) {
    let mut member = LocalMember { me, skew: Skew::default(), started_at: None, joined: Some(joined), is_up: false };
    let mut wait_ms = CONNECT_MS.0;
    loop {
        shared.state.lock().heard_at = shared.clock.monotonic_ms();
        // After too long without an answer the connection is dropped, and everything that waits for it.
        let ended = tokio::select! {
            ended = one_session(&shared, &mut member) => ended,
            () = watch_over(&shared) => Err(Error::new(Kind::Unavailable, "the database does not answer")),
        };
        let is_leaving = shared.lost();
        let Err(error) = ended else { return };
        if let Some(joined) = member.joined.take() {
            let mut state = shared.state.lock();
            if state.phase == Phase::In {
                state.phase = Phase::Out;
            }
            let _ = joined.send(Err(error));
            return;
        }
        if is_leaving {
            return;
        }
        if std::mem::take(&mut member.is_up) {
            tracing::warn!(%error, "cut off from the other nodes; this one owns nothing until it is back");
            wait_ms = CONNECT_MS.0;
        } else {
            tracing::debug!(%error, "cannot reach the other nodes yet; trying again in {wait_ms} ms");
        }
        tokio::select! {
            () = shared.clock.sleep_ms(wait_ms) => wait_ms = (wait_ms * 2).min(CONNECT_MS.1),
            () = shared.wake.notified() => {}
        }
    }
}

/// Makes the node own nothing when no beat is answered in time, and returns when none will be.
async fn watch_over(shared: &Shared) {
    loop {
        let silent_ms = shared.clock.monotonic_ms().saturating_sub(shared.state.lock().heard_at);
        if silent_ms >= LEASE_MS {
            return;
        }
        let is_late = silent_ms >= FENCE_MS;
        if is_late {
            shared.state.lock().ledger.fence();
            shared.changed.notify_waiters();
        }
        shared.clock.sleep_ms(if is_late { LEASE_MS } else { FENCE_MS } - silent_ms).await;
    }
}

/// Runs one session, until it ends or the member has left.
async fn one_session(shared: &Shared, member: &mut LocalMember) -> Result<()> {
    let failed = |error: tokio_postgres::Error| classify(&error, shared.target.location());
    let session = Session::open(&shared.target, &member.me.node).await.map_err(failed)?;
    let is_again = member.started_at.is_some();
    let judge = Judge::new(shared.clock.monotonic_ms(), is_again);
    shared.state.lock().client = Some(session.client());
    let (schedulers, share) = (Vec::new(), BTreeSet::new());
    let mut session_loop =
        SessionLoop { shared, member, session, judge, written: None, leads: false, schedulers, share };
    session_loop.run().await.map_err(failed)?;
    shared.state.lock().client = None;
    session_loop.session.close().await;
    Ok(())
}

impl Shared {
    /// The connection is gone. Whether the member leaves anyway.
    fn lost(&self) -> bool {
        let mut state = self.state.lock();
        state.client = None;
        state.ledger.lost();
        state.waiters.clear();
        let is_leaving = state.is_leaving;
        drop(state);
        self.changed.notify_waiters();
        is_leaving
    }
}

impl Other {
    fn seen(&self) -> Seen<'_> {
        Seen { node: &self.node, seen_at: self.seen_at, silent_ms: self.silent_ms, is_locked: self.is_locked }
    }
}

/// What a member knows of itself, whichever connection it has.
struct LocalMember {
    me: Introduction,
    skew: Skew,
    /// When it joined, by the database's clock.
    started_at: Option<i64>,
    /// Told after the first round of the first session.
    joined: Option<oneshot::Sender<Result<()>>>,
    /// Whether the session was ever answered a beat.
    is_up: bool,
}

impl LocalMember {
    /// Whether this node may own shards now.
    fn takes_part(&self, is_resigned: bool) -> bool {
        self.me.roles.scheduler && !is_resigned && !self.skew.is_off()
    }
}

/// What our row says about us, as far as others act on it or want to see it.
#[derive(PartialEq, Eq)]
struct PublishedRow {
    roles: String,
    shards: usize,
}

struct SessionLoop<'a> {
    shared: &'a Shared,
    member: &'a mut LocalMember,
    session: Session,
    judge: Judge,
    /// What the last beat wrote.
    written: Option<PublishedRow>,
    /// Whether we hold the lock of the leader.
    leads: bool,
    /// Among whom the shards were shared at the last beat, and our part.
    schedulers: Vec<String>,
    share: BTreeSet<ShardId>,
}

impl SessionLoop<'_> {
    async fn run(&mut self) -> Result<(), tokio_postgres::Error> {
        let mut waiters = Vec::new();
        let mut beat_at = 0;
        let mut missing_since: Option<u64> = None;
        loop {
            let is_leaving = {
                let mut state = self.shared.state.lock();
                waiters.append(&mut state.waiters);
                state.is_leaving
            };
            if is_leaving {
                return self.session.leave(&self.member.me.node).await;
            }
            let mut now = self.shared.clock.monotonic_ms();
            if now >= beat_at || self.is_stale() {
                let again_at = self.beat().await?;
                beat_at = (now + BEAT_MS).min(again_at.unwrap_or(u64::MAX));
            }
            let is_missing = self.settle().await?;
            if self.is_stale() {
                continue;
            }
            for waiter in waiters.drain(..) {
                let _: Result<(), ()> = waiter.send(());
            }
            if let Some(joined) = self.member.joined.take()
                && joined.send(Ok(())).is_err()
            {
                // Nobody waits for it any more, so nobody knows that we are a member.
                self.shared.state.lock().is_leaving = true;
                continue;
            }

            now = self.shared.clock.monotonic_ms();
            missing_since = is_missing.then(|| missing_since.unwrap_or(now));
            let is_urgent = missing_since.is_some_and(|since| now < since + RETRY_FOR_MS);
            let until_beat = beat_at.saturating_sub(now);
            tokio::select! {
                () = self.shared.clock.sleep_ms(if is_urgent { until_beat.min(RETRY_MS) } else { until_beat }) => {}
                () = self.shared.wake.notified() => {}
                () = self.session.rung() => {
                    let beaten_at = self.shared.state.lock().heard_at;
                    // At the end of the connection there is nothing to wait for: the beat fails.
                    beat_at = if self.session.is_closed() { 0 } else { beat_at.min(beaten_at + SPACING_MS) };
                }
            }
        }
    }

    /// What our row should say.
    fn published_row(&self) -> PublishedRow {
        let state = self.shared.state.lock();
        // One that owns nothing for now is no scheduler in the eyes of the others.
        let scheduler = self.member.takes_part(state.is_resigned);
        let roles = Roles { scheduler, ..self.member.me.roles }.to_string();
        PublishedRow { roles, shards: state.ledger.owned_count() }
    }

    fn is_stale(&self) -> bool {
        self.written.as_ref() != Some(&self.published_row())
    }

    /// Says that we are alive, and learns who else is. When to do so again at the latest, if somebody may be dead.
    async fn beat(&mut self) -> Result<Option<u64>, tokio_postgres::Error> {
        let clock = &self.shared.clock;
        let row = self.published_row();
        let beat = Beat {
            me: &self.member.me,
            roles: &row.roles,
            started_at: self.member.started_at,
            clock_offset_ms: -self.member.skew.offset_ms(),
            lag_ms: self.shared.lag_ms.load(Ordering::Relaxed),
            shards: row.shards,
        };
        let (sent_at, sent) = (clock.monotonic_ms(), clock.now().millis());
        let beaten = self.session.beat(&beat).await?;
        let (now, received) = (clock.monotonic_ms(), clock.now().millis());
        self.shared.state.lock().heard_at = sent_at;
        (self.member.started_at, self.member.is_up) = (Some(beaten.started_at), true);
        self.measure(Sample::new(sent, received, beaten.now_ms, now - sent_at));
        let is_news = self.written.as_ref().is_none_or(|written| written.roles != row.roles);
        self.written = Some(row);

        let Beaten { is_led, others, .. } = beaten;
        let (live, has_evicted, again_at) = self.evict(now, others).await?;
        let has_led = self.lead(is_led).await?;
        if is_news || has_evicted || has_led {
            self.session.ring().await?;
        }
        self.apply_membership(live);
        // What a dead member had locked is free in a moment.
        Ok(if has_evicted { Some(now + RETRY_MS) } else { again_at })
    }

    /// Learns about our clock.
    fn measure(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else { return };
        let skew = &mut self.member.skew;
        let was_off = skew.is_off();
        skew.add(sample);
        let offset_ms = skew.offset_ms();
        self.shared.offset.set(offset_ms);
        match (was_off, skew.is_off()) {
            (false, true) => tracing::warn!(
                ahead_ms = -offset_ms,
                "this machine's clock is more than {OFF_MS} ms off the database's; this node owns nothing for now"
            ),
            (true, false) => tracing::warn!(ahead_ms = -offset_ms, "this machine's clock is right again"),
            _ => {}
        }
    }

    /// Evicts who is dead. Who lives, whether somebody was evicted, and when to look again.
    async fn evict(
        &mut self,
        now: u64,
        others: Vec<Other>,
    ) -> Result<(Vec<Other>, bool, Option<u64>), tokio_postgres::Error> {
        let seen: Vec<Seen<'_>> = others.iter().map(Other::seen).collect();
        let (dead, again_at) = self.judge.judge(now, &seen);
        let (mut live, mut has_evicted) = (Vec::with_capacity(others.len()), false);
        for other in others {
            if dead.contains(&other.node) && self.session.evict(&other).await? {
                has_evicted = true;
            } else {
                live.push(other);
            }
        }
        Ok((live, has_evicted, again_at))
    }

    /// Takes or gives up the leadership. Whether it was given up.
    async fn lead(&mut self, is_led: bool) -> Result<bool, tokio_postgres::Error> {
        let takes_part = self.member.takes_part(self.shared.state.lock().is_resigned);
        match (self.leads, takes_part) {
            (false, true) if self.shared.mode == Mode::Leader && !is_led => self.leads = self.session.lead().await?,
            (true, false) => {
                self.session.stop_leading().await?;
                self.leads = false;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Tells the engine's side who lives, and what should be ours.
    fn apply_membership(&mut self, live: Vec<Other>) {
        let mut state = self.shared.state.lock();
        let takes_part = self.member.takes_part(state.is_resigned);
        let me = &self.member.me.node;
        // One that has resigned, or whose clock is off, says by its roles that it is none: nobody has to judge it
        // again.
        let others = live.iter().filter(|other| other.roles.scheduler);
        let mut schedulers: Vec<&str> = others.map(|other| &*other.node).collect();
        let wanted: BTreeSet<ShardId> = match self.shared.mode {
            _ if !takes_part => BTreeSet::new(),
            Mode::Leader if self.leads => shard::all().collect(),
            Mode::Leader => BTreeSet::new(),
            Mode::Shards => {
                schedulers.push(me);
                schedulers.sort_unstable();
                if self.schedulers != schedulers {
                    self.share = assign::shards_of(me, &schedulers);
                    self.schedulers = schedulers.iter().map(|&node| node.to_owned()).collect();
                }
                self.share.clone()
            }
        };
        let mut live_nodes: Vec<String> = live.into_iter().map(|other| other.node).chain([me.clone()]).collect();
        live_nodes.sort_unstable();
        state.ledger.set_membership(live_nodes, wanted);
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Releases what the engine has given up, and takes what should be ours. Whether something of that is still
    /// missing.
    async fn settle(&mut self) -> Result<bool, tokio_postgres::Error> {
        let (release, take) = {
            let state = self.shared.state.lock();
            (state.ledger.to_release(), state.ledger.to_take())
        };
        if !release.is_empty() {
            self.session.release(&release).await?;
            self.shared.state.lock().ledger.released(&release);
            self.session.ring().await?;
        }
        if take.is_empty() {
            return Ok(false);
        }
        let took = self.session.take(&take).await?;
        let is_missing = took.len() < take.len();
        if !took.is_empty() {
            self.shared.state.lock().ledger.took(took);
            self.shared.changed.notify_waiters();
        }
        Ok(is_missing)
    }
}
