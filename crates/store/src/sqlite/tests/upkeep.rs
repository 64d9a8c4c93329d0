//! Upkeep and lists, where the suite cannot reach: drift that nobody but a bug makes, bounds that are too large for a test,
//! what the writer knows after a rollback.

use super::*;
use campanile_model::capacity::Scope;
use campanile_model::filter::Filter;
use campanile_model::lifecycle::State;
use campanile_model::notify::{DeliveryState, EventKind, WatchKind};
use campanile_model::store::{ExecutionQuery, Keep, RecordKind};
use campanile_testkit::clock::ManualClock;
use campanile_testkit::conformance::store::lives::{self, Dice, all, pages};
use campanile_testkit::conformance::store::{Fixture, batch};
use campanile_testkit::generate as g;

/// A store as the suite sees it, and as it is.
fn open() -> (Fixture, Arc<SqliteStore>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(g::START);
    let store = SqliteStore::open(&Options::new(directory.path().join("campanile.db"))).unwrap();
    let store = Arc::new(store.with_clock(Arc::new(clock.clone())));
    (Fixture::new(store.clone(), clock, directory), store)
}

async fn write(store: &SqliteStore, sql: &'static str) {
    store.writer.run(1, move |c| Ok(c.execute_batch(sql)?)).await.unwrap();
}

#[tokio::test]
async fn drift_is_found_and_corrected_whatever_is_written_meanwhile() {
    let (fixture, store) = open();
    let jobs = lives::jobs(&fixture, 6).await;
    lives::live(&fixture, &jobs, g::at(0), 20, &Dice::new(1)).await;
    assert_eq!(store.reconcile().await.unwrap(), 0);
    write(&store, "UPDATE counts SET n = n + 3 WHERE pool = 'short' AND state = 4").await;
    write(&store, "INSERT INTO counts (tenant, pool, state, n) VALUES (1, 'nowhere', 1, 2), (7, 'short', 5, -4)").await;
    write(&store, "DELETE FROM counts WHERE pool = 'long' AND state = 5").await;
    let lost = pages(&fixture, ExecutionQuery { states: vec![State::Dead], ..all(1_000) }).await;
    let lost = lost.iter().filter(|execution| &*execution.pool == "long").count() as u64;
    assert!(lost > 0);
    let drift = store.readers.run(reconcile::find).await.unwrap();
    assert_eq!(drift.sum(), 3 + 2 + 4 + lost);
    // Between the look and the correction, life goes on.
    lives::live(&fixture, &jobs, g::at(500), 20, &Dice::new(2)).await;
    store.writer.run(1, move |c| reconcile::correct(c, &drift)).await.unwrap();
    assert_eq!(lives::counts(&fixture).await, lives::counted(&fixture).await);
    assert_eq!(store.reconcile().await.unwrap(), 0);
    write(&store, "UPDATE counts SET n = 0").await;
    assert_eq!(store.reconcile().await.unwrap(), 240);
    assert_eq!(lives::counts(&fixture).await, lives::counted(&fixture).await);
}

#[tokio::test]
async fn groups_that_drifted_or_were_lost_are_restored() {
    let (fixture, store) = open();
    let jobs = lives::jobs(&fixture, 6).await;
    lives::live(&fixture, &jobs, g::at(0), 20, &Dice::new(1)).await;
    let groups = async || {
        let mut groups = store.dead_groups(TenantId::DEFAULT, 100).await.unwrap();
        groups.sort_by_key(|group| group.fingerprint);
        groups
    };
    let before = groups().await;
    assert!(before.len() > 3);
    let lost = before[1].fingerprint as i64;
    let wrong = before[2].fingerprint as i64;
    let damage = move |c: &Connection| {
        c.execute("DELETE FROM dead_groups WHERE fingerprint = ?1", [lost])?;
        c.execute("UPDATE dead_groups SET n = n + 7 WHERE fingerprint = ?1", [wrong])?;
        Ok(c.execute("INSERT INTO dead_groups VALUES (1, 1, '', '', '', 3, 0, 0, zeroblob(16))", [])?)
    };
    store.writer.run(1, damage).await.unwrap();
    assert_eq!(store.reconcile().await.unwrap(), before[1].count + 7 + 3);
    let after = groups().await;
    assert_eq!(after.len(), before.len(), "one that nobody is in is gone");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((after.fingerprint, after.count), (before.fingerprint, before.count));
        assert_eq!((&after.target, &after.kind, &after.message), (&before.target, &before.kind, &before.message));
    }
    assert_eq!(store.reconcile().await.unwrap(), 0);
}

/// By every index, with pages that stop after any number of rows.
#[tokio::test]
async fn pages_that_stop_early_leave_nothing_out() {
    let (fixture, store) = open();
    let dice = Dice::new(3);
    let jobs = lives::jobs(&fixture, 5).await;
    lives::live(&fixture, &jobs, g::at(0), 20, &dice).await;
    let dead = pages(&fixture, ExecutionQuery { states: vec![State::Dead], ..all(1) }).await;
    let filter = |text: &str| Filter::parse(text, g::START).unwrap();
    let group = format!("fp:{:016x}", dead[0].fingerprint.unwrap());
    let queries = [
        all(3),
        ExecutionQuery { job: Some(jobs[1].id), filter: filter("attempt:>0"), ..all(2) },
        ExecutionQuery { states: vec![State::Dead], ..all(3) },
        ExecutionQuery { states: vec![State::Running], ..all(3) },
        ExecutionQuery { states: vec![State::Running, State::Pending, State::Retrying], ..all(3) },
        ExecutionQuery { filter: filter("pool:long tag:all"), from: Some(g::at(3_000)), ..all(4) },
        ExecutionQuery { filter: filter(&group), ..all(1) },
        ExecutionQuery { filter: filter("worker:nobody"), ..all(1) },
    ];
    for query in queries {
        let expected = pages(&fixture, query.clone()).await;
        for rows_max in [1, 2, 3, 7, 50] {
            let mut query = query.clone();
            let mut read = Vec::new();
            loop {
                let next = query.clone();
                let page = store.readers.run(move |c| listing::list(c, &next, rows_max)).await.unwrap();
                assert!(page.items.len() <= query.limit.min(rows_max));
                read.extend(page.items);
                query.before = page.next;
                if query.before.is_none() {
                    break;
                }
            }
            assert_eq!(read, expected, "{rows_max} rows: {query:?}");
        }
    }
}

/// What is kept is passed once per pass, not once per call.
#[tokio::test]
async fn pruning_goes_on_where_it_stopped() {
    let (fixture, store) = open();
    let jobs = lives::jobs(&fixture, 4).await;
    let fires: Vec<_> = (0..200).map(|i| g::fire(&jobs[i % 4], g::at(i as i64))).collect();
    let fences = fixture.open_all().await;
    fixture.fire(batch(fences, fires.clone())).await.unwrap();
    // Two of three stay as they are; both kinds are everywhere.
    let done =
        fires.iter().step_by(3).map(|fire| g::complete_unclaimed(g::claim(fire.dispatch.execution, 0, g::at(999))));
    fixture.complete(done.collect()).await.unwrap();
    let keep = Keep { state: State::Succeeded, age_ms: Some(0), count: None };
    let retention = Retention {
        states: vec![keep],
        rollups_ms: u64::MAX,
        deliveries_ms: u64::MAX,
        skips_ms: u64::MAX,
        versions_ms: u64::MAX,
    };
    let order = Arc::new(prune::Order { retention, now: g::at(1_000), limit: 100, rows_max: 10 });
    let mut progress = prune::Progress::default();
    let (mut calls, mut executions) = (0, 0);
    loop {
        calls += 1;
        let found = store.readers.run({
            let (order, progress) = (order.clone(), progress.clone());
            move |c| prune::find(c, &order, progress)
        });
        let found = found.await.unwrap();
        progress = found.progress.clone();
        let order = order.clone();
        let (pruned, all) = store.writer.run(1, move |c| prune::delete(c, &order, &found)).await.unwrap();
        assert!(all);
        executions += pruned.executions;
        if !pruned.more {
            break;
        }
    }
    assert_eq!((executions, calls), (67, 21), "ten rows per call, each row once");
    assert_eq!(pages(&fixture, all(500)).await.len(), 133);
}

/// The writer keeps endpoints in memory: what a rolled-back transaction wrote must not stay there.
#[tokio::test]
async fn what_was_rolled_back_is_not_known() {
    let (fixture, store) = open();
    let endpoint = Endpoint {
        id: EndpointId::new(g::START, 0, 1),
        tenant: TenantId::DEFAULT,
        url: "https://example.com".into(),
        events: vec![EventKind::Succeeded],
        job: None,
        tag: None,
        paused: false,
        created_at: g::START,
    };
    let wants = async || {
        store
            .writer
            .run(0, |c| known::ask(c, |known| known.is_wanted(TenantId::DEFAULT, EventKind::Succeeded)))
            .await
            .unwrap()
    };
    let job = fixture.job(1).await;
    assert!(!wants().await);
    let failed = {
        let (endpoint, job) = (endpoint.clone(), job.clone());
        store.writer.run(1, move |c| -> failure::Done<()> {
            records::put(c, &Row::of(&endpoint.clone().into())?, None)?;
            assert!(
                known::ask(c, |known| known.is_wanted(TenantId::DEFAULT, EventKind::Succeeded))?,
                "its own writes are seen"
            );
            watches::insert_failing(c, &[(job.id, job.tenant, g::START)])?;
            Err(Error::new(Kind::Conflict, "changed my mind").into())
        })
    };
    assert_eq!(failed.await.unwrap_err().kind(), Kind::Conflict);
    assert!(!wants().await, "it was never there");
    store.put_record(endpoint.clone().into(), None).await.unwrap();
    assert!(wants().await);
    let failing = async || {
        let job = job.id;
        store.writer.run(0, move |c| known::ask(c, |known| known.failing.contains(&job))).await.unwrap()
    };
    assert!(!failing().await);
    let (tenant, id) = (job.tenant, job.id);
    store.writer.run(1, move |c| watches::insert_failing(c, &[(id, tenant, g::START)])).await.unwrap();
    assert!(failing().await);
    // A deletion that is rolled back leaves it; an unrelated failure changes nothing.
    let deleted = store.writer.run(1, move |c| -> failure::Done<()> {
        records::delete(c, &Record::from(endpoint.clone()).key())?;
        assert!(!known::ask(c, |known| known.is_wanted(TenantId::DEFAULT, EventKind::Succeeded))?);
        Err(Error::new(Kind::Conflict, "changed my mind").into())
    });
    deleted.await.unwrap_err();
    assert!(wants().await && failing().await);
}

/// A store that is opened again knows what an earlier process wrote.
#[tokio::test]
async fn what_was_written_before_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(directory.path().join("campanile.db"));
    let store = SqliteStore::open(&options).unwrap();
    let job = g::job(1);
    store.put_jobs(vec![g::create(&job)]).await.unwrap();
    let (tenant, id) = (job.tenant, job.id);
    store.writer.run(1, move |c| watches::insert_failing(c, &[(id, tenant, g::START)])).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&options).unwrap();
    assert!(store.writer.run(0, move |c| known::ask(c, |known| known.failing.contains(&id))).await.unwrap());
}

#[test]
fn the_codes_in_upkeep_are_those_of_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    for state in DeliveryState::ALL {
        let waits = state == DeliveryState::Waiting;
        assert_eq!(holds(&connection, "outbox_waiting", state.code()), waits, "{state:?}");
        assert_eq!(holds(&connection, "outbox_ended", state.code()), !waits, "{state:?}");
    }
    assert_eq!(RecordKind::Endpoint.code(), 2, "pulse/get.sql, outbox/replay.sql, and more in PostgreSQL");
    for scope in Scope::ALL {
        assert_eq!(RecordKind::from(scope).code(), scope.code(), "capacities/lock.sql in PostgreSQL");
    }
    assert_eq!((WatchKind::Start.code(), WatchKind::Finish.code()), (0, 1), "watches/is_open.sql");
}

/// What is pruned before it is folded does not come back with the fold.
#[test]
fn the_fold_leaves_out_what_was_pruned() {
    let directory = tempfile::tempdir().unwrap();
    let connection = migrated(directory.path());
    history::append(&connection, (0..300).map(pair)).unwrap();
    history::note_pruned(&connection, pair(120).1).unwrap();
    history::note_pruned(&connection, pair(50).1).unwrap();
    Fold::open(&connection).unwrap().slice(&connection).unwrap();
    assert_eq!(newest(&connection, pair(7).0), [pair(207).1]);
    assert_eq!(newest(&connection, pair(30).0), [pair(230).1, pair(130).1]);
}
