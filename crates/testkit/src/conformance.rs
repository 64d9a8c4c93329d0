//! What every implementation of a contract in `campanile_model` must do, whichever it is.
//!
//! Each suite is a module of plain async functions whose names state the fact, and a macro that makes a test of each:
//!
//! ```ignore
//! campanile_testkit::queue_suite!(memory, Arc::new(MemoryQueue::new()));
//! ```

pub mod action;
pub mod coordinator;
pub mod queue;
pub mod store;

use std::time::Duration;

/// Runs a test, and fails it when it hangs: a suite waits on signals, and a missing one should say so.
pub async fn in_time<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs: something waits for ever")
}

/// Makes a test of every fact of the module that is in scope as `suite`. Used by the suites' own macros.
#[doc(hidden)]
#[macro_export]
macro_rules! facts {
    ($make:expr, [$($fact:ident),+ $(,)?]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                $crate::conformance::in_time(async { suite::$fact($make).await }).await;
            }
        )+
    };
}
