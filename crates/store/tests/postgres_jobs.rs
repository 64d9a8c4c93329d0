//! Writes of jobs on a real PostgreSQL: the same verdicts as of the embedded store, whatever the batch; many writers
//! on many nodes.

mod schema;

use campanile_model::execution::Reason;
use campanile_model::ids::TenantId;
use campanile_model::job::{Job, JobState};
use campanile_model::store::{
    Answer, ChangeSeq, Expected, Idempotency, JobKey, JobQuery, JobWrite, Jobs, Path, Put, Reads, Skip, Store,
};
use campanile_store::postgres::PostgresStore;
use campanile_store::sqlite::{self, SqliteStore};
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
fn any_write(dice: &mut Dice, now: i64) -> JobWrite {
    // Others after a while: those that are deleted stay so.
    let first = now as u64 / 8 * 3;
    let tenant = TenantId(1 + (dice.roll(8) == 0) as u32);
    let version = 1 + dice.roll(3) as u32;
    let state = [JobState::Active, JobState::Active, JobState::Paused, JobState::Deleted][dice.roll(4) as usize];
    let job = Job {
        tenant,
        name: format!("name-{}", first / 9 + dice.roll(5)),
        version,
        state,
        updated_at: g::at(now),
        timeout_ms: dice.roll(1_000),
        ..g::job(first + dice.roll(6))
    };
    let expected =
        if dice.roll(2) == 0 { Expected::Absent } else { Expected::Version(version - 1 + dice.roll(2) as u32) };
    let skip = (dice.roll(3) == 0).then(|| Skip {
        tenant,
        job: job.id,
        from: g::at(0),
        to: g::at(dice.roll(3) as i64),
        reason: Reason::Paused,
        recorded_at: g::at(now),
    });
    let idempotency = (dice.roll(4) == 0).then(|| Idempotency {
        scope: "jobs".into(),
        key: format!("key-{}", dice.roll(8)),
        fingerprint: u128::from(dice.roll(2)),
        answer: Answer { status: 201, body: format!("{now}") },
        // Some expire within their own batch.
        expires_at: g::at(now + dice.roll(9) as i64 - 1),
    });
    JobWrite { job, expected, skip, idempotency }
}

/// All that writes of jobs leave behind.
async fn left(store: &dyn Store) -> (Vec<Option<Job>>, Vec<Vec<Job>>, Vec<Vec<Skip>>, u64, ChangeSeq) {
    let keys: Vec<JobKey> = JOBS.map(|n| JobKey::Id(g::job(n).id)).collect();
    let (mut jobs, mut lists, mut skips) = (Vec::new(), Vec::new(), Vec::new());
    for tenant in [TenantId(1), TenantId(2)] {
        jobs.extend(store.get_jobs(tenant, &keys).await.unwrap());
        let query = JobQuery { tenant: Some(tenant), limit: 1_000, ..JobQuery::default() };
        lists.push(store.list_jobs(&query).await.unwrap().items);
        for n in JOBS {
            skips.push(store.list_skips(tenant, g::job(n).id, None, 1_000).await.unwrap());
        }
    }
    let changes = store.load_changed(ChangeSeq(0), 1_000).await.unwrap();
    let ids: Vec<_> = changes.jobs.iter().map(|job| (job.id, job.version)).collect();
    let stored: HashMap<_, _> = jobs.iter().flatten().map(|job| (job.id, job.version)).collect();
    assert!(ids.iter().all(|(id, version)| stored[id] == *version), "{ids:?}");
    (jobs, lists, skips, store.status().await.unwrap().jobs, changes.upto)
}

#[tokio::test]
async fn any_batch_gets_the_verdicts_of_the_embedded_store() {
    let (schema, directory) = (Schema::new(), tempfile::tempdir().unwrap());
    let postgres = open(&schema).await;
    let embedded = SqliteStore::open(&sqlite::Options::new(directory.path().join("campanile.db"))).unwrap();
    let mut dice = Dice(7);
    let mut kinds: HashMap<std::mem::Discriminant<Put>, usize> = HashMap::new();
    for round in 0..150 {
        let size = 1 + dice.roll(12);
        let batch: Vec<JobWrite> = (0..size).map(|n| any_write(&mut dice, round * 2 + (n > size / 2) as i64)).collect();
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
    let (a, b) = (Job { name: "a".into(), ..g::job(1) }, Job { name: "b".into(), ..g::job(2) });
    assert_eq!(store.put_jobs(vec![g::create(a.clone()), g::create(b.clone())]).await.unwrap(), [Put::Done, Put::Done]);
    // Two swap their names, by way of a third one.
    let aside = g::change(&a, g::at(1), |job| job.name = "aside".into());
    let b = g::change(&b, g::at(1), |job| job.name = "a".into());
    let a = g::change(&aside.job, g::at(1), |job| job.name = "b".into());
    assert_eq!(store.put_jobs(vec![aside, b.clone(), a.clone()]).await.unwrap(), vec![Put::Done; 3]);
    // One is deleted, and its heir has the name at once.
    let deleted = g::change(&a.job, g::at(2), |job| job.state = JobState::Deleted);
    let heir = Job { name: "b".into(), ..g::job(3) };
    assert_eq!(store.put_jobs(vec![deleted.clone(), g::create(heir.clone())]).await.unwrap(), vec![Put::Done; 2]);
    let keys = [JobKey::Name("a".into()), JobKey::Name("b".into()), JobKey::Name("aside".into()), JobKey::Id(a.job.id)];
    let read = store.get_jobs(TenantId::DEFAULT, &keys).await.unwrap();
    assert_eq!(read, [Some(b.job), Some(heir), None, Some(deleted.job)]);
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
            tokio::spawn(async move { store.put_jobs(vec![g::create(Job { name, ..g::job(n) })]).await })
        })
        .collect();
    for (n, written) in writing.into_iter().enumerate() {
        match written.await.unwrap() {
            Ok(verdicts) => assert!(n != 20 && verdicts == [Put::Done], "{n}: {verdicts:?}"),
            Err(error) => assert_eq!(n, 20, "{error}"),
        }
    }
    assert_eq!(store.status().await.unwrap().jobs, 39);
}

#[tokio::test]
async fn every_caller_gets_its_own_verdicts() {
    let schema = Schema::new();
    let store = Arc::new(open(&schema).await);
    let taken: Vec<_> = store.put_jobs((0..50).map(|n| g::create(g::job(n))).collect()).await.unwrap();
    assert!(taken.iter().all(|verdict| *verdict == Put::Done));
    let writing: Vec<_> = (0..50u64)
        .map(|n| {
            let store = store.clone();
            // One that is new and one whose name is taken, n of each.
            let new = (0..n).map(move |i| g::create(Job { name: format!("{n}/{i}"), ..g::job(1_000 + n * 100 + i) }));
            let old = (0..n).map(move |i| g::create(Job { id: g::job(100_000 + n * 100 + i).id, ..g::job(n) }));
            let writes: Vec<_> = new.zip(old).flat_map(|(new, old)| [new, old]).collect();
            (n, tokio::spawn(async move { store.put_jobs(writes).await }))
        })
        .collect();
    for (n, written) in writing {
        let expected = [Put::Done, Put::NameTaken { id: g::job(n).id }];
        assert_eq!(written.await.unwrap().unwrap(), vec![expected; n as usize].concat(), "{n}");
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
                    assert_eq!(store.put_jobs(vec![g::create(g::job(n))]).await.unwrap(), [Put::Done]);
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
            one.put_jobs(vec![g::create(g::job(n))]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = heard => {}
        () = ringing => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("nobody rang"),
    }
}
