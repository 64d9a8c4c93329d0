//! The one thread that writes, with group commit.
//!
//! Commands arrive over a bounded channel. The thread runs those that wait in one transaction, commits, and only then answers.
//! There is no timer: while one commit syncs, the next group gathers. Small commands go before large ones, and end a transaction
//! that has become long: a heartbeat or a small claim waits for one large command at most. Each group begins with a large one, if
//! there is one, so that none waits for ever.
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
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Commands in one transaction.
const GROUP_COMMANDS_MAX: usize = 256;
/// How long a transaction may have taken for a further command to join. While only large commands wait it may take longer: each
/// more saves pages that would be written twice, and nobody is in a hurry. A small one ends it.
const GROUP_MAX: Duration = Duration::from_millis(15);
const LARGE_GROUP_MAX: Duration = Duration::from_millis(100);
/// A command with more rows is large.
const SMALL_ROWS_MAX: usize = 16;
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
        let inbox = Inbox::new(receiver);
        let run = move || Loop { connection, location, inbox, fold }.run();
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
            settle(&connection.lock(), command, || None, location);
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
    inbox: Inbox,
    fold: Fold,
}

struct Inbox {
    receiver: mpsc::Receiver<Box<dyn Command>>,
    small: VecDeque<Box<dyn Command>>,
    large: VecDeque<Box<dyn Command>>,
    /// How many of the large ones belong to this group: those that came while it runs are the next one, so that there is work
    /// while the callers of this one take their answers.
    large_now: usize,
}

impl Inbox {
    fn new(receiver: mpsc::Receiver<Box<dyn Command>>) -> Self {
        Self { receiver, small: VecDeque::new(), large: VecDeque::new(), large_now: 0 }
    }

    /// Waits for the first command of a group; none when every sender is gone. It is a large one, if one waits: small ones
    /// cannot keep those waiting for ever.
    fn first(&mut self) -> Option<Box<dyn Command>> {
        self.take();
        if self.small.is_empty() && self.large.is_empty() {
            let command = self.receiver.blocking_recv()?;
            self.put(command);
            self.take();
        }
        self.large_now = self.large.len();
        self.pop_large().or_else(|| self.small.pop_front())
    }

    /// The next command of the group, if there is one: small ones go first, also those that have just come.
    fn next(&mut self) -> Option<Box<dyn Command>> {
        self.take();
        self.small.pop_front().or_else(|| self.pop_large())
    }

    fn pop_large(&mut self) -> Option<Box<dyn Command>> {
        self.large_now = self.large_now.checked_sub(1)?;
        self.large.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty() && self.receiver.is_empty()
    }

    /// Sorts what has arrived, within bounds: who sends too much waits in the channel.
    fn take(&mut self) {
        while self.small.len() + self.large.len() < QUEUE_COMMANDS_MAX
            && let Ok(command) = self.receiver.try_recv()
        {
            self.put(command);
        }
    }

    fn put(&mut self, command: Box<dyn Command>) {
        let is_small = command.rows() <= SMALL_ROWS_MAX;
        if is_small { &mut self.small } else { &mut self.large }.push_back(command);
    }
}

impl Loop {
    fn run(mut self) {
        while let Some(first) = self.inbox.first() {
            settle(&self.connection, first, || self.inbox.next(), &self.location);
            // Somebody who waits is served between any two slices.
            while self.fold.is_due(self.inbox.is_empty()) && self.fold_slice() && self.inbox.is_empty() {}
        }
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
        let Write { step, work, done, reply, .. } = *self;
        if verdict.is_ok() {
            step.after_commit();
        }
        // What the work holds may wait for the commit, and must have seen it when the caller hears of it.
        drop(work);
        // Nobody waits when the caller gave up.
        let _ = reply.send(verdict.and_then(|()| done.ok_or_else(missing)));
    }
}

/// Runs a command, and those that come `next` as long as the transaction is short, and answers all of them.
fn settle(
    connection: &Connection,
    first: Box<dyn Command>,
    next: impl FnMut() -> Option<Box<dyn Command>>,
    location: &str,
) {
    let mut group = vec![first];
    match transact(connection, &mut group, next, location) {
        Ok(()) => group.into_iter().for_each(|command| command.answer(Ok(()))),
        Err(Trouble::Command(_)) if group.len() > 1 => {
            for command in group {
                let mut alone = vec![command];
                let verdict = transact(connection, &mut alone, || None, location);
                let verdict = verdict.map_err(|trouble| trouble.into_error(location));
                alone.into_iter().for_each(|command| command.answer(verdict.clone()));
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

#[allow(clippy::disallowed_methods, reason = "how long a transaction takes is the machine's own time")]
fn transact(
    connection: &Connection,
    group: &mut Vec<Box<dyn Command>>,
    mut next: impl FnMut() -> Option<Box<dyn Command>>,
    location: &str,
) -> Result<(), Trouble> {
    begin(connection, location)?;
    let began = Instant::now();
    let (mut done, mut has_small) = (0, false);
    loop {
        if let Err(failure) = group[done].run(connection) {
            roll_back(connection);
            return Err(Trouble::Command(failure));
        }
        has_small |= group[done].rows() <= SMALL_ROWS_MAX;
        done += 1;
        let long = if has_small { GROUP_MAX } else { LARGE_GROUP_MAX };
        if group.len() >= GROUP_COMMANDS_MAX || began.elapsed() >= long {
            break;
        }
        let Some(command) = next() else { break };
        group.push(command);
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
