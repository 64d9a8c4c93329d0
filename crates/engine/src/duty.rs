//! What this node is charged with: which shards it owns, whether it does what one node does for all, and who is alive.
//!
//! Written by the loop that owns, read by everybody. It is a hint, as all coordination is: what it leads to is guarded in
//! the store.

use campanile_model::shard::ShardId;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// The shard whose owner does what one node does for all: leases, pauses, expectations, operations, notifications, retention.
const KEEPER: ShardId = ShardId(0);

/// What this node is charged with.
#[derive(Default)]
pub struct Duty {
    state: Mutex<State>,
    /// Rung when other nodes are alive than before.
    pub others: Notify,
}

#[derive(Default)]
struct State {
    shards: Arc<[ShardId]>,
    live_nodes: Arc<[String]>,
}

impl Duty {
    /// The shards that are open here.
    pub fn shards(&self) -> Arc<[ShardId]> {
        self.state.lock().shards.clone()
    }

    /// Whether this node does what one node does for all.
    pub fn is_keeper(&self) -> bool {
        self.state.lock().shards.contains(&KEEPER)
    }

    /// The nodes that are alive, as far as is known.
    pub fn live_nodes(&self) -> Arc<[String]> {
        self.state.lock().live_nodes.clone()
    }

    /// Notes which shards are open here.
    pub fn set_shards(&self, shards: impl IntoIterator<Item = ShardId>) {
        self.state.lock().shards = shards.into_iter().collect();
    }

    /// Notes who is alive.
    pub fn set_live_nodes(&self, live_nodes: Vec<String>) {
        let changed = {
            let mut state = self.state.lock();
            let changed = *state.live_nodes != *live_nodes;
            state.live_nodes = live_nodes.into();
            changed
        };
        if changed {
            self.others.notify_one();
        }
    }
}
