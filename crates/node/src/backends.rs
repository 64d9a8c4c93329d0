//! From configuration to the parts that the engine runs on. Beside `config`, the only place that names backends.

use crate::clock::SystemClock;
use crate::config::{ClusterMode, Config, StoreKind};
use crate::secrets;
use campanile_actions::{Client, Options, Secret, Targets};
use campanile_cluster::Solo;
use campanile_cluster::postgres::{Mode, PgCoordinator, PgOptions};
use campanile_model::coordinator::Coordinator;
use campanile_model::queue::Queue;
use campanile_model::store::Store;
use campanile_model::time::Offset;
use campanile_model::{Clock, Error, Kind, Result};
use campanile_queue::{MemoryQueue, NearQueue, TableQueue};
use campanile_store::postgres::{self, PostgresStore};
use campanile_store::sqlite::{self, SqliteStore};
use std::sync::Arc;

/// The file of the embedded store, within the data directory.
pub const STORE_FILE: &str = "campanile.db";

/// What the engine runs on.
pub struct Backends {
    /// The truth.
    pub store: Arc<dyn Store>,
    /// From ready to running.
    pub queue: Arc<dyn Queue>,
    /// Who owns what.
    pub coordinator: Arc<dyn Coordinator>,
    /// How far this machine's clock is off the one that counts.
    pub offset: Offset,
    /// What the installation keeps to itself.
    pub secrets: Secrets,
}

/// What an installation keeps to itself, the same on all of its nodes.
pub struct Secrets {
    /// Signs webhooks of jobs without a secret of their own.
    pub webhook: String,
    /// Signs page cursors.
    pub cursor: [u8; 32],
}

/// Opens what the configuration names, for the node of this name.
pub async fn open(config: &Config, node: &str) -> Result<Backends> {
    match config.store.kind {
        StoreKind::Sqlite => embedded(config).await,
        StoreKind::Postgres => shared(config, node).await,
    }
}

/// Everything in this process, and one file.
async fn embedded(config: &Config) -> Result<Backends> {
    // Whole, so that `status` tells where it is to whoever asks, wherever they are.
    let data_dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let options = sqlite::Options {
        readers: config.store.readers,
        cache_bytes: config.store.cache_bytes,
        ..sqlite::Options::new(data_dir.join(STORE_FILE))
    };
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&options)).await;
    let store = opened.map_err(|_| Error::new(Kind::Bug, "opening the store panicked"))??;
    let secrets = Secrets {
        webhook: secrets::webhook_secret(&config.data_dir).map_err(unusable)?,
        cursor: secrets::cursor_key(&config.data_dir).map_err(unusable)?,
    };
    Ok(Backends {
        store: Arc::new(store),
        queue: Arc::new(MemoryQueue::new()),
        coordinator: Arc::new(Solo::new()),
        offset: Offset::default(),
        secrets,
    })
}

/// A database that any number of nodes share.
async fn shared(config: &Config, node: &str) -> Result<Backends> {
    let options = postgres_options(config, node);
    let store = PostgresStore::open(&options).await?;
    // The first node makes them up, and all others use the same.
    let webhook = store.agree("webhook_secret", &secrets::new_webhook_secret().map_err(unusable)?).await?;
    let cursor = store.agree("cursor_key", &secrets::hex(&secrets::random::<32>().map_err(unusable)?)).await?;
    let cursor = secrets::unhex(&cursor)
        .ok_or_else(|| Error::new(Kind::Corrupt, "cannot read the stored key of page cursors"))?;
    let offset = Offset::default();
    let mode = match config.cluster.mode {
        ClusterMode::Shards => Mode::Shards,
        ClusterMode::Leader => Mode::Leader,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let queue = TableQueue::open(&postgres::Options { connections: QUEUE_CONNECTIONS, ..options.clone() }).await?;
    let coordinator = PgCoordinator::new(PgOptions { pg: options, mode, clock, offset: offset.clone() })?;
    Ok(Backends {
        store: Arc::new(store),
        queue: Arc::new(NearQueue::new(queue)),
        coordinator: Arc::new(coordinator),
        offset,
        secrets: Secrets { webhook, cursor },
    })
}

/// Connections that the queue has to itself: nobody who waits for the store holds up what is ready.
const QUEUE_CONNECTIONS: usize = 3;

/// How a node of this name talks to PostgreSQL.
pub fn postgres_options(config: &Config, node: &str) -> postgres::Options {
    postgres::Options {
        schema: config.store.schema.clone(),
        ca_file: config.store.ca_file.clone(),
        plaintext: config.store.allow_plaintext,
        connections: config.store.connections,
        ..postgres::Options::new(config.store.url.clone(), node)
    }
}

/// Whether the configuration names a database that can be one. Connects to nothing.
pub fn check(config: &Config) -> Result<()> {
    campanile_pg::Target::new(&postgres_options(config, "check")).map(|_| ())
}

fn unusable(error: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, format!("cannot use data directory: {error}"))
}

/// What webhooks and notifications are sent with. `secret` signs those of jobs that have none of their own.
pub fn client(config: &Config, secret: Option<Secret>, clock: Arc<dyn Clock>) -> Client {
    Client::new(Options {
        targets: Targets {
            private: config.actions.allow_private_targets,
            plain_http: config.actions.allow_plain_http,
            ports: config.actions.ports.clone(),
        },
        secrets: secret.into_iter().collect(),
        connect_timeout_ms: config.actions.connect_timeout_ms,
        clock,
        ..Options::default()
    })
}

/// A schema in PostgreSQL for `bench`, dropped at the end.
pub struct Scratch {
    options: postgres::Options,
}

impl Scratch {
    /// A schema that nobody else has, in this database.
    pub fn new(url: &str) -> Self {
        let schema = format!("campanile_bench_{:x}", crate::clock::now().millis());
        Self { options: postgres::Options { schema, ..postgres::Options::new(url, crate::bench::node()) } }
    }

    /// A store in it.
    pub async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::open(&self.options).await?))
    }

    /// Queue and coordinator beside the store.
    pub async fn transport(&self, offset: Offset) -> Result<(Arc<dyn Queue>, Arc<dyn Coordinator>)> {
        let (pg, clock) = (self.options.clone(), Arc::new(SystemClock::new()));
        let queue = TableQueue::open(&postgres::Options { connections: QUEUE_CONNECTIONS, ..pg.clone() }).await?;
        let coordinator = PgCoordinator::new(PgOptions { pg, mode: Mode::Shards, clock, offset })?;
        Ok((Arc::new(NearQueue::new(queue)), Arc::new(coordinator)))
    }

    /// Bytes that the server has written to its log so far.
    pub async fn log_bytes(&self) -> Result<u64> {
        const BYTES: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let rows = campanile_pg::Pool::new(&self.options)?.query(BYTES, &[]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0)) as u64)
    }

    /// How many transactions the server has counted so far in this database.
    pub async fn transactions(&self) -> Result<u64> {
        const COUNT: &str = "SELECT pg_stat_get_db_xact_commit(oid) + pg_stat_get_db_xact_rollback(oid)
                             FROM pg_database WHERE datname = current_database()";
        let rows = campanile_pg::Pool::new(&self.options)?.query(COUNT, &[]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0)) as u64)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let options = self.options.clone();
        // A thread of its own: this may be dropped inside a runtime, where nobody may block.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let drop_schema = async {
                let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", options.schema);
                campanile_pg::Pool::new(&options)?.execute(&sql, &[]).await
            };
            runtime.map(|runtime| runtime.block_on(drop_schema))
        });
        if !matches!(dropped.join(), Ok(Ok(Ok(_)))) {
            tracing::warn!(schema = self.options.schema, "the schema of a benchmark could not be dropped");
        }
    }
}
