//! Every coordinator passes the same suite.

mod common;

use campanile_cluster::Solo;
use campanile_cluster::postgres::Mode;
use common::Database;
use std::sync::Arc;

campanile_testkit::coordinator_suite!(solo, Arc::new(Solo::new()));

campanile_testkit::coordinator_suite!(postgres, Arc::new(Database::new().await.coordinator("suite", Mode::Shards)));

campanile_testkit::coordinator_suite!(
    postgres_leader,
    Arc::new(Database::new().await.coordinator("suite", Mode::Leader))
);
