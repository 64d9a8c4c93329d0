//! A refusal, as RFC 9457 has it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was refused (`application/problem+json`, RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Address of a page about this kind of problem.
    #[serde(rename = "type", default)]
    #[schema(example = "https://campanile.dev/errors/cron-invalid")]
    pub kind: String,
    /// The kind of problem, in words.
    #[schema(example = "The input is not valid")]
    pub title: String,
    /// HTTP status.
    #[schema(example = 422)]
    pub status: u16,
    /// The kind of problem, for programs. Never changes its meaning.
    #[schema(example = "cron_invalid")]
    pub code: String,
    /// What is wrong this time.
    #[serde(default)]
    pub detail: String,
    /// The fields at fault, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// For a conflict with the state of a thing: that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// For a conflict with a version: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The request, as it is in the server's log.
    #[serde(default)]
    pub request_id: String,
    /// Whether the same request may work later.
    #[serde(default)]
    pub retryable: bool,
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldProblem {
    /// JSON pointer to the field, as the request spelt it.
    #[schema(example = "/schedule/cron")]
    pub pointer: String,
    /// What is wrong, for programs.
    #[schema(example = "cron_invalid")]
    pub code: String,
    /// What is wrong, in words.
    pub message: String,
    /// What to do about it, where we know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Start and end (exclusive) of the fault within a text, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<u64>>, example = json!([2, 4]))]
    pub position: Option<(usize, usize)>,
}

impl Problem {
    /// One line for people: the detail, and the first field at fault.
    pub fn summary(&self) -> String {
        let detail = if self.detail.is_empty() { &self.title } else { &self.detail };
        format!("{detail} ({}, HTTP {})", self.code, self.status)
    }
}

impl FieldProblem {
    /// A problem with the field at `pointer`.
    pub fn new(pointer: impl Into<String>, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code: code.into(), message: message.into(), hint: None, position: None }
    }

    /// The same with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
