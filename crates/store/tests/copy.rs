//! From the embedded store to a real PostgreSQL: everything arrives, twice is once, and what differs is found.

use campanile_model::error::Kind;
use campanile_model::shard;
use campanile_model::store::{Jobs, Path as _, Records, ZoneDatabase};
use campanile_pg::Pool;
use campanile_store::copy::{Doing, Progress, Report, copy, plan, unmark};
use campanile_store::postgres::{Options, PostgresStore};
use campanile_store::sqlite::{self, SqliteStore};
use campanile_testkit::{generate as g, postgres};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// An embedded installation, and a schema to copy it to, which is dropped in the end.
struct Rig {
    _directory: TempDir,
    path: PathBuf,
    options: Options,
}

impl Rig {
    /// An installation that a server has used.
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("campanile.db");
        let options =
            Options { schema: postgres::schema(), connections: 4, ..Options::new(postgres::url(), "migrate:test") };
        let rig = Self { _directory: directory, path, options };
        rig.serve(0..20).await;
        rig
    }

    /// What a server does to its store: takes the shards, and writes.
    async fn serve(&self, jobs: std::ops::Range<u64>) {
        let store = SqliteStore::open(&sqlite::Options::new(&self.path)).unwrap();
        store.seize_shards(&shard::all().collect::<Vec<_>>(), "node:test-1").await.unwrap();
        store.put_jobs(jobs.map(|n| g::create(&g::job(n))).collect()).await.unwrap();
        store.put_record(ZoneDatabase { version: "2026a".into() }.into(), None).await.unwrap();
    }

    /// Rows in every table, whatever its columns are.
    fn fill(&self, rows: i64) {
        let mut connection = Connection::open(&self.path).unwrap();
        let transaction = connection.transaction().unwrap();
        for table in tables(&transaction) {
            fill(&transaction, &table, rows);
        }
        transaction.commit().unwrap();
    }

    async fn copy(&self) -> campanile_model::Result<Report> {
        copy(&self.path, &self.options, &[("webhook_secret", "whsec_x".into())], &mut |_| {}).await
    }

    fn pool(&self) -> Pool {
        Pool::new(&self.options).unwrap()
    }

    async fn execute(&self, sql: &str) -> u64 {
        self.pool().execute(sql, &[]).await.unwrap()
    }

    async fn number(&self, sql: &str) -> i64 {
        self.pool().query(sql, &[]).await.unwrap()[0].get(0)
    }

    async fn drop(self) {
        self.execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.options.schema)).await;
    }
}

/// The tables that hold what is copied.
fn tables(connection: &Connection) -> Vec<String> {
    let not_copied = ["meta", "history", "history_tail"];
    let mut found = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
        .unwrap();
    let names = found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
    names.filter(|name: &String| !not_copied.contains(&name.as_str())).collect()
}

/// Inserts rows that differ in every column, with nothing in every column that may be empty now and then.
fn fill(connection: &Connection, table: &str, rows: i64) {
    let mut columns =
        connection.prepare("SELECT name, type, \"notnull\" OR pk > 0 FROM pragma_table_info(?1)").unwrap();
    let columns: Vec<(String, String, bool)> = columns
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let names: Vec<_> = columns.iter().map(|(name, ..)| format!("\"{name}\"")).collect();
    let places: Vec<_> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
    let sql = format!("INSERT INTO \"{table}\" ({}) VALUES ({})", names.join(", "), places.join(", "));
    let mut insert = connection.prepare(&sql).unwrap();
    for row in 0..rows {
        let values = columns.iter().enumerate().map(|(at, (name, kind, filled))| {
            if !filled && (row + at as i64) % 3 == 0 {
                return Value::Null;
            }
            value(table, name, kind, row)
        });
        insert.execute(rusqlite::params_from_iter(values)).unwrap();
    }
}

fn value(table: &str, name: &str, kind: &str, row: i64) -> Value {
    let flags = ["truncated", "started", "paused"];
    let codes = ["kind", "reason", "outcome", "overlap", "backoff", "priority", "action", "action_kind", "scope"];
    let more_codes = ["catch_up_mode", "cancel_reason", "watched"];
    match kind {
        "INTEGER" if flags.contains(&name) => Value::Integer(row % 2),
        // A state that no unique name is about, and codes where they tell rows apart.
        "INTEGER" if name == "state" => Value::Integer(if table == "jobs" { 2 } else { row % 9 }),
        "INTEGER" if codes.contains(&name) || more_codes.contains(&name) => Value::Integer(row % 7),
        "INTEGER" if table == "shards" => Value::Integer(row + 1_000),
        "INTEGER" if name == "id" || name == "seq" => Value::Integer(row + 1_000),
        "INTEGER" => Value::Integer((row - 3).wrapping_mul(0x0123_4567_89ab_cdef)),
        "REAL" => Value::Real(row as f64 / 7.0),
        "TEXT" => Value::Text(format!("{name} ü 日本 \0 {row} {}", "x".repeat(row as usize % 50 * 20))),
        "BLOB" if name.ends_with("id") || name == "sample" => {
            // Instants of different days, some of them long ago and some to come.
            let at: i64 = 1_795_000_000_000 + (row % 40 - 30) * 86_400_000;
            let mut id = [row as u8; 16];
            id[..6].copy_from_slice(&at.to_be_bytes()[2..]);
            id[8..].copy_from_slice(&row.to_be_bytes());
            Value::Blob(id.to_vec())
        }
        "BLOB" => Value::Blob(vec![row as u8; row as usize % 30]),
        other => panic!("a column of type {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_arrives_and_twice_is_once() {
    let rig = Rig::new().await;
    rig.fill(300);
    let source = Connection::open(&rig.path).unwrap();
    let mut expected = tables(&source);
    // The target has these apart.
    expected.extend(["cursors", "history"].map(String::from));
    drop(source);
    let mut told: Vec<Progress> = Vec::new();
    let facts = [("webhook_secret", "whsec_x".to_owned())];
    let report = copy(&rig.path, &rig.options, &facts, &mut |progress| told.push(progress)).await.unwrap();
    assert!(report.is_same(), "{report:#?}");
    let mut compared: Vec<_> = report.tables.iter().map(|table| table.table.to_owned()).collect();
    compared.sort();
    expected.sort();
    assert_eq!(compared, expected, "no table is forgotten");
    assert!(report.tables.iter().all(|table| table.rows.0 >= 300 && table.checksums.0 != 0), "{report:#?}");
    let rows: u64 = report.tables.iter().map(|table| table.rows.0).sum();
    assert_eq!(report.written, rows);
    let ended = |doing| told.iter().filter(|p| p.doing == doing && p.done == p.total).count() >= compared.len();
    assert!(ended(Doing::Copying) && ended(Doing::Comparing));

    // What PostgreSQL has of its own goes with it.
    assert_eq!(rig.number("SELECT count(*) FROM jobs WHERE shard NOT BETWEEN 0 AND 255").await, 0);
    assert_eq!(rig.number("SELECT count(DISTINCT shard) FROM jobs").await.min(50), 50);
    assert!(rig.number("SELECT nextval(pg_get_serial_sequence('outbox', 'seq'))").await > 1_299);
    for (key, value) in [("webhook_secret", "whsec_x")] {
        let found = rig.pool().query("SELECT value FROM meta WHERE key = $1", &[&key]).await.unwrap();
        assert_eq!(found[0].get::<_, &str>(0), value);
    }
    assert_eq!(rig.number("SELECT count(*) FROM executions_rest").await, 0, "every day has its partition");

    let again = rig.copy().await.unwrap();
    assert_eq!((again.written, &again.tables), (0, &report.tables));
    PostgresStore::open(&rig.options).await.unwrap();
    rig.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_go_on_above_the_highest() {
    let rig = Rig::new().await;
    let set = |value: i64| {
        let source = Connection::open(&rig.path).unwrap();
        source.execute("UPDATE counters SET value = ?1 WHERE name = 'fence'", [value]).unwrap();
    };
    set(0);
    assert!(rig.copy().await.unwrap().is_same());
    assert_eq!(rig.number("SELECT nextval('fences')").await, 1);
    set(70_000);
    assert!(rig.copy().await.unwrap().is_same());
    assert_eq!(rig.number("SELECT nextval('fences')").await, 70_001);
    assert_eq!(rig.number("SELECT count(*) FROM counters WHERE name = 'fence'").await, 0);
    rig.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_found_and_named() {
    let rig = Rig::new().await;
    rig.fill(100);
    assert!(rig.copy().await.unwrap().is_same());
    for (sql, table, how) in [
        (
            "UPDATE executions SET wake_at = wake_at + 1 WHERE id = (SELECT id FROM executions ORDER BY 1 LIMIT 1)",
            "executions",
            "differs",
        ),
        (
            "UPDATE cursors SET next_fire_at = 7 WHERE job_id = (SELECT min(job_id::text)::uuid FROM cursors)",
            "cursors",
            "differs",
        ),
        (
            "DELETE FROM attempts WHERE execution_id = (SELECT execution_id FROM attempts ORDER BY 1 DESC LIMIT 1)",
            "attempts",
            "is missing",
        ),
        ("INSERT INTO failing VALUES (gen_random_uuid(), 1, 1)", "failing", "is only there"),
        ("UPDATE counts SET n = n + 1 WHERE ctid = (SELECT max(ctid) FROM counts)", "counts", "differs"),
        ("INSERT INTO rollups SELECT * FROM rollups LIMIT 1", "rollups", "differs"),
        (
            "UPDATE outbox SET error = '' WHERE seq = (SELECT max(seq) FROM outbox WHERE error IS NULL)",
            "outbox",
            "seq=1",
        ),
    ] {
        assert_eq!(rig.execute(sql).await, 1, "{sql}");
        let report = rig.copy().await.unwrap();
        let wrong: Vec<_> = report.tables.iter().filter(|table| !table.is_same()).collect();
        let found = wrong.iter().find(|wrong| wrong.table == table).unwrap_or_else(|| panic!("{sql}: {wrong:#?}"));
        assert!(!report.is_same() && found.differences.len() == 1, "{sql}: {found:?}");
        assert!(found.differences[0].contains(how), "{sql}: {found:?}");
    }
    rig.drop().await;
}

/// Starts a copy and drops it in the middle of the executions.
async fn interrupted(rig: &Rig) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let (path, options) = (rig.path.clone(), rig.options.clone());
    let task = tokio::spawn(async move {
        copy(&path, &options, &[], &mut |progress| {
            let _ = sender.send(progress);
        })
        .await
    });
    while let Some(progress) = receiver.recv().await {
        if progress.table == "executions" && progress.done > 0 {
            break;
        }
    }
    task.abort();
    assert!(task.await.is_err(), "it was in the middle");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_copy_goes_on_and_no_server_takes_it_for_whole() {
    let rig = Rig::new().await;
    let mut source = Connection::open(&rig.path).unwrap();
    let transaction = source.transaction().unwrap();
    fill(&transaction, "executions", 12_000);
    transaction.commit().unwrap();
    drop(source);
    interrupted(&rig).await;
    let refused = PostgresStore::open(&rig.options).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict);
    assert!(refused.message().contains("campanile migrate"), "{refused}");
    let done = rig.number("SELECT count(*) FROM executions").await;
    assert!(done > 0 && done < 12_000, "{done}");
    // Whoever read for the first one may need a moment to notice that nobody listens.
    let report = loop {
        match rig.copy().await {
            Err(error) if error.code() == "data_directory_in_use" => {
                tokio::time::sleep(Duration::from_millis(20)).await
            }
            done => break done.unwrap(),
        }
    };
    assert!(report.is_same(), "{report:#?}");
    let rows: u64 = report.tables.iter().map(|table| table.rows.0).sum();
    assert!(report.written < rows, "what was there was not written again");
    PostgresStore::open(&rig.options).await.unwrap();
    rig.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_others_is_refused_and_left_as_it_is() {
    let rig = Rig::new().await;
    // An installation of its own.
    drop(PostgresStore::open(&rig.options).await.unwrap());
    rig.execute("INSERT INTO failing VALUES (gen_random_uuid(), 1, 1)").await;
    let refused = rig.copy().await.unwrap_err();
    assert!(refused.kind() == Kind::Conflict && refused.message().contains("of its own"), "{refused}");
    assert_eq!(rig.number("SELECT count(*) FROM failing").await, 1);
    rig.execute("DELETE FROM failing").await;
    assert!(rig.copy().await.unwrap().is_same());

    // The copy of another one.
    let other = Rig { options: rig.options.clone(), ..Rig::new().await };
    let refused = other.copy().await.unwrap_err();
    assert!(refused.kind() == Kind::Conflict && refused.message().contains("another installation"), "{refused}");

    // A copy that a server has used.
    rig.execute("UPDATE shards SET epoch = epoch + 1").await;
    let refused = rig.copy().await.unwrap_err();
    assert!(refused.kind() == Kind::Conflict && refused.message().contains("has used it since"), "{refused}");
    assert!(unmark(&rig.path).unwrap().is_some());
    rig.serve(100..110).await;
    assert_eq!(rig.copy().await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(rig.number("SELECT count(*) FROM jobs").await, 20);
    rig.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_has_moved_on_is_copied_anew() {
    let rig = Rig::new().await;
    let change = |sql: &str| Connection::open(&rig.path).unwrap().execute(sql, []).unwrap();
    change("INSERT INTO skips VALUES (zeroblob(16), 1, 1, 0, 1, 1), (zeroblob(16), 2, 2, 0, 1, 1)");
    assert!(rig.copy().await.unwrap().is_same());
    assert!(unmark(&rig.path).unwrap().is_some());
    rig.serve(100..110).await;
    change("DELETE FROM skips WHERE to_at = 1");
    let report = rig.copy().await.unwrap();
    assert!(report.is_same() && report.written > 0, "{report:#?}");
    rig.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_moved_is_opened_by_no_server() {
    let rig = Rig::new().await;
    let open = || SqliteStore::open(&sqlite::Options::new(&rig.path)).map(drop);
    open().expect("it has not been moved");
    assert_eq!(unmark(&rig.path).unwrap(), None);
    assert!(rig.copy().await.unwrap().is_same());
    let refused = open().expect_err("it was moved");
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "store_moved"));
    let place = format!("was moved to {} at 20", rig.pool().target().location());
    assert!(refused.message().contains(&place), "{refused}");
    // The mark is no part of what is copied, and a copy can be repeated.
    assert!(rig.copy().await.unwrap().is_same());
    assert_eq!(rig.number("SELECT count(*) FROM meta WHERE key = 'moved'").await, 0);
    assert!(unmark(&rig.path).unwrap().is_some_and(|place| place.contains(&rig.options.schema)));
    open().expect("it may serve again");

    // What differs is not marked.
    rig.execute("INSERT INTO failing VALUES (gen_random_uuid(), 1, 1)").await;
    assert!(!rig.copy().await.unwrap().is_same());
    open().expect("it was not moved");
    rig.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_in_use_is_refused_and_a_plan_changes_nothing() {
    let rig = Rig::new().await;
    let server = SqliteStore::open(&sqlite::Options::new(&rig.path)).unwrap();
    assert_eq!(rig.copy().await.unwrap_err().code(), "data_directory_in_use");
    let planned = plan(&rig.path, &rig.options).await.unwrap();
    assert!(planned.tables.contains(&("jobs", 20)), "{planned:?}");
    assert!(planned.target.contains("tables are made"), "{planned:?}");
    let schemas = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{}'", rig.options.schema);
    assert_eq!(rig.number(&schemas).await, 0);
    drop(server);
    assert!(rig.copy().await.unwrap().is_same());
    let planned = plan(&rig.path, &rig.options).await.unwrap();
    assert!(planned.target.contains("the copy is there"), "{planned:?}");
    let absent = plan(Path::new("/does/not/exist.db"), &rig.options).await.unwrap_err();
    assert_eq!(absent.kind(), Kind::NotFound);
    rig.drop().await;
}
