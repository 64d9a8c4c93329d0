//! All parts together: start, handle, drain.
//!
//! `Service` owns the tasks, `Handle` is what everybody else holds: cheap to clone, one method per thing a user can ask
//! for. Stopping drains: nothing new is received, what runs gets time to end, outcomes and cursors are written.

use crate::bells::Bells;
use crate::context::{Context, Injected};
use crate::handle::Handle;
use crate::keep::{self, rezone, upkeep};
use crate::outcomes::{self, Outcomes};
use crate::run::node;
use crate::running::Lane;
use crate::{complete, dispatch, dispatcher, notify, operate, own, reap};
use campanile_model::coordinator::{Introduction, Member, Roles};
use campanile_model::settings::{Difference, MUST_AGREE, SharedSettings};
use campanile_model::store::Retention;
use campanile_model::{Error, Kind, Result, limits};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Attempts that run at the same time.
    pub slots: usize,
    /// How long running attempts get to end when the node stops.
    pub drain_ms: u64,
    /// How long what is kept.
    pub retention: Retention,
    /// How long an external worker keeps an execution without a heartbeat.
    pub lease_ms: u64,
    /// What this node does. A handle answers whatever the roles: who serves it is the caller's business.
    pub roles: Roles,
    /// Where this node listens, for people.
    pub address: String,
    /// What is set here and should be the same on all nodes.
    pub settings: SharedSettings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slots: limits::SLOTS_MAX,
            drain_ms: 10_000,
            retention: upkeep::retention(),
            lease_ms: limits::LEASE_MS,
            roles: Roles::ALL,
            address: String::new(),
            settings: SharedSettings::default(),
        }
    }
}

pub struct Service {
    handle: Handle,
    options: Options,
    stop: watch::Sender<bool>,
    stop_firing: watch::Sender<bool>,
    /// None once it has ended in order.
    own: Option<JoinHandle<Result<()>>>,
    dispatch: JoinHandle<()>,
    work: Vec<JoinHandle<()>>,
    complete: JoinHandle<()>,
    done: Outcomes,
}

/// Who has not been heard of for longer is gone, or about to be: it need not agree.
const SILENT_MS_MAX: u64 = 10_000;
/// What writing the last outcomes gets at least when the node stops.
const WRITE_OUT_MS: u64 = 2_000;

impl Service {
    /// Joins, and starts all parts. Returns when the node is a member; `Handle::is_ready` says when it fires.
    pub async fn start(injected: Injected, options: Options) -> Result<Self> {
        let ctx = Context::new(injected, options.slots, options.retention.clone(), options.lease_ms);
        let me = Introduction {
            node: ctx.node.to_string(),
            roles: options.roles,
            version: env!("CARGO_PKG_VERSION").into(),
            address: options.address.clone(),
            settings: options.settings.clone(),
        };
        // Before, so that nobody notices who is refused; and after, for those who start together.
        compare(&ctx, &options.settings).await?;
        ctx.coordinator.join(me).await?;
        match compare(&ctx, &options.settings).await {
            Ok(differences) => differences.iter().for_each(tell),
            Err(refusal) => {
                if let Err(error) = ctx.coordinator.leave().await {
                    tracing::warn!(%error, "cannot leave in good order");
                }
                return Err(refusal);
            }
        }
        rezone::run(&ctx).await?;
        keep::limits::refresh(&ctx).await?;
        let (stop, stopped) = watch::channel(false);
        let (stop_firing, firing_stopped) = watch::channel(false);
        let (dispatcher, waiting) = dispatcher::channel();
        let (done, finished) = outcomes::channel(ctx.running.slots());
        let bells = Arc::new(Bells::default());
        let handle = Handle {
            dispatcher: dispatcher.clone(),
            bells: bells.clone(),
            stop: stopped.clone(),
            started_mono_ms: ctx.clock.monotonic_ms(),
            ctx: ctx.clone(),
        };
        let own = Some(tokio::spawn(own::run(ctx.clone(), dispatcher.clone(), bells.clone(), firing_stopped)));
        let dispatch = tokio::spawn(dispatch::run(ctx.clone(), waiting));
        let complete = tokio::spawn(complete::run(ctx.clone(), dispatcher.clone(), finished));
        let lane = |lane| {
            let (ctx, running) = (ctx.clone(), ctx.running.clone());
            tokio::spawn(node::run(ctx, lane, running, dispatcher.clone(), done.clone(), stopped.clone()))
        };
        let lanes = Lane::ALL.into_iter().filter(|_| options.roles.worker);
        let mut work: Vec<JoinHandle<()>> = lanes.map(lane).collect();
        work.extend([
            tokio::spawn(reap::run(ctx.clone(), dispatcher.clone(), done.clone(), bells.clone(), stopped.clone())),
            tokio::spawn(keep::run(ctx.clone(), bells.clone(), stopped.clone())),
            tokio::spawn(upkeep::run_slow(ctx.clone(), stopped.clone())),
            tokio::spawn(operate::run(ctx.clone(), dispatcher, bells.clone(), stopped.clone())),
            tokio::spawn(notify::run(ctx, bells, stopped)),
        ]);
        Ok(Self { handle, options, stop, stop_firing, own, dispatch, work, complete, done })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether a part has ended by itself, which they do only on an error that trying again cannot mend.
    pub fn has_failed(&self) -> bool {
        let others = [&self.dispatch, &self.complete].into_iter().chain(&self.work);
        self.own.as_ref().is_some_and(JoinHandle::is_finished) || others.into_iter().any(JoinHandle::is_finished)
    }

    /// Stops firing and gives the shards up, so that others fire what was ours while everything else here ends.
    pub async fn hand_over(&mut self) -> Result<()> {
        let Some(own) = self.own.take() else { return Ok(()) };
        let _ = self.stop_firing.send(true);
        let ended = own.await.map_err(|_| Error::new(Kind::Bug, "the owner of the shards panicked"))?;
        self.handle.ctx.coordinator.resign().await?;
        ended
    }

    /// Hands over, stops taking, lets what runs end, writes what is left, leaves.
    pub async fn stop(mut self) -> Result<()> {
        let handed_over = self.hand_over().await;
        let Self { handle, options, stop, dispatch, work, complete, done, .. } = self;
        let _ = stop.send(true);
        for task in work {
            let _ = task.await;
        }
        let ctx = &handle.ctx;
        let deadline = ctx.clock.monotonic_ms() + options.drain_ms;
        while !handle.ctx.running.is_empty() && ctx.clock.monotonic_ms() < deadline {
            ctx.clock.sleep_ms(20).await;
        }
        // Attempts that are still running are left to the next start, which finds their node gone.
        if !handle.ctx.running.is_empty() {
            tracing::warn!(
                attempts = handle.ctx.running.len(),
                "attempts did not end in time; they will be tried again"
            );
        }
        handle.ctx.running.close();
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
        handed_over
    }
}

/// Compares the settings of this node with those of the others, which should be the same, and names what differs. Refused where
/// nodes could not work together.
async fn compare(ctx: &Context, settings: &SharedSettings) -> Result<Vec<(Member, Difference)>> {
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let others = ctx.coordinator.members().await?.into_iter();
    for other in others.filter(|member| *member.node != *ctx.node && member.silent_ms <= SILENT_MS_MAX) {
        for difference in settings.differences(&other.settings) {
            if difference.key == MUST_AGREE {
                return Err(disagreement(&other, &difference));
            }
            found.push((other.clone(), difference));
        }
    }
    Ok(found)
}

fn disagreement(other: &Member, Difference { key, here, there }: &Difference) -> Error {
    let (node, address, seconds) = (&other.node, &other.address, SILENT_MS_MAX / 1_000);
    let message = format!(
        "cannot join: {key} is `{here}` here and `{there}` on {node} at {address}; stop all nodes to change it (one that was killed \
         counts for {seconds} s more)"
    );
    Error::new(Kind::Conflict, message).with_code("settings_differ")
}

fn tell((other, Difference { key, here, there }): &(Member, Difference)) {
    tracing::warn!(key, here, there, node = other.node, "another node has another setting");
}
