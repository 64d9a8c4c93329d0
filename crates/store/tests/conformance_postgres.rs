//! The PostgreSQL store against the shared suite, each fact in a schema of its own.

mod schema;

use campanile_pg::{Pool, Uuid};
use campanile_store::postgres::PostgresStore;
use campanile_testkit::clock::ManualClock;
use campanile_testkit::conformance::store::Fixture;
use campanile_testkit::generate::START;
use schema::Schema;
use std::sync::Arc;

/// What verbs do when they lead to a state.
const PLACE: &str = "
    WITH placed AS (SELECT tenant, pool, state FROM executions WHERE id = $1),
         counted AS (INSERT INTO counts (tenant, pool, state, n)
                     SELECT tenant, pool, state, -1 FROM placed UNION ALL SELECT tenant, pool, $2, 1 FROM placed)
    UPDATE executions SET state = $2 WHERE id = $1";

async fn postgres() -> Fixture {
    let schema = Schema::new();
    let options = schema.options();
    let clock = ManualClock::new(START);
    let store = PostgresStore::open_with_clock(&options, Some(Arc::new(clock.clone()))).await;
    Fixture::new(Arc::new(store.expect("a new store opens")), clock, schema).placing(move |id, state| {
        let options = options.clone();
        Box::pin(async move {
            let pool = Pool::new(&options).expect("a second pool opens");
            let (id, state) = (Uuid::from(id), i16::from(state.code()));
            let placed = pool.execute(PLACE, &[&id, &state]).await;
            assert_eq!(placed.expect("it is placed"), 1);
        })
    })
}

campanile_testkit::store_suite!(postgres_store, postgres().await);
