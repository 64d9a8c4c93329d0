//! Backups of an embedded store: whole although others write, refused where they would destroy something, and put back.

use campanile_model::error::Kind;
use campanile_model::store::{JobQuery, Jobs, Put, Reads};
use campanile_store::sqlite::backup::{Summary, backup, restore};
use campanile_store::sqlite::{Options, SqliteStore};
use campanile_testkit::generate as g;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(&Options::new(path)).expect("the store opens")
}

async fn put(store: &SqliteStore, numbers: std::ops::Range<u64>) {
    let verdicts = store.put_jobs(numbers.map(|n| g::create(&g::job(n))).collect()).await.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_))), "{verdicts:?}");
}

async fn count(path: &Path) -> usize {
    open(path).list_jobs(&JobQuery { limit: 1_000_000, ..JobQuery::default() }).await.unwrap().items.len()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

struct Place {
    directory: TempDir,
    database: PathBuf,
    file: PathBuf,
}

fn place() -> Place {
    let directory = TempDir::new().unwrap();
    let (database, file) = (directory.path().join("data/campanile.db"), directory.path().join("copy/today.db"));
    std::fs::create_dir(directory.path().join("copy")).unwrap();
    Place { directory, database, file }
}

fn quietly(from: &Path, to: &Path, force: bool) -> campanile_model::Result<Summary> {
    backup(from, to, force, &mut |_, _| {})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_a_snapshot_and_one_file() {
    let Place { directory, database, file } = place();
    let store = Arc::new(open(&database));
    put(&store, 0..5_000).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn({
        let (store, stop) = (store.clone(), stop.clone());
        async move {
            let mut next = 5_000;
            while !stop.load(Ordering::Relaxed) {
                put(&store, next..next + 50).await;
                next += 50;
            }
            next
        }
    });
    let (from, to) = (database.clone(), file.clone());
    let (summary, steps) = tokio::task::spawn_blocking(move || {
        let mut steps = Vec::new();
        (backup(&from, &to, false, &mut |done, total| steps.push((done, total))).unwrap(), steps)
    })
    .await
    .unwrap();
    stop.store(true, Ordering::Relaxed);
    let written = load.await.unwrap();
    assert!(summary.jobs >= 5_000 && summary.jobs <= written, "{summary:?}");
    assert_eq!(summary.jobs % 50, 0, "a snapshot holds whole writes");
    assert!(steps.iter().all(|(done, total)| done <= total));
    assert_eq!(names(file.parent().unwrap()), ["today.db"], "nothing beside it");
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!((found.len(), found.permissions().mode() & 0o777), (summary.bytes, 0o600));

    // The server has noticed nothing, and the copy opens as a database of its own.
    put(&store, 900_000..900_010).await;
    let other = directory.path().join("other/campanile.db");
    assert_eq!(restore(&file, &other, false, &mut |_, _| {}).unwrap().kept, None);
    assert_eq!(count(&other).await as u64, summary.jobs);
}

#[tokio::test]
async fn nothing_is_written_over_unless_it_is_said() {
    let Place { directory: _directory, database, file } = place();
    put(&open(&database), 0..10).await;
    let first = quietly(&database, &file, false).unwrap();
    assert_eq!((first.jobs, first.executions), (10, 0));
    assert_eq!(quietly(&database, &file, false).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(quietly(&database, &database, true).unwrap_err().kind(), Kind::Invalid);
    put(&open(&database), 10..20).await;
    assert_eq!(quietly(&database, &file, true).unwrap().jobs, 20);

    assert_eq!(restore(&file, &database, false, &mut |_, _| {}).unwrap_err().kind(), Kind::Conflict);
    put(&open(&database), 20..30).await;
    let held = open(&database);
    let refused = restore(&file, &database, true, &mut |_, _| {}).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "data_directory_in_use"));
    drop(held);
    assert_eq!(count(&database).await, 30);

    let restored = restore(&file, &database, true, &mut |_, _| {}).unwrap();
    let kept = restored.kept.expect("the old one is kept");
    assert_eq!(kept.file_name().unwrap(), "campanile.db.before-restore");
    assert_eq!((count(&database).await, restored.summary.jobs), (20, 20));
    let again = restore(&file, &database, true, &mut |_, _| {}).unwrap().kept.unwrap();
    assert_eq!(again.file_name().unwrap(), "campanile.db.before-restore.2");
    let back = database.with_file_name("back").join("campanile.db");
    restore(&kept, &back, false, &mut |_, _| {}).unwrap();
    assert_eq!(count(&back).await, 30, "the kept one is whole");
}

#[tokio::test]
async fn what_is_in_the_log_of_a_killed_server_is_in_its_backup() {
    let Place { directory, database, file } = place();
    let store = open(&database);
    put(&store, 0..10).await;
    // As a kill leaves it: the file and a log that nobody has folded in.
    let killed = directory.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    for name in ["campanile.db", "campanile.db-wal"] {
        std::fs::copy(database.with_file_name(name), killed.join(name)).unwrap();
    }
    assert_eq!(quietly(&killed.join("campanile.db"), &file, false).unwrap().jobs, 10);
    // And a log that stays behind is never applied to what is restored over it.
    let restored = restore(&file, &killed.join("campanile.db"), true, &mut |_, _| {}).unwrap();
    assert_eq!(restored.summary.jobs, 10);
    assert!(!killed.join("campanile.db-wal").exists());
    assert_eq!(count(&killed.join("campanile.db")).await, 10);
}

#[tokio::test]
async fn only_whole_backups_of_ours_are_restored() {
    let Place { directory, database, file } = place();
    put(&open(&database), 0..2_000).await;
    quietly(&database, &file, false).unwrap();
    let target = directory.path().join("new/campanile.db");
    let refused = |path: &Path| restore(path, &target, false, &mut |_, _| {}).unwrap_err();
    assert_eq!(refused(&directory.path().join("absent")).kind(), Kind::NotFound);

    let diary = directory.path().join("diary");
    std::fs::write(&diary, "dear diary").unwrap();
    assert_eq!(refused(&diary).code(), "store_foreign");
    assert_eq!(quietly(&diary, &directory.path().join("x"), false).unwrap_err().code(), "store_foreign");
    std::fs::write(&diary, "").unwrap();
    assert_eq!(refused(&diary).code(), "store_foreign");

    let newer = directory.path().join("newer");
    std::fs::copy(&file, &newer).unwrap();
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
    assert_eq!(refused(&newer).code(), "store_newer");

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2 / 4_096 * 4_096;
    bytes[middle..middle + 4_096].fill(0xa5);
    let damaged = directory.path().join("damaged");
    std::fs::write(&damaged, &bytes).unwrap();
    assert_eq!(refused(&damaged).kind(), Kind::Corrupt);
    std::fs::write(&damaged, &bytes[..middle]).unwrap();
    assert_eq!(refused(&damaged).kind(), Kind::Corrupt);

    let left = names(target.parent().unwrap());
    assert_eq!(left, ["campanile.lock"], "nothing is left of what was refused");
    assert!(!directory.path().join("x").exists() && !directory.path().join("x.tmp").exists());
}

#[tokio::test]
async fn numbers_that_others_have_seen_do_not_come_again() {
    let Place { directory, database, file } = place();
    put(&open(&database), 0..1).await;
    quietly(&database, &file, false).unwrap();
    let target = directory.path().join("new/campanile.db");
    restore(&file, &target, false, &mut |_, _| {}).unwrap();
    let number = |path: &Path, sql: &str| -> i64 {
        rusqlite::Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let fence = "SELECT value FROM counters WHERE name = 'fence'";
    assert!(number(&target, fence) >= number(&database, fence) + 1_000_000);
    assert!(number(&target, "SELECT seq FROM sqlite_sequence WHERE name = 'outbox'") >= 1_000_000);
}
