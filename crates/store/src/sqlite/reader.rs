//! The threads that read: each has its own read-only connection, and sees the newest commit at the start of every query.
//!
//! Readers never block the writer, and the writer never blocks them (WAL). Every query runs in one read transaction, so
//! that its statements see the same snapshot.

use super::failure::{Done, Failure};
use campanile_model::error::{Error, Kind, Result};
use parking_lot::Mutex;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Queries that may wait; more callers wait for their turn to send.
const QUEUE_QUERIES_MAX: usize = 1_024;

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// The handle: sends queries and waits for their answers.
pub(super) struct Readers {
    sender: Option<mpsc::Sender<Query>>,
    threads: Vec<JoinHandle<()>>,
    location: Arc<str>,
    /// A connection that is used by whoever calls, in place of the threads.
    inline: Option<Arc<Mutex<Connection>>>,
}

impl Readers {
    /// Starts a thread per connection.
    pub(super) fn start(connections: Vec<Connection>, location: Arc<str>) -> Result<Self> {
        let (sender, receiver) = mpsc::channel::<Query>(QUEUE_QUERIES_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for (i, connection) in connections.into_iter().enumerate() {
            let receiver = receiver.clone();
            let run = move || {
                loop {
                    // One idle reader waits in the channel, the others for the lock.
                    let Some(query) = receiver.lock().blocking_recv() else { return };
                    query(&connection);
                }
            };
            let thread = std::thread::Builder::new().name(format!("store-reader-{i}")).spawn(run);
            threads.push(thread.map_err(|e| Error::new(Kind::Unavailable, format!("cannot start a reader: {e}")))?);
        }
        Ok(Self { sender: Some(sender), threads, location, inline: None })
    }

    /// Reads on the caller's thread.
    pub(super) fn inline(connection: Arc<Mutex<Connection>>, location: Arc<str>) -> Self {
        Self { sender: None, threads: Vec::new(), location, inline: Some(connection) }
    }

    /// Runs `work` in a read transaction.
    pub(super) async fn run<A, F>(&self, work: F) -> Result<A>
    where
        A: Send + 'static,
        F: FnOnce(&Connection) -> Done<A> + Send + 'static,
    {
        if let Some(connection) = &self.inline {
            return snapshot(&connection.lock(), work).map_err(|failure| failure.into_error(&self.location));
        }
        let (reply, answer) = oneshot::channel();
        let location = self.location.clone();
        let query: Query = Box::new(move |connection| {
            let result = catch_unwind(AssertUnwindSafe(|| snapshot(connection, work)));
            let result = result.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a store query panicked").into()));
            // Nobody waits when the caller gave up.
            let _ = reply.send(result.map_err(|failure| failure.into_error(&location)));
        });
        let closed = || Error::new(Kind::Unavailable, "the store is closed");
        self.sender.as_ref().ok_or_else(closed)?.send(query).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn snapshot<A>(connection: &Connection, work: impl FnOnce(&Connection) -> Done<A>) -> Result<A, Failure> {
    let transaction = connection.unchecked_transaction()?;
    let answer = work(&transaction)?;
    transaction.finish()?;
    Ok(answer)
}
