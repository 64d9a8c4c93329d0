//! Every store against the shared suite.

use campanile_store::sqlite::{Options, SqliteStore};
use campanile_testkit::conformance::store::Fixture;
use std::sync::Arc;

fn sqlite() -> Fixture {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let store = SqliteStore::open(&Options::new(directory.path().join("campanile.db"))).expect("a new store opens");
    Fixture::new(Arc::new(store), directory)
}

campanile_testkit::store_suite!(sqlite_store, sqlite());
