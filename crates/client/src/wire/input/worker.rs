//! The worker protocol, as a server reads it: in one pass, without copies of what is only handed on.
//!
//! These are the hot requests, so that they are read by serde itself and not through tables of names. Names may be
//! camelCase here too; unknown ones are refused, since a misspelt `retryable` would be a retry.

use super::UNKNOWN_FIELD;
use crate::wire::FieldProblem;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

pub use crate::wire::CompleteStatus;

/// Who wants work.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimInput {
    /// Who asks.
    #[serde(alias = "workerId")]
    pub worker_id: String,
    /// How many executions it can start.
    pub capacity: u64,
    /// Only from these pools.
    #[serde(default)]
    pub pools: Option<Vec<String>>,
    /// Only for these handlers.
    #[serde(default)]
    pub handlers: Option<Vec<String>>,
    /// How long it waits.
    #[serde(default, alias = "waitMs")]
    pub wait_ms: Option<u64>,
    /// What it is made with.
    #[serde(default)]
    pub sdk: Option<String>,
}

/// Signs of life.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatInput<'a> {
    /// Who runs them.
    #[serde(alias = "workerId")]
    pub worker_id: String,
    /// Each with its news.
    #[serde(borrow, default)]
    pub executions: Option<Vec<BeatInput<'a>>>,
    /// Only ids.
    #[serde(borrow, default, alias = "executionIds")]
    pub execution_ids: Option<Vec<Cow<'a, str>>>,
}

/// A sign of life of one attempt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeatInput<'a> {
    /// The execution.
    #[serde(borrow, alias = "execution_id", alias = "executionId")]
    pub id: Cow<'a, str>,
    /// The fence of the attempt.
    #[serde(default, alias = "fenceToken")]
    pub fence_token: Option<u64>,
    /// How far it is.
    #[serde(default)]
    pub progress: Option<f64>,
    /// What it does.
    #[serde(default)]
    pub message: Option<String>,
    /// Where a later attempt can go on, as text.
    #[serde(borrow, default)]
    pub checkpoint: Option<&'a RawValue>,
    /// What it said.
    #[serde(default)]
    pub logs: Option<Vec<LogInput>>,
}

/// A line of a log: an object, or just its text.
#[derive(Debug, Default)]
pub struct LogInput {
    /// When.
    pub at: Option<String>,
    /// How grave.
    pub level: Option<String>,
    /// The line.
    pub message: String,
}

/// How an attempt ended.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompleteInput<'a> {
    /// The execution, in a batch.
    #[serde(borrow, default, alias = "execution_id", alias = "executionId")]
    pub id: Option<Cow<'a, str>>,
    /// How.
    pub status: CompleteStatus,
    /// The fence of the attempt.
    #[serde(default, alias = "fenceToken")]
    pub fence_token: Option<u64>,
    /// Who ran it.
    #[serde(default, alias = "workerId")]
    pub worker_id: Option<String>,
    /// How long it took.
    #[serde(default, alias = "durationMs")]
    pub duration_ms: Option<u64>,
    /// What came of it, as text.
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<ErrorInput>,
    /// How long until the next attempt.
    #[serde(default, alias = "snoozeMs")]
    pub snooze_ms: Option<u64>,
    /// What it said.
    #[serde(default)]
    pub logs: Option<Vec<LogInput>>,
    /// Text that is kept with the attempt.
    #[serde(default)]
    pub output: Option<String>,
}

/// What went wrong.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorInput {
    /// Short and stable.
    #[serde(rename = "type", alias = "kind", default)]
    pub kind: Option<String>,
    /// For people.
    #[serde(default)]
    pub message: Option<String>,
    /// Where.
    #[serde(default)]
    pub stack: Option<String>,
    /// Whether another try makes sense.
    #[serde(default)]
    pub retryable: Option<bool>,
    /// No earlier than this.
    #[serde(default, alias = "retryAfterMs")]
    pub retry_after_ms: Option<u64>,
}

/// How many attempts ended: each a [`CompleteInput`], or its text where they are read one by one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "T: Deserialize<'de>"))]
pub struct CompleteBatchInput<T> {
    /// Each of them.
    pub completions: Vec<T>,
}

/// What is given back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseInput {
    /// The fence of the claim.
    #[serde(default, alias = "fenceToken")]
    pub fence_token: Option<u64>,
    /// Who claimed it.
    #[serde(default, alias = "workerId")]
    pub worker_id: Option<String>,
}

impl<'de> Deserialize<'de> for LogInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Whole {
            #[serde(default)]
            at: Option<String>,
            #[serde(default)]
            level: Option<String>,
            message: String,
        }
        struct Line;
        impl<'de> Visitor<'de> for Line {
            type Value = LogInput;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a line: a string, or an object with `message`")
            }
            fn visit_str<E>(self, text: &str) -> Result<LogInput, E> {
                Ok(LogInput { message: text.to_owned(), ..LogInput::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LogInput, A::Error> {
                let Whole { at, level, message } = Whole::deserialize(MapAccessDeserializer::new(map))?;
                Ok(LogInput { at, level, message })
            }
        }
        deserializer.deserialize_any(Line)
    }
}

/// Reads a request; `Err` is a text that is not JSON, or a fault of a field.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| {
        if !error.is_data() {
            return Unreadable::NotJson(error.to_string());
        }
        let message = error.to_string();
        let code = match () {
            () if message.starts_with("unknown field") => UNKNOWN_FIELD,
            () if message.starts_with("duplicate field") => "field_duplicate",
            () if message.starts_with("missing field") => "field_missing",
            () if message.starts_with("recursion limit") => return Unreadable::NotJson(message),
            () => "wrong_type",
        };
        // A message quotes what was sent, which may be long.
        let message: String = message.chars().take(300).collect();
        Unreadable::Fault(FieldProblem::new("", code, message))
    })
}

/// Why a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not JSON.
    NotJson(String),
    /// A field is at fault.
    Fault(FieldProblem),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        Beat, ClaimRequest, CompleteBatchRequest, CompleteRequest, Completion, HeartbeatRequest, LogLine,
    };
    use serde_json::json;

    #[test]
    fn what_our_client_sends_is_read() {
        let claim = ClaimRequest { worker_id: "w".into(), capacity: 3, wait_ms: 7, ..Default::default() };
        let claim = serde_json::to_string(&claim).unwrap();
        let read_claim: ClaimInput = read(&claim).unwrap();
        assert_eq!((read_claim.worker_id.as_str(), read_claim.capacity, read_claim.wait_ms), ("w", 3, Some(7)));

        let line = LogLine { level: Some("warn".into()), message: "m".into(), ..Default::default() };
        let beat = Beat {
            id: "e".into(),
            fence_token: 9,
            checkpoint: Some(json!({"p":1})),
            logs: vec![line],
            ..Default::default()
        };
        let beats = HeartbeatRequest { worker_id: "w".into(), executions: vec![beat], ..Default::default() };
        let beats = serde_json::to_string(&beats).unwrap();
        let beats: HeartbeatInput<'_> = read(&beats).unwrap();
        let beat = &beats.executions.unwrap()[0];
        assert_eq!((&*beat.id, beat.fence_token, beat.checkpoint.unwrap().get()), ("e", Some(9), r#"{"p":1}"#));
        assert_eq!(beat.logs.as_ref().unwrap()[0].level.as_deref(), Some("warn"));

        let complete = CompleteRequest { result: Some(json!([1])), ..CompleteRequest::new(CompleteStatus::Succeeded) };
        let batch = CompleteBatchRequest { completions: vec![Completion { id: "e".into(), complete }] };
        let batch = serde_json::to_string(&batch).unwrap();
        let whole: CompleteBatchInput<CompleteInput<'_>> = read(&batch).unwrap();
        assert_eq!(whole.completions.len(), 1);
        let batch: CompleteBatchInput<&RawValue> = read(&batch).unwrap();
        let one: CompleteInput<'_> = read(batch.completions[0].get()).unwrap();
        assert_eq!(
            (one.id.as_deref(), one.status, one.result.unwrap().get()),
            (Some("e"), CompleteStatus::Succeeded, "[1]")
        );
    }

    #[test]
    fn the_seeds_forms_and_camel_case_are_read() {
        let beats: HeartbeatInput<'_> = read(r#"{"worker_id":"w","execution_ids":["a","b"]}"#).unwrap();
        assert_eq!(beats.execution_ids.unwrap(), ["a", "b"]);
        let complete: CompleteInput<'_> = read(r#"{"status":"SUCCEEDED","durationMs":34200,"workerId":"w"}"#).unwrap();
        assert_eq!((complete.duration_ms, complete.worker_id.as_deref()), (Some(34_200), Some("w")));
        let failed = r#"{"status":"failed","error":{"type":"x","retryable":false,"retry_after_ms":null},"logs":["a"]}"#;
        let failed: CompleteInput<'_> = read(failed).unwrap();
        assert_eq!(failed.error.unwrap().retryable, Some(false));
        assert_eq!(failed.logs.unwrap()[0].message, "a");
    }

    #[test]
    fn faults_have_codes() {
        let code = |text: &str| match read::<CompleteInput<'_>>(text).unwrap_err() {
            Unreadable::NotJson(_) => "not json".to_owned(),
            Unreadable::Fault(fault) => fault.code,
        };
        assert_eq!(code("{"), "not json");
        assert_eq!(code(r#"{"status":"SUCCEEDED","fence_tokn":1}"#), "field_unknown");
        assert_eq!(code(r#"{"status":"SUCCEEDED","fence_token":1,"fenceToken":1}"#), "field_duplicate");
        assert_eq!(code("{}"), "field_missing");
        assert_eq!(code(r#"{"status":"GREAT"}"#), "wrong_type");
        assert_eq!(code(r#"{"status":"SUCCEEDED","fence_token":-1}"#), "wrong_type");
        assert_eq!(code("[]"), "wrong_type");
    }
}
