//! Events: what is told of what happened, and how it reads to whoever is told. The same from every store.

use campanile_model::execution::{AttemptError, Reason};
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::lifecycle::State;
use campanile_model::notify::{EventKind, WatchKind};
use campanile_model::time::Timestamp;
use serde::Serialize;

/// Something that may be told.
pub(crate) struct Happened<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) kind: EventKind,
    pub(crate) job: JobId,
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) at: Timestamp,
    /// What is told of it.
    pub(crate) facts: Facts<'a>,
}

pub(crate) enum Facts<'a> {
    /// An attempt ended, and the execution is so now.
    Ended(Ended<'a>),
    /// An expectation was not met by its instant.
    Broken { expectation: WatchKind, due_at: Timestamp },
    /// A job succeeded again.
    Recovered {
        /// How long it had not.
        since: Timestamp,
    },
}

/// An execution after an attempt.
pub(crate) struct Ended<'a> {
    pub(crate) state: State,
    pub(crate) reason: Option<Reason>,
    /// Tries so far.
    pub(crate) attempt: u32,
    /// The instant it was due.
    pub(crate) fire_at: Timestamp,
    /// When the first attempt started.
    pub(crate) first_started_at: Option<Timestamp>,
    /// When the newest attempt started.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// What went wrong in it.
    pub(crate) error: Option<&'a AttemptError>,
    /// The group that it belongs to, if it is dead.
    pub(crate) fingerprint: Option<u64>,
}

/// The `data` of the envelope. Names and texts are those of the API.
#[derive(Serialize, Default)]
struct Data<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<String>,
    job_id: String,
    job_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fire_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<DataError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expectation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

#[derive(Serialize)]
struct DataError<'a> {
    r#type: &'a str,
    message: &'a str,
}

/// The text of an event's `data`.
pub(crate) fn data(happened: &Happened<'_>, job_name: &str) -> String {
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let whose = Data {
        execution_id: happened.execution.map(|id| id.to_string()),
        job_id: happened.job.to_string(),
        job_name,
        ..Data::default()
    };
    let data = match &happened.facts {
        Facts::Ended(ended) => Data {
            state: Some(ended.state.as_str()),
            reason: ended.reason.map(Reason::as_str),
            attempt: Some(ended.attempt),
            fire_at: text(Some(ended.fire_at)),
            started_at: text(ended.started_at),
            finished_at: text(ended.finished_at),
            lateness_ms: ended.first_started_at.map(|at| at.ms_since(ended.fire_at)),
            duration_ms: ended.started_at.zip(ended.finished_at).map(|(from, to)| to.ms_since(from)),
            error: ended.error.map(|error| DataError { r#type: &error.kind, message: &error.message }),
            fingerprint: ended.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")),
            ..whose
        },
        Facts::Broken { expectation, due_at } => {
            Data { expectation: Some(expectation.as_str()), due_at: text(Some(*due_at)), ..whose }
        }
        Facts::Recovered { since } => Data { since: text(Some(*since)), ..whose },
    };
    serde_json::to_string(&data).expect("texts and numbers are always JSON")
}
