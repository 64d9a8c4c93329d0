//! What can go wrong around a store in a file: a clear error, and no loss.

use campanile_model::error::Kind;
use campanile_model::store::{JobQuery, Jobs, Put, Reads};
use campanile_store::sqlite::{Options, SqliteStore};
use campanile_testkit::generate as g;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn options(directory: &Path) -> Options {
    Options { busy_ms: 50, ..Options::new(directory.join("campanile.db")) }
}

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(&options(directory)).expect("the store opens")
}

fn refused(directory: &Path) -> campanile_model::Error {
    SqliteStore::open(&options(directory)).map(|_| ()).expect_err("the store refuses to open")
}

async fn put(store: &SqliteStore, numbers: std::ops::Range<u64>) -> Result<(), campanile_model::Error> {
    let verdicts = store.put_jobs(numbers.map(|n| g::create(&g::job(n))).collect()).await?;
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_))), "{verdicts:?}");
    Ok(())
}

async fn count(store: &SqliteStore) -> u64 {
    let listed = store.list_jobs(&JobQuery { limit: 1_000_000, ..JobQuery::default() }).await.unwrap().items.len();
    let counted = store.status().await.unwrap().jobs;
    assert_eq!(listed as u64, counted);
    counted
}

#[tokio::test]
async fn what_is_acknowledged_is_there_after_opening_again() {
    let directory = TempDir::new().unwrap();
    put(&open(directory.path()), 0..100).await.unwrap();
    assert_eq!(count(&open(directory.path())).await, 100);
}

#[test]
fn the_directory_is_made() {
    let directory = TempDir::new().unwrap();
    let deep = directory.path().join("a/b");
    drop(open(&deep));
    assert!(deep.join("campanile.db").exists());
}

#[test]
fn a_second_opener_is_refused_and_told_why() {
    let directory = TempDir::new().unwrap();
    let first = open(directory.path());
    let error = refused(directory.path());
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "data_directory_in_use"));
    let process = format!("process {}", std::process::id());
    assert!(error.message().contains(&process), "{error}");
    assert!(error.message().contains(&directory.path().display().to_string()), "{error}");
    drop(first);
    open(directory.path());
}

#[test]
fn a_foreign_file_is_refused_and_left_untouched() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("campanile.db");
    std::fs::write(&path, "dear diary").unwrap();
    let error = refused(directory.path());
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "store_foreign"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary");

    std::fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE diary (entry TEXT)").unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    let error = refused(directory.path());
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "store_foreign"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_of_a_newer_release_is_refused_and_left_untouched() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()));
    let path = directory.path().join("campanile.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = refused(directory.path());
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "store_newer"));
    assert!(error.message().contains("99"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_damaged_file_is_refused() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()));
    let path = directory.path().join("campanile.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..4_096].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(refused(directory.path()).kind(), Kind::Corrupt);
}

/// Runs a program as root; `false` where that is not possible here.
fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_read_only_file_is_refused() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()));
    let file = directory.path().join("campanile.db");
    let file = file.to_str().unwrap();
    // Root writes through permission bits, but not through this attribute.
    if !run("chattr", &["+i", file]) {
        eprintln!("skipped: no immutable files here");
        return;
    }
    let error = refused(directory.path());
    assert!(run("chattr", &["-i", file]));
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_read_only"));
    drop(open(directory.path()));
}

/// A mount that is gone with the test.
struct Mount(PathBuf);

impl Mount {
    fn new(arguments: &[&str], at: &Path) -> Option<Self> {
        let at = at.to_path_buf();
        let arguments = [arguments, &[at.to_str().unwrap()]].concat();
        run("mount", &arguments).then_some(Self(at))
    }

    fn remount(&self, with: &str) -> bool {
        run("mount", &["-o", &format!("remount,{with}"), self.0.to_str().unwrap()])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_read_only_directory_is_refused() {
    let directory = TempDir::new().unwrap();
    let Some(mount) = Mount::new(&["-t", "tmpfs", "tmpfs"], directory.path()) else {
        eprintln!("skipped: cannot mount here");
        return;
    };
    drop(open(directory.path()));
    assert!(mount.remount("ro"));
    let error = refused(directory.path());
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.message().contains(&directory.path().display().to_string()), "{error}");
    assert!(mount.remount("rw"));
    drop(open(directory.path()));
}

#[tokio::test]
async fn a_lock_of_a_foreign_connection_is_waited_for_and_then_told() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    put(&store, 0..10).await.unwrap();
    let other = rusqlite::Connection::open(directory.path().join("campanile.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = put(&store, 10..20).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_locked"));
    assert_eq!(count(&store).await, 10, "reads go on");
    other.execute_batch("COMMIT").unwrap();
    put(&store, 10..20).await.unwrap();
    assert_eq!(count(&store).await, 20);
}

#[tokio::test]
async fn a_full_file_loses_nothing_and_heals() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    store.limit_pages(200).await.unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match put(&store, acknowledged..acknowledged + 100).await {
            Ok(()) => acknowledged += 100,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_full"));
    assert!(acknowledged > 0);
    assert_eq!(count(&store).await, acknowledged, "all that was acknowledged and nothing else");
    store.limit_pages(1_000_000).await.unwrap();
    put(&store, acknowledged..acknowledged + 100).await.unwrap();
    drop(store);
    assert_eq!(count(&open(directory.path())).await, acknowledged + 100);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_heals() {
    let directory = TempDir::new().unwrap();
    let Some(mount) = Mount::new(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], directory.path()) else {
        eprintln!("skipped: cannot mount here");
        return;
    };
    let store = open(directory.path());
    let mut acknowledged = 0;
    let error = loop {
        match put(&store, acknowledged..acknowledged + 100).await {
            Ok(()) => acknowledged += 100,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000_000, "the disk never fills");
    };
    assert!(matches!(error.kind(), Kind::Unavailable | Kind::OutcomeUnknown), "{error}");
    assert!(acknowledged > 0);
    for _ in 0..3 {
        put(&store, acknowledged..acknowledged + 100).await.unwrap_err();
    }
    assert_eq!(count(&store).await, acknowledged);
    assert!(mount.remount("size=64m"));
    put(&store, acknowledged..acknowledged + 100).await.unwrap();
    drop(store);
    let store = open(directory.path());
    assert_eq!(count(&store).await, acknowledged + 100);
    drop(store);
}

/// The files as a crash leaves them: without the shared memory, and with a log that was never folded in.
#[tokio::test]
async fn a_copy_of_the_files_of_an_open_store_has_all_that_was_acknowledged() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    put(&store, 0..500).await.unwrap();
    let copy = TempDir::new().unwrap();
    for name in ["campanile.db", "campanile.db-wal"] {
        std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    assert_eq!(count(&open(copy.path())).await, 500);

    // A log that was cut in the middle of a commit: whole commits are there, the torn one is not.
    let path = directory.path().join("campanile.db-wal");
    let before = std::fs::metadata(&path).unwrap().len();
    put(&store, 500..600).await.unwrap();
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(after > before);
    let torn = TempDir::new().unwrap();
    for name in ["campanile.db", "campanile.db-wal"] {
        std::fs::copy(directory.path().join(name), torn.path().join(name)).unwrap();
    }
    let log = std::fs::File::options().write(true).open(torn.path().join("campanile.db-wal")).unwrap();
    log.set_len(after - 100).unwrap();
    assert_eq!(count(&open(torn.path())).await, 500);
}

const CHILD: &str = "CAMPANILE_TEST_CHILD_DIRECTORY";

/// Not a test of its own: the process that `a_killed_process_loses_nothing_acknowledged` kills.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let store = open(Path::new(&directory));
    let start = count(&store).await;
    for n in start.. {
        put(&store, n..n + 1).await.unwrap();
        println!("acknowledged {}", n + 1);
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_acknowledged() {
    let directory = TempDir::new().unwrap();
    let mut last = 0;
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut wanted = 20 + round * 7;
        for line in lines.by_ref() {
            // The harness may print on the same line first.
            let line = line.unwrap();
            let Some((_, number)) = line.split_once("acknowledged ") else { continue };
            last = number.trim().parse().unwrap();
            wanted -= 1;
            if wanted == 0 {
                break;
            }
        }
        assert_eq!(wanted, 0, "the child writes");
        child.kill().unwrap();
        // What it acknowledged between our last look and its end.
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.split_once("acknowledged ").and_then(|(_, number)| number.trim().parse().ok()) {
                last = number;
            }
        }
        child.wait().unwrap();
        let stored = count(&open(directory.path())).await;
        assert!(stored == last || stored == last + 1, "{last} acknowledged, {stored} stored");
    }
}
