//! The bell that tells other nodes of new rows: the first at once, then at most one in 5 ms, and none is forgotten.

use super::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Between two rings of one node.
const GAP: Duration = Duration::from_millis(5);

/// The bell that tells other nodes of new rows.
pub(super) struct Bell {
    channel: String,
    wanted: Notify,
}

impl Bell {
    pub fn new(channel: String) -> Self {
        Self { channel, wanted: Notify::new() }
    }

    /// Rings, now or a little later.
    pub fn ring(&self) {
        self.wanted.notify_one();
    }
}

/// Rings until it is dropped. A ring that fails is not tried again: others look by themselves.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        shared.bell.wanted.notified().await;
        if let Err(error) = shared.database.query(include_str!("sql/ring.sql"), &[&shared.bell.channel]).await {
            tracing::debug!(%error, "cannot ring for what was published");
        }
        tokio::time::sleep(GAP).await;
    }
}
