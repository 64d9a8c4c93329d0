use super::*;
use campanile_model::JobId;
use campanile_model::execution::AttemptError;
use campanile_model::job::Priority;
use campanile_model::store::ChangeSeq;

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
        as_of: ChangeSeq::default(),
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
    let _ = gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], &[], t(0));
    let batch: Vec<_> = (0..3).map(|n| dispatch(n, "etl", "x")).chain([dispatch(9, "short", "x")]).collect();
    let admitted = admit(&gate, batch.clone(), 0);
    assert_eq!(admitted.go, [batch[0].clone(), batch[1].clone(), batch[3].clone()]);
    assert_eq!(admitted.back, [batch[2].clone()]);
    assert_eq!(gate.closed(), [Arc::from("etl")]);
    assert_eq!(gate.keeps(TenantId::DEFAULT, &"etl".into(), &"x".into()), Some(Reason::QuotaDeferred));
    assert_eq!(gate.done(&batch[0], Left::Ended(&succeeded()), t(1)), None);
    assert!(gate.closed().is_empty());
    assert_eq!(admit(&gate, vec![batch[2].clone()], 1).go.len(), 1);
}

#[test]
fn what_other_nodes_run_counts_against_the_slots() {
    let gate = Gate::default();
    let count = Count { tenant: TenantId::DEFAULT, pool: "etl".into(), state: ExecutionState::Running, executions: 2 };
    let _ = gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], std::slice::from_ref(&count), t(0));
    assert_eq!(gate.closed().len(), 1);
    let _ = gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], &[Count { executions: 1, ..count }], t(0));
    assert!(gate.closed().is_empty());
}

#[test]
fn a_paused_pool_is_closed() {
    let gate = Gate::default();
    let _ = gate.refresh(&[Capacity { paused: true, ..limit(Scope::Pool, "etl", None, None) }], &[], t(0));
    assert_eq!(admit(&gate, vec![dispatch(1, "etl", "x")], 0).back.len(), 1);
    assert_eq!(gate.keeps(TenantId::DEFAULT, &"etl".into(), &"x".into()), Some(Reason::Paused));
}

#[test]
fn a_target_with_slots_has_a_line() {
    let gate = Gate::default();
    let _ = gate.refresh(&[limit(Scope::Target, "x", Some(1), None)], &[], t(0));
    let batch: Vec<_> = (0..3).map(|n| dispatch(n, "short", "x")).collect();
    let admitted = admit(&gate, batch.clone(), 0);
    assert_eq!((admitted.go.len(), admitted.back.len(), admitted.later.len()), (1, 0, 0));
    assert!(gate.holds(&batch[1]) && gate.holds(&batch[2]) && !gate.holds(&batch[0]));
    assert_eq!(admitted.kept, [batch[1].execution, batch[2].execution]);
    for copy in [&batch[0], &batch[1]] {
        let admitted = admit(&gate, vec![copy.clone()], 0);
        assert_eq!((admitted.go.len(), admitted.kept.len()), (0, 1), "a second copy is dropped");
    }
    assert_eq!(gate.done(&batch[0], Left::Ended(&succeeded()), t(1)), Some(batch[1].clone()));
    assert!(!gate.holds(&batch[1]));
    let late = admit(&gate, vec![dispatch(9, "short", "x")], 1);
    assert_eq!(late.kept.len(), 1, "whoever comes later stands behind");
    assert_eq!(admit(&gate, vec![batch[1].clone()], 1).go.len(), 1, "who was called goes");
    assert_eq!(gate.done(&batch[1], Left::Refused, t(2)), Some(batch[2].clone()));
}

#[test]
fn a_rate_spaces_starts_and_keeps_turns() {
    let gate = Gate::default();
    let _ = gate.refresh(&[limit(Scope::Target, "x", None, Some(10_000))], &[], t(0));
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
        assert_eq!(gate.done(&one, Left::Ended(&failed()), t(0)), None);
    }
    let admitted = admit(&gate, vec![dispatch(20, "short", "x"), dispatch(21, "short", "y")], 100);
    assert_eq!(admitted.later[0].1, t(2_000));
    assert_eq!(admitted.later[0].2, Reason::CircuitOpen);
    assert_eq!(admitted.go.len(), 1, "other targets are not concerned");
    assert_eq!(gate.keeps(TenantId::DEFAULT, &"short".into(), &"x".into()), Some(Reason::CircuitOpen));
    let admitted = admit(&gate, vec![dispatch(20, "short", "x"), dispatch(22, "short", "x")], 2_000);
    assert_eq!((admitted.go.len(), admitted.later.len()), (1, 1));
    assert_eq!(gate.done(&dispatch(20, "short", "x"), Left::Ended(&succeeded()), t(2_100)), None);
    assert_eq!(admit(&gate, vec![dispatch(22, "short", "x")], 2_100).go.len(), 1);
    assert_eq!(gate.refresh(&[], &[], t(2_200)), []);
    assert!(gate.targets(TenantId::DEFAULT).is_empty(), "what is well again is forgotten");
}

#[test]
fn more_slots_move_the_line_and_a_failed_claim_does_not_stop_it() {
    let gate = Gate::default();
    let _ = gate.refresh(&[limit(Scope::Target, "x", Some(1), None)], &[], t(0));
    let batch: Vec<_> = (0..5).map(|n| dispatch(n, "short", "x")).collect();
    assert_eq!(admit(&gate, batch.clone(), 0).go.len(), 1);
    assert_eq!(gate.done(&batch[0], Left::Refused, t(0)), Some(batch[1].clone()));
    let called = gate.refresh(&[limit(Scope::Target, "x", Some(3), None)], &[], t(0));
    assert_eq!(called, batch[2..4]);
    let called = gate.refresh(&[], &[], t(0));
    assert_eq!(called, batch[4..], "without a limit there is no line");
}

#[test]
fn what_was_ended_elsewhere_frees_its_slot() {
    let gate = Gate::default();
    let limits = [limit(Scope::Pool, "etl", Some(1), None), limit(Scope::Target, "x", Some(1), None)];
    let _ = gate.refresh(&limits, &[], t(0));
    let (first, second) = (dispatch(1, "etl", "x"), dispatch(2, "short", "x"));
    assert_eq!(admit(&gate, vec![first.clone()], 0).go.len(), 1);
    assert_eq!(admit(&gate, vec![second.clone()], 0).kept.len(), 1);
    assert_eq!(gate.forget(first.execution, t(1)), [second]);
    assert!(gate.closed().is_empty());
}

#[test]
fn a_refused_claim_frees_no_slot_that_it_never_had() {
    let gate = Gate::default();
    let count = Count { tenant: TenantId::DEFAULT, pool: "etl".into(), state: ExecutionState::Running, executions: 1 };
    let _ = gate.refresh(&[limit(Scope::Pool, "etl", Some(2), None)], &[count], t(0));
    let batch: Vec<_> = (0..2).map(|n| dispatch(n, "etl", "x")).collect();
    assert_eq!(admit(&gate, batch.clone(), 0).go.len(), 2, "it does not know better");
    gate.full(&batch[0]);
    for refused in &batch {
        assert_eq!(gate.done(refused, Left::Refused, t(0)), None);
    }
    assert_eq!(gate.closed().len(), 1, "the store said that it is full");
}

#[test]
fn turns_of_a_rate_are_given_a_minute_ahead_and_end_with_it() {
    let gate = Gate::default();
    let _ = gate.refresh(&[limit(Scope::Target, "x", None, Some(100))], &[], t(0));
    let batch: Vec<_> = (0..20).map(|n| dispatch(n, "short", "x")).collect();
    let later = admit(&gate, batch.clone(), 0).later;
    assert!(later.iter().all(|(_, at, _)| *at <= t(60_000)), "at one in ten seconds");
    let _ = gate.refresh(&[limit(Scope::Target, "x", None, Some(1_000_000))], &[], t(1));
    assert_eq!(admit(&gate, batch[1..3].to_vec(), 1).go.len(), 1, "a better rate counts at once");
}
