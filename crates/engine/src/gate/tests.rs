use super::*;
use campanile_model::JobId;
use campanile_model::execution::AttemptError;
use campanile_model::job::Priority;

fn dispatch(n: u8, pool: &str, target: &str) -> Dispatch {
    Dispatch {
        execution: ExecutionId::from_bytes([n; 16]),
        job: JobId::from_bytes([n; 16]),
        fire_at: t(0),
        pool: pool.into(),
        tenant: TenantId::DEFAULT,
        job_version: 1,
        attempt: 0,
        priority: Priority::Normal,
        action: ActionKind::Webhook,
        target: target.into(),
        queued_at: None,
    }
}

const fn t(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn limit(scope: Scope, name: &str, slots: Option<u32>, per_second_milli: Option<u64>) -> Capacity {
    let (tenant, name) = (TenantId::DEFAULT, name.into());
    Capacity { tenant, scope, name, slots, per_second_milli, paused: false, updated_at: t(0) }
}

fn admit(gate: &Gate, batch: Vec<Dispatch>, now: i64) -> Admitted {
    gate.admit(batch, t(now), || 0)
}

fn succeeded() -> Outcome {
    Outcome::Succeeded { response: None }
}

fn failed() -> Outcome {
    let error = AttemptError { kind: "http_503".into(), message: String::new() };
    Outcome::Failed { error, retryable: true, retry_after_ms: None, pause_job: false, response: None }
}

#[test]
fn without_limits_everything_goes() {
    let gate = Gate::default();
    let admitted = admit(&gate, (0..9).map(|n| dispatch(n, "short", "x")).collect(), 0);
    assert_eq!((admitted.go.len(), admitted.back.len(), admitted.later.len()), (9, 0, 0));
    assert!(gate.closed().is_empty());
}

#[test]
fn a_full_pool_is_closed_until_somebody_is_done() {
    let gate = Gate::default();
    gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], &[]);
    let batch: Vec<_> = (0..3).map(|n| dispatch(n, "etl", "x")).chain([dispatch(9, "short", "x")]).collect();
    let admitted = admit(&gate, batch.clone(), 0);
    assert_eq!(admitted.go, [batch[0].clone(), batch[1].clone(), batch[3].clone()]);
    assert_eq!(admitted.back, [batch[2].clone()]);
    assert_eq!(gate.closed(), [Arc::from("etl")]);
    assert_eq!(gate.keeps(TenantId::DEFAULT, &"etl".into(), &"x".into()), Some(Reason::QuotaDeferred));
    gate.done(&batch[0], Some(&succeeded()), t(1));
    assert!(gate.closed().is_empty());
    assert_eq!(admit(&gate, vec![batch[2].clone()], 1).go.len(), 1);
}

#[test]
fn what_other_nodes_run_counts_against_the_slots() {
    let gate = Gate::default();
    let count = Count { tenant: TenantId::DEFAULT, pool: "etl".into(), state: ExecutionState::Running, executions: 2 };
    gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], std::slice::from_ref(&count));
    assert_eq!(gate.closed().len(), 1);
    gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], &[Count { executions: 1, ..count }]);
    assert!(gate.closed().is_empty());
}

#[test]
fn a_paused_pool_is_closed() {
    let gate = Gate::default();
    gate.refresh(&[Capacity { paused: true, ..limit(Scope::Pool, "etl", None, None) }], &[]);
    assert_eq!(admit(&gate, vec![dispatch(1, "etl", "x")], 0).back.len(), 1);
    assert_eq!(gate.keeps(TenantId::DEFAULT, &"etl".into(), &"x".into()), Some(Reason::Paused));
}

#[test]
fn a_target_with_slots_has_a_line() {
    let gate = Gate::default();
    gate.refresh(&[limit(Scope::Target, "x", Some(1), None)], &[]);
    let batch: Vec<_> = (0..3).map(|n| dispatch(n, "short", "x")).collect();
    let admitted = admit(&gate, batch.clone(), 0);
    assert_eq!((admitted.go.len(), admitted.back.len(), admitted.later.len()), (1, 0, 0));
    assert!(gate.holds(&batch[1]) && gate.holds(&batch[2]) && !gate.holds(&batch[0]));
    assert!(admit(&gate, vec![batch[1].clone()], 0).go.is_empty(), "a second copy is dropped");
    assert_eq!(gate.done(&batch[0], Some(&succeeded()), t(1)), Some(batch[1].clone()));
    assert!(!gate.holds(&batch[1]));
    assert_eq!(admit(&gate, vec![batch[1].clone()], 1).go.len(), 1);
    assert_eq!(gate.done(&batch[1], None, t(2)), Some(batch[2].clone()));
}

#[test]
fn a_rate_spaces_starts_and_keeps_turns() {
    let gate = Gate::default();
    gate.refresh(&[limit(Scope::Target, "x", None, Some(10_000))], &[]);
    let batch: Vec<_> = (0..4).map(|n| dispatch(n, "short", "x")).collect();
    let admitted = admit(&gate, batch.clone(), 1_000);
    assert_eq!(admitted.go.len(), 1);
    let turns: Vec<i64> = admitted.later.iter().map(|(_, at, _)| at.millis()).collect();
    assert_eq!(turns, [1_100, 1_200, 1_300]);
    assert!(admitted.later.iter().all(|(_, _, reason)| *reason == Reason::RateLimited));
    assert_eq!(admit(&gate, vec![batch[1].clone()], 1_100).go.len(), 1, "it has its turn");
    assert_eq!(admit(&gate, vec![batch[3].clone()], 1_200).later[0].1, t(1_300), "and keeps it when it comes early");
}

#[test]
fn a_target_that_keeps_failing_gets_one_probe() {
    let gate = Gate::default();
    for n in 0..10 {
        let one = dispatch(n, "short", "x");
        assert_eq!(admit(&gate, vec![one.clone()], 0).go.len(), 1);
        gate.done(&one, Some(&failed()), t(0));
    }
    let admitted = admit(&gate, vec![dispatch(20, "short", "x"), dispatch(21, "short", "y")], 100);
    assert_eq!(admitted.later[0].1, t(2_000));
    assert_eq!(admitted.later[0].2, Reason::CircuitOpen);
    assert_eq!(admitted.go.len(), 1, "other targets are not concerned");
    assert_eq!(gate.keeps(TenantId::DEFAULT, &"short".into(), &"x".into()), Some(Reason::CircuitOpen));
    let admitted = admit(&gate, vec![dispatch(20, "short", "x"), dispatch(22, "short", "x")], 2_000);
    assert_eq!((admitted.go.len(), admitted.later.len()), (1, 1));
    gate.done(&dispatch(20, "short", "x"), Some(&succeeded()), t(2_100));
    assert_eq!(admit(&gate, vec![dispatch(22, "short", "x")], 2_100).go.len(), 1);
    assert!(gate.targets(TenantId::DEFAULT).is_empty(), "what is well again is forgotten");
}
