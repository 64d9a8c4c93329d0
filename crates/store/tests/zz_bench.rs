mod schema;
use campanile_model::execution::AttemptOutcome;
use campanile_model::lifecycle::Event;
use campanile_model::store::*;
use campanile_store::postgres::PostgresStore;
use campanile_testkit::conformance::store::{Fixture, batch};
use campanile_testkit::generate as g;
use schema::Schema;
use std::sync::Arc;
use std::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench() {
    let schema = Schema::new();
    let t = Instant::now();
    let store = PostgresStore::open(&schema.options()).await.unwrap();
    println!("open {:?}", t.elapsed());
    let store = Fixture::new(Arc::new(store), schema);
    let jobs = store.jobs(1000).await;
    let fences = store.open_all().await;
    let rounds = 30;
    let mut tf = 0.0; let mut tc = 0.0; let mut te = 0.0; let mut tu = 0.0;
    for r in 0..rounds {
        let fires: Vec<Fire> = jobs.iter().map(|j| g::fire(j, g::at(1000 + r))).collect();
        let ids: Vec<_> = fires.iter().map(|f| f.dispatch.execution).collect();
        let t = Instant::now();
        store.fire(batch(fences.clone(), fires)).await.unwrap();
        tf += t.elapsed().as_secs_f64();
        let now = g::at(100_000);
        if r % 2 == 0 {
            let t = Instant::now();
            let got = store.claim(ids.iter().map(|&id| g::claim(id, 0, now)).collect()).await.unwrap();
            tc += t.elapsed().as_secs_f64();
            let done: Vec<_> = got.iter().map(|c| match c { Claimed::Granted(gr) => g::complete(gr, Event::Succeed, AttemptOutcome::Succeeded, now), o => panic!("{o:?}") }).collect();
            let t = Instant::now();
            store.complete(done).await.unwrap();
            te += t.elapsed().as_secs_f64();
        } else {
            let t = Instant::now();
            store.complete(ids.iter().map(|&id| g::complete_unclaimed(g::claim(id, 0, now))).collect()).await.unwrap();
            tu += t.elapsed().as_secs_f64();
        }
    }
    let n = rounds as f64;
    println!("fire {:.1} ms, claim {:.1} ms, complete {:.1} ms, unclaimed {:.1} ms per 1000", tf/n*1e3, tc/n*2e3, te/n*2e3, tu/n*2e3);
}
