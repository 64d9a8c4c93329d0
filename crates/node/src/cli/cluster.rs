//! `campanile cluster`: the nodes of an installation, and what they own.

use super::Globals;
use super::exit::Failure;
use super::output::{Output, rough};
use campanile_client::wire::{Cluster, ClusterNode};
use std::collections::{BTreeMap, BTreeSet};

/// What to ask about the nodes.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the nodes that are alive, and what they own
    #[command(after_help = "\
Examples:
  campanile cluster status
  campanile cluster status --shards")]
    Status {
        /// List every shard with its owner and epoch
        #[arg(long)]
        shards: bool,
    },
}

/// Runs a command about the nodes.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let Command::Status { shards } = command;
    let cluster = globals.client()?.cluster().await?;
    let names = || match shards {
        true => cluster.shards.iter().map(|shard| shard.shard.to_string()).collect(),
        false => cluster.nodes.iter().map(|node| node.node.clone()).collect(),
    };
    out.print(&cluster, names, |out| if shards { list_shards(&cluster, out) } else { list_nodes(&cluster, out) })?;
    for note in note(&cluster).into_iter().chain(differences(&cluster)) {
        out.chat(&note);
    }
    Ok(())
}

/// Settings that should be the same on all nodes and are not, a sentence each.
pub(super) fn differences(cluster: &Cluster) -> Vec<String> {
    let told: Vec<&ClusterNode> = cluster.nodes.iter().filter(|node| !node.settings.is_empty()).collect();
    let keys: BTreeSet<&str> = told.iter().flat_map(|node| node.settings.keys()).map(String::as_str).collect();
    let mut found = Vec::new();
    for key in keys {
        let mut nodes_by_value: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in &told {
            let value = node.settings.get(key).map_or("", String::as_str);
            nodes_by_value.entry(value).or_default().push(&node.node);
        }
        if nodes_by_value.len() > 1 {
            let values = nodes_by_value.iter().map(|(value, nodes)| format!("`{value}` on {}", nodes.join(", ")));
            found.push(format!("nodes differ in {key}: {}", values.collect::<Vec<_>>().join("; ")));
        }
    }
    found
}

/// What the tables do not say.
fn note(cluster: &Cluster) -> Option<String> {
    if with_role(cluster, "scheduler") == 0 {
        return Some(
            "no scheduler node is alive, so nothing fires; start one: campanile server --roles scheduler".into(),
        );
    }
    let orphaned = cluster.shards.iter().filter(|shard| !shard.alive).count();
    (orphaned > 0)
        .then(|| format!("{orphaned} shards were opened last by nodes that are gone; another takes them over"))
}

/// Whether a node does this.
pub(super) fn has_role(node: &ClusterNode, role: &str) -> bool {
    node.roles.iter().any(|has| has == role)
}

/// How many of the nodes that are alive do this.
pub(super) fn with_role(cluster: &Cluster, role: &str) -> usize {
    cluster.nodes.iter().filter(|node| has_role(node, role)).count()
}

fn list_nodes(cluster: &Cluster, out: &Output) -> String {
    let rows = cluster.nodes.iter().map(|node| {
        vec![
            if node.node == cluster.node { format!("{} *", node.node) } else { node.node.clone() },
            node.roles.join(","),
            node.version.clone(),
            node.address.clone(),
            owned(node),
            rough(node.silent_ms),
            rough(node.lag_ms),
            format!("{:+}ms", node.clock_offset_ms),
        ]
    });
    out.table(&["NODE", "ROLES", "VERSION", "ADDRESS", "SHARDS", "SEEN", "LAG", "CLOCK"], rows)
}

/// Shards that are open, and those that should be where that differs.
fn owned(node: &ClusterNode) -> String {
    match node.shards == node.shards_assigned {
        true => node.shards.to_string(),
        false => format!("{} of {}", node.shards, node.shards_assigned),
    }
}

fn list_shards(cluster: &Cluster, out: &Output) -> String {
    let rows = cluster.shards.iter().map(|shard| {
        let owner = if shard.alive { shard.owner.clone() } else { format!("{} (gone)", shard.owner) };
        vec![shard.shard.to_string(), shard.epoch.to_string(), owner]
    });
    out.table(&["SHARD", "EPOCH", "OWNER"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nobody_takes_over_where_no_scheduler_is_left() {
        let cluster = |role: &str| -> Cluster {
            let node = json!({"node": "a", "roles": [role], "version": "1", "address": "127.0.0.1:1", "silent_ms": 1,
                "clock_offset_ms": 0, "lag_ms": 0, "shards": 0, "shards_assigned": 0});
            let shard = json!({"shard": 0, "epoch": 1, "owner": "gone", "alive": false});
            serde_json::from_value(json!({"node": "a", "nodes": [node], "shards": [shard]})).unwrap()
        };
        assert!(note(&cluster("scheduler")).unwrap().contains("another takes them over"));
        assert!(note(&cluster("api")).unwrap().starts_with("no scheduler node is alive, so nothing fires"));
    }

    #[test]
    fn settings_that_differ_are_named_with_their_nodes() {
        let node = |name: &str, settings: serde_json::Value| {
            json!({"node": name, "roles": [], "version": "1", "address": "127.0.0.1:1", "silent_ms": 1, "clock_offset_ms": 0,
                "lag_ms": 0, "shards": 0, "shards_assigned": 0, "settings": settings})
        };
        let nodes = [
            node("a", json!({"engine.lease": "30s", "x": "1"})),
            node("b", json!({"engine.lease": "1m", "x": "1"})),
            node("c", json!({"engine.lease": "30s", "x": "1"})),
            node("old", json!({})),
        ];
        let cluster: Cluster = serde_json::from_value(json!({"node": "a", "nodes": nodes, "shards": []})).unwrap();
        assert_eq!(differences(&cluster), ["nodes differ in engine.lease: `1m` on b; `30s` on a, c"]);
    }
}
