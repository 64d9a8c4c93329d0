//! How an attempt's end is told: from what the handler did, and whether it had been told to stop. Pure.

use super::handlers::Returned;
use super::limits::{MESSAGE_BYTES_MAX, cut};
use super::outcome::{Failure, Outcome, millis};
use super::running::Stop;
use crate::wire::{CompleteRequest, CompleteStatus};
use std::time::Duration;

/// The kind of the failure of an attempt that a worker cut off because it ends.
const WORKER_STOPPED: &str = "worker_stopped";

/// What a handler did.
#[derive(Debug)]
pub(super) enum Ending {
    /// It returned.
    Returned(Returned),
    /// It panicked with this message.
    Panicked(String),
    /// It did not return, and was dropped.
    Dropped,
}

/// What is told; nothing, where it is no longer ours to tell.
///
/// - What succeeded has succeeded, even if it was told to stop. Only past its time limit it is too late.
/// - Told to cancel, everything else is `CANCELLED`, whatever error it made of it.
/// - Told to stop because the worker ends, `Cancelled` is not the user's will: it failed, and is tried again.
pub(super) fn complete(ending: Ending, stop: Option<Stop>, timeout_ms: u64) -> Option<CompleteRequest> {
    match (stop, ending) {
        (Some(Stop::Stale), _) => None,
        (Some(Stop::TimedOut), _) => Some(timed_out(timeout_ms)),
        (_, Ending::Returned(Ok(result))) => {
            Some(CompleteRequest { result, ..CompleteRequest::new(CompleteStatus::Succeeded) })
        }
        (Some(Stop::Cancelled), ending) => Some(cancelled(ending)),
        (Some(Stop::Draining), Ending::Dropped | Ending::Returned(Err(Outcome::Cancelled))) => {
            let message = "the worker ended before the handler did";
            Some(failed(Failure::new(WORKER_STOPPED, message), true, None))
        }
        (_, Ending::Returned(Err(outcome))) => Some(unsuccessful(outcome)),
        (_, Ending::Panicked(message)) => Some(failed(Failure::new("panic", message), true, None)),
        // Only a reason to stop makes it drop; this is for the compiler.
        (None, Ending::Dropped) => Some(failed(Failure::new(WORKER_STOPPED, "the handler was dropped"), true, None)),
    }
}

fn unsuccessful(outcome: Outcome) -> CompleteRequest {
    match outcome {
        Outcome::Retry(failure) => failed(failure, true, None),
        Outcome::RetryAfter(delay, failure) => failed(failure, true, Some(delay)),
        Outcome::Permanent(failure) => failed(failure, false, None),
        Outcome::Snooze(delay) => {
            CompleteRequest { snooze_ms: Some(millis(delay)), ..CompleteRequest::new(CompleteStatus::Snoozed) }
        }
        Outcome::Cancelled => CompleteRequest::new(CompleteStatus::Cancelled),
    }
}

fn failed(failure: Failure, retryable: bool, retry_after: Option<Duration>) -> CompleteRequest {
    let error = Some(failure.into_wire(retryable, retry_after));
    CompleteRequest { error, ..CompleteRequest::new(CompleteStatus::Failed) }
}

fn timed_out(timeout_ms: u64) -> CompleteRequest {
    let failure = Failure::new("timeout", format!("it did not end within {timeout_ms} ms"));
    CompleteRequest { status: CompleteStatus::TimedOut, ..failed(failure, true, None) }
}

/// Cancelled, with what the handler said about it.
fn cancelled(ending: Ending) -> CompleteRequest {
    let error = match ending {
        Ending::Returned(Err(Outcome::Retry(f) | Outcome::RetryAfter(_, f) | Outcome::Permanent(f))) => Some(f),
        Ending::Panicked(message) => Some(Failure::new("panic", cut(message, MESSAGE_BYTES_MAX))),
        Ending::Dropped => Some(Failure::new("cancelled", "the handler did not return when it was cancelled")),
        Ending::Returned(_) => None,
    };
    let error = error.map(|failure| failure.into_wire(false, None));
    CompleteRequest { error, ..CompleteRequest::new(CompleteStatus::Cancelled) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CompleteStatus::{Cancelled, Failed, Snoozed, Succeeded, TimedOut};
    use serde_json::json;

    fn returned(outcome: Outcome) -> Ending {
        Ending::Returned(Err(outcome))
    }

    #[track_caller]
    fn check(ending: Ending, stop: Option<Stop>, status: CompleteStatus, kind: Option<&str>) -> CompleteRequest {
        let complete = complete(ending, stop, 100).expect("it is told");
        let found = complete.error.as_ref().map(|error| error.kind.as_str());
        assert_eq!((complete.status, found), (status, kind));
        complete
    }

    #[test]
    fn outcomes_are_told_as_they_are() {
        let success = check(Ending::Returned(Ok(Some(json!(1)))), None, Succeeded, None);
        assert_eq!(success.result, Some(json!(1)));
        let retry = check(returned(Outcome::retry("no")), None, Failed, Some("error")).error.unwrap();
        assert_eq!((retry.retryable, retry.retry_after_ms), (true, None));
        let later = returned(Outcome::retry_after(Duration::from_secs(9), "busy"));
        assert_eq!(check(later, None, Failed, Some("error")).error.unwrap().retry_after_ms, Some(9_000));
        let permanent = check(returned(Outcome::permanent("gone")), None, Failed, Some("permanent"));
        assert!(!permanent.error.unwrap().retryable);
        let snooze = check(returned(Outcome::Snooze(Duration::from_secs(60))), None, Snoozed, None);
        assert_eq!(snooze.snooze_ms, Some(60_000));
        check(returned(Outcome::Cancelled), None, Cancelled, None);
        assert!(check(Ending::Panicked("oh".into()), None, Failed, Some("panic")).error.unwrap().retryable);
    }

    #[test]
    fn a_cancel_turns_errors_into_cancelled_and_leaves_success() {
        let stop = Some(Stop::Cancelled);
        check(Ending::Returned(Ok(None)), stop, Succeeded, None);
        check(returned(Outcome::retry("aborted")), stop, Cancelled, Some("error"));
        check(returned(Outcome::Cancelled), stop, Cancelled, None);
        check(Ending::Dropped, stop, Cancelled, Some("cancelled"));
        check(Ending::Panicked("oh".into()), stop, Cancelled, Some("panic"));
    }

    #[test]
    fn the_end_of_a_worker_cancels_nobodys_execution() {
        let stop = Some(Stop::Draining);
        check(Ending::Returned(Ok(None)), stop, Succeeded, None);
        for ending in [Ending::Dropped, returned(Outcome::Cancelled)] {
            assert!(check(ending, stop, Failed, Some("worker_stopped")).error.unwrap().retryable);
        }
        check(returned(Outcome::Snooze(Duration::ZERO)), stop, Snoozed, None);
        check(returned(Outcome::retry("no")), stop, Failed, Some("error"));
    }

    #[test]
    fn past_its_limit_everything_is_too_late() {
        for ending in [Ending::Returned(Ok(None)), Ending::Dropped, returned(Outcome::Cancelled)] {
            check(ending, Some(Stop::TimedOut), TimedOut, Some("timeout"));
        }
    }

    #[test]
    fn a_stale_attempt_tells_nothing() {
        assert!(complete(Ending::Returned(Ok(None)), Some(Stop::Stale), 100).is_none());
        assert!(complete(Ending::Dropped, Some(Stop::Stale), 100).is_none());
    }
}
