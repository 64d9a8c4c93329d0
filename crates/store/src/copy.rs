//! From the embedded store to PostgreSQL: a whole installation, copied and compared.
//!
//! The source is held by its lock, so nothing changes while it is copied. Every table is read in the order of its key
//! and written in batches; each batch is a transaction that also notes how far it got. So an interrupted copy goes on
//! where it stopped, and one that is done does nothing when it is asked for again. In the end both sides are read as a
//! whole and compared. If they are the same, the source is marked, and servers refuse to start on it ([`unmark`]).
//!
//! # What the target may be
//! Empty, or marked (`mark`) as a copy of this installation that no server has used. If the source has moved on since,
//! it is copied anew. Servers refuse a copy that is not done ([`refuse_unfinished`]).
//!
//! Reading order: `tables` (what is copied), `tuples` (rows as bytes, the same on both sides), `mark`, `compare`.

mod tables;
mod tuples;
mod mark;
mod compare;

pub use compare::Compared;
pub use mark::refuse_unfinished;

use crate::postgres::{Options, PostgresStore};
use crate::sqlite::source::Source;
use bytes::Bytes;
use campanile_model::error::{Error, Kind, Result};
use campanile_pg::{Done, Pool, Tx};
use futures_util::SinkExt;
use mark::{Identity, Standing};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use tables::Resolved;
use tokio::sync::mpsc;

/// A transaction takes so many rows, or so many bytes.
const BATCH: (u64, usize) = (20_000, 8 << 20);
/// Batches that are read ahead.
const AHEAD: usize = 2;
/// One statement of a copy may take long: an index over many rows, or the whole of a table.
const STATEMENT_MS: u64 = 3_600_000;
/// We read from a disk between two statements.
const IDLE_MS: u64 = 60_000;

/// How far a table is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    pub table: &'static str,
    /// What is being done with it.
    pub doing: Doing,
    pub done: u64,
    /// Rows of the source.
    pub total: u64,
}

/// What is being done with a table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Its rows are written.
    Copying,
    /// Both sides are read.
    Comparing,
}

/// What a copy would be like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Tables with their rows.
    pub tables: Vec<(&'static str, u64)>,
    /// What would be done with the target.
    pub target: String,
}

/// What became of a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What tells the installation apart.
    pub installation: String,
    /// Rows that this run has written; the others were there.
    pub written: u64,
    /// Every table, with what differs.
    pub tables: Vec<Compared>,
}

impl Report {
    /// Whether both sides hold the same.
    pub fn is_same(&self) -> bool {
        self.tables.iter().all(Compared::is_same)
    }
}

/// Copies the database at `path` to PostgreSQL and compares. `facts` are noted in the target's `meta`: what a server
/// keeps in files otherwise.
pub async fn copy(
    path: &Path,
    options: &Options,
    facts: &[(&str, String)],
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report> {
    let path = path.to_owned();
    let (source, identity, columns) = blocking(move || {
        let source = Source::open(&path)?;
        let (identity, columns) = (Identity::of(&source)?, tables::columns(&source)?);
        Ok((Arc::new(Mutex::new(source)), identity, columns))
    })
    .await?;
    let pool = Pool::new(&patient(options))?;
    PostgresStore::prepare(&pool, &[]).await?;
    let standing = mark::begin(&pool, &identity).await?;
    let tables = tables::resolve(&pool, columns).await?;
    let mut written = 0;
    if standing != Standing::Done {
        let days = with(&source, tables::days).await?;
        PostgresStore::prepare(&pool, &days).await?;
        for table in &tables {
            written += copy_table(&source, &pool, table, told).await?;
        }
        finish(&pool, &source, &identity, facts).await?;
    }
    let tables = compare::compare(&source, &pool, &tables, told).await?;
    let report = Report { installation: identity.installation, written, tables };
    if report.is_same() {
        let place = pool.target().location().to_string();
        with(&source, move |source| source.mark_moved(&place)).await?;
    }
    Ok(report)
}

/// Lets servers start on an installation again that was moved; answers where to and when, if it was.
pub fn unmark(path: &Path) -> Result<Option<String>> {
    Source::open(path)?.unmark()
}

/// Says what [`copy`] would do, and does nothing. A server may be at work on the source.
pub async fn plan(path: &Path, options: &Options) -> Result<Plan> {
    let path = path.to_owned();
    let (tables, identity) = blocking(move || {
        let source = Source::look(&path)?;
        let mut tables = Vec::new();
        for table in tables::TABLES {
            // One that an older release has not made yet is empty in the copy.
            let known = !source.columns(table.name)?.is_empty();
            tables.push((table.name, if known { source.number(&table.count())? as u64 } else { 0 }));
        }
        Ok((tables, Identity::of(&source)?))
    })
    .await?;
    let target = mark::foresee(&Pool::new(options)?, &identity).await?;
    Ok(Plan { tables, target: target.to_owned() })
}

fn patient(options: &Options) -> Options {
    Options { statement_ms: STATEMENT_MS, idle_in_transaction_ms: IDLE_MS, ..options.clone() }
}

/// Rows of a table on their way.
struct Batch {
    table: Arc<Resolved>,
    /// As `COPY` takes them.
    rows: Bytes,
    /// Rows of the table that are written with it.
    upto: u64,
}

/// Copies what is missing of a table; answers how many rows that were.
async fn copy_table(
    source: &Arc<Mutex<Source>>,
    pool: &Pool,
    table: &Arc<Resolved>,
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<u64> {
    let count = table.table.count();
    let total = with(source, move |source| source.number(&count)).await? as u64;
    let start = mark::rows_done(pool, table.table).await?;
    let mut tell = |done| told(Progress { table: table.table.name, doing: Doing::Copying, done, total });
    tell(start);
    let (sender, receiver) = mpsc::channel(AHEAD);
    let reading = {
        let table = table.clone();
        with(source, move |source| read_table(source, &table, start, &sender))
    };
    let writing = async {
        // Ours, so that an error ends the reading too: nobody receives any more.
        let mut receiver = receiver;
        while let Some(batch) = receiver.recv().await {
            pool.write(&batch, |tx, batch| Box::pin(write_batch(tx, batch))).await?;
            tell(batch.upto);
        }
        Ok(())
    };
    let (read, written) = futures_util::join!(reading, writing);
    written.and(read)?;
    Ok(total.saturating_sub(start))
}

/// Sends the rows of a table after the first `start`, in the order of its key.
fn read_table(source: &Source, table: &Arc<Resolved>, start: u64, sender: &mpsc::Sender<Batch>) -> Result<()> {
    let mut upto = start;
    let mut rows = tuples::Rows::default();
    let send = |rows: &mut tuples::Rows, upto| {
        let batch = Batch { table: table.clone(), rows: rows.take().into(), upto };
        // Whoever receives no more has a better reason than we.
        sender.blocking_send(batch).map_err(|_| Error::new(Kind::Unavailable, "the copy was given up"))
    };
    source.read(&table.select(start), |row| {
        rows.push(row, table)?;
        upto += 1;
        if rows.count() >= BATCH.0 || rows.bytes() >= BATCH.1 { send(&mut rows, upto) } else { Ok(()) }
    })?;
    if rows.count() > 0 { send(&mut rows, upto) } else { Ok(()) }
}

/// Writes a batch, and notes how far it goes.
async fn write_batch(tx: &Tx<'_>, batch: &Batch) -> Done<()> {
    let mut sink = std::pin::pin!(tx.raw().copy_in::<_, Bytes>(batch.table.copy_in()).await?);
    sink.send(batch.rows.clone()).await?;
    sink.finish().await?;
    mark::note_rows(tx, batch.table.table, batch.upto).await
}

/// What follows when all rows are there.
struct Ending {
    identity: Identity,
    facts: Vec<(String, String)>,
    /// The highest fence, and the highest number of an event.
    highest: (i64, i64),
}

/// Moves the sequences past what was copied, notes the facts, and marks the copy as done. Then the server is told how
/// many rows there are, which it would find out only later.
async fn finish(pool: &Pool, source: &Arc<Mutex<Source>>, identity: &Identity, facts: &[(&str, String)]) -> Result<()> {
    let (mut all, highest) = with(source, |source| {
        let fence = source.number("SELECT value FROM counters WHERE name = 'fence'")?;
        let event = source.number("SELECT max(seq) FROM sqlite_sequence WHERE name = 'outbox'")?;
        Ok((source.facts()?, (fence, event)))
    })
    .await?;
    all.extend(facts.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let ending = Ending { identity: identity.clone(), facts: all, highest };
    pool.write(&ending, |tx, ending| Box::pin(end(tx, ending))).await?;
    for table in tables::TABLES {
        pool.execute(&format!("ANALYZE \"{}\"", table.name), &[]).await?;
    }
    Ok(())
}

async fn end(tx: &Tx<'_>, ending: &Ending) -> Done<()> {
    let (fence, event) = ending.highest;
    // The value is the last one that was used; 0 is below what a sequence can hold.
    tx.query("SELECT setval('fences', greatest($1::int8, 1), $1::int8 > 0)", &[&fence]).await?;
    let sequence = "SELECT setval(pg_get_serial_sequence('outbox', 'seq'), greatest($1::int8, 1), $1::int8 > 0)";
    tx.query(sequence, &[&event]).await?;
    let (keys, values): (Vec<&str>, Vec<&str>) =
        ending.facts.iter().map(|(key, value)| (key.as_str(), value.as_str())).unzip();
    tx.execute(include_str!("copy/sql/put_facts.sql"), &[&keys, &values]).await?;
    mark::end(tx, &ending.identity).await
}

/// Runs something that reads the source where it may block.
async fn with<T: Send + 'static>(
    source: &Arc<Mutex<Source>>,
    read: impl FnOnce(&Source) -> Result<T> + Send + 'static,
) -> Result<T> {
    let source = source.clone();
    blocking(move || read(&source.lock())).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(Kind::Bug, "reading the source panicked")),
    }
}
