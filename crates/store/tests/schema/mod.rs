//! A schema of a test's own, dropped at its end, so that a test database does not fill up.

use campanile_pg::Target;
use campanile_store::postgres::Options;
use campanile_testkit::postgres::{schema, url};

/// Dropped when it is dropped.
pub struct Schema(Options);

impl Schema {
    /// A name that no other test has. The store makes the schema when it opens.
    pub fn new() -> Self {
        Self(Options { schema: schema(), connections: 4, ..Options::new(url(), "node:test") })
    }

    /// How to reach it.
    pub fn options(&self) -> Options {
        self.0.clone()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let options = Options { lock_ms: 2_000, ..self.0.clone() };
        // A thread of its own, because this one may not wait inside its runtime.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(drop_schema(&options)))
        });
        // What is left is dropped by whoever runs the tests.
        let _ = dropping.join();
    }
}

async fn drop_schema(options: &Options) {
    let Ok(target) = Target::new(options) else { return };
    let Ok((client, connection)) = target.connect().await else { return };
    tokio::spawn(connection);
    let _ = client.batch_execute(&format!("DROP SCHEMA {} CASCADE", options.schema)).await;
}
