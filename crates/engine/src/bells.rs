//! Bells between the parts of a node, and whether it has begun to fire.

use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;

/// Bells between the parts of a node, and whether it has begun to fire.
#[derive(Default)]
pub struct Bells {
    /// Job rows were written.
    pub changed: Notify,
    /// Leases of external workers have ended.
    pub expired: Notify,
    /// Operations are at work.
    pub operations: Notify,
    pub deliveries: Notify,
    /// Whether the assigned shards are open and the near fires loaded.
    pub ready: AtomicBool,
}
