//! Which scheduler should own which shard: a pure function of the names, so that nodes agree without talking.
//!
//! Rendezvous hashing with full houses: every pair of a shard and a node has a score, and the best pairs come first,
//! but no node gets more than its even part. So the parts differ by one at most, and little moves beyond what must
//! when a node comes or goes: of 256 shards a dozen or so.

use campanile_model::limits::SHARDS;
use campanile_model::shard::ShardId;
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The owner of each shard, as an index into `nodes`: one per shard, in their order. Empty if there are no nodes. The
/// order of the names does not matter; each may occur once.
pub fn assign(nodes: &[&str]) -> Vec<usize> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let mut pairs: Vec<(u64, &str, u16, usize)> = Vec::with_capacity(nodes.len() * usize::from(SHARDS));
    for (index, node) in nodes.iter().enumerate() {
        pairs.extend((0..SHARDS).map(|shard| (score(node, shard), *node, shard, index)));
    }
    // The best first. Equal scores are decided by the name, so that the order of the list never is.
    pairs.sort_unstable_by(|a, b| b.cmp(a));

    let part = usize::from(SHARDS) / nodes.len();
    let mut larger_parts = usize::from(SHARDS) % nodes.len();
    let mut counts = vec![0; nodes.len()];
    let mut owners = vec![None; usize::from(SHARDS)];
    for (_, _, shard, node) in pairs {
        let owner = &mut owners[usize::from(shard)];
        let is_larger = counts[node] == part;
        if owner.is_some() || counts[node] > part || (is_larger && larger_parts == 0) {
            continue;
        }
        larger_parts -= usize::from(is_larger);
        counts[node] += 1;
        *owner = Some(node);
    }
    // All parts together hold every shard, and every pair was looked at: there is no shard without an owner.
    owners.into_iter().flatten().collect()
}

/// The shards of one of the nodes.
pub fn shards_of(me: &str, nodes: &[&str]) -> BTreeSet<ShardId> {
    let owners = (0..SHARDS).zip(assign(nodes));
    owners.filter(|&(_, owner)| nodes[owner] == me).map(|(shard, _)| ShardId(shard)).collect()
}

fn score(node: &str, shard: u16) -> u64 {
    xxh3_64_with_seed(node.as_bytes(), u64::from(shard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: usize = SHARDS as usize;

    fn names(seed: u32, count: usize) -> Vec<String> {
        (0..count)
            .map(|i| format!("node:host{i}-{}-{:08x}", 4_000 + i, seed.wrapping_mul(2_654_435_761) ^ i as u32))
            .collect()
    }

    fn owners<'a>(nodes: &[&'a str]) -> Vec<&'a str> {
        assign(nodes).into_iter().map(|owner| nodes[owner]).collect()
    }

    #[test]
    fn nobody_owns_nothing_and_one_owns_all() {
        assert_eq!(assign(&[]), []);
        assert_eq!(assign(&["a"]), [0; ALL]);
        assert_eq!(shards_of("b", &["a"]), BTreeSet::new());
    }

    /// Nodes of different releases must agree: a change of the rule moves shards to and fro for as long as both run.
    #[test]
    fn the_rule_stays() {
        let owned = shards_of("b", &["a", "b", "c"]);
        let first: Vec<u16> = owned.iter().map(|shard| shard.0).take(8).collect();
        assert_eq!(first, [2, 3, 4, 8, 12, 13, 14, 20]);
    }

    proptest! {
        #[test]
        fn parts_differ_by_one_at_most(seed: u32, count in 1..300usize) {
            let names = names(seed, count);
            let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
            let owners = assign(&nodes);
            prop_assert_eq!(owners.len(), ALL);
            let mut counts = vec![0; count];
            owners.iter().for_each(|&owner| counts[owner] += 1);
            let (least, most) = (ALL / count, ALL.div_ceil(count));
            prop_assert!(counts.iter().all(|n| (least..=most).contains(n)), "{:?}", counts);
        }

        #[test]
        fn the_order_of_the_names_does_not_matter(seed: u32, count in 1..12usize, turn in 0..12usize) {
            let names = names(seed, count);
            let mut nodes: Vec<&str> = names.iter().map(String::as_str).collect();
            let before = owners(&nodes);
            nodes.rotate_left(turn % count);
            prop_assert_eq!(&owners(&nodes), &before);
            nodes.reverse();
            prop_assert_eq!(&owners(&nodes), &before);
        }

        /// Coming is leaving, backwards: the same shards change hands.
        #[test]
        fn little_more_moves_than_must(seed: u32, count in 1..24usize, who in 0..24usize) {
            let names = names(seed, count + 1);
            let more: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut less = more.clone();
            less.remove(who % more.len());
            let (before, after) = (owners(&less), owners(&more));
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            let must = ALL.div_ceil(count + 1);
            prop_assert!(moved <= must + 24, "{} of {} shards moved, {} had to", moved, ALL, must);
        }
    }
}
