//! Writing and reading jobs.

use super::Fixture;
use crate::generate as g;
use campanile_model::execution::Reason;
use campanile_model::job::{Definition, Job};
use campanile_model::store::{JobKey, JobQuery, JobWrite, Put, Skip, Verdicts};
use campanile_model::{JobId, TenantId};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// Every field comes back.
pub async fn a_job_comes_back_as_it_was_written(store: Fixture) {
    let job = store.job(1).await;
    let keys = [JobKey::Id(job.id), JobKey::Name(job.name().to_owned()), JobKey::Name("nobody".into())];
    assert_eq!(store.get_jobs(job.tenant, &keys).await.unwrap(), [Some(job.clone()), Some(job), None]);
}

/// Extremes and odd characters too.
pub async fn any_job_comes_back_as_it_was_written(store: Fixture) {
    let mut runner = TestRunner::deterministic();
    let jobs: Vec<Job> = (0..200u64)
        .map(|n| {
            let mut job = g::any_job().new_tree(&mut runner).unwrap().current();
            let definition = Definition { name: format!("{n} {}", job.name()), ..(*job.definition).clone() };
            (job.id, job.definition) = (g::job(n).id, definition.into());
            job
        })
        .collect();
    // Half of them in bulk, which a store may write in another way, and half in pieces.
    let (bulk, pieces) = jobs.split_at(100);
    let mut verdicts = store.put_jobs(bulk.iter().map(g::create).collect()).await.unwrap();
    for piece in pieces.chunks(25) {
        verdicts.extend(store.put_jobs(piece.iter().map(g::create).collect()).await.unwrap());
    }
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Put::Done(_))), "{verdicts:?}");
    let keys: Vec<JobKey> = jobs.iter().map(|job| JobKey::Id(job.id)).collect();
    let read = store.get_jobs(TenantId::DEFAULT, &keys).await.unwrap();
    for ((read, written), verdict) in read.into_iter().zip(jobs).zip(verdicts) {
        // The spread and the fires left follow from the id.
        let written = Job { cursor: read.as_ref().map_or(written.cursor, |read| read.cursor), ..written };
        assert_eq!(read.as_ref(), Some(&written));
        assert_eq!(verdict, Put::Done(Box::new(read.unwrap())), "what is answered is what is there");
    }
}

/// Names are unique among live jobs of a tenant.
pub async fn a_name_is_taken_once_per_tenant(store: Fixture) {
    let job = store.job(1).await;
    let twin = Job { id: g::job(2).id, ..job.clone() };
    assert_eq!(store.put(g::create(&twin)).await, Put::NameTaken { id: job.id });
    assert_eq!(store.put(g::create(&job)).await, Put::NameTaken { id: job.id });
    let foreign = store.create(&g::of_tenant(twin, TenantId(2))).await;
    assert_eq!(store.get_job(job.id).await, Some(job));
    assert_eq!(store.get_job(foreign.id).await, None, "jobs of other tenants are not seen");
}

/// A store may write many new jobs before it looks who is in their way; each is judged alone all the same.
pub async fn in_bulk_each_new_job_is_judged_alone(store: Fixture) {
    let named = store.job(1).await;
    let deleted = store.job(2).await;
    store.change(&deleted, g::at(1), g::Change::Delete).await;
    let mut jobs: Vec<Job> = (1_000..1_200).map(g::job).collect();
    // One has a name that is taken, one an id, one the name of a neighbour.
    jobs[50] = Job { id: jobs[50].id, ..named.clone() };
    jobs[100].id = deleted.id;
    jobs[150] = Job { id: jobs[150].id, ..jobs[149].clone() };
    let verdicts = store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    for (n, (verdict, job)) in verdicts.iter().zip(&jobs).enumerate() {
        match n {
            50 => assert_eq!(*verdict, Put::NameTaken { id: named.id }),
            100 => assert_eq!(*verdict, Put::Stale { version: 2 }),
            150 => assert_eq!(*verdict, Put::NameTaken { id: jobs[149].id }),
            _ => assert!(matches!(verdict, Put::Done(done) if done.id == job.id), "{n}: {verdict:?}"),
        }
    }
    assert_eq!(store.get_job(jobs[199].id).await.map(|job| job.id), Some(jobs[199].id));
    assert_eq!(store.status().await.unwrap().jobs, 1 + 197);
}

/// Deleting is a write like any other.
pub async fn a_deleted_job_frees_its_name_and_stays_readable_by_id(store: Fixture) {
    let job = store.job(1).await;
    let deleted = store.change(&job, g::at(1), g::Change::Delete).await;
    let keys = [JobKey::Id(job.id), JobKey::Name(job.name().to_owned())];
    assert_eq!(store.get_jobs(job.tenant, &keys).await.unwrap(), [Some(deleted.clone()), None]);
    assert_eq!(store.put(g::change(&deleted, g::Change::Resume)).await, Put::Gone);
    let heir = store.create(&Job { id: g::job(2).id, ..job.clone() }).await;
    assert_eq!(store.get_jobs(job.tenant, &keys).await.unwrap(), [Some(deleted), Some(heir)]);
}

/// Two editors: the second has not seen the first.
pub async fn a_stale_version_loses(store: Fixture) {
    let job = store.job(1).await;
    let second = store.change(&job, g::at(1), g::define(&job, |d| d.timeout_ms = 1)).await;
    let other = g::define(&job, |d| d.timeout_ms = 2);
    assert_eq!(store.put(g::change(&job, other.clone())).await, Put::Stale { version: 2 });
    assert_eq!(store.get_job(job.id).await, Some(second));
    let third = store.done(JobWrite { expected: None, ..g::change(&job, other) }).await;
    assert_eq!((third.version, third.definition.timeout_ms), (3, 2), "who does not care which version it is in");
}

/// Renames are judged like creations.
pub async fn a_rename_onto_a_taken_name_loses(store: Fixture) {
    let jobs = store.jobs(2).await;
    let rename = |to: &str| g::change(&jobs[0], g::define(&jobs[0], |d| d.name = to.into()));
    assert_eq!(store.put(rename(jobs[1].name())).await, Put::NameTaken { id: jobs[1].id });
    assert_eq!(store.get_job(jobs[0].id).await.as_ref(), Some(&jobs[0]));
    store.done(rename("new name")).await;
    let found = store.get_jobs(TenantId::DEFAULT, &[JobKey::Name(jobs[0].name().to_owned())]).await.unwrap();
    assert_eq!(found, [None]);
}

/// A change needs a row.
pub async fn a_foreign_or_missing_job_is_gone(store: Fixture) {
    let missing = g::job(9);
    assert_eq!(store.put(g::change(&missing, g::Change::Resume)).await, Put::Gone);
    let job = store.job(1).await;
    let foreign = g::of_tenant(job.clone(), TenantId(2));
    assert_eq!(store.put(g::change(&foreign, g::Change::Resume)).await, Put::Gone);
    assert_eq!(store.get_job(job.id).await, Some(job));
}

/// One loser does not touch the others; a later item sees the earlier ones.
pub async fn items_of_a_batch_are_judged_in_order_and_alone(store: Fixture) {
    let (first, twin) = (g::job(1), Job { id: g::job(2).id, ..g::job(1) });
    let moves = g::define(&first, |d| d.name = "moved".into());
    let moved = g::changed(&first, &moves, g::START);
    let writes = vec![
        g::create(&first),
        g::create(&twin),
        g::change(&first, moves),
        g::create(&twin),
        g::change(&g::job(3), g::Change::Resume),
        g::create(&g::job(4)),
    ];
    let verdicts = store.put_jobs(writes).await.unwrap();
    let (done, taken) = (|job: &Job| Put::Done(Box::new(job.clone())), Put::NameTaken { id: first.id });
    assert_eq!(verdicts, [done(&first), taken, done(&moved), done(&twin), Put::Gone, done(&g::job(4))]);
    let keys: Vec<JobKey> = [first.id, twin.id, g::job(3).id, g::job(4).id].map(JobKey::Id).into();
    let read = store.get_jobs(TenantId::DEFAULT, &keys).await.unwrap();
    assert_eq!(read, [Some(moved), Some(twin), None, Some(g::job(4))]);
    let versions = store.list_versions(TenantId::DEFAULT, first.id, None, 10).await.unwrap().items;
    assert_eq!(versions.iter().map(|version| version.job.version).collect::<Vec<_>>(), [2, 1], "both are kept");
}

/// What a pause passes over is recorded with the change that ends it, if and only if that happens.
pub async fn skips_are_recorded_with_the_change(store: Fixture) {
    let job = store.job(1).await;
    let paused = store.change(&job, g::at(30_000), g::Change::Pause(None)).await;
    store.clock.set(g::at(400_000));
    let stale = JobWrite { expected: Some(9), ..g::change(&paused, g::Change::Resume) };
    assert_eq!(store.put(stale).await, Put::Stale { version: 2 });
    assert_eq!(store.list_skips(job.tenant, job.id, None, 10).await.unwrap().items, []);
    let again = store.change(&paused, g::at(400_000), g::Change::Pause(None)).await;
    store.change(&again, g::at(500_000), g::Change::Resume).await;
    let skip = |from: i64, to: i64| Skip {
        tenant: job.tenant,
        job: job.id,
        from: g::at(from),
        to: g::at(to),
        reason: Reason::Paused,
        recorded_at: g::at(to),
    };
    let both = [skip(400_001, 500_000), skip(30_001, 400_000)];
    assert_eq!(store.list_skips(job.tenant, job.id, None, 10).await.unwrap().items, both);
    assert_eq!(store.list_skips(job.tenant, job.id, None, 1).await.unwrap().items, both[..1]);
    assert_eq!(store.list_skips(TenantId(2), job.id, None, 10).await.unwrap().items, []);
}

/// Nothing in, nothing out.
pub async fn an_empty_batch_is_nothing(store: Fixture) {
    assert_eq!(store.put_jobs(Vec::new()).await.unwrap(), []);
    assert_eq!(store.get_jobs(TenantId::DEFAULT, &[]).await.unwrap(), []);
    assert_eq!(store.claim(Vec::new()).await.unwrap().verdicts, []);
    assert_eq!(store.complete(Vec::new()).await.unwrap(), Verdicts::default());
    assert!(store.list_jobs(&JobQuery { limit: 10, ..JobQuery::default() }).await.unwrap().items.is_empty());
    assert_eq!(store.get_job(JobId::from_bytes([0; 16])).await, None);
}

/// The count follows every write.
pub async fn status_counts_live_jobs(store: Fixture) {
    let jobs = store.jobs(3).await;
    assert_eq!(store.put(g::create(&jobs[0])).await, Put::NameTaken { id: jobs[0].id });
    let paused = store.change(&jobs[0], g::at(1), g::Change::Pause(None)).await;
    assert_eq!(store.status().await.unwrap().jobs, 3);
    store.change(&paused, g::at(2), g::Change::Delete).await;
    let status = store.status().await.unwrap();
    assert_eq!(status.jobs, 2);
    assert!(status.schema > 0 && status.bytes > 0 && !status.kind.is_empty() && !status.location.is_empty());
}
