//! What it means when there is no answer: refused, broken off, unresolvable, untrusted.

use crate::guard::resolver::LookupError;
use campanile_model::limits;
use std::error::Error;
use std::io::ErrorKind;

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Stable word for machines, such as `dns`.
    pub kind: &'static str,
    /// For people, within `limits::ERROR_BYTES_MAX`. Names the target's origin and never the whole URL, which may hold a
    /// secret.
    pub message: String,
    /// Whether it may be over at the next attempt.
    pub retryable: bool,
}

impl Failure {
    /// A failure of this kind; a long message is cut.
    pub fn new(kind: &'static str, mut message: String, retryable: bool) -> Self {
        message.truncate(message.floor_char_boundary(limits::ERROR_BYTES_MAX));
        Self { kind, message, retryable }
    }

    /// What `error` means for a request to `origin`.
    pub fn of(origin: &str, error: reqwest::Error) -> Self {
        // The client's own text names the URL.
        let error = error.without_url();
        let Cause { kind, what, retryable } = explain(&error);
        Self::new(kind, format!("{origin}: {what}"), retryable)
    }
}

struct Cause {
    kind: &'static str,
    what: String,
    retryable: bool,
}

/// The first cause that we know, from the outside in.
fn explain(error: &reqwest::Error) -> Cause {
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
        return passing("connect_timeout", "no connection in time");
    }
    passing(if error.is_connect() { "connect" } else { "protocol" }, deepest)
}

/// Something that may be over at the next attempt.
fn passing(kind: &'static str, what: impl Into<String>) -> Cause {
    Cause { kind, what: what.into(), retryable: true }
}

fn known(error: &(dyn Error + 'static)) -> Option<Cause> {
    if let Some(lookup) = error.downcast_ref::<LookupError>() {
        return Some(match lookup {
            // What the guard refuses stays refused.
            LookupError::Refused(why) => Cause { kind: why.code, what: why.to_string(), retryable: false },
            LookupError::Failed(why) => passing("dns", format!("the name cannot be resolved: {why}")),
        });
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(passing("tls", format!("no trusted TLS connection: {tls}")));
    }
    if let Some(http) = error.downcast_ref::<hyper::Error>() {
        return if http.is_incomplete_message() {
            Some(passing("reset", "the connection was closed before the answer was complete"))
        } else if http.is_parse() {
            Some(passing("protocol", format!("this is no answer of an HTTP server: {http}")))
        } else {
            None
        };
    }
    let io = error.downcast_ref::<std::io::Error>()?;
    // An I/O error hides what it wraps from `source`.
    if let Some(inner) = io.get_ref().and_then(|inner| known(inner)) {
        return Some(inner);
    }
    match io.kind() {
        ErrorKind::ConnectionRefused => Some(passing("connect", "the connection was refused")),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => Some(passing("reset", "the connection was reset")),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            Some(passing("connect", format!("the target cannot be reached: {io}")))
        }
        ErrorKind::TimedOut => Some(passing("connect_timeout", "no connection in time")),
        _ => None,
    }
}
