//! Writes of jobs on a real PostgreSQL: the same verdicts as of the embedded store, whatever the batch; many writers
//! on many nodes.

mod schema;

use campanile_model::ids::TenantId;
use campanile_model::job::Job;
use campanile_model::job::version::Change;
use campanile_model::store::{
    Answer, CallerKey, ChangeSeq, JobKey, JobQuery, JobVersion, JobWrite, Jobs, Path, Put, Reads, Skip, Store,
};
use campanile_model::time::Clock;
use campanile_store::postgres::PostgresStore;
use campanile_store::sqlite::{self, SqliteStore};
use campanile_testkit::clock::ManualClock;
use campanile_testkit::generate as g;
use schema::Schema;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

async fn open(schema: &Schema) -> PostgresStore {
    PostgresStore::open(&schema.options()).await.expect("the store opens")
}

/// Small numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The numbers of all jobs that `any_write` writes.
const JOBS: std::ops::Range<u64> = 0..150;

/// A write of one of few jobs, names, versions and keys, so that most of them meet others.
fn any_write(dice: &mut Dice, round: u64) -> JobWrite {
    // Others after a while: those that are deleted stay so.
    let first = round / 4 * 3;
    let tenant = TenantId(1 + (dice.roll(8) == 0) as u32);
    let job = g::job_with(first + dice.roll(6), |d| {
        (d.name, d.timeout_ms) = (format!("name-{}", first / 9 + dice.roll(5)), dice.roll(1_000));
        d.window.max_fires = (dice.roll(4) == 0).then_some(20);
    });
    let write = g::create(&g::of_tenant(job, tenant));
    let Change::Create { resolved, .. } = &write.change else { unreachable!() };
    let change = match dice.roll(8) {
        0..3 => write.change,
        3 | 4 => Change::Define(resolved.clone()),
        5 => Change::Pause((dice.roll(2) == 0).then(|| g::at((round + dice.roll(9)) as i64 * ROUND_MS))),
        6 => Change::Resume,
        _ => Change::Delete,
    };
    let expected = (dice.roll(2) == 0).then(|| 1 + dice.roll(3) as u32);
    let key = CallerKey {
        scope: "jobs".into(),
        text: format!("key-{}", dice.roll(8)),
        fingerprint: u128::from(dice.roll(2)),
    };
    let answer = Answer { status: 201, body: format!("{round}") };
    let write = JobWrite { change, expected, ..write };
    if dice.roll(4) == 0 { g::with_key(write, key, answer) } else { write }
}

/// Time between two batches: some fires lie in it, and keys expire after some dozens.
const ROUND_MS: i64 = 3_600_000;

/// All that writes of jobs leave behind.
async fn left(store: &dyn Store) -> (Vec<Option<Job>>, Vec<Vec<Job>>, Vec<Vec<Skip>>, Vec<JobVersion>, u64, ChangeSeq) {
    let keys: Vec<JobKey> = JOBS.map(|n| JobKey::Id(g::job(n).id)).collect();
    let (mut jobs, mut lists, mut skips, mut versions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for tenant in [TenantId(1), TenantId(2)] {
        jobs.extend(store.get_jobs(tenant, &keys).await.unwrap());
        let query = JobQuery { tenant: Some(tenant), limit: 1_000, ..JobQuery::default() };
        lists.push(store.list_jobs(&query).await.unwrap().items);
        for n in JOBS {
            skips.push(store.list_skips(tenant, g::job(n).id, None, 1_000).await.unwrap().items);
            versions.extend(store.list_versions(tenant, g::job(n).id, None, 1_000).await.unwrap().items);
        }
    }
    let changes = store.load_changed(ChangeSeq(0), 1_000).await.unwrap();
    let newest = changes.jobs.iter().filter(|job| job.ended_at.is_none());
    let ids: Vec<_> = newest.map(|job| (job.id, job.version)).collect();
    let stored: HashMap<_, _> = jobs.iter().flatten().map(|job| (job.id, job.version)).collect();
    assert!(ids.iter().all(|(id, version)| stored[id] == *version), "{ids:?}");
    (jobs, lists, skips, versions, store.status().await.unwrap().jobs, changes.upto)
}

#[tokio::test]
async fn any_batch_gets_the_verdicts_of_the_embedded_store() {
    let (schema, directory) = (Schema::new(), tempfile::tempdir().unwrap());
    let clock = ManualClock::new(g::START);
    let given: Arc<dyn Clock> = Arc::new(clock.clone());
    let postgres = PostgresStore::open_with_clock(&schema.options(), Some(given.clone())).await.unwrap();
    let embedded = SqliteStore::open(&sqlite::Options::new(directory.path().join("campanile.db"))).unwrap();
    let embedded = embedded.with_clock(given);
    let mut dice = Dice(7);
    let mut kinds: HashMap<std::mem::Discriminant<Put>, usize> = HashMap::new();
    for round in 0..150 {
        let size = 1 + dice.roll(12);
        let batch: Vec<JobWrite> = (0..size).map(|_| any_write(&mut dice, round)).collect();
        clock.set(g::at(round as i64 * ROUND_MS));
        let verdicts = postgres.put_jobs(batch.clone()).await.unwrap();
        assert_eq!(verdicts, embedded.put_jobs(batch.clone()).await.unwrap(), "round {round}: {batch:#?}");
        verdicts.iter().for_each(|verdict| *kinds.entry(std::mem::discriminant(verdict)).or_default() += 1);
        if round % 15 == 14 {
            assert_eq!(left(&postgres).await, left(&embedded).await, "round {round}: {batch:#?}");
        }
    }
    assert_eq!(kinds.len(), 6, "every verdict was met: {kinds:?}");
}

#[tokio::test]
async fn names_are_passed_on_within_a_batch() {
    let schema = Schema::new();
    let store = open(&schema).await;
    let (a, b) = (g::job_with(1, |d| d.name = "a".into()), g::job_with(2, |d| d.name = "b".into()));
    let put = async |writes: Vec<JobWrite>| -> Vec<Job> {
        let verdicts = store.put_jobs(writes).await.unwrap();
        let written = |verdict| match verdict {
            Put::Done(job) => *job,
            other => panic!("{other:?}"),
        };
        verdicts.into_iter().map(written).collect()
    };
    let named =
        |name: &str| Change::Define(g::resolved((*g::job_with(1, |d| d.name = name.into()).definition).clone(), ""));
    let there = put(vec![g::create(&a), g::create(&b)]).await;
    // Two swap their names, by way of a third one.
    let any = |job: &Job, change| JobWrite { expected: None, ..g::change(job, change) };
    let (a, b) = (&there[0], &there[1]);
    let swapped = put(vec![any(a, named("aside")), any(b, named("a")), any(a, named("b"))]).await;
    // One is deleted, and its heir has the name at once.
    let heir = g::job_with(3, |d| d.name = "b".into());
    let last = put(vec![any(a, Change::Delete), g::create(&heir)]).await;
    let keys = [JobKey::Name("a".into()), JobKey::Name("b".into()), JobKey::Name("aside".into()), JobKey::Id(a.id)];
    let read = store.get_jobs(TenantId::DEFAULT, &keys).await.unwrap();
    assert_eq!(read, [Some(swapped[1].clone()), Some(last[1].clone()), None, Some(last[0].clone())]);
    let versions = store.list_versions(TenantId::DEFAULT, a.id, None, 10).await.unwrap().items;
    assert_eq!(versions.iter().map(|v| v.job.name()).collect::<Vec<_>>(), ["b", "b", "aside", "a"]);
}

#[tokio::test]
async fn one_bad_write_does_not_fail_the_others() {
    let schema = Schema::new();
    let store = Arc::new(open(&schema).await);
    // No index holds such a name; the API would not let it through.
    let noise: String = (0..20_000u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let writing: Vec<_> = (0..40u64)
        .map(|n| {
            let (store, noise) = (store.clone(), noise.clone());
            let name = if n == 20 { noise } else { format!("job {n}") };
            tokio::spawn(async move { store.put_jobs(vec![g::create(&g::job_with(n, |d| d.name = name))]).await })
        })
        .collect();
    for (n, written) in writing.into_iter().enumerate() {
        match written.await.unwrap() {
            Ok(verdicts) => assert!(n != 20 && matches!(verdicts[..], [Put::Done(_)]), "{n}: {verdicts:?}"),
            Err(error) => assert_eq!(n, 20, "{error}"),
        }
    }
    assert_eq!(store.status().await.unwrap().jobs, 39);
}

#[tokio::test]
async fn every_caller_gets_its_own_verdicts() {
    let schema = Schema::new();
    let store = Arc::new(open(&schema).await);
    let taken: Vec<_> = store.put_jobs((0..50).map(|n| g::create(&g::job(n))).collect()).await.unwrap();
    assert!(taken.iter().all(|verdict| matches!(verdict, Put::Done(_))));
    let writing: Vec<_> = (0..50u64)
        .map(|n| {
            let store = store.clone();
            // One that is new and one whose name is taken, n of each.
            let named = move |i: u64| g::job_with(1_000 + n * 100 + i, |d| d.name = format!("{n}/{i}"));
            let new = (0..n).map(move |i| g::create(&named(i)));
            let old = (0..n).map(move |i| g::create(&Job { id: g::job(100_000 + n * 100 + i).id, ..g::job(n) }));
            let writes: Vec<_> = new.zip(old).flat_map(|(new, old)| [new, old]).collect();
            (n, tokio::spawn(async move { store.put_jobs(writes).await }))
        })
        .collect();
    for (n, written) in writing {
        let verdicts = written.await.unwrap().unwrap();
        assert_eq!(verdicts.len(), 2 * n as usize);
        for (i, pair) in verdicts.as_chunks::<2>().0.iter().enumerate() {
            assert!(matches!(&pair[0], Put::Done(job) if job.name() == format!("{n}/{i}")), "{n}: {pair:?}");
            assert_eq!(pair[1], Put::NameTaken { id: g::job(n).id });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_changes_by_number_misses_none() {
    let schema = Schema::new();
    let (first, second) = (Arc::new(open(&schema).await), Arc::new(open(&schema).await));
    let count = 600u64;
    let writing: Vec<_> = (0..8u64)
        .map(|writer| {
            let store = if writer % 2 == 0 { first.clone() } else { second.clone() };
            tokio::spawn(async move {
                for n in (0..count).filter(|n| n % 8 == writer) {
                    let verdicts = store.put_jobs(vec![g::create(&g::job(n))]).await.unwrap();
                    assert!(matches!(verdicts[..], [Put::Done(_)]));
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    let mut upto = ChangeSeq(0);
    while (seen.len() as u64) < count {
        let changes = second.load_changed(upto, 50).await.unwrap();
        assert!(changes.upto >= upto);
        upto = changes.upto;
        seen.extend(changes.jobs.into_iter().map(|job| job.id));
        if writing.iter().all(|writer| writer.is_finished())
            && second.load_changed(upto, 1).await.unwrap().jobs.is_empty()
        {
            break;
        }
    }
    for writer in writing {
        writer.await.unwrap();
    }
    let unique: std::collections::HashSet<_> = seen.iter().collect();
    assert_eq!((seen.len() as u64, unique.len() as u64), (count, count));
}

#[tokio::test]
async fn another_node_hears_of_written_jobs() {
    let schema = Schema::new();
    let (one, other) = (open(&schema).await, open(&schema).await);
    let mut n = 0;
    // A bell rings once when its listener is connected; and may be missed, so it is rung until it is heard twice.
    let heard = async {
        other.wait_for_remote_change().await;
        other.wait_for_remote_change().await;
    };
    let ringing = async {
        loop {
            n += 1;
            one.put_jobs(vec![g::create(&g::job(n))]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = heard => {}
        () = ringing => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("nobody rang"),
    }
}
