//! How a handler says that it did not do what it should.

use super::limits::{KIND_BYTES_MAX, MESSAGE_BYTES_MAX, cut};
use crate::wire::WorkerError;
use std::fmt;
use std::time::Duration;

/// Why a handler did not succeed, and what should be done about it.
///
/// Any error converts into [`Retry`](Outcome::Retry), so that `?` means "try again as the job's policy has it". That is
/// why this type is no error itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It failed. The job's policy decides whether and when it is tried again.
    Retry(Failure),
    /// It failed, and should not be tried again earlier than this.
    RetryAfter(Duration, Failure),
    /// It is too early. It is tried again after this, and the attempt does not count.
    Snooze(Duration),
    /// It failed, and trying again would be of no use.
    Permanent(Failure),
    /// It stopped because it was told to.
    Cancelled,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Short and stable: what failures are grouped by.
    pub kind: String,
    /// For people.
    pub message: String,
    /// What caused it, one line each.
    pub stack: Option<String>,
}

impl Outcome {
    /// It failed with this message, and may be tried again. For errors that do not convert by themselves:
    /// `map_err(Outcome::retry)`.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::Retry(Failure::new("error", message))
    }

    /// The same, no earlier than `delay` from now.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        Self::RetryAfter(delay, Failure::new("error", message))
    }

    /// It failed for good with this message.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::Permanent(Failure::new("permanent", message))
    }
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { kind: kind.into(), message: message.to_string(), stack: None }
    }

    pub(super) fn into_wire(self, retryable: bool, retry_after: Option<Duration>) -> WorkerError {
        WorkerError {
            kind: cut(self.kind, KIND_BYTES_MAX),
            message: cut(self.message, MESSAGE_BYTES_MAX),
            stack: self.stack.map(|stack| cut(stack, MESSAGE_BYTES_MAX)),
            retryable,
            retry_after_ms: retry_after.map(millis),
        }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::new("error", message)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::new("error", message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Outcome {
    fn from(error: E) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let stack: Vec<String> = causes.map(|cause| format!("caused by: {cause}")).collect();
        let stack = (!stack.is_empty()).then(|| stack.join("\n"));
        Self::Retry(Failure { stack, ..Failure::new(std::any::type_name::<E>(), &error) })
    }
}

/// Whole milliseconds, as the wire has them.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn any_error_is_tried_again_with_its_type_and_causes() {
        fn fails() -> Result<(), Outcome> {
            Err(io::Error::other(io::Error::from(io::ErrorKind::NotFound)))?;
            Ok(())
        }
        let Err(Outcome::Retry(failure)) = fails() else { panic!("not a retry") };
        assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("std::io::error::Error", "entity not found"));
        let wire = failure.into_wire(true, Some(Duration::from_secs(2)));
        assert_eq!((wire.retryable, wire.retry_after_ms), (true, Some(2_000)));
        let parse = Outcome::from(serde_json::from_str::<u8>("x").unwrap_err());
        assert!(matches!(parse, Outcome::Retry(failure) if failure.kind == "serde_json::error::Error"));
    }

    #[test]
    fn messages_are_failures() {
        assert_eq!(Outcome::Permanent("gone".into()), Outcome::Permanent(Failure::new("error", "gone")));
        assert_eq!(Outcome::retry("no"), Outcome::Retry("no".into()));
        let long = Failure::from("x".repeat(10_000)).into_wire(false, None);
        assert!(long.message.len() <= MESSAGE_BYTES_MAX && !long.retryable);
    }
}
