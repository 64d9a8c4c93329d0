//! Upkeep on a real PostgreSQL, while others write: days that are dropped whole, folding, and the comparison of
//! counters.

use campanile_model::TenantId;
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason};
use campanile_model::filter::Filter;
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::schedule::Schedule;
use campanile_model::shard::{self, ShardFence};
use campanile_model::stats::{StatsQuery, Tally};
use campanile_model::store::{
    Applied, Claimed, Completion, ExecutionQuery, Fire, FireBatch, FireVerdict, Jobs, Keep, Path, Pruned, Reads,
    Resolve, Retention, Skip, Skips,
};
use campanile_model::time::Timestamp;
use campanile_pg::{Options, Pool};
use campanile_store::postgres::PostgresStore;
use campanile_testkit::{generate as g, postgres};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

/// A store, a look behind it, and jobs whose cursors have passed everything.
struct Scene {
    store: Arc<PostgresStore>,
    pool: Pool,
    jobs: Vec<Job>,
    fences: Arc<[ShardFence]>,
    /// The start of the day, by the server's clock.
    today: Timestamp,
}

impl Scene {
    async fn new() -> Self {
        let options =
            Options { schema: postgres::schema(), connections: 8, ..Options::new(postgres::url(), "node:test") };
        let store = Arc::new(PostgresStore::open(&options).await.unwrap());
        let pool = Pool::new(&options).unwrap();
        let today = number(&pool, "SELECT floor(extract(epoch FROM now()) / 86400)::int8").await * DAY_MS;
        let jobs: Vec<Job> = (1..=4).map(|n| g::job_with(n, |d| d.schedule = Schedule::None)).collect();
        store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
        let fences = store.seize_shards(&shard::all().collect::<Vec<_>>(), "test").await.unwrap().into();
        Self { store, pool, jobs, fences, today: Timestamp::from_millis(today) }
    }

    /// The instant so many milliseconds after the start of yesterday.
    fn yesterday(&self, ms: i64) -> Timestamp {
        self.today.saturating_add_ms(ms - DAY_MS)
    }

    /// Fires all jobs at these instants.
    async fn fire(&self, instants: impl IntoIterator<Item = Timestamp>) -> Vec<ExecutionId> {
        let fires: Vec<_> =
            instants.into_iter().flat_map(|at| self.jobs.iter().map(move |job| g::fire(job, at))).collect();
        let ids = fires.iter().map(|fire| fire.dispatch.execution).collect();
        let batch =
            FireBatch { fences: self.fences.clone(), fires, skips: Vec::new(), now: self.today, idempotency: None };
        assert!(matches!(self.store.fire(batch).await.unwrap(), FireVerdict::Fired(_)));
        ids
    }

    async fn succeed(&self, ids: &[ExecutionId], now: Timestamp) {
        let ends = ids.iter().map(|id| g::complete_unclaimed(g::claim(*id, 0, now))).collect();
        let done = self.store.complete(ends).await.unwrap();
        assert!(done.verdicts.iter().all(|verdict| *verdict == Applied::Done), "{done:?}");
    }

    async fn die(&self, ids: &[ExecutionId], now: Timestamp) {
        let claims = ids.iter().map(|id| g::claim(*id, 0, now)).collect();
        let ends = self.store.claim(claims).await.unwrap().verdicts.into_iter().enumerate().map(|(i, claimed)| {
            let Claimed::Granted(granted) = claimed else { panic!("not granted: {claimed:?}") };
            let error = AttemptError { kind: format!("kind-{}", i % 3), message: format!("message of {i}") };
            Completion { error: Some(error), ..g::complete(&granted, Event::FailFinal, AttemptOutcome::Failed, now) }
        });
        let done = self.store.complete(ends.collect()).await.unwrap();
        assert!(done.verdicts.iter().all(|verdict| *verdict == Applied::Done), "{done:?}");
    }

    /// Prunes until there is no more.
    async fn prune(&self, retention: &Retention, now: Timestamp) -> usize {
        let mut executions = 0;
        loop {
            let pruned = self.store.prune(retention, now, 500).await.unwrap();
            executions += pruned.executions;
            if !pruned.more {
                return executions;
            }
        }
    }

    async fn number(&self, sql: &str) -> i64 {
        number(&self.pool, sql).await
    }

    /// Whether yesterday has a partition.
    async fn has_yesterday(&self, table: &str) -> bool {
        let day = self.today.millis() / DAY_MS - 1;
        self.number(&format!("SELECT count(*) FROM pg_class WHERE oid = to_regclass('{table}_d{day}')")).await == 1
    }

    /// The counters are what counting gives, by another way than the store's own.
    async fn counters_are_right(&self) {
        let rows = "SELECT coalesce(sum(hashtext((tenant, pool, state, n)::text)::int8), 0)::int8 FROM ";
        let counted =
            format!("{rows} (SELECT tenant, pool, state, count(*) AS n FROM executions GROUP BY 1, 2, 3) AS a");
        let sums = format!(
            "{rows} (SELECT tenant, pool, state, sum(n)::int8 AS n FROM counts GROUP BY 1, 2, 3 HAVING sum(n) <> 0) AS a"
        );
        assert_eq!(self.number(&counted).await, self.number(&sums).await, "counts");
        let dead = "SELECT count(*) FROM executions WHERE state = 5";
        let grouped = "SELECT coalesce(sum(n), 0)::int8 FROM dead_groups";
        assert_eq!(self.number(dead).await, self.number(grouped).await, "groups");
        let lost = "SELECT count(*) FROM dead_groups WHERE NOT EXISTS (SELECT 1 FROM executions WHERE id = sample)";
        assert_eq!(self.number(lost).await, 0, "samples");
        assert_eq!(self.store.reconcile().await.unwrap(), 0);
    }
}

async fn number(pool: &Pool, sql: &str) -> i64 {
    pool.query(sql, &[]).await.unwrap()[0].get(0)
}

/// All final states for so many days; `but` differ.
fn keep_days(days: u64, but: &[(State, Option<u64>)]) -> Retention {
    let age = |state| but.iter().find(|(other, _)| *other == state).map_or(Some(days), |(_, days)| *days);
    let states = State::ALL.into_iter().filter(|state| state.is_final());
    let states = states.map(|state| Keep { state, age_ms: age(state).map(|days| days * DAY_MS as u64), count: None });
    let forever = u64::MAX;
    Retention {
        states: states.collect(),
        rollups_ms: forever,
        deliveries_ms: forever,
        skips_ms: forever,
        versions_ms: forever,
    }
}

#[tokio::test]
async fn a_day_that_is_over_is_dropped_whole() {
    let scene = Scene::new().await;
    let old = scene.fire((0..300).map(|i| scene.yesterday(i * 1_000))).await;
    let (dead, fine) = old.split_at(90);
    scene.succeed(fine, scene.yesterday(HOUR_MS)).await;
    scene.die(dead, scene.yesterday(HOUR_MS)).await;
    let new = scene.fire((0..20).map(|i| scene.today.saturating_add_ms(i))).await;
    scene.die(&new[..30], scene.today.saturating_add_ms(HOUR_MS)).await;
    scene.counters_are_right().await;

    let retention = keep_days(7, &[(State::Cancelled, Some(3))]);
    let end = scene.today.saturating_add_ms(7 * DAY_MS);
    assert_eq!(
        scene.prune(&retention, end.saturating_add_ms(-1)).await,
        old.len(),
        "row by row while the day is not over"
    );
    assert!(scene.has_yesterday("executions").await);
    let more = scene.fire((0..100).map(|i| scene.yesterday(i * 1_000 + 7))).await;
    scene.succeed(&more[100..], scene.yesterday(HOUR_MS)).await;
    scene.die(&more[..100], scene.yesterday(HOUR_MS)).await;
    let groups_before = scene.store.dead_groups(TenantId::DEFAULT, 10).await.unwrap();
    assert_eq!(groups_before.iter().map(|group| group.count).sum::<u64>(), 130);

    let pruned = scene.store.prune(&retention, end.saturating_add_ms(1), 10).await.unwrap();
    assert_eq!(pruned, Pruned { executions: more.len(), others: 0, more: true }, "all at once");
    for table in ["executions", "attempts", "responses", "progress", "logs"] {
        assert!(!scene.has_yesterday(table).await, "{table}");
    }
    assert_eq!(scene.number("SELECT count(*) FROM executions").await, new.len() as i64);
    let groups = scene.store.dead_groups(TenantId::DEFAULT, 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 30);
    assert!(groups.iter().all(|group| new.contains(&group.sample)));
    scene.counters_are_right().await;
    // What comes late for a day that is gone is kept elsewhere, and goes in its time.
    let late = scene.fire([scene.yesterday(5)]).await;
    scene.succeed(&late, end).await;
    scene.counters_are_right().await;
    assert_eq!(scene.prune(&retention, end.saturating_add_ms(1)).await, 0);
}

/// Rule 6 of versions, for executions that nobody looks at one by one.
#[tokio::test]
async fn what_ran_in_a_day_that_is_dropped_is_not_skipped() {
    let scene = Scene::new().await;
    let at = scene.yesterday(1_000);
    let paused = g::job_with(9, |d| d.schedule = Schedule::None);
    let mut write = g::create(&paused);
    if let g::Change::Create { paused, .. } = &mut write.change {
        *paused = true;
    }
    scene.store.put_jobs(vec![write]).await.unwrap();
    let filled = Fire { kind: FireKind::Backfill, ..g::fire(&paused, at) };
    let (tenant, covered) = (TenantId::DEFAULT, scene.jobs[0].id);
    let (from, to) = (scene.yesterday(0), scene.yesterday(2_000));
    let skip = Skip { tenant, job: covered, from, to, reason: Reason::MisfireCoalesced, recorded_at: to };
    let (fences, fires) = (scene.fences.clone(), vec![filled.clone()]);
    let batch = FireBatch { fences, fires, skips: vec![skip], now: scene.today, idempotency: None };
    scene.store.fire(batch).await.unwrap();
    let mut ids = scene.fire([at]).await;
    ids.push(filled.dispatch.execution);
    scene.succeed(&ids, at).await;
    let pruned =
        scene.store.prune(&keep_days(7, &[]), scene.today.saturating_add_ms(7 * DAY_MS + 1), 10).await.unwrap();
    assert_eq!(pruned, Pruned { executions: 5, others: 0, more: true }, "all at once");
    assert!(!scene.has_yesterday("executions").await);
    let skips = async |job| scene.store.list_skips(tenant, job, Some((at, at)), 10).await.unwrap();
    assert_eq!(skips(covered).await, Skips { items: vec![], pruned: vec![at] });
    assert_eq!(skips(paused.id).await, Skips { items: vec![], pruned: vec![at] }, "its pause is not over");
    assert_eq!(skips(scene.jobs[1].id).await, Skips::default(), "no skip will cover it");
}

#[tokio::test]
async fn a_day_stays_as_long_as_something_of_it_must() {
    let scene = Scene::new().await;
    let old = scene.fire((0..50).map(|i| scene.yesterday(i * 1_000))).await;
    scene.succeed(&old[..100], scene.yesterday(HOUR_MS)).await;
    scene.die(&old[100..110], scene.yesterday(HOUR_MS)).await;
    let later = |days: i64| scene.today.saturating_add_ms(days * DAY_MS + 1);
    // 90 still wait.
    assert_eq!(scene.prune(&keep_days(7, &[]), later(8)).await, 110);
    assert!(scene.has_yesterday("executions").await);
    scene.succeed(&old[110..190], later(3)).await;
    scene.die(&old[190..], later(3)).await;
    // All but the dead go; these are kept for ever.
    let but_dead = keep_days(7, &[(State::Dead, None)]);
    assert_eq!(scene.prune(&but_dead, later(10)).await, 0, "they ended late");
    assert_eq!(scene.prune(&but_dead, later(12)).await, 80);
    assert!(scene.has_yesterday("executions").await);
    scene.counters_are_right().await;
    // A cursor that has not passed them.
    let fires_from = scene.yesterday(48_000);
    let (behind, lag) = (scene.jobs[0].id, fires_from.millis());
    scene
        .pool
        .execute(
            "INSERT INTO cursors (job_id, version, next_fire_at, shard) VALUES ($1, 1, $2, 0)",
            &[&campanile_pg::Uuid::from(behind), &lag],
        )
        .await
        .unwrap();
    assert_eq!(scene.prune(&keep_days(7, &[]), later(14)).await, 8, "two of the first job stay");
    assert!(scene.has_yesterday("executions").await);
    scene.pool.execute("DELETE FROM cursors", &[]).await.unwrap();
    assert_eq!(scene.prune(&keep_days(7, &[]), later(15)).await, 2);
    assert!(!scene.has_yesterday("executions").await);
    scene.counters_are_right().await;
}

/// The list of a job's executions goes with them, and is made again with them.
#[tokio::test]
async fn what_is_fired_into_a_day_that_was_dropped_is_on_its_jobs_list() {
    let scene = Scene::new().await;
    let old = scene.fire((0..50).map(|i| scene.yesterday(i * 1_000))).await;
    scene.succeed(&old, scene.yesterday(HOUR_MS)).await;
    assert_eq!(scene.prune(&keep_days(7, &[]), scene.today.saturating_add_ms(8 * DAY_MS)).await, 200);
    for table in ["executions", "history"] {
        assert!(!scene.has_yesterday(table).await, "{table}");
    }
    // In bulk, and one for each job.
    scene.fire((0..49).map(|i| scene.yesterday(i * 1_000))).await;
    scene.fire([scene.yesterday(49_000)]).await;
    let of_job = ExecutionQuery {
        tenant: TenantId::DEFAULT,
        job: Some(scene.jobs[0].id),
        states: Vec::new(),
        from: None,
        to: None,
        filter: Filter::default(),
        before: None,
        limit: 100,
    };
    assert_eq!(scene.store.list_executions(&of_job).await.unwrap().items.len(), 50);
}

/// Sealed days refuse writes for a moment; nothing that was written is lost, and nothing is counted wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_writes_to_a_day_that_is_dropped_loses_nothing() {
    for round in 0..4 {
        let scene = Arc::new(Scene::new().await);
        let old = scene.fire((0..100).map(|i| scene.yesterday(i * 1_000))).await;
        scene.die(&old, scene.yesterday(HOUR_MS)).await;
        let now = scene.today.saturating_add_ms(7 * DAY_MS + round);
        let replayed = Arc::new(AtomicU64::new(0));
        let writer = tokio::spawn({
            let (scene, old, replayed) = (scene.clone(), old.clone(), replayed.clone());
            async move {
                for slice in old.chunks(10) {
                    let replays = slice.iter().map(|&execution| Resolve::Replay { execution, wake_at: now }).collect();
                    if let Ok(moved) = scene.store.resolve_dead(TenantId::DEFAULT, replays, now).await {
                        let done = moved.verdicts.iter().filter(|verdict| **verdict == Applied::Done).count();
                        replayed.fetch_add(done as u64, Ordering::Relaxed);
                    }
                }
            }
        });
        // A day that is looked at in vain is left alone for an hour.
        for hour in 0..5 {
            scene.prune(&keep_days(7, &[]), now.saturating_add_ms(hour * HOUR_MS)).await;
        }
        writer.await.unwrap();
        scene.prune(&keep_days(7, &[]), now.saturating_add_ms(6 * HOUR_MS)).await;
        let waiting = scene.number("SELECT count(*) FROM executions WHERE state = 1").await;
        assert_eq!(waiting as u64, replayed.load(Ordering::Relaxed));
        assert_eq!(scene.has_yesterday("executions").await, waiting > 0);
        scene.counters_are_right().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folding_and_comparing_disturb_nobody() {
    let scene = Arc::new(Scene::new().await);
    let stop = Arc::new(AtomicBool::new(false));
    let fired = Arc::new(AtomicU64::new(0));
    // Three minutes that are over, and not so long ago that nobody would fold them any more.
    let minute = scene.today.saturating_add_ms(-180_000);
    let writers: Vec<_> = (0..3)
        .map(|writer: i64| {
            let (scene, stop, fired) = (scene.clone(), stop.clone(), fired.clone());
            tokio::spawn(async move {
                for round in 0.. {
                    let at = scene.yesterday(writer * HOUR_MS + round * 10);
                    let ids = scene.fire([at, at.saturating_add_ms(1)]).await;
                    scene.succeed(&ids[..5], minute.saturating_add_ms(round % 3 * 60_000)).await;
                    scene.die(&ids[5..], minute).await;
                    fired.fetch_add(ids.len() as u64, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
        })
        .collect();
    let keep_all = keep_days(100_000, &[]);
    let stats = StatsQuery {
        tenant: TenantId::DEFAULT,
        from: scene.yesterday(0),
        to: scene.today,
        pool: None,
        target: None,
        limit: 1_000,
    };
    let mut seen = 0;
    for _ in 0..60 {
        let before = fired.load(Ordering::SeqCst);
        assert_eq!(scene.store.prune(&keep_all, scene.today, 100).await.unwrap(), Pruned::default());
        let counts = scene.store.counts(None).await.unwrap();
        let all: u64 = counts.iter().map(|count| count.executions).sum();
        assert!(all >= before, "{all} counted of {before}");
        let rollups = scene.store.stats(&stats).await.unwrap();
        let mut sum = Tally::default();
        rollups.iter().for_each(|rollup| sum.add(&rollup.tally));
        let ended = sum.succeeded + sum.dead;
        assert!(ended >= before && ended >= seen, "{ended} ended, of {before}, after {seen}");
        seen = ended;
        assert_eq!(scene.store.reconcile().await.unwrap(), 0, "what others write meanwhile is no drift");
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    let fired = fired.load(Ordering::SeqCst);
    assert!(fired > 100, "{fired}");
    scene.store.prune(&keep_all, scene.today, 100).await.unwrap();
    assert!(scene.number("SELECT count(*) FROM counts").await <= 2);
    let rows = scene.number("SELECT count(*) FROM rollups").await;
    let rollups = scene.store.stats(&stats).await.unwrap();
    assert_eq!(rows as usize, rollups.len(), "a row per rollup");
    let mut sum = Tally::default();
    rollups.iter().for_each(|rollup| sum.add(&rollup.tally));
    assert_eq!(sum.succeeded + sum.dead, fired);
    assert_eq!(sum.duration.iter().sum::<u64>(), fired);
    scene.counters_are_right().await;
}

#[tokio::test]
async fn what_has_drifted_is_told_and_corrected() {
    let scene = Scene::new().await;
    let ids = scene.fire((0..5).map(|i| scene.yesterday(i))).await;
    scene.die(&ids[..12], scene.yesterday(HOUR_MS)).await;
    scene.counters_are_right().await;
    scene.pool.execute("INSERT INTO counts VALUES (1, 'short', 1, 3), (1, 'nobody', 4, -2)", &[]).await.unwrap();
    scene
        .pool
        .execute("DELETE FROM dead_groups WHERE fingerprint = (SELECT min(fingerprint) FROM dead_groups)", &[])
        .await
        .unwrap();
    scene
        .pool
        .execute("UPDATE dead_groups SET n = n + 1 WHERE fingerprint = (SELECT max(fingerprint) FROM dead_groups)", &[])
        .await
        .unwrap();
    let lost = "INSERT INTO dead_groups VALUES (1, 7, '', '', '', 2, 0, 0, '00000000-0000-0000-0000-000000000000')";
    scene.pool.execute(lost, &[]).await.unwrap();
    let drift = scene.store.reconcile().await.unwrap();
    assert_eq!(drift, 3 + 2 + 4 + 1 + 2);
    scene.counters_are_right().await;
}
