//! The action of jobs that an external worker pulls: the handler's name is all that we know about them.
//!
//! `model::action::ActionKind::Worker` belongs to `Runner::Worker`, so that no node ever receives one from a queue.

use crate::config;
use campanile_model::action::{Action, ActionKind, Work};
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::{FieldError, limits};
use serde_json::json;

/// The action of jobs that an external worker pulls. Its config is `{"handler": "..."}`.
#[derive(Copy, Clone, Debug, Default)]
pub struct Worker;

#[async_trait::async_trait]
impl Action for Worker {
    fn kind(&self) -> ActionKind {
        ActionKind::Worker
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        let config = config::parse(config, &["handler"])?;
        let refused = |code, message: String| {
            let hint = "name what the worker has registered, such as `generate_invoices`";
            Err(vec![FieldError::new("/action/handler", code, message).hint(hint)])
        };
        let Some(handler) = config.get("handler") else {
            return refused("handler_missing", "a worker's job needs a handler".into());
        };
        match serde_json::from_str::<String>(handler.get()) {
            Ok(handler) if is_handler(&handler) => Ok(json!({ "handler": handler }).to_string()),
            Ok(_) => refused(
                "handler_invalid",
                format!("a handler has 1 to {} bytes, no blanks and no control characters", limits::NAME_BYTES_MAX),
            ),
            Err(_) => refused("handler_invalid", "handler must be a string".into()),
        }
    }

    fn target(&self, config: &str) -> String {
        config::text(config, "handler").filter(|handler| is_handler(handler)).unwrap_or_default()
    }

    async fn run(&self, _work: &Work) -> Outcome {
        Outcome::Failed {
            error: AttemptError {
                kind: "no_worker_protocol".into(),
                message: "a node never runs a worker's handler itself: workers pull it".into(),
            },
            retryable: false,
            retry_after_ms: None,
            pause_job: false,
            response: None,
        }
    }
}

fn is_handler(handler: &str) -> bool {
    (1..=limits::NAME_BYTES_MAX).contains(&handler.len())
        && !handler.contains(|c: char| c.is_control() || c.is_whitespace())
}
