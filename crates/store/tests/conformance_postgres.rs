//! The PostgreSQL store against the shared suite, each fact in a schema of its own.

mod schema;

use campanile_store::postgres::PostgresStore;
use campanile_testkit::conformance::store::Fixture;
use schema::Schema;
use std::sync::Arc;

async fn postgres() -> Fixture {
    let schema = Schema::new();
    let store = PostgresStore::open(&schema.options()).await.expect("a new store opens");
    Fixture::new(Arc::new(store), schema)
}

campanile_testkit::store_suite!(postgres_store, postgres().await);
