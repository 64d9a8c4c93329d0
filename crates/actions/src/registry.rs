//! The actions of a node, and what they need to know.

use crate::client::Client;
use crate::guard::Targets;
use crate::noop::Noop;
use crate::webhook::Webhook;
use crate::webhook::sign::Secret;
use crate::worker::Worker;
use campanile_model::action::{Action, Registry};
use campanile_model::{Clock, Timestamp};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the actions and the sender of events need to know. The default is for production; see [`Options::dev`].
#[derive(Clone)]
pub struct Options {
    /// Where webhooks and events may go.
    pub targets: Targets,
    /// What events, and webhooks of jobs without a secret of their own, are signed with; several during a rotation.
    pub secrets: Vec<Secret>,
    /// How long a webhook waits for a connection; its attempt's time limit holds besides.
    pub connect_timeout_ms: u64,
    /// Connections to one target that are kept for the next webhook.
    pub idle_connections_max: usize,
    /// What an attempt's timestamp is read from.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    /// HTTPS to public addresses; unsigned unless the job has a secret.
    fn default() -> Self {
        Self {
            targets: Targets::default(),
            secrets: Vec::new(),
            connect_timeout_ms: 10_000,
            idle_connections_max: 256,
            clock: Arc::new(SystemClock),
        }
    }
}

impl Options {
    /// For a laptop: plain HTTP, loopback and private networks are allowed too.
    pub fn dev() -> Self {
        Self { targets: Targets::dev(), ..Self::default() }
    }
}

/// All actions of this release; from [`Options`], or from a client that others use too.
pub fn standard(client: impl Into<Client>) -> Registry {
    let actions: [Arc<dyn Action>; 3] = [Arc::new(Noop), Arc::new(Worker), Arc::new(Webhook::new(client))];
    Registry::new(actions)
}

/// The machine's clock, for who injects none: an action is the edge of the system.
struct SystemClock;

#[async_trait::async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is a Clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic_ms(&self) -> u64 {
        // Actions measure waits with the runtime's timer; nobody else is given this clock.
        self.now().millis().unsigned_abs()
    }

    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
