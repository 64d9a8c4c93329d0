//! Pages of due jobs beside a model: slots of several segments, and cursors that move between the pages.

use super::*;
use campanile_model::job::{Cursor, Job};
use campanile_model::schedule::Schedule;
use campanile_model::shard::{self, ShardId};
use campanile_testkit::generate as g;
use std::collections::BTreeSet;

const JOBS: u64 = 400;
/// Beyond what is asked for.
const FAR_MS: i64 = 9_000_000;

type Model = BTreeSet<(Timestamp, JobId)>;

async fn open() -> (SqliteStore, Vec<Job>, Model, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&Options::new(directory.path().join("campanile.db"))).unwrap();
    // Four slots of 2^18 ms; a quarter of the jobs at one instant.
    let at = |n: u64| if n.is_multiple_of(4) { 300_000 } else { (n * 7_919 % 1_000 * 1_000) as i64 };
    let jobs: Vec<Job> =
        (1..=JOBS).map(|n| g::job_with(n, |d| d.schedule = Schedule::At { at: g::at(at(n)) })).collect();
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    let model = jobs.iter().map(|job| (job.cursor.next_fire_at.unwrap(), job.id)).collect();
    (store, jobs, model, directory)
}

/// Moves these cursors away, in the store and in the model.
async fn move_away(store: &SqliteStore, fences: &Arc<[ShardFence]>, model: &mut Model, moved: &[(Timestamp, JobId)]) {
    let far = |n: usize| [Some(g::at(FAR_MS)), None][n % 2];
    let moves = moved.iter().enumerate().map(|(n, &(_, job))| {
        let cursor = Cursor { next_fire_at: far(n), fires_left: None };
        CursorMove { job, version: 1, superseded: false, cursor }
    });
    store.advance(fences.clone(), moves.collect()).await.unwrap();
    moved.iter().for_each(|entry| assert!(model.remove(entry)));
}

#[tokio::test]
async fn pages_are_exact_whatever_is_moved_between_them() {
    for (limit, moved_each, start) in [(7, 0, 0), (7, 1, 0), (5, 3, 2), (20, 24, 1), (100, 1, 0), (3, 2, 6)] {
        let (store, jobs, mut model, _directory) = open().await;
        let shards: Vec<ShardId> = shard::all().collect();
        let fences: Arc<[ShardFence]> = store.seize_shards(&shards, "node").await.unwrap().into();
        assert_eq!(model.len(), jobs.len());
        let mut after = None;
        let mut pages = 0;
        loop {
            let query = DueQuery { shards: Vec::new(), before: g::at(FAR_MS), after, limit };
            let page = store.load_due(&query).await.unwrap();
            let found: Vec<_> = page.iter().map(|job| (job.cursor.next_fire_at.unwrap(), job.id)).collect();
            let ahead = |entry: &&(Timestamp, JobId)| after.is_none_or(|after| **entry > after);
            let wanted: Vec<_> = model.iter().filter(ahead).take(limit).copied().collect();
            assert_eq!(found, wanted, "page {pages} of {limit}, {moved_each} moved");
            let Some(&last) = found.last() else { break };
            after = Some(last);
            pages += 1;
            let next: Vec<_> =
                model.iter().filter(|entry| **entry > last).skip(start).step_by(2).take(moved_each).copied().collect();
            move_away(&store, &fences, &mut model, &next).await;
        }
        assert!(pages >= 4, "{pages} pages");
    }
}

#[tokio::test]
async fn a_move_is_noted_even_if_its_caller_hangs_up() {
    let (store, _, mut model, _directory) = open().await;
    let shards: Vec<ShardId> = shard::all().collect();
    let fences: Arc<[ShardFence]> = store.seize_shards(&shards, "node").await.unwrap().into();
    let mut query = DueQuery { shards: Vec::new(), before: g::at(FAR_MS), after: None, limit: 5 };
    // Into a slot of which rows are kept.
    for _ in 0..60 {
        let page = store.load_due(&query).await.unwrap();
        query.after = page.last().map(|job| (job.cursor.next_fire_at.unwrap(), job.id));
    }
    let after = query.after;
    let gone = *model.iter().find(|entry| Some(**entry) > after).unwrap();
    let cursor = Cursor { next_fire_at: None, fires_left: None };
    let moves = vec![CursorMove { job: gone.1, version: 1, superseded: false, cursor }];
    {
        // Sent, and not waited for.
        let mut call = std::pin::pin!(store.advance(fences, moves));
        let _ = futures_util::poll!(call.as_mut());
    }
    // Whatever is written later is answered later.
    store.writer.run(1, |_| Ok(())).await.unwrap();
    model.remove(&gone);
    let next = store.load_due(&query).await.unwrap();
    let wanted: Vec<JobId> = model.iter().filter(|entry| Some(**entry) > after).take(5).map(|(_, job)| *job).collect();
    assert_eq!(next.iter().map(|job| job.id).collect::<Vec<_>>(), wanted);
}
