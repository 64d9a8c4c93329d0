//! The nodes of an installation, and what they own.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The nodes of an installation, and what they own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Which node answers.
    pub node: String,
    /// The nodes that are alive, by name.
    pub nodes: Vec<ClusterNode>,
    /// Who opened which shard last.
    pub shards: Vec<ClusterShard>,
}

/// A node that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNode {
    /// Its name, unique for every start of a process.
    pub node: String,
    /// What it does: `api`, `scheduler`, `worker`.
    pub roles: Vec<String>,
    /// Its release.
    pub version: String,
    /// Where it listens.
    pub address: String,
    /// When it joined; missing where nobody keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// How long ago it was last heard of.
    pub silent_ms: u64,
    /// How far its machine's clock is ahead of the database's. Beyond 500 either way it owns no shards.
    pub clock_offset_ms: i64,
    /// How late what it fires is.
    pub lag_ms: u64,
    /// Shards that it has open.
    pub shards: u64,
    /// Shards that it should own.
    pub shards_assigned: u64,
    /// What it has set that should be the same on all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Who owns a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterShard {
    /// Which shard.
    pub shard: u16,
    /// The number of its ownership; it grows with every change of owner.
    pub epoch: u64,
    /// The node that opened it last.
    pub owner: String,
    /// Whether that node is alive.
    pub alive: bool,
}
