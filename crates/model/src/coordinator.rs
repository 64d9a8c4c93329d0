//! The contract of a coordinator: which node tries to own which shard.
//!
//! It is liveness only. A wrong answer may delay work; that work is not done twice is the business of the epochs in the
//! store.

use crate::error::Result;
use crate::shard::ShardId;

/// What a node should own now, and who else is alive.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Shards to own. Those no longer listed must be given up before the next call.
    pub shards: Vec<ShardId>,
    /// Names of the nodes that are alive, this one included. What others claimed is lost.
    pub live_nodes: Vec<String>,
}

/// Membership and assignment.
#[async_trait::async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Makes this node a member. `node` is unique for every start of a process.
    async fn join(&self, node: &str) -> Result<()>;
    /// Waits for the next change of this node's assignment; the first call answers at once. `None` after `leave`.
    async fn assignment(&self) -> Result<Option<Assignment>>;
    /// Gives everything up.
    async fn leave(&self) -> Result<()>;
}
