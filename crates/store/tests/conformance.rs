//! Every store against the shared suite.

use campanile_store::sqlite::{Options, SqliteStore};
use campanile_testkit::clock::ManualClock;
use campanile_testkit::conformance::store::Fixture;
use campanile_testkit::generate::START;
use rusqlite::{Connection, params};
use std::sync::Arc;

/// What verbs do when they lead to a state.
const PLACE: [&str; 3] = [
    "UPDATE counts SET n = n - 1 WHERE (tenant, pool, state) = (SELECT tenant, pool, state FROM executions WHERE id = ?1)",
    "INSERT INTO counts SELECT tenant, pool, ?2, 1 FROM executions WHERE id = ?1
     ON CONFLICT (tenant, pool, state) DO UPDATE SET n = n + 1",
    "UPDATE executions SET state = ?2 WHERE id = ?1",
];

fn sqlite() -> Fixture {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let path = directory.path().join("campanile.db");
    let clock = ManualClock::new(START);
    let store = SqliteStore::open(&Options::new(&path)).expect("a new store opens");
    let store = Arc::new(store.with_clock(Arc::new(clock.clone())));
    Fixture::new(store.clone(), clock, directory).placing(move |id, state| {
        let connection = Connection::open(&path).expect("the file opens twice");
        for sql in PLACE {
            let places = connection.prepare(sql).expect("it is SQL").parameter_count();
            let done = match places {
                1 => connection.execute(sql, [id.as_bytes()]),
                _ => connection.execute(sql, params![id.as_bytes(), state.code()]),
            };
            assert_eq!(done.expect("it is placed"), 1, "{sql}");
        }
        let store = store.clone();
        Box::pin(async move { store.forget_cache().await.expect("the store is open") })
    })
}

campanile_testkit::store_suite!(sqlite_store, sqlite());
