//! Notifications: an event is written with the state change that it tells of, or not at all; and its delivery.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptError, AttemptOutcome, Reason};
use campanile_model::ids::EndpointId;
use campanile_model::job::{Job, JobState};
use campanile_model::lifecycle::{Event, State};
use campanile_model::notify::{Delivery, DeliveryState, Endpoint, EventKind, Tried};
use campanile_model::store::{Applied, AttemptFence, CancelBatch, CancelTarget, Completion, DeliveryWrite, Record};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

/// Endpoint number `n`: wants everything.
pub(super) fn endpoint(n: u64) -> Endpoint {
    Endpoint {
        id: EndpointId::new(g::START, 0, n),
        tenant: TenantId::DEFAULT,
        url: format!("https://example.com/{n}?a=\"ä\""),
        events: EventKind::ALL.to_vec(),
        job: None,
        tag: None,
        paused: false,
        created_at: g::at(n as i64),
    }
}

/// All that was ever told to an endpoint, first one first.
pub(super) async fn told(store: &Fixture, endpoint: &Endpoint) -> Vec<Delivery> {
    let page = store.list_deliveries(endpoint.tenant, endpoint.id, None, 1_000).await.unwrap();
    assert!(!page.has_more);
    page.items.into_iter().rev().collect()
}

pub(super) async fn kinds(store: &Fixture, endpoint: &Endpoint) -> Vec<EventKind> {
    told(store, endpoint).await.into_iter().map(|delivery| delivery.kind).collect()
}

fn data(delivery: &Delivery) -> Value {
    serde_json::from_str(&delivery.data).expect("data is JSON")
}

/// Fires a job for an instant and succeeds at it.
pub(super) async fn succeed(store: &Fixture, job: &Job, at: Timestamp) -> ExecutionId {
    let fire = g::fire(job, at);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let granted = store.granted(id, 0, at).await;
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, at);
    assert_eq!(store.complete(vec![done]).await.unwrap().verdicts, [Applied::Done]);
    id
}

/// Fires a job for an instant and dies of it.
pub(super) async fn die(store: &Fixture, job: &Job, at: Timestamp) -> ExecutionId {
    let fire = g::fire(job, at);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let granted = store.granted(id, 0, at).await;
    let reason = Some(Reason::PermanentFailure);
    let dead = Completion { reason, ..g::complete(&granted, Event::FailFinal, AttemptOutcome::Failed, at) };
    assert_eq!(store.complete(vec![dead]).await.unwrap().verdicts, [Applied::Done]);
    id
}

/// With the facts of the execution.
pub async fn what_happens_to_an_execution_is_told(store: Fixture) {
    let everything = endpoint(1);
    store.put_record(everything.clone().into(), None).await.unwrap();
    let (job, id) = store.pending(1).await;
    assert_eq!(told(&store, &everything).await, [], "a fire is no event");
    let started_at = DUE.saturating_add_ms(40);
    let first = store.granted(id, 0, started_at).await;
    assert_eq!(told(&store, &everything).await, [], "nor is a claim");
    let error = AttemptError { kind: "http_503".into(), message: "no \"way\"\n".into() };
    let failed_at = started_at.saturating_add_ms(100);
    let failed = Completion {
        started_at,
        error: Some(error.clone()),
        ..g::complete(&first, Event::FailRetryable, AttemptOutcome::Failed, failed_at)
    };
    store.complete(vec![failed.clone()]).await.unwrap();
    let second = store.granted(id, 1, failed.wake_at).await;
    let died_at = failed.wake_at.saturating_add_ms(7);
    let dead = Completion {
        started_at: failed.wake_at,
        reason: Some(Reason::AttemptsExhausted),
        error: Some(error),
        ..g::complete(&second, Event::FailFinal, AttemptOutcome::Failed, died_at)
    };
    store.complete(vec![dead]).await.unwrap();
    let fingerprint = store.execution(id).await.fingerprint.expect("the dead have one");

    let told = told(&store, &everything).await;
    assert_eq!(told.iter().map(|delivery| delivery.kind).collect::<Vec<_>>(), [EventKind::Failed, EventKind::Dead]);
    for (delivery, at) in told.iter().zip([failed_at, died_at]) {
        assert_eq!((delivery.tenant, delivery.endpoint), (job.tenant, everything.id));
        assert_eq!((delivery.job, delivery.execution, delivery.at), (job.id, Some(id), at));
        assert_eq!((delivery.state, delivery.tries, delivery.next_at), (DeliveryState::Waiting, 0, at));
        assert_eq!((delivery.status, &delivery.error), (None, &None));
    }
    let error = json!({"type": "http_503", "message": "no \"way\"\n"});
    let common = json!({
        "execution_id": id.to_string(), "job_id": job.id.to_string(), "job_name": job.name(),
        "fire_at": DUE.to_string(), "lateness_ms": 40, "error": error,
    });
    let with = |more: Value| {
        let mut all = common.clone();
        all.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        all
    };
    let failure = json!({
        "state": "RETRYING", "attempt": 1, "started_at": started_at.to_string(),
        "finished_at": failed_at.to_string(), "duration_ms": 100,
    });
    assert_eq!(data(&told[0]), with(failure));
    let death = json!({
        "state": "DEAD", "reason": "ATTEMPTS_EXHAUSTED", "attempt": 2, "started_at": failed.wake_at.to_string(),
        "finished_at": died_at.to_string(), "duration_ms": 7, "fingerprint": format!("{fingerprint:016x}"),
    });
    assert_eq!(data(&told[1]), with(death));

    let success = succeed(&store, &job, DUE.saturating_add_ms(500)).await;
    let told = self::told(&store, &everything).await;
    let kinds: Vec<EventKind> = told[2..].iter().map(|delivery| delivery.kind).collect();
    assert!(
        kinds == [EventKind::Succeeded, EventKind::Recovered] || kinds == [EventKind::Recovered, EventKind::Succeeded]
    );
    assert!(told[2..].iter().all(|delivery| delivery.execution == Some(success)));
}

/// A refused completion changes nothing, and so nothing is told; and a batch that fails tells nothing of any of its items.
pub async fn nothing_is_told_of_what_did_not_happen(store: Fixture) {
    let everything = endpoint(1);
    store.put_record(everything.clone().into(), None).await.unwrap();
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let wrong = AttemptFence { fence: granted.fence.fence + 1, ..granted.fence };
    let stale = g::complete_fence(wrong, Event::FailFinal, AttemptOutcome::Failed, DUE);
    let verdict = store.complete(vec![stale]).await.unwrap().verdicts;
    assert!(matches!(verdict[..], [Applied::Stale { .. }]));
    assert_eq!(told(&store, &everything).await, []);

    let (_, other) = store.pending(2).await;
    let good = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, DUE);
    let bad = Completion { event: Event::FailFinal, ..g::complete_unclaimed(g::claim(other, 0, DUE)) };
    assert!(store.complete(vec![good.clone(), bad]).await.is_err(), "an unclaimed failure is our bug");
    assert_eq!(told(&store, &everything).await, []);
    store.complete(vec![good.clone()]).await.unwrap();
    assert_eq!(kinds(&store, &everything).await, [EventKind::Succeeded]);
    assert_eq!(store.complete(vec![good]).await.unwrap().verdicts, [Applied::Done], "the answer was lost");
    assert_eq!(kinds(&store, &everything).await, [EventKind::Succeeded], "told once");
}

/// Whoever is first, cancel or completion: a success is told if and only if it happened.
pub async fn events_and_states_agree_when_raced(store: Fixture) {
    let everything = endpoint(1);
    store.put_record(everything.clone().into(), None).await.unwrap();
    let jobs = store.jobs(40).await;
    let fires: Vec<_> = jobs.iter().map(|job| g::fire(job, DUE)).collect();
    let ids: Vec<ExecutionId> = fires.iter().map(|fire| fire.dispatch.execution).collect();
    store.fired(fires).await;
    let mut racers = tokio::task::JoinSet::new();
    for (i, &id) in ids.iter().enumerate() {
        let granted = store.granted(id, 0, DUE).await;
        let completer = Arc::clone(&store);
        racers.spawn(async move {
            let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, DUE);
            completer.complete(vec![done]).await.unwrap();
        });
        // Sometimes the cancel has a head start.
        if i % 3 == 0 {
            tokio::task::yield_now().await;
        }
        let (canceller, tenant) = (Arc::clone(&store), TenantId::DEFAULT);
        racers.spawn(async move {
            let targets = vec![CancelTarget::Execution(id)];
            let batch = CancelBatch { tenant, targets, note: None, now: DUE, grace_ms: None, idempotency: None };
            canceller.cancel(batch).await.unwrap();
        });
    }
    racers.join_all().await;
    let mut succeeded = Vec::new();
    for id in ids {
        match store.execution(id).await.state {
            State::Succeeded => succeeded.push(Some(id)),
            State::Cancelled => {}
            other => panic!("{id} is {other:?}"),
        }
    }
    let told = told(&store, &everything).await;
    assert!(told.iter().all(|delivery| delivery.kind == EventKind::Succeeded));
    let mut told: Vec<_> = told.into_iter().map(|delivery| delivery.execution).collect();
    told.sort();
    succeeded.sort();
    assert_eq!(told, succeeded);
}

/// Kinds, job, tag, tenant; and only from the moment it is there.
pub async fn endpoints_hear_what_they_want(store: Fixture) {
    let tagged = g::job_with(1, |d| d.tags = vec!["a".into(), "team=x".into()]);
    let plain = g::job_with(2, |d| d.tags = vec!["team=xy".into()]);
    let foreign = g::of_tenant(g::job(3), TenantId(2));
    for job in [&tagged, &plain, &foreign] {
        store.done(g::create(job)).await;
    }
    let late = endpoint(9);
    let wants = [
        (endpoint(1), vec![EventKind::Succeeded, EventKind::Dead, EventKind::Succeeded]),
        (Endpoint { events: vec![EventKind::Dead], ..endpoint(2) }, vec![EventKind::Dead]),
        (Endpoint { job: Some(plain.id), ..endpoint(3) }, vec![EventKind::Succeeded]),
        (Endpoint { tag: Some("team=x".into()), ..endpoint(4) }, vec![EventKind::Succeeded, EventKind::Dead]),
        (Endpoint { tag: Some("team".into()), ..endpoint(5) }, vec![]),
        (Endpoint { tag: Some("team=x".into()), job: Some(plain.id), ..endpoint(6) }, vec![]),
        (Endpoint { paused: true, ..endpoint(7) }, vec![EventKind::Succeeded, EventKind::Dead, EventKind::Succeeded]),
        (Endpoint { tenant: TenantId(2), ..endpoint(8) }, vec![EventKind::Succeeded]),
    ];
    for (endpoint, _) in &wants {
        store.put_record(endpoint.clone().into(), None).await.unwrap();
    }
    succeed(&store, &tagged, DUE).await;
    die(&store, &tagged, DUE.saturating_add_ms(1)).await;
    succeed(&store, &plain, DUE).await;
    succeed(&store, &foreign, DUE).await;
    store.put_record(late.clone().into(), None).await.unwrap();
    for (endpoint, wanted) in &wants {
        assert_eq!(kinds(&store, endpoint).await, *wanted, "{endpoint:?}");
    }
    assert_eq!(kinds(&store, &late).await, []);
    let quiet = Endpoint { events: vec![EventKind::Late], ..wants[0].0.clone() };
    store.put_record(quiet.clone().into(), None).await.unwrap();
    succeed(&store, &plain, DUE.saturating_add_ms(2)).await;
    assert_eq!(kinds(&store, &quiet).await.len(), 3, "it changed its mind");
    assert_eq!(kinds(&store, &late).await, [EventKind::Succeeded]);
}

/// Due ones, in the order of their instants, until they have ended; never those of a paused endpoint.
pub async fn deliveries_are_loaded_until_they_end(store: Fixture) {
    let (one, two) = (endpoint(1), endpoint(2));
    store.put_record(one.clone().into(), None).await.unwrap();
    store.put_record(Endpoint { paused: true, ..two.clone() }.into(), None).await.unwrap();
    let job = store.job(1).await;
    for i in [2, 0, 1] {
        succeed(&store, &job, DUE.saturating_add_ms(i)).await;
    }
    let load = async |ms: i64, limit| -> Vec<(i64, EndpointId)> {
        let loaded = store.load_deliveries(DUE.saturating_add_ms(ms), &[], limit).await.unwrap();
        loaded.into_iter().map(|(delivery, to)| (delivery.next_at.millis() - DUE.millis(), to.id)).collect()
    };
    assert_eq!(load(-1, 10).await, []);
    assert_eq!(load(1, 10).await, [(0, one.id), (1, one.id)]);
    assert_eq!(load(9, 10).await, [(0, one.id), (1, one.id), (2, one.id)]);
    store.put_record(two.clone().into(), None).await.unwrap();
    let both = [(0, one.id), (0, two.id), (1, one.id), (1, two.id), (2, one.id), (2, two.id)];
    let mut loaded = load(9, 10).await;
    loaded.sort();
    assert_eq!(loaded, both);
    assert_eq!(load(9, 3).await.iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), [0, 0, 1]);

    let of_one: Vec<Delivery> = told(&store, &one).await;
    let tried = |delivery: &Delivery, state, next: i64| Tried {
        seq: delivery.seq,
        state,
        next_at: DUE.saturating_add_ms(next),
        status: Some(503),
        error: Some("not now".into()),
    };
    let tries = [
        tried(&of_one[0], DeliveryState::Waiting, 50),
        tried(&of_one[1], DeliveryState::Delivered, 0),
        tried(&of_one[2], DeliveryState::Failed, 0),
        Tried { seq: 1 << 40, ..tried(&of_one[0], DeliveryState::Waiting, 0) },
    ];
    let writes = tries.iter().cloned().map(DeliveryWrite::Tried).collect();
    assert_eq!(store.put_deliveries(writes).await.unwrap(), [true, true, true, false], "the last one is not there");
    let mine = async |ms| load(ms, 10).await.into_iter().filter(|(_, to)| *to == one.id).collect::<Vec<_>>();
    assert_eq!(mine(49).await, []);
    assert_eq!(mine(50).await, [(50, one.id)]);
    let settled = told(&store, &one).await;
    let states = [DeliveryState::Waiting, DeliveryState::Delivered, DeliveryState::Failed];
    assert_eq!(settled.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), states);
    assert!(settled.iter().all(|d| d.tries == 1 && d.status == Some(503) && d.error.as_deref() == Some("not now")));
    // Somebody else has ended it meanwhile: a try that ends later does not count.
    let late = DeliveryWrite::Tried(Tried { state: DeliveryState::Waiting, ..tries[1].clone() });
    assert_eq!(store.put_deliveries(vec![late]).await.unwrap(), [false]);
    assert_eq!(told(&store, &one).await, settled);
}

/// From the start, whatever became of it; not of another endpoint or tenant.
pub async fn a_delivery_can_be_replayed(store: Fixture) {
    let (one, two) = (endpoint(1), endpoint(2));
    store.put_record(one.clone().into(), None).await.unwrap();
    store.put_record(two.clone().into(), None).await.unwrap();
    let job = store.job(1).await;
    succeed(&store, &job, DUE).await;
    let delivery = told(&store, &one).await.remove(0);
    let (seq, later) = (delivery.seq, DUE.saturating_add_ms(9_000));
    let failed =
        Tried { seq, state: DeliveryState::Failed, next_at: DUE, status: Some(410), error: Some("gone".into()) };
    assert_eq!(store.put_deliveries(vec![DeliveryWrite::Tried(failed)]).await.unwrap(), [true]);
    let again = async |tenant, endpoint, seq| {
        let write = DeliveryWrite::Replay { tenant, endpoint, seq, now: later };
        store.put_deliveries(vec![write]).await.unwrap() == [true]
    };
    assert!(!again(job.tenant, two.id, seq).await);
    assert!(!again(TenantId(2), one.id, seq).await);
    assert!(!again(job.tenant, one.id, seq + 100).await);
    assert!(again(job.tenant, one.id, seq).await);
    assert_eq!(told(&store, &one).await, [Delivery { next_at: later, ..delivery }]);
    assert!(store.delete_record(&Record::from(one.clone()).key()).await.unwrap());
    assert!(!again(job.tenant, one.id, seq).await, "nobody is there to take it");
}

/// Newest first, without overlap; what waits goes with its endpoint.
pub async fn deliveries_are_listed_and_forgotten(store: Fixture) {
    let (one, two) = (endpoint(1), endpoint(2));
    store.put_record(one.clone().into(), None).await.unwrap();
    store.put_record(two.clone().into(), None).await.unwrap();
    let job = store.job(1).await;
    for i in 0..7 {
        succeed(&store, &job, DUE.saturating_add_ms(i)).await;
    }
    let all = told(&store, &one).await;
    assert!(all.len() == 7 && all.is_sorted_by_key(|delivery| delivery.seq));
    for limit in [1, 3, 7, 10] {
        let (mut read, mut before) = (Vec::new(), None);
        loop {
            let page = store.list_deliveries(job.tenant, one.id, before, limit).await.unwrap();
            before = page.items.last().map(|last| last.seq);
            read.extend(page.items);
            if !page.has_more {
                break;
            }
        }
        read.reverse();
        assert_eq!(read, all, "limit {limit}");
    }
    assert_eq!(store.list_deliveries(TenantId(2), one.id, None, 10).await.unwrap().items, []);
    assert!(store.delete_record(&Record::from(one.clone()).key()).await.unwrap());
    assert_eq!(told(&store, &one).await, []);
    let loaded = store.load_deliveries(DUE.saturating_add_ms(99), &[], 100).await.unwrap();
    assert!(loaded.len() == 7 && loaded.iter().all(|(_, to)| *to == two));
    succeed(&store, &job, DUE.saturating_add_ms(8)).await;
    assert_eq!(told(&store, &one).await, [], "nothing is told to who is gone");
    assert_eq!(told(&store, &two).await.len(), 8);
}

/// A job that is deleted is told of no more, and its failures are forgotten with it.
pub async fn recovery_is_told_once_per_failure(store: Fixture) {
    let everything = Endpoint { events: vec![EventKind::Recovered], ..endpoint(1) };
    store.put_record(everything.clone().into(), None).await.unwrap();
    let jobs = store.jobs(2).await;
    succeed(&store, &jobs[0], DUE).await;
    assert_eq!(told(&store, &everything).await, [], "it had not failed");
    die(&store, &jobs[0], DUE.saturating_add_ms(1)).await;
    die(&store, &jobs[0], DUE.saturating_add_ms(2)).await;
    die(&store, &jobs[1], DUE.saturating_add_ms(2)).await;
    let success = succeed(&store, &jobs[0], DUE.saturating_add_ms(3)).await;
    succeed(&store, &jobs[0], DUE.saturating_add_ms(4)).await;
    let told = told(&store, &everything).await;
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].execution), (EventKind::Recovered, Some(success)));
    assert_eq!(data(&told[0])["since"], json!(DUE.saturating_add_ms(1).to_string()));
    let deleted = store.change(&jobs[1], DUE.saturating_add_ms(5), g::Change::Delete).await;
    assert_eq!(deleted.state, JobState::Deleted);
    die(&store, &jobs[0], DUE.saturating_add_ms(6)).await;
    succeed(&store, &jobs[0], DUE.saturating_add_ms(7)).await;
    assert_eq!(kinds(&store, &everything).await.len(), 2, "again after another failure");
}
