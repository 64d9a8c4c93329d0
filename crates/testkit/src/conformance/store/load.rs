//! What an owner of shards reads: due jobs, changed jobs, waiting executions; and the cursors it moves.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::error::Kind;
use campanile_model::execution::AttemptOutcome;
use campanile_model::job::{Cursor, Job, JobState};
use campanile_model::lifecycle::Event;
use campanile_model::schedule::Schedule;
use campanile_model::shard::{self, ShardFence, ShardId, shard_of};
use campanile_model::store::{ChangeSeq, CursorMove, DueQuery, JobQuery, PlannedJob, WaitingQuery};
use campanile_model::{JobId, Timestamp};
use std::sync::Arc;

fn due_before(before: Timestamp) -> DueQuery {
    DueQuery { shards: Vec::new(), before, after: None, limit: 1_000 }
}

/// A job whose next fire is then.
fn at_cursor(n: u64, ms: i64) -> Job {
    g::job_with(n, |d| d.schedule = Schedule::At { at: g::at(ms) })
}

fn ids(jobs: &[PlannedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Strictly before, in the order of (next_fire_at, id), with all that the wheel needs.
pub async fn due_jobs_come_in_the_order_of_their_cursors(store: Fixture) {
    let jobs = [at_cursor(1, 300), at_cursor(2, 100), at_cursor(3, 100), at_cursor(4, 200), at_cursor(5, 50)];
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    let due = store.load_due(&due_before(g::at(300))).await.unwrap();
    assert_eq!(ids(&due), [jobs[4].id, jobs[1].id, jobs[2].id, jobs[3].id]);
    let job = &jobs[4];
    let planned = PlannedJob {
        id: job.id,
        tenant: job.tenant,
        version: job.version,
        state: job.state,
        ended_at: None,
        cursor: job.cursor,
        plan: job.plan.clone(),
        firing: job.firing().into(),
    };
    assert_eq!(due[0], planned);
}

/// Only active jobs with a cursor fire.
pub async fn paused_deleted_and_finished_jobs_are_not_due(store: Fixture) {
    let jobs = store.jobs(4).await;
    store.change(&jobs[0], g::at(1), g::Change::Pause(None)).await;
    store.change(&jobs[1], g::at(1), g::Change::Delete).await;
    store.change(&jobs[2], g::at(1), g::define(&jobs[2], |d| d.schedule = Schedule::None)).await;
    assert_eq!(ids(&store.load_due(&due_before(Timestamp::MAX)).await.unwrap()), [jobs[3].id]);
}

/// Pages by position, with many jobs at the same instant.
pub async fn due_pages_do_not_overlap(store: Fixture) {
    let jobs: Vec<Job> = (1..=50).map(|n| at_cursor(n, (n as i64 % 3) * 10)).collect();
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    let whole = store.load_due(&due_before(Timestamp::MAX)).await.unwrap();
    assert_eq!(whole.len(), 50);
    assert!(whole.is_sorted_by_key(|job| (job.cursor.next_fire_at, job.id)));
    let mut paged = Vec::new();
    let mut query = DueQuery { limit: 7, ..due_before(Timestamp::MAX) };
    loop {
        let page = store.load_due(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some((last.cursor.next_fire_at.unwrap(), last.id));
        assert!(page.len() <= 7);
        paged.extend(page);
    }
    assert_eq!(paged, whole);
}

/// Each page is read as things are then, whatever a store keeps between pages.
pub async fn what_is_written_between_due_pages_is_seen_in_its_place(store: Fixture) {
    let jobs: Vec<Job> = (1..=9).map(|n| at_cursor(n, n as i64 * 10)).collect();
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    let fences = store.open_all().await;
    let page = async |after: usize, before, limit| {
        let after = Some((jobs[after].cursor.next_fire_at.unwrap(), jobs[after].id));
        ids(&store.load_due(&DueQuery { after, limit, ..due_before(before) }).await.unwrap())
    };
    let end = g::at(70);
    assert_eq!(page(0, end, 2).await, [jobs[1].id, jobs[2].id]);
    // One moves away, one stops, one comes.
    store.advance(fences, vec![move_to(&jobs[3], 1, Some(1_000_000))]).await.unwrap();
    assert_eq!(page(2, end, 1).await, [jobs[4].id]);
    assert_eq!(page(0, end, 2).await, [jobs[1].id, jobs[2].id]);
    store.change(&jobs[4], g::at(1), g::Change::Pause(None)).await;
    let new = at_cursor(20, 65);
    store.put(g::create(&new)).await;
    assert_eq!(page(2, end, 5).await, [jobs[5].id, new.id]);
    // The same position with a later end.
    assert_eq!(page(0, end, 2).await, [jobs[1].id, jobs[2].id]);
    assert_eq!(page(2, Timestamp::MAX, 9).await, [jobs[5].id, new.id, jobs[6].id, jobs[7].id, jobs[8].id, jobs[3].id]);
    // A position between jobs, as after a horizon that was loaded up to its end.
    let last = JobId::from_bytes([0xff; 16]);
    let beyond = DueQuery { after: Some((g::at(70), last)), ..due_before(Timestamp::MAX) };
    assert_eq!(ids(&store.load_due(&beyond).await.unwrap()), [jobs[7].id, jobs[8].id, jobs[3].id]);
}

/// The union of what each shard's owner loads is everything, and nothing comes twice.
pub async fn shards_are_separate(store: Fixture) {
    let jobs = store.jobs(100).await;
    store.fired(jobs.iter().map(|job| g::fire(job, DUE)).collect()).await;
    let (low, high): (Vec<ShardId>, Vec<ShardId>) = shard::all().partition(|shard| shard.0 < 100);
    let mut total = 0;
    for shards in [low, high] {
        let due = store.load_due(&DueQuery { shards: shards.clone(), ..due_before(Timestamp::MAX) }).await.unwrap();
        assert!(due.iter().all(|job| shards.contains(&shard_of(job.id))));
        let waiting = WaitingQuery {
            shards: shards.clone(),
            before: Timestamp::MAX,
            fired_until: Timestamp::MAX,
            after: None,
            limit: 1_000,
        };
        let waiting = store.load_waiting(&waiting).await.unwrap();
        assert!(waiting.iter().all(|waiting| shards.contains(&shard_of(waiting.dispatch.job))));
        assert_eq!(waiting.len(), due.len());
        total += due.len();
    }
    assert_eq!(total, 100);
}

/// Every write is seen once, in its newest form, whatever its state.
pub async fn changes_come_in_the_order_of_commits(store: Fixture) {
    let jobs = store.jobs(3).await;
    let all = store.load_changed(ChangeSeq::default(), 100).await.unwrap();
    assert_eq!(ids(&all.jobs), [jobs[0].id, jobs[1].id, jobs[2].id]);
    assert_eq!(store.load_changed(all.upto, 100).await.unwrap().jobs, []);
    store.change(&jobs[2], g::at(1), g::Change::Delete).await;
    store.change(&jobs[0], g::at(1), g::Change::Pause(None)).await;
    let later = store.load_changed(all.upto, 100).await.unwrap();
    let seen: Vec<_> = later.jobs.iter().map(|job| (job.id, job.state, job.version)).collect();
    assert_eq!(seen, [(jobs[2].id, JobState::Deleted, 2), (jobs[0].id, JobState::Paused, 2)]);
    let first = store.load_changed(all.upto, 1).await.unwrap();
    assert_eq!(ids(&first.jobs), [jobs[2].id]);
    assert_eq!(ids(&store.load_changed(first.upto, 1).await.unwrap().jobs), [jobs[0].id]);
}

/// So that an owner that has loaded everything knows where to go on.
pub async fn a_limit_of_zero_tells_the_newest_change(store: Fixture) {
    store.jobs(3).await;
    let newest = store.load_changed(ChangeSeq::default(), 0).await.unwrap();
    assert_eq!(newest.jobs, []);
    assert_eq!(store.load_changed(newest.upto, 100).await.unwrap().jobs, []);
    let job = store.job(9).await;
    assert_eq!(ids(&store.load_changed(newest.upto, 100).await.unwrap().jobs), [job.id]);
}

fn move_to(job: &Job, version: u32, next: Option<i64>) -> CursorMove {
    CursorMove {
        job: job.id,
        version,
        superseded: false,
        cursor: Cursor { next_fire_at: next.map(g::at), fires_left: Some(5) },
    }
}

/// A cursor may lag, never lead, and never goes back.
pub async fn cursors_only_move_forward_and_for_their_version(store: Fixture) {
    let job = store.job(1).await;
    let fences = store.open_all().await;
    let advance = |cursor| store.advance(fences.clone(), vec![cursor]);
    let cursor = async || store.get_job(job.id).await.unwrap().cursor;
    let start = job.cursor;
    for refused in [move_to(&job, 1, Some(59_999)), move_to(&job, 1, Some(60_000)), move_to(&job, 2, Some(90_000))] {
        advance(refused).await.unwrap();
        assert_eq!(cursor().await, start);
    }
    advance(move_to(&job, 1, Some(120_000))).await.unwrap();
    assert_eq!(cursor().await, Cursor { next_fire_at: Some(g::at(120_000)), fires_left: Some(5) });
    advance(move_to(&job, 1, Some(60_000))).await.unwrap();
    assert_eq!(cursor().await.next_fire_at, Some(g::at(120_000)));
    advance(move_to(&job, 1, None)).await.unwrap();
    assert_eq!(cursor().await.next_fire_at, None);
    advance(move_to(&job, 1, Some(999_999))).await.unwrap();
    assert_eq!(cursor().await.next_fire_at, None, "what has ended does not begin again");
    let paused = store.create(&Job { state: JobState::Paused, ..g::job(2) }).await;
    advance(move_to(&paused, 1, Some(120_000))).await.unwrap();
    assert_eq!(store.get_job(paused.id).await.unwrap().cursor, Cursor::default());
}

/// An owner that was taken over moves nothing.
pub async fn cursors_need_the_current_epoch(store: Fixture) {
    let job = store.job(1).await;
    let old = store.open_all().await;
    store.seize_shards(&[shard_of(job.id)], "other").await.unwrap();
    let none: Arc<[ShardFence]> = Arc::new([]);
    for fences in [old, none] {
        let error = store.advance(fences, vec![move_to(&job, 1, Some(120_000))]).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
    }
    assert_eq!(store.get_job(job.id).await, Some(job));
}

/// A moved cursor is no new version, and wakes nobody.
pub async fn advancing_is_not_a_change(store: Fixture) {
    let job = store.job(1).await;
    let before = store.load_changed(ChangeSeq::default(), 0).await.unwrap().upto;
    let fences = store.open_all().await;
    store.advance(fences, vec![move_to(&job, 1, Some(120_000))]).await.unwrap();
    let after = store.get_job(job.id).await.unwrap();
    assert_eq!((after.version, after.effective_at), (job.version, job.effective_at));
    assert_eq!(store.load_changed(before, 100).await.unwrap().jobs, []);
}

/// Pending and retrying ones, strictly before, in the order of (wake_at, id), page by page.
pub async fn waiting_executions_come_in_the_order_of_wake_at(store: Fixture) {
    let jobs = store.jobs(20).await;
    let fires: Vec<_> =
        jobs.iter().enumerate().map(|(i, job)| g::fire(job, g::at(60_000 + (i as i64 % 4) * 10))).collect();
    store.fired(fires.clone()).await;
    let now = g::at(60_100);
    store.granted(fires[0].dispatch.execution, 0, now).await;
    let retrying = store.granted(fires[1].dispatch.execution, 0, now).await;
    let failed = g::complete(&retrying, Event::FailRetryable, AttemptOutcome::Failed, now);
    store.complete(vec![failed]).await.unwrap();
    let query = |after, limit| WaitingQuery {
        shards: Vec::new(),
        before: Timestamp::MAX,
        fired_until: Timestamp::MAX,
        after,
        limit,
    };
    let whole = store.load_waiting(&query(None, 1_000)).await.unwrap();
    assert_eq!(whole.len(), 19, "the running one does not wait");
    assert!(whole.is_sorted_by_key(|waiting| (waiting.wake_at, waiting.dispatch.execution)));
    let last = whole.last().unwrap();
    assert_eq!((last.dispatch.execution, last.dispatch.attempt), (retrying.fence.execution, 1));
    assert_eq!(last.wake_at, now.saturating_add_ms(1_000));
    let first = &whole[0].dispatch;
    assert!(fires.iter().any(|fire| fire.dispatch == *first));
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = store.load_waiting(&query(after, 3)).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.wake_at, last.dispatch.execution));
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    let none = WaitingQuery { fired_until: Timestamp::from_millis(0), ..query(None, 1_000) };
    assert_eq!(store.load_waiting(&none).await.unwrap(), [], "what was fired later is left out");
    let early = WaitingQuery { before: g::at(60_010), ..query(None, 1_000) };
    assert!(store.load_waiting(&early).await.unwrap().iter().all(|waiting| waiting.wake_at < g::at(60_010)));
}

/// Paused jobs whose pause is over, and no others.
pub async fn pauses_that_are_over_are_found(store: Fixture) {
    let mut jobs = Vec::new();
    for (job, until) in store.jobs(6).await.iter().zip([Some(300), Some(100), None, Some(101), Some(10), Some(10)]) {
        jobs.push(store.change(job, g::at(1), g::Change::Pause(until.map(g::at))).await);
    }
    store.change(&jobs[4], g::at(2), g::Change::Resume).await;
    store.change(&jobs[5], g::at(2), g::Change::Delete).await;
    let load = async |ms, limit| {
        let query = JobQuery { pause_ends_by: Some(g::at(ms)), limit, ..JobQuery::default() };
        store.list_jobs(&query).await.unwrap().items
    };
    assert_eq!(load(99, 10).await, []);
    assert_eq!(load(100, 10).await, [jobs[1].clone()]);
    assert_eq!(load(300, 10).await, [jobs[1].clone(), jobs[3].clone(), jobs[0].clone()]);
    assert_eq!(load(300, 2).await.len(), 2);
    store.change(&jobs[1], g::at(200), g::Change::Resume).await;
    assert_eq!(load(200, 10).await, [jobs[3].clone()]);
}
