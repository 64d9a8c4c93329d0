//! Writing and reading jobs.

use super::Fixture;
use crate::generate as g;
use campanile_model::execution::Reason;
use campanile_model::job::{Job, JobState};
use campanile_model::store::{Expected, JobKey, JobQuery, JobWrite, Put, Skip, Verdicts};
use campanile_model::{JobId, TenantId};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// Every field comes back.
pub async fn a_job_comes_back_as_it_was_written(store: Fixture) {
    let job = store.job(1).await;
    let keys = [JobKey::Id(job.id), JobKey::Name(job.name.clone()), JobKey::Name("nobody".into())];
    assert_eq!(store.get_jobs(job.tenant, &keys).await.unwrap(), [Some(job.clone()), Some(job), None]);
}

/// Extremes and odd characters too.
pub async fn any_job_comes_back_as_it_was_written(store: Fixture) {
    let mut runner = TestRunner::deterministic();
    let jobs: Vec<Job> = (0..200u64)
        .map(|n| {
            let job = g::any_job().new_tree(&mut runner).unwrap().current();
            Job { id: g::job(n).id, name: format!("{n} {}", job.name), ..job }
        })
        .collect();
    let verdicts = store.put_jobs(jobs.iter().cloned().map(g::create).collect()).await.unwrap();
    assert!(verdicts.iter().all(|verdict| *verdict == Put::Done), "{verdicts:?}");
    let keys: Vec<JobKey> = jobs.iter().map(|job| JobKey::Id(job.id)).collect();
    for (read, written) in store.get_jobs(TenantId::DEFAULT, &keys).await.unwrap().into_iter().zip(jobs) {
        assert_eq!(read, Some(written));
    }
}

/// Names are unique among live jobs of a tenant.
pub async fn a_name_is_taken_once_per_tenant(store: Fixture) {
    let job = store.job(1).await;
    let twin = Job { id: g::job(2).id, ..job.clone() };
    assert_eq!(store.put(g::create(twin.clone())).await, Put::NameTaken { id: job.id });
    assert_eq!(store.put(g::create(job.clone())).await, Put::NameTaken { id: job.id });
    let foreign = Job { tenant: TenantId(2), ..twin };
    assert_eq!(store.put(g::create(foreign.clone())).await, Put::Done);
    assert_eq!(store.get_job(job.id).await, Some(job));
    assert_eq!(store.get_job(foreign.id).await, None, "jobs of other tenants are not seen");
}

/// Deleting is a write like any other.
pub async fn a_deleted_job_frees_its_name_and_stays_readable_by_id(store: Fixture) {
    let job = store.job(1).await;
    let deleted = store.change(&job, g::at(1), |job| job.state = JobState::Deleted).await;
    let keys = [JobKey::Id(job.id), JobKey::Name(job.name.clone())];
    assert_eq!(store.get_jobs(job.tenant, &keys).await.unwrap(), [Some(deleted.clone()), None]);
    assert_eq!(store.put(g::change(&deleted, g::at(2), |job| job.state = JobState::Active)).await, Put::Gone);
    let heir = Job { id: g::job(2).id, ..job.clone() };
    assert_eq!(store.put(g::create(heir.clone())).await, Put::Done);
    assert_eq!(store.get_jobs(job.tenant, &keys).await.unwrap(), [Some(deleted), Some(heir)]);
}

/// Two editors: the second has not seen the first.
pub async fn a_stale_version_loses(store: Fixture) {
    let job = store.job(1).await;
    let second = store.change(&job, g::at(1), |job| job.timeout_ms = 1).await;
    assert_eq!(store.put(g::change(&job, g::at(2), |job| job.timeout_ms = 2)).await, Put::Stale { version: 2 });
    assert_eq!(store.get_job(job.id).await, Some(second));
}

/// Renames are judged like creations.
pub async fn a_rename_onto_a_taken_name_loses(store: Fixture) {
    let jobs = store.jobs(2).await;
    let rename = |to: &str| g::change(&jobs[0], g::at(1), |job| job.name = to.into());
    assert_eq!(store.put(rename(&jobs[1].name)).await, Put::NameTaken { id: jobs[1].id });
    assert_eq!(store.get_job(jobs[0].id).await.as_ref(), Some(&jobs[0]));
    assert_eq!(store.put(rename("new name")).await, Put::Done);
    let found = store.get_jobs(TenantId::DEFAULT, &[JobKey::Name(jobs[0].name.clone())]).await.unwrap();
    assert_eq!(found, [None]);
}

/// A change needs a row.
pub async fn a_foreign_or_missing_job_is_gone(store: Fixture) {
    let missing = g::job(9);
    assert_eq!(store.put(g::change(&missing, g::at(1), |_| ())).await, Put::Gone);
    let job = store.job(1).await;
    assert_eq!(store.put(g::change(&job, g::at(1), |job| job.tenant = TenantId(2))).await, Put::Gone);
    assert_eq!(store.get_job(job.id).await, Some(job));
}

/// One loser does not touch the others; a later item sees the earlier ones.
pub async fn items_of_a_batch_are_judged_in_order_and_alone(store: Fixture) {
    let (first, twin) = (g::job(1), Job { id: g::job(2).id, ..g::job(1) });
    let second = g::change(&first, g::at(1), |job| job.name = "moved".into());
    let writes = vec![
        g::create(first.clone()),
        g::create(twin.clone()),
        second.clone(),
        g::create(twin.clone()),
        JobWrite { expected: Expected::Version(7), ..g::create(g::job(3)) },
        g::create(g::job(4)),
    ];
    let verdicts = store.put_jobs(writes).await.unwrap();
    let taken = Put::NameTaken { id: first.id };
    assert_eq!(verdicts, [Put::Done, taken, Put::Done, Put::Done, Put::Gone, Put::Done]);
    let keys: Vec<JobKey> = [first.id, twin.id, g::job(3).id, g::job(4).id].map(JobKey::Id).into();
    let read = store.get_jobs(TenantId::DEFAULT, &keys).await.unwrap();
    assert_eq!(read, [Some(second.job), Some(twin), None, Some(g::job(4))]);
}

/// What a change of schedule passes over is recorded, if and only if the change happens.
pub async fn skips_are_recorded_with_the_write(store: Fixture) {
    let job = store.job(1).await;
    let skip = |from: i64, to: i64| Skip {
        tenant: job.tenant,
        job: job.id,
        from: g::at(from),
        to: g::at(to),
        reason: Reason::Paused,
        recorded_at: g::at(9),
    };
    let with = |expected, skip| JobWrite { skip: Some(skip), expected, ..g::change(&job, g::at(5), |_| ()) };
    assert_eq!(store.put(with(Expected::Version(9), skip(0, 1))).await, Put::Stale { version: 1 });
    assert_eq!(store.put(with(Expected::Version(1), skip(2, 3))).await, Put::Done);
    let third = JobWrite { skip: Some(skip(4, 5)), ..g::change(&Job { version: 2, ..job.clone() }, g::at(6), |_| ()) };
    assert_eq!(store.put(third).await, Put::Done);
    assert_eq!(store.list_skips(job.tenant, job.id, None, 10).await.unwrap(), [skip(4, 5), skip(2, 3)]);
    assert_eq!(store.list_skips(job.tenant, job.id, None, 1).await.unwrap(), [skip(4, 5)]);
    assert_eq!(store.list_skips(TenantId(2), job.id, None, 10).await.unwrap(), []);
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
    assert_eq!(store.put(g::create(jobs[0].clone())).await, Put::NameTaken { id: jobs[0].id });
    let paused = store.change(&jobs[0], g::at(1), |job| job.state = JobState::Paused).await;
    assert_eq!(store.status().await.unwrap().jobs, 3);
    store.change(&paused, g::at(2), |job| job.state = JobState::Deleted).await;
    store.mark_zone_database("zones of today").await.unwrap();
    let status = store.status().await.unwrap();
    assert_eq!((status.jobs, status.zone_database.as_str()), (2, "zones of today"));
    assert!(status.schema > 0 && status.bytes > 0 && !status.kind.is_empty() && !status.location.is_empty());
}
