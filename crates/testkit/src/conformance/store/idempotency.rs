//! Callers' keys: the same request gets the same answer, and does nothing twice.

use super::prune::retention;
use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::job::Job;
use campanile_model::store::{
    Answer, CancelBatch, CancelVerdict, FireBatch, FireVerdict, Fired, Idempotency, JobQuery, JobWrite, Pruned, Put,
    Verdicts,
};
use campanile_model::{TenantId, Timestamp};
use std::sync::Arc;

fn answer(body: &str) -> Answer {
    Answer { status: 201, body: body.into() }
}

fn key(key: &str, fingerprint: u128, body: &str) -> Idempotency {
    Idempotency {
        scope: "POST /v1/jobs".into(),
        key: key.into(),
        fingerprint,
        answer: answer(body),
        expires_at: g::at(1_000),
    }
}

fn create(n: u64, with: Idempotency) -> JobWrite {
    g::with_key(g::create(g::job(n)), with)
}

async fn count(store: &Fixture) -> usize {
    store.list_jobs(&JobQuery { limit: 100, ..JobQuery::default() }).await.unwrap().items.len()
}

/// The first answer, although the second try would make another job.
pub async fn the_same_request_gets_the_same_answer(store: Fixture) {
    assert_eq!(store.put(create(1, key("k", u128::MAX, "first"))).await, Put::Done);
    for n in [1, 2] {
        assert_eq!(store.put(create(n, key("k", u128::MAX, "second"))).await, Put::Replayed(answer("first")));
    }
    assert_eq!(count(&store).await, 1);
}

/// A key stands for one request.
pub async fn another_request_under_the_key_is_refused(store: Fixture) {
    store.put(create(1, key("k", 7, "first"))).await;
    assert_eq!(store.put(create(2, key("k", 8, "second"))).await, Put::KeyReused);
    assert_eq!(count(&store).await, 1);
}

/// Only what happened is remembered.
pub async fn a_refused_write_remembers_nothing(store: Fixture) {
    let job = store.job(1).await;
    assert_eq!(store.put(create(1, key("k", 7, "x"))).await, Put::NameTaken { id: job.id });
    assert_eq!(store.put(create(2, key("k", 8, "y"))).await, Put::Done);
}

/// The namespace of a key.
pub async fn keys_of_tenants_and_scopes_are_separate(store: Fixture) {
    store.put(create(1, key("k", 7, "first"))).await;
    let elsewhere = Idempotency { scope: "PUT /v1/jobs".into(), ..key("k", 8, "second") };
    assert_eq!(store.put(create(2, elsewhere)).await, Put::Done);
    let foreign = Job { tenant: TenantId(2), ..g::job(3) };
    assert_eq!(store.put(g::with_key(g::create(foreign), key("k", 9, "third"))).await, Put::Done);
}

/// Expiry is judged by the instant of the write.
pub async fn an_expired_key_is_free(store: Fixture) {
    store.put(create(1, key("k", 7, "first"))).await;
    let at = |n, ms| {
        let job = Job { updated_at: g::at(ms), ..g::job(n) };
        g::with_key(g::create(job), Idempotency { expires_at: g::at(5_000), ..key("k", 8, "second") })
    };
    assert_eq!(store.put(at(2, 999)).await, Put::KeyReused);
    assert_eq!(store.put(at(2, 1_000)).await, Put::Done);
    assert_eq!(store.put(at(3, 1_001)).await, Put::Replayed(answer("second")));
}

/// In slices, and only those that expired.
pub async fn forgotten_keys_are_free_and_counted(store: Fixture) {
    for n in 1..=5 {
        let expires_at = if n == 5 { Timestamp::LATEST } else { g::at(1_000) };
        store.put(create(n, Idempotency { expires_at, ..key(&format!("k{n}"), 7, "x") })).await;
    }
    let rules = retention(&[]);
    let prune = async |now, limit| store.prune(&rules, now, limit).await.unwrap();
    assert_eq!(prune(g::at(1_000), 10).await, Pruned::default());
    assert_eq!(prune(g::at(1_001), 3).await, Pruned { others: 3, more: true, ..Pruned::default() });
    assert_eq!(prune(g::at(1_001), 3).await, Pruned { others: 1, ..Pruned::default() });
    assert_eq!(prune(g::at(1_001), 3).await, Pruned::default());
    assert_eq!(store.put(create(6, key("k1", 9, "y"))).await, Put::Done);
    assert_eq!(store.put(create(7, key("k5", 7, "y"))).await, Put::Replayed(answer("x")));
}

/// Judged in order, like names.
pub async fn two_items_of_a_batch_share_a_key(store: Fixture) {
    let writes = vec![create(1, key("k", 7, "a")), create(2, key("k", 7, "b")), create(3, key("k", 8, "c"))];
    assert_eq!(store.put_jobs(writes).await.unwrap(), [Put::Done, Put::Replayed(answer("a")), Put::KeyReused]);
    assert_eq!(count(&store).await, 1);
}

/// The same for fires by hand.
pub async fn manual_fires_remember_their_answers(store: Fixture) {
    let job = store.job(1).await;
    let fire = |n: &str, key: Idempotency| FireBatch {
        now: g::at(500),
        idempotency: Some(key),
        ..batch(Arc::new([]), vec![g::manual_fire(&job, DUE, n)])
    };
    let first = store.fire(fire("a", key("k", 7, "first"))).await.unwrap();
    assert_eq!(first, FireVerdict::Fired(Verdicts::of(vec![Fired::New])));
    let again = store.fire(fire("b", key("k", 7, "second"))).await.unwrap();
    assert_eq!(again, FireVerdict::Replayed(answer("first")));
    assert_eq!(store.fire(fire("c", key("k", 8, "third"))).await.unwrap(), FireVerdict::KeyReused);
    let b = g::manual_fire(&job, DUE, "b").dispatch.execution;
    assert_eq!(store.get_executions(job.tenant, &[b]).await.unwrap(), [None]);
}

/// What a repetition that cannot be written any more is answered.
pub async fn an_answer_can_be_recalled_until_it_expires(store: Fixture) {
    store.put(create(1, key("k", 7, "first"))).await;
    let recall = async |tenant, scope, key, ms| store.recall(tenant, scope, key, g::at(ms)).await.unwrap();
    let scope = "POST /v1/jobs";
    assert_eq!(recall(TenantId::DEFAULT, scope, "k", 999).await, Some((7, answer("first"))));
    assert_eq!(recall(TenantId::DEFAULT, scope, "k", 1_000).await, None);
    assert_eq!(recall(TenantId::DEFAULT, scope, "other", 0).await, None);
    assert_eq!(recall(TenantId::DEFAULT, "PUT /v1/jobs", "k", 0).await, None);
    assert_eq!(recall(TenantId(2), scope, "k", 0).await, None);
}

/// Remembered only by what it did.
pub async fn a_cancel_remembers_its_answer(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let cancel = async |body| {
        let cancel = CancelBatch { idempotency: Some(key("k", 7, body)), ..g::cancel(&[id], g::at(500)) };
        let verdicts = store.cancel(cancel).await.unwrap().verdicts;
        let recalled = store.recall(job.tenant, "POST /v1/jobs", "k", g::at(500)).await.unwrap();
        (verdicts[0] == CancelVerdict::Done, recalled)
    };
    assert_eq!(cancel("first").await, (true, Some((7, answer("first")))));
    assert_eq!(cancel("second").await, (false, Some((7, answer("first")))));
}
