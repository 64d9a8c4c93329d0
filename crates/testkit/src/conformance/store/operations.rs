//! Operations.

use super::Fixture;
use crate::generate as g;
use campanile_model::operation::{Operation, OperationKind, OperationState};
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

/// Created once, then changed by whoever knows its state.
pub async fn an_operation_is_guarded_by_its_state(store: Fixture) {
    let first = operation(1);
    assert!(!store.put_operation(first.clone(), Some(OperationState::Running)).await.unwrap(), "it is not there");
    assert_eq!(store.get_operation(first.tenant, first.id).await.unwrap(), None);
    assert!(store.put_operation(first.clone(), None).await.unwrap());
    assert!(!store.put_operation(Operation { spec: "2".into(), ..first.clone() }, None).await.unwrap(), "it is there");
    assert_eq!(store.get_operation(first.tenant, first.id).await.unwrap(), Some(first.clone()));
    let moved = Operation { progress: "{\"done\": 7}".into(), updated_at: g::at(9), ..first.clone() };
    assert!(store.put_operation(moved.clone(), Some(OperationState::Running)).await.unwrap());
    assert_eq!(store.get_operation(first.tenant, first.id).await.unwrap(), Some(moved.clone()));
    let cancelled = Operation { state: OperationState::Cancelled, ..moved.clone() };
    assert!(store.put_operation(cancelled.clone(), Some(OperationState::Running)).await.unwrap());
    let late = Operation { state: OperationState::Done, ..moved };
    assert!(!store.put_operation(late, Some(OperationState::Running)).await.unwrap(), "it was cancelled meanwhile");
    assert_eq!(store.get_operation(first.tenant, first.id).await.unwrap(), Some(cancelled.clone()));
    assert_eq!(store.get_operation(TenantId(2), first.id).await.unwrap(), None);
    let foreign = Operation { tenant: TenantId(2), ..cancelled.clone() };
    assert!(!store.put_operation(foreign, Some(OperationState::Cancelled)).await.unwrap());
    assert_eq!(store.get_operation(first.tenant, first.id).await.unwrap(), Some(cancelled));
}

/// Newest first; those at work are loaded for all tenants.
pub async fn operations_are_listed_and_loaded(store: Fixture) {
    let mut operations: Vec<Operation> = (1..=7).map(operation).collect();
    operations[2].state = OperationState::Done;
    operations[5].state = OperationState::Stopped;
    for operation in &operations {
        assert!(store.put_operation(operation.clone(), None).await.unwrap());
    }
    let foreign = Operation { tenant: TenantId(2), ..operation(8) };
    assert!(store.put_operation(foreign.clone(), None).await.unwrap());
    let newest_first: Vec<Operation> = operations.iter().rev().cloned().collect();
    for limit in [1, 3, 7, 10] {
        let (mut read, mut before) = (Vec::new(), None);
        loop {
            let page = store.list_operations(TenantId::DEFAULT, before, limit).await.unwrap();
            before = page.items.last().map(|last| last.id);
            read.extend(page.items);
            if !page.has_more {
                break;
            }
        }
        assert_eq!(read, newest_first, "limit {limit}");
    }
    let mut loaded = store.load_operations(100).await.unwrap();
    loaded.sort_by_key(|operation| operation.id);
    let mut running: Vec<Operation> = operations;
    running.retain(|operation| operation.state == OperationState::Running);
    running.push(foreign);
    assert_eq!(loaded, running);
    assert_eq!(store.load_operations(2).await.unwrap().len(), 2);
}
