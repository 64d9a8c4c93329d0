//! The queue's connections.
//!
//! Its table is empty one moment and holds a million rows the next, while a prepared statement keeps the plan of the
//! moment it was planned in. A plan for an empty table reads all of it. So connections of the queue are told to use the
//! index, always.

use campanile_model::{Error, Kind, Result};
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Options, Pool, Target};

const SETTINGS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off";

pub(super) struct Database {
    pool: Pool,
}

impl Database {
    /// Connections to a database that has the queue's table.
    pub async fn open(options: &Options) -> Result<Self> {
        let database = Self { pool: Pool::new(options)? };
        let rows = database.query(include_str!("sql/exists.sql"), &[]).await?;
        if rows.first().is_some_and(|row| row.get(0)) {
            return Ok(database);
        }
        let message = format!("no table `ready` in {}: the store makes it", database.target().location());
        Err(Error::new(Kind::Unavailable, message).with_code("store_refused"))
    }

    pub fn target(&self) -> &Target {
        self.pool.target()
    }

    /// Runs one statement, prepared once per connection.
    pub async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let client = self.pool.get().await?;
        let run = async {
            if client.statement_cache.size() == 0 {
                // A new connection: it has prepared nothing yet.
                client.batch_execute(SETTINGS).await?;
            }
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, params).await
        };
        let answer = tokio::time::timeout(self.pool.patience(), run).await;
        self.pool.answered(client, answer)
    }
}
