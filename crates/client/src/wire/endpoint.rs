//! Webhook endpoints: who wants to hear of what, and what was sent there.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Who wants to hear of what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpoint {
    /// Identity.
    #[schema(example = "ntf_01J9ZC0000000000000000TEST")]
    pub id: String,
    /// Where events go.
    pub url: String,
    /// Which: `succeeded`, `failed`, `dead`, `late`, `recovered`.
    pub events: Vec<String>,
    /// Only of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Only of jobs with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether nothing is sent; events are kept.
    pub paused: bool,
    /// When it was made.
    pub created_at: String,
}

/// Who wants to hear of what, as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointSpec {
    /// Where events go: CloudEvents 1.0 by POST, signed as webhooks are.
    #[schema(example = "https://example.com/campanile")]
    pub url: String,
    /// Which, at least one of `succeeded`, `failed`, `dead`, `late` and `recovered`.
    #[schema(example = json!(["dead", "late", "recovered"]))]
    pub events: Vec<String>,
    /// Only of this job: id, or `name:` and a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only of jobs with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether nothing is sent; events are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// An event on its way to an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// Its position among all deliveries.
    pub seq: u64,
    /// The id of the event towards this endpoint, which is the same for every try.
    pub event_id: String,
    /// To whom.
    pub endpoint_id: String,
    /// What happened: `succeeded`, `failed`, `dead`, `late` or `recovered`.
    pub event: String,
    /// To which job.
    pub job_id: String,
    /// To which execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// When.
    pub at: String,
    /// `WAITING`, `DELIVERED` or `FAILED` (given up).
    pub state: String,
    /// Tries so far.
    pub tries: u32,
    /// When it is tried next, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// HTTP status of the last try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The facts: the `data` of the envelope.
    pub data: Value,
}
