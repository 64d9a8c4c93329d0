//! Records: limits, endpoints, operations. Written, read, listed, forgotten; what follows from them is in `pools` and `deliveries`.

use super::Fixture;
use super::deliveries::endpoint;
use super::pools::pool;
use crate::generate as g;
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::notify::{Endpoint, EventKind};
use campanile_model::operation::{Operation, OperationKind, OperationState};
use campanile_model::store::{Expected, Record, RecordKey, RecordKind, RecordQuery, Stored, list_all};
use campanile_model::{OperationId, TenantId};

fn operation(n: u64) -> Operation {
    Operation {
        id: OperationId::new(g::at(n as i64), 0, n),
        tenant: TenantId::DEFAULT,
        kind: OperationKind::ALL[n as usize % 2],
        state: OperationState::Running,
        spec: format!("{{\"n\": {n}}}"),
        progress: "{}".into(),
        created_at: g::at(n as i64),
        updated_at: g::at(n as i64),
    }
}

/// Some of every kind, of two tenants.
fn some_of_all() -> Vec<Record> {
    let target = Capacity {
        scope: Scope::Target,
        per_second_milli: Some(u64::MAX),
        ..pool("https://example.com", Some(u32::MAX), false)
    };
    let job = g::job(1).id;
    let mut operations: Vec<Operation> = OperationState::ALL
        .into_iter()
        .zip(1..)
        .map(|(state, n)| Operation { state, progress: "{\"said\": \"ä\\n\"}".into(), ..operation(n) })
        .collect();
    operations[0].tenant = TenantId(2);
    let limits = [
        pool("a", None, false),
        pool("b", Some(0), true),
        target,
        Capacity { tenant: TenantId(2), ..pool("a", None, true) },
    ];
    let endpoints = [
        Endpoint { job: Some(job), events: vec![EventKind::Dead, EventKind::Late], ..endpoint(1) },
        Endpoint { tag: Some("team=ä".into()), paused: true, ..endpoint(2) },
        Endpoint { tenant: TenantId(2), ..endpoint(3) },
    ];
    let limits = limits.into_iter().map(Record::from);
    limits.chain(endpoints.into_iter().map(Record::from)).chain(operations.into_iter().map(Record::from)).collect()
}

/// Every field comes back; writing again changes it and counts its version.
pub async fn a_record_comes_back_as_it_was_written(store: Fixture) {
    let records = some_of_all();
    for record in &records {
        assert_eq!(store.get_record(&record.key()).await.unwrap(), None);
        assert!(store.put_record(record.clone(), None).await.unwrap());
    }
    for record in &records {
        let stored = Stored { version: 1, record: record.clone() };
        assert_eq!(store.get_record(&record.key()).await.unwrap(), Some(stored));
    }
    let changes: Vec<Record> = vec![
        pool("a", Some(3), true).into(),
        Endpoint { url: "https://example.com/new".into(), events: vec![EventKind::Late], ..endpoint(1) }.into(),
        Operation { state: OperationState::Done, updated_at: g::at(9), ..operation(2) }.into(),
    ];
    for record in changes {
        assert!(store.put_record(record.clone(), None).await.unwrap());
        assert_eq!(store.get_record(&record.key()).await.unwrap(), Some(Stored { version: 2, record }));
    }
}

/// Created once, then changed by whoever knows its version.
pub async fn a_record_is_guarded_by_its_version(store: Fixture) {
    let first = operation(1);
    let key = Record::from(first.clone()).key();
    let put = async |operation: &Operation, expected| {
        store.put_record(operation.clone().into(), Some(expected)).await.unwrap()
    };
    let read =
        async || store.get_record(&key).await.unwrap().map(|stored| (stored.version, stored.into_inner().unwrap()));
    assert!(!put(&first, Expected::Version(1)).await, "it is not there");
    assert_eq!(read().await, None);
    assert!(put(&first, Expected::Absent).await);
    assert!(!put(&Operation { spec: "2".into(), ..first.clone() }, Expected::Absent).await, "it is there");
    assert_eq!(read().await, Some((1, first.clone())));
    let moved = Operation { progress: "{\"done\": 7}".into(), updated_at: g::at(9), ..first.clone() };
    assert!(put(&moved, Expected::Version(1)).await);
    assert_eq!(read().await, Some((2, moved.clone())));
    let cancelled = Operation { state: OperationState::Cancelled, ..moved.clone() };
    assert!(put(&cancelled, Expected::Version(2)).await);
    let late = Operation { state: OperationState::Done, ..moved };
    assert!(!put(&late, Expected::Version(2)).await, "it was cancelled meanwhile");
    assert!(!put(&Operation { tenant: TenantId(2), ..late }, Expected::Version(3)).await, "it is somebody else's");
    assert_eq!(read().await, Some((3, cancelled)));
}

/// By kind and tenant, the last ones first, in pages without overlap.
pub async fn records_are_listed_last_ones_first(store: Fixture) {
    let mut operations: Vec<Operation> = (1..=7).map(operation).collect();
    operations[2].state = OperationState::Done;
    operations[5].state = OperationState::Stopped;
    let foreign = Operation { tenant: TenantId(2), ..operation(8) };
    for operation in operations.iter().chain([&foreign]) {
        assert!(store.put_record(operation.clone().into(), Some(Expected::Absent)).await.unwrap());
    }
    store.put_record(endpoint(1).into(), None).await.unwrap();
    let own: Vec<Operation> = operations.iter().rev().cloned().collect();
    let all: Vec<Operation> = [&foreign].into_iter().chain(&own).cloned().collect();
    let running = |all: &[Operation]| -> Vec<Operation> {
        all.iter().filter(|operation| operation.state == OperationState::Running).cloned().collect()
    };
    let cases = [
        (Some(TenantId::DEFAULT), false, own.clone()),
        (Some(TenantId::DEFAULT), true, running(&own)),
        (Some(TenantId(2)), false, vec![foreign.clone()]),
        (None, false, all.clone()),
        (None, true, running(&all)),
    ];
    for (tenant, at_work, expected) in cases {
        for limit in [1, 3, 7, 8, 10] {
            let (mut read, mut before) = (Vec::new(), None);
            loop {
                let of = RecordQuery::new(RecordKind::Operation, tenant, limit);
                let page = store.list_records(&RecordQuery { at_work, before, ..of }).await.unwrap();
                assert!(page.items.len() <= limit && (!page.has_more || page.items.len() == limit));
                before = page.items.last().map(|last| last.record.key());
                read.extend(page.items.into_iter().map(|stored| stored.into_inner::<Operation>().unwrap()));
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(read, expected, "{tenant:?}, at work: {at_work}, limit {limit}");
        }
    }
    let ascending: Vec<Operation> =
        list_all(&**store, RecordQuery::new(RecordKind::Operation, Some(TenantId::DEFAULT), 2)).await.unwrap();
    assert_eq!(ascending, operations);
    let target = Capacity { scope: Scope::Target, ..pool("a", Some(1), false) };
    let limits = [
        pool("a", None, false),
        pool("b", None, true),
        target,
        Capacity { tenant: TenantId(2), ..pool("c", None, true) },
    ];
    for limits in &limits {
        store.put_record(limits.clone().into(), None).await.unwrap();
    }
    for page in [1, 2, 10] {
        let own = RecordQuery::limits(Some(TenantId::DEFAULT), page);
        assert_eq!(list_all::<Capacity>(&**store, own).await.unwrap(), limits[..3], "pools, then targets");
        assert_eq!(list_all::<Capacity>(&**store, RecordQuery::limits(None, page)).await.unwrap().len(), 4);
    }
}

/// By kind and tenant; once.
pub async fn a_record_is_forgotten_once(store: Fixture) {
    let records = some_of_all();
    for record in &records {
        store.put_record(record.clone(), None).await.unwrap();
    }
    for gone in &records {
        let RecordKey { kind, tenant, id } = gone.key();
        assert!(!store.delete_record(&RecordKey::new(kind, TenantId(3), &*id)).await.unwrap(), "it is somebody else's");
        assert!(store.delete_record(&gone.key()).await.unwrap());
        assert!(!store.delete_record(&gone.key()).await.unwrap(), "it is gone");
        assert_eq!(store.get_record(&RecordKey { kind, tenant, id }).await.unwrap(), None);
    }
    for kind in RecordKind::ALL {
        assert_eq!(store.list_records(&RecordQuery::new(kind, None, 10)).await.unwrap().items, []);
    }
}
