use super::*;

fn job(text: &str) -> (JobInput, Vec<FieldProblem>) {
    json::check(text.as_bytes(), 128).expect("the test's JSON");
    let mut faults = Faults::default();
    let input = Fields::job(text, &mut faults).into_job(&mut faults);
    (input, faults.into_vec())
}

fn good(text: &str) -> JobInput {
    let (input, faults) = job(text);
    assert_eq!(faults, [], "{text}");
    input
}

/// Pairs of pointer and code.
fn faults(text: &str) -> Vec<(String, String)> {
    job(text).1.into_iter().map(|fault| (fault.pointer, fault.code)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(pointer, code)| (pointer.to_string(), code.to_string())).collect()
}

#[test]
fn the_camel_case_dialect() {
    let input = good(
        r#"{"name":"daily-invoice-gen","type":"CRON","schedule":"0 3 * * *","timezone":"America/Los_Angeles",
            "target":{"pool":"batch-etl","handler":"generate_invoices"},
            "payload":{"tenantId":"acme","dateRange":"yesterday"},
            "retryPolicy":{"maxAttempts":3,"backoff":"EXPONENTIAL","initialDelayMs":30000},
            "timeoutSec":600,"priority":"NORMAL"}"#,
    );
    assert_eq!(input.name.as_deref(), Some("daily-invoice-gen"));
    assert_eq!(input.schedule.text.as_deref(), Some("0 3 * * *"));
    assert_eq!(input.schedule.timezone.as_deref(), Some("America/Los_Angeles"));
    assert_eq!(input.action.unwrap().config, r#"{"handler":"generate_invoices"}"#);
    assert_eq!(input.pool.as_deref(), Some("batch-etl"));
    assert_eq!(input.payload.as_deref(), Some(r#"{"tenantId":"acme","dateRange":"yesterday"}"#));
    assert_eq!(input.retry.max_attempts, Some(3));
    assert_eq!(input.retry.initial_delay, Some(Span::Ms(30_000)));
    assert_eq!(input.timeout, Some(Span::Ms(600_000)));
}

#[test]
fn the_snake_case_dialect() {
    let input = good(
        r#"{"name":"nightly-seller-report","type":"RECURRING",
            "schedule":{"cron":"0 2 * * *","timezone":"Asia/Kolkata","starts_at":"2026-04-07T00:00:00Z"},
            "action":{"type":"webhook","url":"https://x.test/","method":"POST","headers":{"X-Camel":"aB"},"body":{"reportType":1}},
            "retry_policy":{"max_retries":3,"backoff":"exponential_with_jitter","initial_delay_seconds":30},
            "priority":"high","tenant_id":"seller-platform"}"#,
    );
    assert_eq!(input.schedule.kind.as_deref(), Some("RECURRING"));
    assert_eq!(input.schedule.starts_at.as_deref(), Some("2026-04-07T00:00:00Z"));
    let action = input.action.unwrap();
    assert_eq!(action.kind, "WEBHOOK");
    assert_eq!(
        action.config,
        r#"{"url":"https://x.test/","method":"POST","headers":{"X-Camel":"aB"},"body":{"reportType":1}}"#
    );
    assert_eq!(input.retry.max_attempts, Some(4), "retries come after the first attempt");
    assert_eq!(input.retry.initial_delay, Some(Span::Ms(30_000)));
    assert_eq!(input.retry.backoff.as_deref(), Some("EXPONENTIAL_WITH_JITTER"));
    assert_eq!(input.priority.as_deref(), Some("HIGH"));
}

#[test]
fn unknown_fields_get_the_nearest_name() {
    let (_, found) = job(r#"{"name":"a","scheduel":"x","retryPolicy":{"maxAttempt":3},"zzzzzzzzz":1}"#);
    let hints: Vec<_> = found.iter().map(|f| (f.pointer.as_str(), f.hint.as_deref())).collect();
    assert_eq!(
        hints,
        [
            ("/scheduel", Some("did you mean `schedule`?")),
            ("/retryPolicy/maxAttempt", Some("did you mean `max_attempts`?")),
            ("/zzzzzzzzz", None),
        ]
    );
    assert!(found.iter().all(|fault| fault.code == UNKNOWN_FIELD));
}

#[test]
fn the_same_thing_said_twice_is_refused() {
    for (text, pointer) in [
        (r#"{"action":{"type":"NOOP"},"target":{"handler":"x"}}"#, "/target"),
        (r#"{"retry_policy":{"max_attempts":3,"max_retries":2}}"#, "/retry_policy/max_retries"),
        (r#"{"timeout":"30s","timeoutSec":30}"#, "/timeoutSec"),
        (r#"{"name":"a","name":"b"}"#, "/name"),
        (r#"{"schedule":{"timezone":"UTC"},"timezone":"UTC"}"#, "/timezone"),
        (r#"{"pool":"a","target":{"pool":"b","handler":"h"}}"#, "/target/pool"),
    ] {
        assert_eq!(faults(text), pairs(&[(pointer, "field_duplicate")]), "{text}");
    }
}

#[test]
fn all_faults_are_collected_at_the_senders_pointers() {
    assert_eq!(
        faults(
            r#"{"name":5,"timeoutSec":-1,"tags":["a",2],"retryPolicy":{"maxAttempts":"3"},"timeout_":1,"spread":30}"#
        ),
        pairs(&[
            ("/timeout_", "field_unknown"),
            ("/name", "wrong_type"),
            ("/retryPolicy/maxAttempts", "wrong_type"),
            ("/timeoutSec", "duration_invalid"),
            ("/spread", "unit_missing"),
            ("/tags/1", "wrong_type"),
        ])
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    for text in [
        r#"{"timeout_ms":1e400}"#,
        r#"{"timeout_ms":-1}"#,
        r#"{"timeoutSec":18446744073709551615}"#,
        r#"{"timeout_ms":1.5}"#,
    ] {
        assert_eq!(faults(text).len(), 1, "{text}");
    }
    assert_eq!(good(r#"{"timeout_seconds":0.5}"#).timeout, Some(Span::Ms(500)));
}

#[test]
fn many_unknown_keys_cost_little() {
    let keys: Vec<String> = (0..50_000).map(|i| format!("\"k{i}\":1")).collect();
    assert_eq!(faults(&format!("{{{}}}", keys.join(","))).len(), FAULTS_MAX);
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for text in ["[]", "1", "null", "\"x\""] {
        assert_eq!(faults(text), pairs(&[("", "wrong_type")]), "{text}");
    }
}

#[test]
fn a_patch_merges_and_replaces() {
    let mut none = Faults::default();
    let stored = r#"{"name":"a","schedule":{"type":"CRON","cron":"0 3 * * *","timezone":"Europe/Berlin"},
        "action":{"type":"WEBHOOK","url":"https://x.test/","headers":{"a":"1","b":"2"}},"payload":{"x":1,"y":2},"timeout_ms":5}"#;
    let patch = r#"{"schedule":{"every":"5m"},"action":{"headers":{"a":null}},"payload":{"y":null},"timeoutSec":9}"#;
    let mut fields = Fields::job(stored, &mut none);
    fields.patch(Fields::job(patch, &mut none));
    let input = fields.into_job(&mut none);
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(input.schedule.every, Some(Span::Text("5m".into())));
    assert_eq!((input.schedule.cron, input.schedule.kind), (None, None));
    assert_eq!(input.action.unwrap().config, r#"{"url":"https://x.test/","headers":{"b":"2"}}"#);
    assert_eq!(input.payload.as_deref(), Some(r#"{"x":1}"#));
    assert_eq!(input.timeout, Some(Span::Ms(9_000)));
    assert_eq!(input.pointers.sent("/timeout_ms"), "/timeoutSec");
}
