//! A worker: runs functions of yours as the handlers of jobs.
//!
//! ```no_run
//! use campanile_client::worker::{Ctx, Outcome, Worker};
//!
//! #[derive(serde::Deserialize)]
//! struct Invoice { tenant: String }
//!
//! async fn bill(invoice: Invoice, ctx: Ctx) -> Result<u32, Outcome> {
//!     ctx.log("info", format!("billing {} under fence {}", invoice.tenant, ctx.fence()));
//!     let sent = std::fs::read_dir(&invoice.tenant)?.count(); // an error is tried again by the job's policy
//!     Ok(sent as u32)
//! }
//!
//! # async fn example() -> campanile_client::Result<()> {
//! Worker::from_env()?.pools(["billing"]).handler("bill", bill).concurrency(10).run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! One loop claims as much as there is room for (`claims`), each attempt is a task (`attempt`), one task sends the
//! heartbeats of all (`heartbeat`), and one sends what has ended, in batches (`completions`). `drain` ends it in order. What they
//! share is in `shared`; what they know about an attempt is in `running`.
//!
//! Work is delivered at least once. A crash of this process loses nothing: the leases end, and others try again. A crash
//! of the server loses nothing either: what ended here is sent until somebody answers.
//!
//! A handler that blocks its thread cannot be stopped, and may hold up the heartbeats of others: blocking work belongs
//! into [`tokio::task::spawn_blocking`].

mod outcome;
mod ctx;
mod handlers;
mod shared;
mod running;
mod news;
mod claims;
mod attempt;
mod ending;
mod heartbeat;
mod completions;
mod drain;
pub(crate) mod backoff;
mod clock;
mod identity;
pub mod limits;

pub use ctx::{CheckpointError, Ctx};
pub use outcome::{Failure, Outcome};
pub use running::Stop;
pub use shared::Counts;

use crate::{Client, Error, Result};
use handlers::Handlers;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shared::{Options, Shared};
use std::time::Duration;

/// A worker that is being described. [`run`](Worker::run) makes it work.
#[derive(Debug)]
pub struct Worker {
    client: Client,
    options: Options,
    handlers: Handlers,
}

impl Worker {
    /// A worker of this client's server.
    pub fn new(client: Client) -> Self {
        Self { client, options: Options::default(), handlers: Handlers::default() }
    }

    /// A worker of the server that `CAMPANILE_URL` names, or else of one on this machine.
    pub fn from_env() -> Result<Self> {
        let url = std::env::var("CAMPANILE_URL").ok().filter(|url| !url.is_empty());
        Ok(Self::new(Client::new(url.as_deref().unwrap_or("http://127.0.0.1:8080"))?))
    }

    /// Its name, in place of one made of host, process and chance. No two workers may have the same at the same time.
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.options.worker_id = id.into();
        self
    }

    /// Work only from these pools; from any, where none is named.
    pub fn pools<S: Into<String>>(mut self, pools: impl IntoIterator<Item = S>) -> Self {
        self.options.pools = pools.into_iter().map(Into::into).collect();
        self
    }

    /// How many attempts run at the same time; 1 where it is not said.
    pub fn concurrency(mut self, count: usize) -> Self {
        self.options.concurrency = count.clamp(1, limits::CONCURRENCY_MAX);
        self
    }

    /// How long running attempts may go on when the worker should stop; 30 s where it is not said.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// How long a handler that was told to stop may take to return, before its future is dropped; 5 s where it is not said.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.options.cancel_grace = grace;
        self
    }

    /// The same for a handler that is past its time limit; nothing where it is not said.
    pub fn timeout_grace(mut self, grace: Duration) -> Self {
        self.options.timeout_grace = grace;
        self
    }

    /// Runs `handler` for the jobs whose handler has this name. The payload is read as `P`; one that cannot be is a permanent
    /// failure.
    pub fn handler<P, R, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Outcome>> + Send + 'static,
    {
        self.handlers.add(name.into(), handlers::erase(handler));
        self
    }

    /// Runs `handler` for all jobs of the pools, whatever their handler; those that have their own get their own.
    pub fn any_handler<P, R, F, Fut>(mut self, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Outcome>> + Send + 'static,
    {
        self.handlers.add_any(handlers::erase(handler));
        self
    }

    /// Works until SIGTERM or SIGINT, or until the server says that it should end; then finishes what runs. A second
    /// signal does not wait for that.
    ///
    /// Fails where the server refuses it for good, or signals cannot be handled. No server is no failure: it waits for one.
    pub async fn run(self) -> Result<Counts> {
        let signals = drain::signals().map_err(|error| Error::Request(format!("cannot handle signals: {error}")))?;
        let (mut first, mut second) = (signals.clone(), signals);
        let stop = async move { drop(first.wait_for(|count| *count >= 1).await) };
        let hurry = async move { drop(second.wait_for(|count| *count >= 2).await) };
        self.work(stop, hurry).await
    }

    /// The same, until `stop` is ready in place of a signal.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<Counts> {
        self.work(stop, std::future::pending()).await
    }

    async fn work(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) -> Result<Counts> {
        if self.handlers.is_empty() {
            return Err(Error::Request("a worker needs at least one handler".into()));
        }
        drain::work(Shared::new(self.client, self.options, self.handlers), stop, hurry).await
    }
}
