//! The nodes of the installation, and what they own.

use crate::App;
use crate::request::{Answer, Head, json};
use axum::extract::State;
use campanile_client::wire::{Cluster, ClusterNode, ClusterShard};
use campanile_engine::ClusterStatus;
use campanile_model::Timestamp;
use http::StatusCode;
use std::collections::HashMap;

/// The nodes, and what they own
///
/// Who is alive, what each does and owns, in which epoch, how late it fires, and how far its clock is off.
#[utoipa::path(get, path = "/v1/cluster", tag = "Server", operation_id = "getCluster",
    responses((status = 200, description = "The nodes and shards", body = Cluster)))]
pub(super) async fn cluster(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    Ok(json(StatusCode::OK, &shown(app.engine.cluster().await?)))
}

fn shown(status: ClusterStatus) -> Cluster {
    let mut open: HashMap<&str, u64> = HashMap::new();
    for shard in &status.shards {
        *open.entry(&shard.owner).or_default() += 1;
    }
    let nodes = status.members.iter().map(|member| ClusterNode {
        node: member.node.clone(),
        roles: member.roles.to_string().split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        version: member.version.clone(),
        address: member.address.clone(),
        started_at: Some(member.started_at).filter(|&at| at != Timestamp::MIN).map(|at| at.to_string()),
        silent_ms: member.silent_ms,
        clock_offset_ms: member.clock_offset_ms,
        lag_ms: member.lag_ms,
        shards: open.get(&*member.node).copied().unwrap_or(0),
        shards_assigned: member.shards as u64,
        settings: member.settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    });
    let nodes: Vec<ClusterNode> = nodes.collect();
    let shards = status.shards.iter().map(|shard| ClusterShard {
        shard: shard.fence.shard.0,
        epoch: shard.fence.epoch.0,
        owner: shard.owner.clone(),
        alive: nodes.iter().any(|node| node.node == shard.owner),
    });
    let shards = shards.collect();
    Cluster { node: status.node, nodes, shards }
}
