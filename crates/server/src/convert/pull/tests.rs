use super::*;
use campanile_client::wire::input::worker::read;

const NOW: Timestamp = Timestamp::from_millis(1_794_794_400_000);
const ID: ExecutionId = ExecutionId::from_bytes([1; 16]);

fn finished(text: &str) -> Result<Finish, String> {
    finish(ID, read(text).expect("the test's JSON"), NOW, "")
        .map_err(|fault| format!("{} {}", fault.pointer, fault.code))
}

fn outcome(text: &str) -> Outcome {
    finished(text).expect("a good completion").outcome
}

#[test]
fn names_of_workers_are_bounded_and_not_those_of_nodes() {
    assert!(worker_id("w-42").is_ok() && worker_id(&"w".repeat(200)).is_ok());
    for bad in ["", "a\nb", "node:x", &"w".repeat(201)] {
        assert_eq!(worker_id(bad).unwrap_err().code, "worker_id_invalid", "{bad}");
    }
}

#[test]
fn each_status_has_its_outcome() {
    let body = |text: &str| Response { status: 200, body: text.into(), truncated: false };
    assert_eq!(
        outcome(r#"{"status":"SUCCEEDED","fence_token":1,"result":{"n":1.10}}"#),
        Outcome::Succeeded { response: Some(body(r#"{"n":1.10}"#)) }
    );
    assert_eq!(
        outcome(r#"{"status":"SUCCEEDED","fence_token":1,"output":"hi"}"#),
        Outcome::Succeeded { response: Some(body("hi")) }
    );
    let Outcome::Failed { error, retryable, retry_after_ms, .. } = outcome(
        r#"{"status":"FAILED","fence_token":1,"error":{"type":"t","message":"m","stack":"s","retryable":false,"retry_after_ms":7}}"#,
    ) else {
        panic!("no failure");
    };
    assert_eq!((error.kind.as_str(), error.message.as_str(), retryable, retry_after_ms), ("t", "m\ns", false, Some(7)));
    let Outcome::Failed { error, retryable, .. } = outcome(r#"{"status":"FAILED","fence_token":1}"#) else {
        panic!("no failure");
    };
    assert_eq!((error.kind.as_str(), retryable), ("error", true));
    assert!(matches!(outcome(r#"{"status":"TIMED_OUT","fence_token":1}"#), Outcome::TimedOut { .. }));
    assert_eq!(outcome(r#"{"status":"CANCELLED","worker_id":"w"}"#), Outcome::Cancelled);
    assert_eq!(outcome(r#"{"status":"SNOOZED","fence_token":1,"snooze_ms":9}"#), Outcome::Snoozed { for_ms: 9 });
}

#[test]
fn bad_completions_are_refused() {
    let code = |text: &str| finished(text).unwrap_err();
    assert_eq!(code(r#"{"status":"SUCCEEDED"}"#), "/fence_token fence_missing");
    assert_eq!(code(r#"{"status":"SUCCEEDED","worker_id":"node:1"}"#), "/worker_id worker_id_invalid");
    assert_eq!(code(r#"{"status":"SNOOZED","fence_token":1}"#), "/snooze_ms snooze_invalid");
    assert_eq!(code(r#"{"status":"SNOOZED","fence_token":1,"snooze_ms":99999999999}"#), "/snooze_ms snooze_invalid");
    let large = format!(r#"{{"status":"SUCCEEDED","fence_token":1,"result":"{}"}}"#, "x".repeat(65 * 1024));
    assert_eq!(code(&large), "/result result_invalid");
    let deep = format!(r#"{{"status":"SUCCEEDED","fence_token":1,"result":{}{}}}"#, "[".repeat(101), "]".repeat(101));
    assert_eq!(code(&deep), "/result result_invalid");
    let lines = format!(r#"{{"status":"SUCCEEDED","fence_token":1,"logs":[{}]}}"#, vec!["\"a\""; 1_001].join(","));
    assert_eq!(code(&lines), "/logs logs_too_many");
}

#[test]
fn what_is_too_long_for_people_is_cut() {
    let long = "é".repeat(5_000);
    let text = format!(
        r#"{{"status":"FAILED","fence_token":1,"error":{{"type":"{long}","message":"{long}"}},"logs":["{long}"]}}"#
    );
    let finish = finished(&text).unwrap();
    let Outcome::Failed { error, .. } = finish.outcome else { panic!("no failure") };
    assert!(error.kind.len() <= 200 && error.message.len() <= limits::ERROR_BYTES_MAX);
    assert_eq!((finish.logs[0].message.len(), finish.logs[0].at), (limits::LOG_LINE_BYTES_MAX, NOW));
    let output = format!(r#"{{"status":"FAILED","fence_token":1,"output":"{}"}}"#, "x".repeat(65 * 1024));
    let Outcome::Failed { response: Some(response), .. } = outcome(&output) else { panic!("no output") };
    assert!(response.truncated && response.body.len() == limits::RESPONSE_BYTES_MAX && response.status == 500);
}

#[test]
fn beats_tell_about_themselves_within_bounds() {
    let beat = |text: &str| beat(ID, read(text).expect("the test's JSON"), NOW, "/executions/0");
    assert_eq!(beat(r#"{"id":"e","fence_token":3}"#).unwrap().progress, None);
    let told =
        beat(r#"{"id":"e","progress":1.0000001,"checkpoint":{"a": 1},"logs":[{"at":"x","message":"m"}]}"#).unwrap();
    let progress = told.progress.unwrap();
    assert_eq!((progress.fraction, progress.checkpoint.as_deref()), (Some(1.0), Some(r#"{"a": 1}"#)));
    assert_eq!((told.fence, told.logs[0].at), (None, NOW));
    for (bad, pointer) in [
        (r#"{"id":"e","progress":61}"#, "/executions/0/progress"),
        (r#"{"id":"e","progress":-1}"#, "/executions/0/progress"),
    ] {
        assert_eq!(beat(bad).unwrap_err().pointer, pointer);
    }
    let large = format!(r#"{{"id":"e","checkpoint":"{}"}}"#, "x".repeat(65 * 1024));
    assert_eq!(beat(&large).unwrap_err().code, "checkpoint_invalid");
}
