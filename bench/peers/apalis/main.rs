//! The driver of apalis: no-op tasks on PostgreSQL.
//!
//! Defaults: batches of 10, each task also marked as running, and no polling: a worker that found nothing looks again
//! at its next heartbeat, 30 s later. Best settings: batches of 1,000 and polling every 100 ms, as in apalis's own
//! benchmarks (repository "benches", `benches/storages.rs`); tasks spawned and not marked as running, a heartbeat every
//! second, as in the example `basic.rs` of apalis-postgres. Our choice: 100 at a time, 20 connections, and in the
//! failover three missed heartbeats instead of ten (page "Config" of apalis-postgres).
//!
//! The instant at which a task is due is kept in whole seconds. It is rounded up here: a task that starts late is late,
//! but one that starts early is wrong. On a busy machine the polling was seen to stop until the next heartbeat.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use futures::FutureExt;
use futures::stream::{self, TryStreamExt};
use sqlx::postgres::PgPoolOptions;
use tokio::io::{AsyncBufReadExt, BufReader};

type Outcome<T> = Result<T, BoxDynError>;
type Words = HashMap<String, String>;

/// What started when, and where that is written down at once.
#[derive(Default)]
struct Record {
    starts: Mutex<Vec<(u64, u128)>>,
    count: AtomicUsize,
    log: Option<File>,
    hold: Duration,
}

static RECORD: OnceLock<Record> = OnceLock::new();

impl Record {
    fn get() -> &'static Record {
        RECORD.get().expect("set at the start")
    }

    /// Synchronously, since a process that is killed must have said what it had started.
    fn note(&self, what: &str, id: u64, at: u128) {
        if let Some(mut log) = self.log.as_ref() {
            log.write_all(format!("{what} {id} {at}\n").as_bytes()).expect("the log can be written");
        }
    }
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()
}

/// The job itself: it notes that it started, and does nothing, or holds its place for a while.
async fn job(id: u64) {
    let record = Record::get();
    let now = now_ms();
    record.starts.lock().expect("not poisoned").push((id, now));
    record.count.fetch_add(1, Ordering::Relaxed);
    record.note("S", id, now);
    if !record.hold.is_zero() {
        tokio::time::sleep(record.hold).await;
    }
    record.note("E", id, now_ms());
}

/// `key=value` words as a map.
fn words(list: impl IntoIterator<Item = impl AsRef<str>>) -> Words {
    list.into_iter()
        .filter_map(|word| word.as_ref().split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect()
}

fn number<T: FromStr>(given: &Words, key: &str) -> Outcome<T> {
    let text = given.get(key).ok_or_else(|| format!("{key} is missing"))?;
    text.parse().map_err(|_| format!("{key} is not a number: {text}").into())
}

struct Driver {
    pool: PgPool,
    tuned: bool,
    failover: bool,
}

impl Driver {
    async fn new(args: &Words) -> Outcome<Driver> {
        let is = |key: &str, value: &str| args.get(key).is_some_and(|given| given == value);
        let tuned = is("settings", "tuned");
        let options = if tuned { PgPoolOptions::new().max_connections(20) } else { PgPoolOptions::new() };
        let pool = options.connect(args.get("postgres").ok_or("postgres is missing")?).await?;
        Ok(Driver { pool, tuned, failover: is("failover", "yes") })
    }

    fn storage(&self) -> PostgresStorage<u64> {
        let mut config = Config::default().queue("bench");
        if self.tuned {
            config = config.batch_size(1_000).lock_tasks(false).heartbeat_interval(Duration::from_secs(1));
            if self.failover {
                config = config.missed_heartbeats(3);
            }
        }
        PostgresStorage::new(&self.pool).with_config(config)
    }

    /// Pushes jobs in batches, a few at a time. Job i is due at `due(i)`, in milliseconds.
    async fn push(
        &self,
        n: u64,
        size: u64,
        in_flight: usize,
        base: u64,
        due: impl Fn(u64) -> u64 + Sync,
    ) -> Outcome<()> {
        let due = &due;
        stream::iter((0..n).step_by(size as usize).map(Ok))
            .try_for_each_concurrent(in_flight, |first| async move {
                let tasks = (first..n.min(first + size))
                    .map(|i| TaskBuilder::new(base + i).run_at_timestamp(due(i).div_ceil(1000)).build());
                self.storage().push_all(stream::iter(tasks)).await.map_err(BoxDynError::from)
            })
            .await
    }

    fn work(&self) {
        let name = format!("worker-{}", std::process::id());
        if self.tuned {
            let polled = self.storage().poll_with_interval(Duration::from_millis(100));
            let worker = WorkerBuilder::new(name).backend(polled).concurrency(100).parallelize(tokio::spawn).build(job);
            tokio::spawn(worker.run().map(ended));
        } else {
            let worker = WorkerBuilder::new(name).backend(self.storage()).build(job);
            tokio::spawn(worker.run().map(ended));
        }
        tokio::spawn(count());
    }

    async fn unfinished(&self) -> Outcome<bool> {
        let query = "select exists (select 1 from apalis.jobs where status <> 'Done')";
        Ok(sqlx::query_scalar(query).fetch_one(&self.pool).await?)
    }

    async fn handle(&self, command: &str, given: &Words) -> Outcome<String> {
        let (began, at) = (Instant::now(), now_ms());
        let seconds = || format!(" seconds={:.6}", began.elapsed().as_secs_f64());
        match command {
            "setup" => {
                PostgresStorage::setup(&self.pool).await?;
                Ok(String::new())
            }
            "fill" | "many" => {
                let (n, from, span) =
                    (number(given, "n")?, number::<u64>(given, "from")?, number::<u64>(given, "span")?);
                let base = if given.contains_key("base") { number(given, "base")? } else { 0 };
                self.push(n, 5_000, 4, base, |i| from + i * span / n).await?;
                Ok(seconds())
            }
            "single" => {
                let due = at as u64 + 3_600_000;
                self.push(number(given, "n")?, 1, number(given, "callers")?, 0, |_| due).await?;
                Ok(seconds())
            }
            "work" => {
                self.work();
                Ok(format!(" at={at}"))
            }
            "settle" => {
                while self.unfinished().await? {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(format!(" at={}", now_ms()))
            }
            "starts" => {
                let starts = Record::get().starts.lock().expect("not poisoned");
                let lines: String = starts.iter().map(|(id, at)| format!("{id} {at}\n")).collect();
                std::fs::write(given.get("file").ok_or("file is missing")?, lines)?;
                Ok(String::new())
            }
            _ => Err(format!("unknown command {command}").into()),
        }
    }
}

/// A worker is meant to run until it is killed.
fn ended(outcome: Result<(), WorkerError>) {
    eprintln!("the worker ended: {outcome:?}");
    std::process::exit(1);
}

/// Says how many have started, whenever that has changed.
async fn count() {
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let count = Record::get().count.load(Ordering::Relaxed);
        if count != last {
            last = count;
            println!("count {count}");
        }
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let args = words(std::env::args().skip(1));
    let log = args.get("log").map(|path| OpenOptions::new().append(true).create(true).open(path)).transpose()?;
    let hold = if args.contains_key("hold") { number(&args, "hold")? } else { 0 };
    let record = Record { log, hold: Duration::from_millis(hold), ..Record::default() };
    RECORD.set(record).unwrap_or_else(|_| unreachable!("set once"));
    let driver = Driver::new(&args).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let mut parts = line.split_whitespace();
        let command = parts.next().unwrap_or("quit");
        if command == "quit" {
            break;
        }
        match driver.handle(command, &words(parts)).await {
            Ok(answer) => println!("ok {command}{answer}"),
            Err(error) => println!("error {command} {}", error.to_string().replace('\n', " | ")),
        }
    }
    // A graceful stop is not measured; what was to be said has been said.
    std::process::exit(0);
}
