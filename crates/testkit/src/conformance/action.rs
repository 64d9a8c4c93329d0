//! What every action must do, whatever it does.

use campanile_model::JobId;
use campanile_model::action::{Action, ActionKind, ActionSpec, Registry, Work};
use campanile_model::execution::Outcome;
use campanile_model::job::Definition;
use campanile_model::{ExecutionId, TenantId, Timestamp, limits};
use std::sync::Arc;

/// An action to test, and what it needs for that.
pub struct Case {
    pub action: Arc<dyn Action>,
    /// A config that it accepts.
    pub config: String,
}

/// Makes a module of tests of this suite: `action_suite!(noop, Case { .. })`. The expression is evaluated once per test
/// and may await.
#[macro_export]
macro_rules! action_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            use $crate::conformance::action as suite;
            $crate::facts!(
                $make,
                [
                    the_canonical_config_is_a_fixed_point,
                    junk_is_refused_with_pointers,
                    unknown_fields_are_refused_by_name,
                    the_target_is_short_and_stays,
                    the_registry_finds_it,
                    a_run_ends_in_time_and_within_bounds,
                    a_config_it_never_accepted_does_not_panic,
                ]
            );
        }
    };
}

/// One attempt of some job with this action.
pub fn work(action: &dyn Action, config: &str) -> Work {
    let fire_at = Timestamp::from_millis(1_794_794_400_000);
    let job = JobId::new(fire_at, 0, 7);
    Work {
        execution: ExecutionId::scheduled(TenantId::DEFAULT, job, fire_at),
        tenant: TenantId::DEFAULT,
        job,
        definition: Arc::new(Definition {
            name: "daily-invoices".into(),
            action: ActionSpec { kind: action.kind(), config: config.into() },
            payload: r#"{"n":1}"#.into(),
            ..Definition::default()
        }),
        attempt: 2,
        max_attempts: 5,
        fence: 1_187,
        fire_at,
        timeout_ms: 5_000,
        covers_from: None,
    }
}

/// What `validate` returns is accepted again, unchanged: a stored job can be sent back as it was read.
pub async fn the_canonical_config_is_a_fixed_point(case: Case) {
    let canonical = case.action.validate(&case.config).expect("the example is valid");
    assert_eq!(case.action.validate(&canonical), Ok(canonical));
}

/// Nothing but a JSON object is a config, and the errors say where.
pub async fn junk_is_refused_with_pointers(case: Case) {
    let deep = "[".repeat(100_000);
    for junk in ["", "null", "[]", "1", "\"x\"", "{", "{\"a\":}", deep.as_str(), "\u{0}"] {
        let errors = case.action.validate(junk).expect_err("junk was accepted");
        assert!(!errors.is_empty());
        for error in errors {
            assert!(error.pointer.starts_with("/action"), "{error:?}");
            assert!(!error.code.is_empty() && !error.message.is_empty(), "{error:?}");
        }
    }
}

/// A field that means nothing is a mistake, and named.
pub async fn unknown_fields_are_refused_by_name(case: Case) {
    let config = case.config.trim().strip_suffix('}').expect("the example is an object").to_owned();
    let comma = if config.trim().ends_with('{') { "" } else { "," };
    let errors = case.action.validate(&format!(r#"{config}{comma}"no/such~field":1}}"#)).expect_err("accepted");
    assert!(errors.iter().any(|e| e.pointer == "/action/no~1such~0field"), "{errors:?}");
}

/// Whom it is done to is known from a canonical config alone, and fits where names are kept; junk is done to nobody in
/// particular.
pub async fn the_target_is_short_and_stays(case: Case) {
    let canonical = case.action.validate(&case.config).expect("the example is valid");
    let target = case.action.target(&canonical);
    assert_eq!(target.is_empty(), case.action.kind() == ActionKind::Noop, "`{target}`");
    assert!(target.len() <= limits::NAME_BYTES_MAX, "`{target}`");
    assert_eq!(case.action.target(&canonical), target);
    let long = "x".repeat(limits::NAME_BYTES_MAX * 2);
    let long = format!(r#"{{"url":"https://{long}.example/","handler":"{long}"}}"#);
    for junk in ["", "{}", "null", "[1]", r#"{"url":"\u0000","handler":7}"#, &long] {
        assert!(case.action.target(junk).len() <= limits::NAME_BYTES_MAX, "{junk}");
    }
}

/// A registry with it validates its specs.
pub async fn the_registry_finds_it(case: Case) {
    let registry = Registry::new([Arc::clone(&case.action)]);
    let kind = case.action.kind();
    assert!(registry.get(kind).is_some());
    let spec = ActionSpec { kind, config: case.config.as_str().into() };
    let (canonical, target) = registry.validate(&spec).expect("the example is valid");
    assert_eq!(*canonical.config, *case.action.validate(&case.config).unwrap());
    assert_eq!(*target, *case.action.target(&canonical.config));
    let errors = Registry::default().validate(&spec).expect_err("an empty registry knows nothing");
    assert_eq!(errors[0].pointer, "/action/type");
}

/// An attempt ends by itself, and what it hands back has bounds.
pub async fn a_run_ends_in_time_and_within_bounds(case: Case) {
    let canonical = case.action.validate(&case.config).unwrap();
    let work = work(&*case.action, &canonical);
    let outcome = tokio::time::timeout(std::time::Duration::from_millis(work.timeout_ms * 2), case.action.run(&work))
        .await
        .expect("the attempt did not end within its time limit");
    let (error, response) = match outcome {
        Outcome::Succeeded { response } => (None, response),
        Outcome::Failed { error, response, .. } => (Some(error), response),
        Outcome::TimedOut { error } => (Some(error), None),
        Outcome::Lost | Outcome::Released | Outcome::Cancelled | Outcome::Snoozed { .. } => (None, None),
    };
    assert!(error.is_none_or(|e| e.message.len() <= limits::ERROR_BYTES_MAX));
    assert!(response.is_none_or(|r| r.body.len() <= limits::RESPONSE_BYTES_MAX));
}

/// A config from elsewhere (an older release, another node's rules) fails the attempt and nothing else.
pub async fn a_config_it_never_accepted_does_not_panic(case: Case) {
    for config in ["", "{}", "null", "[1]", r#"{"url":"\u0000"}"#] {
        case.action.run(&work(&*case.action, config)).await;
    }
}
