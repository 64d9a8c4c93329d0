//! The action that does nothing, successfully: for benchmarks, and as the heartbeat of an installation.

use crate::config;
use campanile_model::action::{Action, ActionKind, Work};
use campanile_model::execution::Outcome;
use campanile_model::queue::Dispatch;
use campanile_model::{FieldError, Timestamp};

/// The action that does nothing. Its config is an empty object.
#[derive(Copy, Clone, Debug, Default)]
pub struct Noop;

#[async_trait::async_trait]
impl Action for Noop {
    fn kind(&self) -> ActionKind {
        ActionKind::Noop
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        config::parse(config, &[])?;
        Ok("{}".into())
    }

    fn instant(&self, _work: &Dispatch, _now: Timestamp) -> Option<Outcome> {
        Some(Outcome::Succeeded { response: None })
    }

    async fn run(&self, _work: &Work) -> Outcome {
        Outcome::Succeeded { response: None }
    }
}
