//! What the conformance suite cannot see: the SQL files, the schema, the groups of the writer, the fold of the history.

mod due;
mod upkeep;

use super::history::{self, Fold};
use super::writer::Writer;
use super::*;
use campanile_model::job::JobState;
use campanile_model::lifecycle::{self, State};
use campanile_model::store::Path as _;
use std::path::Path;

fn migrated(directory: &Path) -> Connection {
    let options = Options::new(directory.join("campanile.db"));
    let connection = open_writer(&options, "test").unwrap();
    migrations::migrate(&connection, "test").unwrap();
    connection
}

fn sql_files() -> Vec<(String, String)> {
    sql_files_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/sql"))
}

fn sql_files_in(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for noun in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(noun.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            files.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
        }
    }
    files
}

#[test]
fn every_sql_file_is_explained_prepares_and_uses_the_index_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    let files = sql_files();
    assert!(files.len() > 40 && files.len() < STATEMENTS_MAX, "{} files", files.len());
    for (path, sql) in files {
        let lines: Vec<&str> = sql.lines().collect();
        for (line, start) in lines.iter().zip(["-- caller: ", "-- guard: ", "-- index: "]) {
            assert!(line.starts_with(start) && line.len() > start.len() + 3, "{path}: {line}");
        }
        let prepared = connection.prepare(&sql).unwrap_or_else(|error| panic!("{path}: {error}"));
        let nulls = vec![None::<i64>; prepared.parameter_count()];
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> = explain
            .query_map(rusqlite::params_from_iter(nulls), |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let index = lines[2]["-- index: ".len()..].split([',', '(', ':']).next().unwrap().trim();
        let named = index.starts_with("none") || plan.iter().any(|step| step.contains(index));
        assert!(plan.is_empty() || named, "{path} does not use {index}: {plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{path} sorts: {plan:?}");
        let scans = |step: &String| step.starts_with("SCAN ") && !step.contains(" USING ");
        assert!(index.starts_with("none") || !plan.iter().any(scans), "{path} scans: {plan:?}");
    }
}

/// Whether a partial index has rows in the state with this code.
fn holds(connection: &Connection, index: &str, code: u8) -> bool {
    let sql: String =
        connection.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [index], |row| row.get(0)).unwrap();
    let predicate = sql.split_once(" WHERE ").unwrap().1;
    let sql = format!("SELECT {predicate} FROM (SELECT ?1 AS state)");
    connection.query_row(&sql, [code], |row| row.get(0)).unwrap()
}

#[test]
fn indexes_hold_the_states_that_the_model_says() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    let holds = |index, code| holds(&connection, index, code);
    for (index, set) in [
        ("executions_waiting", lifecycle::WAITS),
        ("executions_running", lifecycle::RUNS),
        ("executions_unhappy", lifecycle::UNHAPPY),
        ("executions_dead", lifecycle::DEAD),
    ] {
        for state in State::ALL {
            assert_eq!(holds(index, state.code()), set.contains(state), "{index} {state:?}");
        }
    }
    for state in JobState::ALL {
        assert_eq!(holds("jobs_name", state.code()), state != JobState::Deleted, "{state:?}");
    }
}

/// The words of a statement, without its comments.
fn words(sql: &str) -> Vec<&str> {
    sql.lines().filter(|line| !line.starts_with("--")).flat_map(str::split_whitespace).collect()
}

#[test]
fn no_sql_spells_a_state_or_compares_states_by_size() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres/sql");
    for (path, sql) in sql_files().into_iter().chain(sql_files_in(&root)) {
        for three in words(&sql).windows(3) {
            let [column, operator, value] = three else { continue };
            if *column == "state" || column.ends_with(".state") || column.ends_with("(state") {
                assert!(!operator.starts_with(['<', '>']) || *operator == "<>", "{path} compares states: {three:?}");
                let is_spelled = value.starts_with(|c: char| c.is_ascii_digit() || c == '(');
                assert!(!(["=", "<>", "IN"].contains(operator) && is_spelled), "{path} spells a state: {three:?}");
            }
        }
    }
}

#[test]
fn what_follows_from_states_is_made_anew_when_they_change() {
    let directory = tempfile::tempdir().unwrap();
    let schema = |connection: &Connection| -> Vec<String> {
        let mut schema = connection.prepare("SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY type, name").unwrap();
        schema.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let connection = migrated(directory.path());
    let whole = schema(&connection);
    let earlier = "DROP VIEW waiting_executions; DROP INDEX executions_waiting;
                   CREATE INDEX executions_waiting ON executions (wake_at, id) WHERE state = 1;
                   UPDATE meta SET value = '3' || char(10) || 'of an earlier release' WHERE key = 'states'";
    connection.execute_batch(earlier).unwrap();
    assert_ne!(schema(&connection), whole);
    drop(connection);
    let connection = migrated(directory.path());
    assert_eq!(schema(&connection), whole);
    // A migration drops the views; they come back.
    connection.execute_batch("DROP VIEW waiting_executions").unwrap();
    connection.execute_batch(&crate::states::drops(include_str!("states.sql"))).unwrap();
    migrations::migrate(&connection, "test").unwrap();
    assert_eq!(schema(&connection), whole);
    connection.execute("UPDATE meta SET value = '17' || char(10) WHERE key = 'states'", []).unwrap();
    drop(connection);
    let options = Options::new(directory.path().join("campanile.db"));
    let error = open_writer(&options, "test").unwrap_err();
    assert_eq!(error.code(), "store_newer", "{error}");
}

#[test]
fn readers_map_as_much_of_the_file_as_they_are_told() {
    let directory = tempfile::tempdir().unwrap();
    migrated(directory.path());
    for map_bytes in [0, 1 << 20] {
        let reader =
            open_reader(&Options { map_bytes, ..Options::new(directory.path().join("campanile.db")) }).unwrap();
        let mapped: i64 = reader.pragma_query_value(None, "mmap_size", |row| row.get(0)).unwrap();
        assert_eq!(mapped as u64, map_bytes);
    }
}

#[test]
fn the_file_is_as_durable_as_promised() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    let pragma =
        |name| connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(pragma("journal_mode"), rusqlite::types::Value::Text("wal".into()));
    assert_eq!(pragma("synchronous"), rusqlite::types::Value::Integer(2), "FULL");
    assert_eq!(pragma("application_id"), rusqlite::types::Value::Integer(migrations::APPLICATION_ID.into()));
    assert_eq!(pragma("user_version"), rusqlite::types::Value::Integer(migrations::NEWEST.into()));
    drop(connection);
    // Opening it again changes nothing.
    let connection = migrated(directory.path());
    let tenants: u32 = connection.query_row("SELECT count(*) FROM tenants", [], |row| row.get(0)).unwrap();
    assert_eq!(tenants, 1);
}

/// Pairs of 100 jobs; execution ids that do not come in the order of jobs.
fn pair(n: u32) -> (JobId, ExecutionId) {
    let mut job = [0; 16];
    job[12..].copy_from_slice(&(n % 100).to_be_bytes());
    let mut execution = [0; 16];
    execution[..4].copy_from_slice(&n.to_be_bytes());
    (JobId::from_bytes(job), ExecutionId::from_bytes(execution))
}

fn newest(connection: &Connection, job: JobId) -> Vec<ExecutionId> {
    let mut seen = Vec::new();
    history::newest_first(connection, job, ([0; 16], [255; 16]), |id| {
        seen.push(id);
        Ok(true)
    })
    .unwrap();
    seen
}

#[test]
fn the_history_reads_the_same_before_during_and_after_the_fold() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    connection.execute_batch("BEGIN").unwrap();
    let count = 70_000;
    for batch in 0..7 {
        history::append(&connection, (batch * 10_000..(batch + 1) * 10_000).map(pair)).unwrap();
    }
    let expected =
        |job: u32, upto: u32| (0..upto).rev().filter(|n| n % 100 == job).map(|n| pair(n).1).collect::<Vec<_>>();
    let check = |upto| {
        for job in [0, 7, 99] {
            assert_eq!(newest(&connection, pair(job).0), expected(job, upto), "job {job}");
        }
    };
    check(count);
    let mut fold = Fold::open(&connection).unwrap();
    assert!(fold.is_due(true) && !fold.is_due(false));
    fold.slice(&connection).unwrap();
    fold.slice(&connection).unwrap();
    check(count);
    // A crash, and a new start: what was folded already is folded again, into the same rows.
    fold = Fold::open(&connection).unwrap();
    fold.slice(&connection).unwrap();
    // What is fired meanwhile stays in the tail.
    history::append(&connection, (count..count + 50).map(pair)).unwrap();
    history::append(&connection, (count..count + 50).map(pair)).unwrap();
    check(count + 50);
    let mut slices = 0;
    while fold.is_due(true) {
        fold.slice(&connection).unwrap();
        slices += 1;
    }
    assert!((10..100).contains(&slices), "{slices}");
    check(count + 50);
    let rows = |table: &str| -> u32 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows("history"), rows("history_tail")), (count, 2));
}

#[tokio::test]
async fn one_bad_command_does_not_fail_its_neighbours() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    let writer = Arc::new(Writer::start(connection, "test".into()).unwrap());
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = parking_lot::Mutex::new(held);
    // While the first one is busy, the others gather in one group.
    let first = tokio::spawn({
        let writer = writer.clone();
        async move {
            writer
                .run(1, move |c| {
                    let _ = held.lock().recv();
                    put_meta(c, "first", "1")
                })
                .await
        }
    });
    let spawn = |kind: u32| {
        let writer = writer.clone();
        tokio::spawn(async move {
            writer
                .run(1, move |c| {
                    put_meta(c, &format!("key {kind}"), "1")?;
                    match kind {
                        1 => Ok(c.execute("INSERT INTO nowhere VALUES (1)", []).map(|_| ())?),
                        3 => panic!("a bug, on purpose"),
                        4 => Err(Error::new(Kind::Conflict, "refused").into()),
                        _ => Ok(()),
                    }
                })
                .await
        })
    };
    let others: Vec<_> = (0..6).map(spawn).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(release);
    first.await.unwrap().unwrap();
    let mut kinds = Vec::new();
    for other in others {
        kinds.push(other.await.unwrap().map_err(|error| error.kind()));
    }
    assert_eq!(kinds, [Ok(()), Err(Kind::Bug), Ok(()), Err(Kind::Bug), Err(Kind::Conflict), Ok(())]);
    let there = writer
        .run(0, |c| Ok(c.query_row("SELECT count(*) FROM meta WHERE key <> 'states'", [], |row| row.get::<_, u32>(0))?))
        .await;
    assert_eq!(there.unwrap(), 4, "what failed left nothing");
}

#[tokio::test]
async fn a_small_command_goes_before_large_ones_and_ends_a_long_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let writer = Arc::new(Writer::start(migrated(directory.path()), "test".into()).unwrap());
    let order = Arc::new(Mutex::new(Vec::new()));
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let run = |name: &'static str, rows: usize, work: Box<dyn Fn() -> bool + Send>| {
        let (writer, order) = (writer.clone(), order.clone());
        tokio::spawn(async move {
            let run = move |_: &Connection| {
                order.lock().push(name);
                if work() { Ok(()) } else { Err(Error::new(Kind::Bug, "refused").into()) }
            };
            writer.run(rows, run).await
        })
    };
    // The first one is under way until the others wait, and longer than a transaction with small ones in it may be.
    let wait = move || {
        let _ = gone.lock().recv();
        std::thread::sleep(Duration::from_millis(20));
        true
    };
    let first = run("first", 1_000, Box::new(wait));
    while order.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    let others = [
        run("refused", 1_000, Box::new(|| false)),
        run("large", 1_000, Box::new(|| true)),
        run("small", 1, Box::new(|| true)),
    ];
    tokio::task::yield_now().await;
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    let [refused, large, small] = others;
    assert!(refused.await.unwrap().is_err());
    large.await.unwrap().unwrap();
    small.await.unwrap().unwrap();
    // Had the one that was refused been in the same transaction, the first two would have run again.
    assert_eq!(*order.lock(), ["first", "small", "refused", "large"]);
}

#[test]
fn of_a_skip_over_very_many_pruned_runs_the_range_that_was_asked_for_is_exact() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    let job = JobId::from_bytes([7; 16]);
    // More than are read at once, all of them in one skip.
    let last = limits::SCAN_ROWS_MAX as i64 * 2;
    let skip = "INSERT INTO skips (job_id, from_at, to_at, reason, tenant, recorded_at) VALUES (?1, 0, ?2, 1, ?3, 0)";
    let tenant = TenantId::DEFAULT;
    connection.execute(skip, rusqlite::params![job.as_bytes(), last, tenant.0]).unwrap();
    let runs = "WITH RECURSIVE n (at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM n WHERE at < ?2)
                INSERT INTO pruned_runs (job_id, fire_at, tenant, pruned_at) SELECT ?1, at, ?3, 0 FROM n";
    connection.execute(runs, rusqlite::params![job.as_bytes(), last, tenant.0]).unwrap();
    let at = Timestamp::from_millis(5);
    let skips = skips::list(&connection, tenant, job, Some((at, at)), 10).unwrap();
    assert_eq!((skips.items, skips.pruned), (Vec::new(), vec![at]), "it ran");
}

/// Work that says when it has begun, and goes on when it is told to.
fn gated() -> (impl Fn() -> bool + Send, Arc<Mutex<bool>>, std::sync::mpsc::Sender<()>) {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let (gone, begun) = (Mutex::new(gone), Arc::new(Mutex::new(false)));
    let noted = begun.clone();
    let work = move || {
        *noted.lock() = true;
        let _ = gone.lock().recv();
        true
    };
    (work, begun, go)
}

async fn until(begun: &Mutex<bool>) {
    while !*begun.lock() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_small_command_waits_for_one_large_one_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let writer = Arc::new(Writer::start(migrated(directory.path()), "test".into()).unwrap());
    let run = |rows: usize, work: Box<dyn Fn() -> bool + Send>| {
        let writer = writer.clone();
        let run = move |_: &Connection| {
            if work() { Ok(()) } else { Err(Error::new(Kind::Bug, "refused").into()) }
        };
        tokio::spawn(async move { writer.run(rows, run).await })
    };
    // While a first transaction is under way, three large commands gather for the next one.
    let (work, begun, go_first) = gated();
    let first = run(1_000, Box::new(work));
    until(&begun).await;
    let (work, begun, go_second) = gated();
    let second = run(1_000, Box::new(work));
    let slow = || {
        std::thread::sleep(Duration::from_millis(20));
        true
    };
    let slow = run(1_000, Box::new(slow));
    let refused = run(1_000, Box::new(|| false));
    tokio::task::yield_now().await;
    go_first.send(()).unwrap();
    until(&begun).await;
    // A small one comes while the first of them runs.
    let runs = Arc::new(Mutex::new(0));
    let counted = runs.clone();
    let count = move || {
        *counted.lock() += 1;
        true
    };
    let small = run(1, Box::new(count));
    tokio::task::yield_now().await;
    go_second.send(()).unwrap();
    drop(go_second);
    for done in [first, second, slow, small] {
        done.await.unwrap().unwrap();
    }
    assert!(refused.await.unwrap().is_err());
    assert_eq!(*runs.lock(), 1, "in one transaction with the one that was refused it would have run again");
}
