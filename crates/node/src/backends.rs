//! From configuration to the parts that the engine runs on. Beside `config`, the only place that names backends.

use crate::config::{Config, StoreKind};
use campanile_actions::{Client, Options, Secret, Targets};
use campanile_cluster::Solo;
use campanile_model::coordinator::Coordinator;
use campanile_model::queue::Queue;
use campanile_model::store::Store;
use campanile_model::{Clock, Error, Kind, Result};
use campanile_queue::MemoryQueue;
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
}

/// Opens what the configuration names.
pub async fn open(config: &Config) -> Result<Backends> {
    let store: Arc<dyn Store> = match config.store.kind {
        StoreKind::Sqlite => {
            // Whole, so that `status` tells where it is to whoever asks, wherever they are.
            let data_dir = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
            let options = sqlite::Options {
                readers: config.store.readers,
                cache_bytes: config.store.cache_bytes,
                ..sqlite::Options::new(data_dir.join(STORE_FILE))
            };
            let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&options)).await;
            Arc::new(opened.map_err(|_| Error::new(Kind::Bug, "opening the store panicked"))??)
        }
    };
    Ok(Backends { store, queue: Arc::new(MemoryQueue::new()), coordinator: Arc::new(Solo::new()) })
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
