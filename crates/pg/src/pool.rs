//! Connections that are shared, and transactions whose outcome is always found out.
//!
//! A transaction that collides with another is tried again. One whose connection is lost while it commits may have
//! happened or not: then the server is asked, by the transaction's number, as soon as it can be reached. Only when it
//! cannot be asked in time, or has crashed since and gave the number to another, is the outcome `OutcomeUnknown`.

use crate::failure::{Done, Failure, classify};
use crate::target::{Options, Target};
use campanile_model::fault::{Bug, Step, planted};
use campanile_model::{Error, Kind, Result};
use deadpool_postgres::{Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime, TimeoutType, Timeouts};
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// How often a transaction that collided is tried again.
const TRIES_MAX: u32 = 8;
/// How long a lost outcome is asked for, and how long one waits between two questions.
const ASK: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(50));
/// How much longer than the server may take for a statement we wait for its answer: one that stands still ends nothing itself.
const SILENT: Duration = Duration::from_secs(5);
/// How many statements long a transaction may be silent.
const WRITE_STATEMENTS: u32 = 3;
/// How long to wait for a free connection.
const FREE: Duration = Duration::from_secs(30);

/// Connections to one database.
#[derive(Clone)]
pub struct Pool {
    pool: deadpool_postgres::Pool,
    target: Target,
    /// How long the answer to a statement is waited for.
    patience: Duration,
}

/// What is done in a transaction: `|tx, what| Box::pin(claims::claim(tx, what))`. It may be done several times.
pub type Write<A, T> = for<'a> fn(&'a Tx<'a>, &'a A) -> BoxFuture<'a, Done<T>>;

/// What became of a transaction.
type Tried<T> = std::result::Result<T, (Failure, Option<(T, Option<Number>)>)>;

/// By what a transaction is asked for.
struct Number {
    xid: String,
    /// The life of the server in which it has this number.
    life: String,
}

/// When the server was started, and when it last lost its statistics: it loses them whenever it recovers from a crash, also
/// of only one of its processes. No connection sees two lives.
macro_rules! life {
    () => {
        "pg_postmaster_start_time()::text || ' ' || COALESCE(pg_stat_get_bgwriter_stat_reset_time()::text, '')"
    };
}
/// The number of this transaction, and the life.
const NUMBER: &str = concat!("SELECT pg_current_xact_id_if_assigned()::text, ", life!());
/// What became of a number, and the life: in one statement, so that both are of the same. A number that is still to come has
/// no status.
const FATE: &str = concat!(
    "SELECT CASE WHEN $1::text::xid8 < pg_snapshot_xmax(pg_current_snapshot()) ",
    "THEN pg_xact_status($1::text::xid8) ELSE 'future' END, ",
    life!()
);

/// Statements that this process has sent so far, for benchmarks.
static STATEMENTS: AtomicU64 = AtomicU64::new(0);

/// How many statements this process has sent so far, `BEGIN` and `COMMIT` not counted.
pub fn statements() -> u64 {
    STATEMENTS.load(Ordering::Relaxed)
}

pub struct Tx<'c>(deadpool_postgres::Transaction<'c>);

impl Pool {
    /// A pool of connections that are made as they are needed.
    pub fn new(options: &Options) -> Result<Self> {
        let target = Target::new(options)?;
        let manager = Manager::from_config(
            target.config.clone(),
            target.tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let connect = Duration::from_millis(options.connect_ms);
        let timeouts = Timeouts { wait: Some(FREE), create: Some(connect), recycle: Some(connect) };
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(options.connections)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::new(Kind::Bug, format!("cannot make a pool: {error}")))?;
        Ok(Self { pool, target, patience: Duration::from_millis(options.statement_ms) + SILENT })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// A connection, for reads and single statements.
    pub async fn get(&self) -> Result<Object> {
        self.pool.get().await.map_err(|error| self.refused(error))
    }

    fn refused(&self, error: PoolError) -> Error {
        let location = self.target.location();
        let (message, code) = match error {
            PoolError::Backend(error) => return classify(&error, location),
            PoolError::Timeout(TimeoutType::Wait) => {
                (format!("all connections to {location} are in use, and none became free in time"), "store_busy")
            }
            PoolError::Timeout(_) => (format!("no answer from {location} in time"), "store_unreachable"),
            other => (format!("no connection to {location}: {other}"), "store_unreachable"),
        };
        Error::new(Kind::Unavailable, message).with_code(code)
    }

    /// Reads rows by a statement that is prepared once per connection.
    pub async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        STATEMENTS.fetch_add(1, Ordering::Relaxed);
        let client = self.get().await?;
        let read = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, params).await
        };
        let answer = timeout(self.patience, read).await;
        self.answered(client, answer)
    }

    /// The answer of a connection. One that did not answer in time is thrown away: nobody knows what it would say next.
    pub fn answered<T>(
        &self,
        client: Object,
        answer: std::result::Result<std::result::Result<T, tokio_postgres::Error>, Elapsed>,
    ) -> Result<T> {
        match answer {
            Ok(answer) => answer.map_err(|error| classify(&error, self.target.location())),
            Err(_) => {
                drop(Object::take(client));
                Err(self.silent())
            }
        }
    }

    /// How long the answer to a statement is waited for.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    fn silent(&self) -> Error {
        let message = format!("{} does not answer", self.target.location());
        Error::new(Kind::Unavailable, message).with_code("store_unreachable")
    }

    /// Runs one statement that changes at most what it can change again: its outcome is not asked for.
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        STATEMENTS.fetch_add(1, Ordering::Relaxed);
        let client = self.get().await?;
        let run = async {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, params).await
        };
        let answer = timeout(self.patience, run).await;
        self.answered(client, answer)
    }

    /// Runs `write` on `what` in a transaction, and again as long as it collides with others. An error means that nothing of it
    /// happened, unless its kind is `OutcomeUnknown`.
    pub async fn write<A, T>(&self, what: &A, write: Write<A, T>) -> Result<T>
    where
        A: ?Sized + Sync,
    {
        self.write_step(Step::NONE, what, write).await
    }

    /// The same for a step of the path, at whose points tests can make the process end.
    pub async fn write_step<A, T>(&self, step: Step, what: &A, write: Write<A, T>) -> Result<T>
    where
        A: ?Sized + Sync,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let (failure, in_commit) = match self.try_once(step, what, write).await? {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            match in_commit {
                Some((answer, number)) if failure.is_lost() => {
                    if self.has_happened(number.as_ref()).await? {
                        return Ok(answer);
                    }
                    if tries >= TRIES_MAX {
                        return Err(failure.into_error(self.target.location()));
                    }
                }
                _ if failure.is_collision() && tries < TRIES_MAX => {}
                _ => return Err(failure.into_error(self.target.location())),
            }
        }
    }

    /// One transaction: its answer; or why there is none, with the answer and the number of one that failed in its commit.
    async fn try_once<A, T>(&self, step: Step, what: &A, write: Write<A, T>) -> Result<Tried<T>>
    where
        A: ?Sized + Sync,
    {
        let mut client = self.get().await?;
        let tried = self.try_on(&mut client, step, what, write).await?;
        if matches!(&tried, Err((failure, _)) if failure.is_silence()) {
            // Nobody knows what it would say next.
            drop(Object::take(client));
        }
        Ok(tried)
    }

    /// The same on a connection, which is thrown away where it stands still.
    async fn try_on<A, T>(&self, client: &mut Object, step: Step, what: &A, write: Write<A, T>) -> Result<Tried<T>>
    where
        A: ?Sized + Sync,
    {
        let Ok(began) = timeout(self.patience, client.build_transaction().start()).await else {
            return Ok(Err((Failure::Silence(self.silent()), None)));
        };
        let tx = Tx(began.map_err(|error| classify(&error, self.target.location()))?);
        let done = async {
            let answer = write(&tx, what).await?;
            Ok::<_, Failure>((answer, tx.number().await?))
        };
        match timeout(self.patience * WRITE_STATEMENTS, done).await {
            Err(_) => Ok(Err((Failure::Silence(self.silent()), None))),
            Ok(Err(failure)) => {
                // sqlx#4385: the connection goes back with its transaction open.
                if planted(Bug("transaction-left-open")) {
                    std::mem::forget(tx.0);
                    return Ok(Err((failure, None)));
                }
                // Rolled back before the connection goes to somebody else, not after.
                let rolled_back = timeout(self.patience, tx.0.rollback()).await;
                let failure = if rolled_back.is_ok() { failure } else { Failure::Silence(self.silent()) };
                Ok(Err((failure, None)))
            }
            Ok(Ok((answer, number))) => {
                step.before_commit();
                match timeout(self.patience, tx.0.commit()).await {
                    Ok(Ok(())) => {
                        step.after_commit();
                        Ok(Ok(answer))
                    }
                    Ok(Err(error)) => Ok(Err((Failure::Sql(error), Some((answer, number))))),
                    Err(_) => Ok(Err((Failure::Silence(self.silent()), Some((answer, number))))),
                }
            }
        }
    }

    /// Whether a transaction happened whose commit was not answered. One without a number wrote nothing.
    async fn has_happened(&self, number: Option<&Number>) -> Result<bool> {
        if planted(Bug("commit-taken-for-done")) {
            // Akka.Management#3402: told before it was known whether the write has landed.
            return Ok(true);
        }
        if planted(Bug("commit-taken-for-lost")) {
            // Done again, as what failed before its commit is.
            return Ok(false);
        }
        let Some(number) = number else { return Ok(false) };
        tracing::warn!(number = number.xid, "the connection was lost in a commit; asking what became of it");
        let asked = async {
            loop {
                match self.fate(number).await {
                    Ok(Fate::Committed) => return Some(true),
                    Ok(Fate::Aborted) => return Some(false),
                    Ok(Fate::Anyones) => return None,
                    // Unreachable, or its session has not noticed yet that we are gone.
                    Ok(Fate::Open) | Err(_) => tokio::time::sleep(ASK.1).await,
                }
            }
        };
        timeout(ASK.0, asked).await.ok().flatten().ok_or_else(|| {
            let location = self.target.location();
            let message = format!("lost {location} while it committed, and it cannot be told what became of that");
            Error::new(Kind::OutcomeUnknown, message).with_code("store_unreachable")
        })
    }

    /// What the server says about a transaction.
    async fn fate(&self, number: &Number) -> Result<Fate> {
        let rows = self.query(FATE, &[&number.xid]).await?;
        let Some(row) = rows.first() else { return Ok(Fate::Open) };
        // Found here: a number is believed, whichever life of the server gave it.
        let same_life = row.get::<_, String>(1) == number.life || planted(Bug("number-of-another-life"));
        Ok(match row.get::<_, Option<&str>>(0) {
            Some("committed") if same_life => Fate::Committed,
            // After a crash the numbers of what did not reach the disk are given again, perhaps to this one.
            Some("committed") => Fate::Anyones,
            // Had it reached the disk, nobody else could have its number.
            Some("aborted") => Fate::Aborted,
            Some("future") if !same_life => Fate::Aborted,
            _ => Fate::Open,
        })
    }
}

/// What became of a transaction, as far as its number tells.
enum Fate {
    Committed,
    Aborted,
    /// Of those that had this number, one committed.
    Anyones,
    /// Not decided, or not known any more.
    Open,
}

impl Tx<'_> {
    /// A statement that is prepared once per connection.
    pub async fn prepare(&self, sql: &str) -> Done<Statement> {
        STATEMENTS.fetch_add(1, Ordering::Relaxed);
        Ok(self.0.prepare_cached(sql).await?)
    }

    pub async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Done<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        Ok(self.0.query(&statement, params).await?)
    }

    /// Reads a row, if there is one.
    pub async fn query_opt(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Done<Option<Row>> {
        let statement = self.prepare(sql).await?;
        Ok(self.0.query_opt(&statement, params).await?)
    }

    /// Writes; answers how many rows.
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Done<u64> {
        let statement = self.prepare(sql).await?;
        Ok(self.0.execute(&statement, params).await?)
    }

    /// Runs several statements without parameters.
    pub async fn batch(&self, sql: &str) -> Done<()> {
        Ok(self.0.batch_execute(sql).await?)
    }

    /// What `COPY` and others need.
    pub fn raw(&self) -> &deadpool_postgres::Transaction<'_> {
        &self.0
    }

    /// The transaction's number; none if it has written nothing.
    async fn number(&self) -> Done<Option<Number>> {
        let rows = self.query(NUMBER, &[]).await?;
        let number = |row: &Row| Some(Number { xid: row.get::<_, Option<String>>(0)?, life: row.get(1) });
        Ok(rows.first().and_then(number))
    }
}
