//! The one thread that writes, with group commit.
//!
//! Commands arrive over a bounded channel. The thread takes all that wait, runs them in one transaction, commits, and
//! only then answers. There is no timer: while one commit syncs, the next group gathers.
//!
//! When a command of a group fails, the transaction is rolled back and every command runs again alone, so that one bad
//! command cannot fail its neighbours. When BEGIN or COMMIT fails, all get that error. Either way the thread goes on: a
//! full disk heals when space returns.
//!
//! Crash story: before COMMIT returns, nobody was told anything, and the log is cut at the last whole commit. After it
//! returns, the log is synced (`synchronous = FULL`), and the answers go out.

use super::cache;
use super::failure::{Done, Failure, classify, classify_commit};
use super::history::Fold;
use super::known;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::fault::Step;
use parking_lot::Mutex;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Commands in one transaction.
const GROUP_COMMANDS_MAX: usize = 256;
/// Rows in one transaction, after which no further command joins: keeps the wait of each bounded.
const GROUP_ROWS_MAX: usize = 65_536;
/// Commands that may wait; more callers wait for their turn to send.
const QUEUE_COMMANDS_MAX: usize = 1_024;

/// The handle: sends commands and waits for their answers.
pub(super) struct Writer {
    sender: Option<mpsc::Sender<Box<dyn Command>>>,
    thread: Option<JoinHandle<()>>,
    tail: Arc<AtomicUsize>,
    inline: Option<Inline>,
}

/// A connection that is used by whoever calls, in place of the thread.
struct Inline {
    connection: Arc<Mutex<Connection>>,
    location: String,
}

impl Writer {
    /// Starts the thread on a connection that was opened and migrated.
    pub(super) fn start(connection: Connection, location: String) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE_COMMANDS_MAX);
        let fold = Fold::open(&connection).map_err(|error| classify(&error, &location))?;
        let tail = fold.tail();
        let run = move || Loop { connection, location, receiver, fold }.run();
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(run);
        let thread = thread.map_err(|e| Error::new(Kind::Unavailable, format!("cannot start the writer: {e}")))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), tail, inline: None })
    }

    /// Writes on the caller's thread, each command in a transaction of its own. The history stays in its tail.
    pub(super) fn inline(connection: Arc<Mutex<Connection>>, location: String) -> Self {
        Self { sender: None, thread: None, tail: Arc::default(), inline: Some(Inline { connection, location }) }
    }

    /// Runs `work` in a transaction with others and answers after its commit. `work` may run more than once, each time
    /// in a fresh transaction. `rows` is about how many rows it writes.
    ///
    /// Dropping the returned future does not undo anything: the command runs, and nobody hears of it.
    pub(super) async fn run<A, F>(&self, rows: usize, work: F) -> Result<A>
    where
        A: Send + 'static,
        F: FnMut(&Connection) -> Done<A> + Send + 'static,
    {
        self.step(Step::NONE, rows, work).await
    }

    /// The same for a step of the path, at whose points tests can make the process end.
    pub(super) async fn step<A, F>(&self, step: Step, rows: usize, work: F) -> Result<A>
    where
        A: Send + 'static,
        F: FnMut(&Connection) -> Done<A> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let command = Box::new(Write { step, rows, work, done: None, reply });
        if let Some(Inline { connection, location }) = &self.inline {
            settle(&connection.lock(), vec![command], location);
            return answer.await.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a store command was not answered")));
        }
        let closed = || Error::new(Kind::Unavailable, "the store is closed");
        self.sender.as_ref().ok_or_else(closed)?.send(command).await.map_err(|_| closed())?;
        let lost = |_| Error::new(Kind::OutcomeUnknown, "the store stopped before it answered");
        answer.await.map_err(lost)?
    }

    /// Notes that so many fires went to the tail of the history.
    pub(super) fn note_fires(&self, count: usize) {
        self.tail.fetch_add(count, Ordering::Relaxed);
    }
}

impl Drop for Writer {
    /// Finishes what was sent, then closes the database.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Loop {
    connection: Connection,
    location: String,
    receiver: mpsc::Receiver<Box<dyn Command>>,
    fold: Fold,
}

impl Loop {
    fn run(mut self) {
        while let Some(group) = self.next_group() {
            settle(&self.connection, group, &self.location);
            // Somebody who waits is served between any two slices.
            while self.fold.is_due(self.receiver.is_empty()) && self.fold_slice() && self.receiver.is_empty() {}
        }
    }

    /// Waits for a command, then takes all that wait with it, within bounds.
    fn next_group(&mut self) -> Option<Vec<Box<dyn Command>>> {
        let first = self.receiver.blocking_recv()?;
        let mut rows = first.rows();
        let mut group = vec![first];
        while rows < GROUP_ROWS_MAX && group.len() < GROUP_COMMANDS_MAX {
            match self.receiver.try_recv() {
                Ok(command) => {
                    rows += command.rows();
                    group.push(command);
                }
                Err(_) => break,
            }
        }
        Some(group)
    }

    /// Folds a slice of the history; `false` when that must wait.
    fn fold_slice(&mut self) -> bool {
        let (connection, fold) = (&self.connection, &mut self.fold);
        // A panic must not end the thread that everybody's writes depend on.
        let sliced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            begin(connection, &self.location)
                .and_then(|()| fold.slice(connection).map_err(Trouble::Command))
                .and_then(|()| commit(connection, &self.location))
        }));
        let Ok(done) = sliced else {
            roll_back(&self.connection);
            self.fold.restart();
            tracing::error!("folding the history panicked; it stays in the tail");
            return false;
        };
        if let Err(trouble) = done {
            roll_back(&self.connection);
            self.fold.restart();
            let error = trouble.into_error(&self.location);
            tracing::warn!(%error, "cannot fold the history; it stays in the tail");
            return false;
        }
        true
    }
}

/// A command whose answer type is hidden.
trait Command: Send {
    fn rows(&self) -> usize;
    /// Does its work and keeps the answer.
    fn run(&mut self, connection: &Connection) -> Done<()>;
    /// Tells the caller, once its transaction is committed or rolled back.
    fn answer(self: Box<Self>, verdict: Result<()>);
}

struct Write<A, F> {
    step: Step,
    rows: usize,
    work: F,
    done: Option<A>,
    reply: oneshot::Sender<Result<A>>,
}

impl<A, F> Command for Write<A, F>
where
    A: Send,
    F: FnMut(&Connection) -> Done<A> + Send,
{
    fn rows(&self) -> usize {
        self.rows
    }

    fn run(&mut self, connection: &Connection) -> Done<()> {
        let work = &mut self.work;
        // A panic is our bug; it must not take the store down with it.
        let result = catch_unwind(AssertUnwindSafe(|| work(connection)));
        self.done = Some(result.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a store command panicked").into()))?);
        self.step.before_commit();
        Ok(())
    }

    fn answer(self: Box<Self>, verdict: Result<()>) {
        let missing = || Error::new(Kind::Bug, "a committed command has no answer");
        let Write { step, done, reply, .. } = *self;
        if verdict.is_ok() {
            step.after_commit();
        }
        // Nobody waits when the caller gave up.
        let _ = reply.send(verdict.and_then(|()| done.ok_or_else(missing)));
    }
}

/// Runs a group and answers all of its commands.
fn settle(connection: &Connection, mut group: Vec<Box<dyn Command>>, location: &str) {
    match transact(connection, &mut group, location) {
        Ok(()) => group.into_iter().for_each(|command| command.answer(Ok(()))),
        Err(Trouble::Command(_)) if group.len() > 1 => {
            for mut command in group {
                let verdict = transact(connection, std::slice::from_mut(&mut command), location);
                command.answer(verdict.map_err(|trouble| trouble.into_error(location)));
            }
        }
        Err(trouble) => {
            let error = trouble.into_error(location);
            tracing::warn!(%error, commands = group.len(), "a write failed");
            group.into_iter().for_each(|command| command.answer(Err(error.clone())));
        }
    }
}

/// Where a transaction failed.
enum Trouble {
    /// In one of the commands.
    Command(Failure),
    /// At BEGIN or COMMIT.
    Transaction(Error),
}

impl Trouble {
    fn into_error(self, location: &str) -> Error {
        match self {
            Trouble::Command(failure) => failure.into_error(location),
            Trouble::Transaction(error) => error,
        }
    }
}

fn transact(connection: &Connection, group: &mut [Box<dyn Command>], location: &str) -> Result<(), Trouble> {
    begin(connection, location)?;
    for command in group {
        if let Err(failure) = command.run(connection) {
            roll_back(connection);
            return Err(Trouble::Command(failure));
        }
    }
    commit(connection, location)
}

fn begin(connection: &Connection, location: &str) -> Result<(), Trouble> {
    known::begun();
    let begun = connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
    begun.map(|_| ()).map_err(|error| Trouble::Transaction(classify(&error, location)))
}

fn commit(connection: &Connection, location: &str) -> Result<(), Trouble> {
    let committed = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
    committed.map(|_| ()).map_err(|error| {
        roll_back(connection);
        Trouble::Transaction(classify_commit(&error, location))
    })
}

/// Some failures (full, out of memory, I/O) have rolled back already.
fn roll_back(connection: &Connection) {
    known::rolled_back();
    cache::forget();
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "cannot roll back");
    }
}
