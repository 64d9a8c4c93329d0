//! What it means when there is no answer: refused, broken off, unresolvable, untrusted.

use crate::guard::Refused;
use crate::guard::resolver::LookupError;
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::limits;
use std::error::Error;
use std::io::ErrorKind;

/// The outcome of an attempt whose request failed with `error`. The message names the target's origin and never the whole
/// URL, which may hold a secret.
pub(super) fn settle(origin: &str, error: reqwest::Error) -> Outcome {
    // The client's own text names the URL.
    let error = error.without_url();
    let (kind, what) = explain(&error);
    // What the guard refuses stays refused; everything else may pass.
    let retryable = kind != REFUSED;
    failed(kind, format!("{origin}: {what}"), retryable)
}

/// The outcome of an attempt that was not let out.
pub(super) fn refused(why: &Refused) -> Outcome {
    failed(REFUSED, why.to_string(), false)
}

/// A failure without an answer.
pub(super) fn failed(kind: &str, mut message: String, retryable: bool) -> Outcome {
    if message.len() > limits::ERROR_BYTES_MAX {
        message.truncate(message.floor_char_boundary(limits::ERROR_BYTES_MAX));
    }
    let error = AttemptError { kind: kind.into(), message };
    Outcome::Failed { error, retryable, retry_after_ms: None, pause_job: false, response: None }
}

const REFUSED: &str = "target_refused";

/// The kind of an error, and what happened in words: the first cause that we know, from the outside in.
fn explain(error: &reqwest::Error) -> (&'static str, String) {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut deepest = error.to_string();
    while let Some(found) = cause {
        if let Some(known) = known(found) {
            return known;
        }
        deepest = found.to_string();
        cause = found.source();
    }
    if error.is_timeout() {
        return ("connect_timeout", "no connection in time".into());
    }
    (if error.is_connect() { "connect" } else { "protocol" }, deepest)
}

fn known(error: &(dyn Error + 'static)) -> Option<(&'static str, String)> {
    if let Some(lookup) = error.downcast_ref::<LookupError>() {
        return Some(match lookup {
            LookupError::Refused(why) => (REFUSED, why.to_string()),
            LookupError::Failed(why) => ("dns", format!("the name cannot be resolved: {why}")),
        });
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(("tls", format!("no trusted TLS connection: {tls}")));
    }
    if let Some(http) = error.downcast_ref::<hyper::Error>() {
        if http.is_incomplete_message() {
            return Some(("reset", "the connection was closed before the answer was complete".into()));
        }
        if http.is_parse() {
            return Some(("protocol", format!("this is no answer of an HTTP server: {http}")));
        }
        return None;
    }
    let io = error.downcast_ref::<std::io::Error>()?;
    // An I/O error hides what it wraps from `source`.
    if let Some(inner) = io.get_ref().and_then(|inner| known(inner)) {
        return Some(inner);
    }
    match io.kind() {
        ErrorKind::ConnectionRefused => Some(("connect", "the connection was refused".into())),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            Some(("reset", "the connection was reset".into()))
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            Some(("connect", format!("the target cannot be reached: {io}")))
        }
        ErrorKind::TimedOut => Some(("connect_timeout", "no connection in time".into())),
        _ => None,
    }
}
