//! Callers' keys: the same request gets the same answer, and does nothing twice.

use super::prune::retention;
use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::TenantId;
use campanile_model::limits;
use campanile_model::store::{
    Answer, CallerKey, CancelBatch, CancelVerdict, FireBatch, FireVerdict, Fired, Idempotency, JobQuery, JobWrite,
    Pruned, Put, Verdicts,
};
use std::sync::Arc;

fn answer(body: &str) -> Answer {
    Answer { status: 201, body: body.into() }
}

fn key(text: &str, fingerprint: u128) -> CallerKey {
    CallerKey { scope: "POST /v1/jobs".into(), text: text.into(), fingerprint }
}

fn answered(text: &str, fingerprint: u128, body: &str) -> Idempotency {
    Idempotency { key: key(text, fingerprint), answer: answer(body), expires_at: g::at(1_000) }
}

fn create(n: u64, key: CallerKey, body: &str) -> JobWrite {
    g::with_key(g::create(&g::job(n)), key, answer(body))
}

/// How long the answer to a change of a job is remembered.
const KEPT_MS: i64 = limits::IDEMPOTENCY_MS as i64;

async fn count(store: &Fixture) -> usize {
    store.list_jobs(&JobQuery { limit: 100, ..JobQuery::default() }).await.unwrap().items.len()
}

/// The first answer, although the second try would make another job.
pub async fn the_same_request_gets_the_same_answer(store: Fixture) {
    store.done(create(1, key("k", u128::MAX), "first")).await;
    for n in [1, 2] {
        assert_eq!(store.put(create(n, key("k", u128::MAX), "second")).await, Put::Replayed(answer("first")));
    }
    assert_eq!(count(&store).await, 1);
}

/// A key stands for one request.
pub async fn another_request_under_the_key_is_refused(store: Fixture) {
    store.put(create(1, key("k", 7), "first")).await;
    assert_eq!(store.put(create(2, key("k", 8), "second")).await, Put::KeyReused);
    assert_eq!(count(&store).await, 1);
}

/// Only what happened is remembered.
pub async fn a_refused_write_remembers_nothing(store: Fixture) {
    let job = store.job(1).await;
    assert_eq!(store.put(create(1, key("k", 7), "x")).await, Put::NameTaken { id: job.id });
    store.done(create(2, key("k", 8), "y")).await;
}

/// The namespace of a key.
pub async fn keys_of_tenants_and_scopes_are_separate(store: Fixture) {
    store.put(create(1, key("k", 7), "first")).await;
    let elsewhere = CallerKey { scope: "PUT /v1/jobs".into(), ..key("k", 8) };
    store.done(create(2, elsewhere, "second")).await;
    let foreign = g::of_tenant(g::job(3), TenantId(2));
    store.done(g::with_key(g::create(&foreign), key("k", 9), answer("third"))).await;
}

/// A pause that ended by itself long ago counts from its end; the key of whoever resumes it, from now.
pub async fn a_key_of_a_late_resume_is_remembered(store: Fixture) {
    let job = store.job(1).await;
    let paused = store.change(&job, g::at(1), g::Change::Pause(Some(g::at(1_000)))).await;
    store.clock.set(g::at(2 * KEPT_MS));
    let resume = |body: &str| {
        let (id, tenant, change) = (paused.id, paused.tenant, g::Change::Resume);
        g::with_key(JobWrite { id, tenant, change, expected: None, keyed: None }, key("k", 7), answer(body))
    };
    assert_eq!(store.done(resume("first")).await.effective_at, g::at(1_000));
    assert_eq!(store.put(resume("second")).await, Put::Replayed(answer("first")));
}

/// Expiry is judged by the instant of the write.
pub async fn an_expired_key_is_free(store: Fixture) {
    store.put(create(1, key("k", 7), "first")).await;
    let put = async |n, ms, body| {
        store.clock.set(g::at(ms));
        store.put(create(n, key("k", 8), body)).await
    };
    assert_eq!(put(2, KEPT_MS - 1, "second").await, Put::KeyReused);
    assert!(matches!(put(2, KEPT_MS, "second").await, Put::Done(_)));
    assert_eq!(put(3, KEPT_MS + 1, "third").await, Put::Replayed(answer("second")));
}

/// In slices, and only those that expired.
pub async fn forgotten_keys_are_free_and_counted(store: Fixture) {
    for n in 1..=5 {
        store.clock.set(if n == 5 { g::at(9_000) } else { g::START });
        store.put(create(n, key(&format!("k{n}"), 7), "x")).await;
    }
    let rules = retention(&[]);
    let prune = async |ms, limit| store.prune(&rules, g::at(KEPT_MS + ms), limit).await.unwrap();
    assert_eq!(prune(0, 10).await, Pruned::default());
    assert_eq!(prune(1, 3).await, Pruned { others: 3, more: true, ..Pruned::default() });
    assert_eq!(prune(1, 3).await, Pruned { others: 1, ..Pruned::default() });
    assert_eq!(prune(1, 3).await, Pruned::default());
    store.done(create(6, key("k1", 9), "y")).await;
    assert_eq!(store.put(create(7, key("k5", 7), "y")).await, Put::Replayed(answer("x")));
}

/// Judged in order, like names.
pub async fn two_items_of_a_batch_share_a_key(store: Fixture) {
    let writes = vec![create(1, key("k", 7), "a"), create(2, key("k", 7), "b"), create(3, key("k", 8), "c")];
    let verdicts = store.put_jobs(writes).await.unwrap();
    assert!(matches!(verdicts[0], Put::Done(_)));
    assert_eq!(verdicts[1..], [Put::Replayed(answer("a")), Put::KeyReused]);
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
    let first = store.fire(fire("a", answered("k", 7, "first"))).await.unwrap();
    assert_eq!(first, FireVerdict::Fired(Verdicts::of(vec![Fired::New])));
    let again = store.fire(fire("b", answered("k", 7, "second"))).await.unwrap();
    assert_eq!(again, FireVerdict::Replayed(answer("first")));
    assert_eq!(store.fire(fire("c", answered("k", 8, "third"))).await.unwrap(), FireVerdict::KeyReused);
    let b = g::manual_fire(&job, DUE, "b").dispatch.execution;
    assert_eq!(store.get_executions(job.tenant, &[b]).await.unwrap(), [None]);
}

/// What a repetition that cannot be written any more is answered.
pub async fn an_answer_can_be_recalled_until_it_expires(store: Fixture) {
    store.put(create(1, key("k", 7), "first")).await;
    let recall = async |tenant, key: &CallerKey, ms| store.recall(tenant, key, g::at(ms)).await.unwrap();
    let (mine, elsewhere) = (key("k", 7), CallerKey { scope: "PUT /v1/jobs".into(), ..key("k", 7) });
    assert_eq!(recall(TenantId::DEFAULT, &mine, KEPT_MS - 1).await, Some((7, answer("first"))));
    assert_eq!(recall(TenantId::DEFAULT, &mine, KEPT_MS).await, None);
    assert_eq!(recall(TenantId::DEFAULT, &key("other", 7), 0).await, None);
    assert_eq!(recall(TenantId::DEFAULT, &elsewhere, 0).await, None);
    assert_eq!(recall(TenantId(2), &mine, 0).await, None);
}

/// Remembered only by what it did.
pub async fn a_cancel_remembers_its_answer(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let cancel = async |body| {
        let cancel = CancelBatch { idempotency: Some(answered("k", 7, body)), ..g::cancel(&[id], g::at(500)) };
        let verdicts = store.cancel(cancel).await.unwrap().verdicts;
        let recalled = store.recall(job.tenant, &key("k", 7), g::at(500)).await.unwrap();
        (verdicts[0] == CancelVerdict::Done, recalled)
    };
    assert_eq!(cancel("first").await, (true, Some((7, answer("first")))));
    assert_eq!(cancel("second").await, (false, Some((7, answer("first")))));
}
