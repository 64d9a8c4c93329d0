//! An external worker whose claim is not answered.

use campanile_engine::Handle;
use campanile_engine::accept::{Create, Draft};
use campanile_engine::run::pull::Beat;
use campanile_engine::workers::Introduction;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::job::{Definition, POOL_SHORT};
use campanile_model::schedule::Schedule;
use campanile_model::store::{AttemptFence, Extended, Granted, JobKey};
use campanile_model::{Kind, TenantId};
use campanile_sim::cluster::Cluster;
use campanile_sim::fleet::Fleet;
use campanile_sim::world::{Odds, World};
use std::sync::Arc;

const TENANT: TenantId = TenantId::DEFAULT;
/// Far less than the lease that it would have cost before.
const SOON_MS: u64 = 8_000;

async fn ready(world: &Arc<World>, fleet: &Arc<Fleet>) -> Handle {
    loop {
        if let Some(handle) = fleet.handle(0).filter(Handle::is_ready) {
            return handle;
        }
        world.time.sleep(100).await;
    }
}

fn beat(granted: &Granted) -> Beat {
    let AttemptFence { execution, fence, .. } = granted.fence;
    Beat { execution, fence: Some(fence), progress: None, logs: Vec::new() }
}

/// Whether the claim has happened or not: somebody else gets the execution at once, and not when a lease has ended of which
/// nobody knows.
#[test]
fn what_a_claim_without_an_answer_may_have_begun_is_given_back() {
    let lost = [Odds { unknown_done: 1_000, ..Odds::default() }, Odds { unknown_undone: 1_000, ..Odds::default() }];
    for (seed, odds) in (1..).zip(lost) {
        let world = World::new(seed, false);
        world.time.clone().run(async {
            let cluster = Cluster::new(world.clone(), false, false);
            let fleet = Fleet::new(world.clone(), cluster.clone(), 1, false);
            tokio::spawn(cluster.run());
            fleet.start(0);
            let handle = ready(&world, &fleet).await;
            let action = ActionSpec { kind: ActionKind::Worker, config: "\"call\"".into() };
            let (name, pool, schedule) = ("pulled".to_owned(), POOL_SHORT.into(), Schedule::None);
            let definition = Definition { name: name.clone(), action, pool, schedule, ..Definition::default() };
            let draft = Draft { definition, ..Draft::default() };
            let created = handle.create(TENANT, vec![Create { draft, keyed: None }]).await.pop();
            assert!(matches!(created, Some(Ok(_))), "{created:?}");
            handle.run_now(TENANT, &JobKey::Name(name), None).await.unwrap();
            let intro = |worker: &str| Introduction {
                worker: worker.into(),
                pools: vec![POOL_SHORT.into()],
                handlers: vec!["call".into()],
                capacity: 1,
                ..Introduction::default()
            };
            *world.odds.lock() = odds.clone();
            let lost = handle.pull(&intro("worker-1"), 5_000).await.map(|answer| answer.pulled.len());
            assert_eq!(lost.unwrap_err().kind(), Kind::OutcomeUnknown);
            *world.odds.lock() = Odds::default();
            let asked_ms = world.time.ms();
            let answer = handle.pull(&intro("worker-2"), 60_000).await.unwrap();
            assert_eq!(answer.pulled.len(), 1);
            let waited_ms = world.time.ms() - asked_ms;
            assert!(waited_ms < SOON_MS, "{waited_ms} ms with {odds:?}");
            // The second look takes nothing away from whoever has it by now.
            world.time.sleep(20_000).await;
            let held = handle.heartbeat(&"worker-2".into(), vec![beat(&answer.pulled[0].granted)]).await.unwrap().0;
            assert!(matches!(held[..], [Extended::Until(_)]), "{held:?}");
        });
    }
}
