//! Every coordinator passes the same suite.

use campanile_cluster::Solo;
use std::sync::Arc;

campanile_testkit::coordinator_suite!(solo, Arc::new(Solo::new()));
