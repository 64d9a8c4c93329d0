//! One page of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
    /// The `cursor` of the next page. Opaque, and only good for the same filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
