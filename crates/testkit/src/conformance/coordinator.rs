//! What every coordinator must do for one node. What several share among themselves is tested where there are several.

use campanile_model::coordinator::{Coordinator, Introduction, Roles};
use campanile_model::settings::SharedSettings;
use campanile_model::shard;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Makes a module of tests of this suite: `coordinator_suite!(solo, Arc::new(Solo::new()))`. The expression is
/// evaluated once per test, may await, and gives an `Arc<dyn Coordinator>` that no node has joined.
#[macro_export]
macro_rules! coordinator_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            use $crate::conformance::coordinator as suite;
            $crate::facts!(
                $make,
                [
                    a_lone_node_owns_every_shard,
                    a_second_call_waits,
                    leaving_ends_the_assignments,
                    leaving_wakes_who_waits,
                    a_dropped_call_changes_nothing,
                    a_node_that_has_not_joined_owns_nothing,
                    a_node_can_join_again_under_a_new_name,
                    one_that_resigns_owns_nothing_and_is_alive,
                    one_that_does_not_schedule_owns_nothing,
                    members_tell_who_is_there,
                ]
            );
        }
    };
}

/// A node with all roles.
pub fn me(node: &str) -> Introduction {
    let (version, address) = ("0.0.0".into(), "127.0.0.1:1".into());
    let settings = SharedSettings::decode("engine.lease = 30s\n");
    Introduction { node: node.into(), roles: Roles::ALL, version, address, settings }
}

/// The first call answers at once with all shards, and names the node.
pub async fn a_lone_node_owns_every_shard(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    let assignment = coordinator.assignment().await.unwrap().expect("a member is assigned something");
    let shards: BTreeSet<_> = assignment.shards.iter().copied().collect();
    assert_eq!(shards.len(), assignment.shards.len(), "a shard is listed twice");
    assert_eq!(shards, shard::all().collect());
    assert_eq!(assignment.live_nodes, ["node-a"]);
}

/// Without a change there is no answer.
pub async fn a_second_call_waits(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    coordinator.assignment().await.unwrap();
    let mut next = pin!(coordinator.assignment());
    for _ in 0..10 {
        let pending = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
        assert!(pending, "nothing changed, and yet there was an answer");
        tokio::task::yield_now().await;
    }
    coordinator.leave().await.unwrap();
    assert_eq!(next.await.unwrap(), None);
}

/// After `leave`, every call answers `None` at once.
pub async fn leaving_ends_the_assignments(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    coordinator.leave().await.unwrap();
    assert_eq!(coordinator.assignment().await.unwrap(), None);
    assert_eq!(coordinator.assignment().await.unwrap(), None);
    coordinator.leave().await.expect("leaving twice is no mistake");
}

/// A call that waits while the node leaves answers `None`.
pub async fn leaving_wakes_who_waits(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    coordinator.assignment().await.unwrap();
    let waiting = tokio::spawn({
        let coordinator = Arc::clone(&coordinator);
        async move { coordinator.assignment().await }
    });
    tokio::task::yield_now().await;
    coordinator.leave().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), None);
}

/// Giving up on a call loses no answer.
pub async fn a_dropped_call_changes_nothing(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    drop(coordinator.assignment());
    assert_eq!(coordinator.assignment().await.unwrap().map(|a| a.shards.len()), Some(shard::all().count()));
    {
        let mut next = pin!(coordinator.assignment());
        std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
    }
    coordinator.leave().await.unwrap();
    assert_eq!(coordinator.assignment().await.unwrap(), None);
}

/// A node that has not joined gets an error, never shards.
pub async fn a_node_that_has_not_joined_owns_nothing(coordinator: Arc<dyn Coordinator>) {
    assert!(coordinator.assignment().await.is_err());
}

/// A process that left may join again; it is another node then.
pub async fn a_node_can_join_again_under_a_new_name(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    assert!(coordinator.join(me("node-b")).await.is_err(), "one node joined twice");
    coordinator.leave().await.unwrap();
    coordinator.join(me("node-b")).await.unwrap();
    let assignment = coordinator.assignment().await.unwrap().expect("a member is assigned something");
    assert_eq!(assignment.live_nodes, ["node-b"]);
}

/// Its shards are free, and what it runs is not lost.
pub async fn one_that_resigns_owns_nothing_and_is_alive(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    coordinator.assignment().await.unwrap();
    coordinator.resign().await.unwrap();
    let assignment = coordinator.assignment().await.unwrap().expect("it has not left");
    assert_eq!(assignment.shards, []);
    assert_eq!(assignment.live_nodes, ["node-a"]);
    assert_eq!(coordinator.members().await.unwrap().len(), 1);
    coordinator.resign().await.expect("resigning twice is no mistake");
    coordinator.leave().await.unwrap();
    assert_eq!(coordinator.assignment().await.unwrap(), None);
}

/// A node that only answers or works is a member without shards.
pub async fn one_that_does_not_schedule_owns_nothing(coordinator: Arc<dyn Coordinator>) {
    let roles = Roles { scheduler: false, ..Roles::ALL };
    coordinator.join(Introduction { roles, ..me("node-a") }).await.unwrap();
    let assignment = coordinator.assignment().await.unwrap().expect("a member is assigned something");
    assert_eq!(assignment.shards, []);
    assert_eq!(assignment.live_nodes, ["node-a"]);
}

/// Who is there, and what they told about themselves.
pub async fn members_tell_who_is_there(coordinator: Arc<dyn Coordinator>) {
    coordinator.join(me("node-a")).await.unwrap();
    coordinator.assignment().await.unwrap();
    let members = coordinator.members().await.unwrap();
    let [member] = &members[..] else { panic!("{members:?}") };
    assert_eq!((&*member.node, member.roles, &*member.version), ("node-a", Roles::ALL, "0.0.0"));
    assert_eq!((&*member.address, member.shards), ("127.0.0.1:1", shard::all().count()));
    assert_eq!(member.settings, me("node-a").settings);
    coordinator.leave().await.unwrap();
    assert_eq!(coordinator.members().await.unwrap(), []);
}
