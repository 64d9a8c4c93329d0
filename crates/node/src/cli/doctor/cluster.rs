//! The part of `doctor` that looks at the nodes: whether all that is needed is done by somebody, and who does it badly.

use super::{LATE_MS_WARN, Level, Report};
use crate::cli::cluster::{differences, has_role, with_role};
use crate::cli::output::rough;
use campanile_client::wire::{Cluster, ClusterNode, Status};
use campanile_model::limits;

/// A node whose clock is further off than this owns nothing.
const CLOCK_MS_OFF: u64 = 500;

impl Report {
    /// Whether the node that was asked does what it is there for.
    pub(super) fn ready(&mut self, status: &Status, cluster: Option<&Cluster>) {
        let me = cluster.and_then(|cluster| cluster.nodes.iter().find(|node| node.node == cluster.node));
        let fires = me.is_none_or(|me| has_role(me, "scheduler"));
        let (level, message) = match (status.ready, fires) {
            // Taking the shards is a write, so a node that is ready has a store that takes writes.
            (true, true) => (Level::Ok, "it fires, and its store takes writes".to_owned()),
            (true, false) => {
                let roles = me.map_or_else(String::new, |me| me.roles.join(" and "));
                (Level::Ok, format!("it is ready as {roles}; firing is not its part"))
            }
            (false, true) => (Level::Fail, "it does not fire".to_owned()),
            (false, false) => (Level::Fail, "it is not ready".to_owned()),
        };
        self.add(level, "ready", message, Some("wait if it has just started; otherwise see its log"));
    }

    /// Looks at the nodes, and what they own.
    pub(super) fn cluster(&mut self, cluster: &Cluster) {
        let found = self.checks.len();
        self.roles(cluster);
        self.shards(cluster);
        for node in &cluster.nodes {
            self.node(node);
        }
        for difference in differences(cluster) {
            self.add(
                Level::Warn,
                "cluster",
                difference,
                Some("make it the same on all nodes (the zone database comes with the release), and restart them"),
            );
        }
        if self.checks.len() == found {
            let message = match cluster.nodes.len() {
                1 => "one node owns all jobs".to_owned(),
                count => format!("{count} nodes; schedulers own all jobs, and all clocks agree"),
            };
            self.add(Level::Ok, "cluster", message, None);
        }
    }

    fn roles(&mut self, cluster: &Cluster) {
        for (role, level, message) in [
            ("scheduler", Level::Fail, "no scheduler node is alive: jobs are accepted, and nothing fires"),
            ("worker", Level::Warn, "no worker node is alive: webhooks wait; only external workers run anything"),
            ("api", Level::Warn, "no api node is alive: nobody can change jobs, or work for them"),
        ] {
            if with_role(cluster, role) == 0 {
                let fix = format!("start one: campanile server --store URL --roles {role}");
                self.add(level, "cluster", message, Some(&fix));
            }
        }
    }

    /// Jobs of a shard that nobody has opened do not fire.
    fn shards(&mut self, cluster: &Cluster) {
        if with_role(cluster, "scheduler") == 0 {
            return;
        }
        let owned = cluster.shards.iter().filter(|shard| shard.alive).count();
        match usize::from(limits::SHARDS).saturating_sub(owned) {
            0 => {}
            orphaned => self.add(
                if owned == 0 { Level::Fail } else { Level::Warn },
                "cluster",
                format!("{orphaned} of {} shards have no owner: their jobs do not fire", limits::SHARDS),
                Some("look again in a few seconds: another takes them over; otherwise see the logs of the schedulers"),
            ),
        }
    }

    fn node(&mut self, node: &ClusterNode) {
        let off = node.clock_offset_ms.unsigned_abs();
        if off > CLOCK_MS_OFF {
            let way = if node.clock_offset_ms > 0 { "ahead of" } else { "behind" };
            let message = format!("the clock of {} is {off}ms {way} the database's: it owns nothing", node.node);
            self.add(Level::Warn, "cluster", message, Some("synchronise it with NTP"));
        }
        if node.lag_ms > LATE_MS_WARN {
            let message = format!("{} at {} fires {} late", node.node, node.address, rough(node.lag_ms));
            self.add(Level::Warn, "cluster", message, Some("see its log and its load, or start another scheduler"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_client::wire::ClusterShard;
    use std::collections::BTreeMap;

    fn node(name: &str, roles: &[&str]) -> ClusterNode {
        ClusterNode {
            node: name.into(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            version: "1".into(),
            address: "127.0.0.1:1".into(),
            started_at: None,
            silent_ms: 10,
            clock_offset_ms: 0,
            lag_ms: 0,
            shards: 0,
            shards_assigned: 0,
            settings: BTreeMap::new(),
        }
    }

    /// All shards opened last by `owner`.
    fn cluster(nodes: Vec<ClusterNode>, owner: &str) -> Cluster {
        let alive = nodes.iter().any(|node| node.node == owner);
        let shard = |shard| ClusterShard { shard, epoch: 1, owner: owner.into(), alive };
        Cluster { node: nodes[0].node.clone(), nodes, shards: (0..limits::SHARDS).map(shard).collect() }
    }

    fn found(cluster: &Cluster) -> Vec<(Level, String)> {
        let mut report = Report { checks: Vec::new() };
        report.cluster(cluster);
        report.checks.into_iter().map(|check| (check.level, check.message)).collect()
    }

    #[test]
    fn a_cluster_that_does_not_fire_fails() {
        let without = cluster(vec![node("a", &["api"]), node("w", &["worker"])], "gone");
        let [(Level::Fail, message)] = &found(&without)[..] else { panic!("{:?}", found(&without)) };
        assert!(message.contains("no scheduler"), "{message}");
        let all = cluster(vec![node("a", &["api", "scheduler", "worker"])], "a");
        assert_eq!(found(&all), [(Level::Ok, "one node owns all jobs".into())]);
    }

    #[test]
    fn roles_that_nobody_has_and_shards_without_owner_are_told() {
        let alone = cluster(vec![node("s", &["scheduler"])], "s");
        assert_eq!(found(&alone).iter().map(|(level, _)| *level).collect::<Vec<_>>(), [Level::Warn, Level::Warn]);
        let all = &["api", "scheduler", "worker"];
        let nobody = cluster(vec![node("a", all)], "gone");
        assert_eq!(found(&nobody)[0].0, Level::Fail, "nothing fires");
        let mut some = cluster(vec![node("a", all)], "a");
        some.shards.truncate(250);
        let [(Level::Warn, message)] = &found(&some)[..] else { panic!("{:?}", found(&some)) };
        assert!(message.starts_with("6 of 256 shards"), "{message}");
    }

    #[test]
    fn clocks_that_are_off_and_late_nodes_are_told() {
        let all = &["api", "scheduler", "worker"];
        let off = ClusterNode { clock_offset_ms: -700, ..node("b", all) };
        let late = ClusterNode { lag_ms: 4_000, ..node("c", all) };
        let found = found(&cluster(vec![node("a", all), off, late], "a"));
        let [(Level::Warn, clock), (Level::Warn, lag)] = &found[..] else { panic!("{found:?}") };
        assert!(clock.contains("700ms behind") && lag.contains("fires 4s late"), "{found:?}");
    }

    #[test]
    fn a_node_that_does_not_schedule_does_not_claim_to_fire() {
        let status: Status = serde_json::from_value(serde_json::json!({
            "version": "1", "node": "a", "now": "2026-11-16T02:00:00Z", "uptime_ms": 1, "ready": true,
            "zone_database": "2026a", "queue_depth": 0, "queue_taken": 0, "wheel_size": 0, "waiting": 0, "running": 0,
            "workers": 0, "cursors_dirty": 0, "lateness": {"p50_ms": 0, "p99_ms": 0, "max_ms": 0}, "counters": {},
            "store": {"kind": "postgres", "location": "x", "schema": 1, "bytes": 1, "jobs": 1, "zone_database": "2026a"},
        }))
        .unwrap();
        let said = |cluster: Option<&Cluster>| {
            let mut report = Report { checks: Vec::new() };
            report.ready(&status, cluster);
            report.checks.remove(0).message
        };
        assert!(said(None).contains("it fires"));
        let api = cluster(vec![node("a", &["api", "worker"]), node("s", &["scheduler"])], "s");
        assert_eq!(said(Some(&api)), "it is ready as api and worker; firing is not its part");
    }
}
