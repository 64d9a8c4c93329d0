//! A node: backends, engine and HTTP server together, from start to graceful stop.
//!
//! Stopping: the shards are handed over at once, while requests get their answers; then the engine ends (attempts end, outcomes
//! and cursors are written). A second signal does not wait; nothing is lost by it, because every acknowledged thing is in the
//! store, and what ran is tried again.

use crate::backends;
use crate::cli::exit::{Code, Failure};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::secrets;
use campanile_actions::{EventSender, Secret};
use campanile_engine::metrics::Metrics;
use campanile_engine::{Handle, Injected, Options, Service};
use campanile_model::Clock;
use campanile_model::random::SplitMix;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running node.
pub struct Node {
    service: Service,
    address: SocketAddr,
    stop_api: watch::Sender<bool>,
    api: JoinHandle<()>,
}

/// How often the node looks whether its engine still works.
const WATCH: Duration = Duration::from_millis(200);
/// How often a starting node looks whether it fires.
const READY: Duration = Duration::from_millis(5);

impl Node {
    /// Starts everything. Returns when the node listens and fires.
    pub async fn start(config: &Config) -> Result<Self, Failure> {
        raise_open_files();
        // Payloads and answers are in the store's files: nobody else's business.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        secrets::create_data_dir(&config.data_dir).map_err(|error| {
            let dir = config.data_dir.display();
            Failure::new(Code::Failed, format!("cannot create data directory {dir}: {error}"))
                .hint("choose another with --data-dir")
        })?;
        // The port first: a second `campanile dev` should say that the port is taken, and touch nothing.
        let listener = listen(config.server.listen).await?;
        let unusable =
            |error: std::io::Error| Failure::new(Code::Failed, format!("cannot use data directory: {error}"));
        let address = listener.local_addr().map_err(unusable)?;
        tracing::info!(%address, "listening; opening the store");
        let node = name().map_err(unusable)?;
        let parts = backends::open(config, &node).await?;
        let secret = Secret::parse(&parts.secrets.webhook).map_err(|error| {
            let path = config.data_dir.join("webhook-secret");
            Failure::new(Code::Failed, format!("{}: {error}", path.display()))
                .hint("delete the file to get a new secret")
        })?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new().corrected(parts.offset));
        let client = backends::client(config, Some(secret), clock.clone());
        let injected = Injected {
            store: parts.store,
            queue: parts.queue,
            coordinator: parts.coordinator,
            actions: campanile_actions::standard(client.clone()),
            sender: Arc::new(EventSender::new(client)),
            clock,
            random: Arc::new(SplitMix::new(u64::from_ne_bytes(secrets::random().map_err(unusable)?))),
            metrics: Arc::new(Metrics::default()),
            node: node.into(),
        };
        let crate::config::Engine { slots, drain_ms, lease_ms, roles } = config.engine;
        let options =
            campanile_server::Options { api: roles.api, ..campanile_server::Options::new(parts.secrets.cursor) };
        let (retention, settings) = (config.retention.clone(), config.shared());
        let engine = Options { slots, drain_ms, retention, lease_ms, roles, address: address.to_string(), settings };
        let service = Service::start(injected, engine).await?;
        let (stop_api, mut stopped) = watch::channel(false);
        let router = campanile_server::router(service.handle(), options.clone());
        let api = tokio::spawn(async move {
            let stop = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            campanile_server::serve(listener, router, &options, stop).await;
        });
        let node = Self { service, address, stop_api, api };
        while !node.service.handle().is_ready() {
            if node.service.has_failed() {
                return Err(node.stop().await.err().unwrap_or_else(engine_stopped));
            }
            tokio::time::sleep(READY).await;
        }
        Ok(node)
    }

    /// Where the API listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs until a signal, then stops in order; or until the engine cannot go on, which is a failure.
    pub async fn run(self) -> Result<(), Failure> {
        let handler = |error: std::io::Error| Failure::new(Code::Failed, format!("cannot handle signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(handler)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(handler)?;
        let failed = async {
            while !self.service.has_failed() {
                tokio::time::sleep(WATCH).await;
            }
        };
        let engine_failed = tokio::select! {
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            () = failed => true,
        };
        if !engine_failed {
            tracing::info!("stopping; a second signal stops at once");
        }
        let second = async {
            tokio::select! {
                _ = terminate.recv() => {},
                _ = interrupt.recv() => {},
            }
        };
        tokio::select! {
            stopped = self.stop() => {
                stopped?;
                if engine_failed { Err(engine_stopped()) } else { Ok(()) }
            }
            () = second => Err(Failure::new(Code::Interrupted, "stopped without waiting for what runs; it will be tried again")),
        }
    }

    /// Stops in order.
    pub async fn stop(self) -> Result<(), Failure> {
        let Self { mut service, stop_api, api, .. } = self;
        let _ = stop_api.send(true);
        // Others need not wait for a slow client of ours.
        let (handed_over, _) = tokio::join!(service.hand_over(), api);
        service.stop().await?;
        Ok(handed_over?)
    }
}

/// The API of an engine that `bench` drives, on a free port of this host, until the process ends.
pub async fn serve_for_bench(engine: Handle) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let options = campanile_server::Options::new(secrets::random()?);
    let router = campanile_server::router(engine, options.clone());
    tokio::spawn(async move { campanile_server::serve(listener, router, &options, std::future::pending()).await });
    Ok(address)
}

fn engine_stopped() -> Failure {
    Failure::new(Code::Failed, "the engine stopped by itself")
        .hint("the log says why; nothing that was acknowledged is lost")
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::new(Code::Failed, format!("cannot listen on {address}: {error}"));
        match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                failure.hint("is Campanile running already? `campanile status` tells; or choose another port")
            }
            std::io::ErrorKind::PermissionDenied => {
                failure.hint("ports below 1024 need privileges; choose another port")
            }
            _ => failure,
        }
    })
}

/// Unique for every start: host, process, and something random.
fn name() -> std::io::Result<String> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let random = u32::from_ne_bytes(secrets::random()?);
    Ok(format!("node:{host}-{}-{random:08x}", std::process::id()))
}

/// Lets this process have as many sockets as it may.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}
