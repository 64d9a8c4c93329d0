//! From what went wrong to what the client is told: the single map from a kind of error to a status and a stable code.
//!
//! A handler returns a [`Refusal`]; the outermost layer renders it as `application/problem+json` (RFC 9457), because only
//! there the id of the request is known. Errors of ours (bugs, unreadable rows) are logged in full and told in general.

use axum::response::{IntoResponse, Response};
use campanile_client::wire::input::UNKNOWN_FIELD;
use campanile_client::wire::{FieldProblem, Problem};
use campanile_model::{Error, FieldError, Kind};
use http::StatusCode;

/// Why a request is refused.
#[derive(Clone, Debug)]
pub struct Refusal(Box<Problem>);

impl Refusal {
    /// A refusal with this status, code and detail.
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Self {
        let code = code.into();
        let retryable = matches!(status.as_u16(), 408 | 429 | 503);
        Self(Box::new(Problem {
            kind: format!("https://campanile.dev/errors/{}", code.replace('_', "-")),
            title: title(status).to_owned(),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            errors: Vec::new(),
            state: None,
            version: None,
            request_id: String::new(),
            retryable,
        }))
    }

    /// A request that cannot be understood.
    pub fn bad_request(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// Input that is wrong in these fields. What does not exist is malformed (400), what is too large is too large (413),
    /// and what has a meaning that we refuse is unprocessable (422).
    pub fn invalid(faults: Vec<FieldProblem>) -> Self {
        let has = |code: &str| faults.iter().any(|fault| fault.code == code);
        let status = if has(UNKNOWN_FIELD) {
            StatusCode::BAD_REQUEST
        } else if has("payload_too_large") {
            StatusCode::PAYLOAD_TOO_LARGE
        } else {
            StatusCode::UNPROCESSABLE_ENTITY
        };
        let first = match status {
            StatusCode::BAD_REQUEST => faults.iter().find(|fault| fault.code == UNKNOWN_FIELD),
            StatusCode::PAYLOAD_TOO_LARGE => faults.iter().find(|fault| fault.code == "payload_too_large"),
            _ => faults.first(),
        };
        let (code, detail) = match first {
            Some(fault) => {
                let place = if fault.pointer.is_empty() { String::new() } else { format!("{}: ", fault.pointer) };
                let more = match faults.len() - 1 {
                    0 => String::new(),
                    n => format!(" (and {n} more)"),
                };
                (fault.code.clone(), format!("{place}{}{more}", fault.message))
            }
            None => ("invalid".to_owned(), "the input is not valid".to_owned()),
        };
        let mut refusal = Self::new(status, code, detail);
        refusal.0.errors = faults;
        refusal
    }

    /// The same, about a thing in this state.
    pub fn with_state(mut self, state: &str) -> Self {
        self.0.state = Some(state.to_owned());
        self
    }

    /// The same, about a thing in this version.
    pub fn with_version(mut self, version: u32) -> Self {
        self.0.version = Some(version);
        self
    }

    /// The same, with pointers as the request spelt them.
    pub fn map_pointers(mut self, sent: impl Fn(&str) -> String) -> Self {
        let mut renamed = Vec::with_capacity(self.0.errors.len());
        for mut fault in std::mem::take(&mut self.0.errors) {
            fault.pointer = sent(&fault.pointer);
            renamed.push(fault);
        }
        if renamed.is_empty() { self } else { Self::invalid(renamed) }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Stable machine-readable code.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The body, for the request with this id.
    pub fn into_problem(self, request_id: &str) -> Problem {
        Problem { request_id: request_id.to_owned(), ..*self.0 }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match (error.kind(), error.code()) {
            (Kind::Conflict, "version_mismatch") => StatusCode::PRECONDITION_FAILED,
            (Kind::Invalid, _) => StatusCode::UNPROCESSABLE_ENTITY,
            (Kind::NotFound, _) => StatusCode::NOT_FOUND,
            (Kind::Conflict, _) => StatusCode::CONFLICT,
            (Kind::Unavailable, _) => StatusCode::SERVICE_UNAVAILABLE,
            // It may have happened: not a 503, which invites to send it again.
            (Kind::OutcomeUnknown, _) => StatusCode::GATEWAY_TIMEOUT,
            (Kind::Corrupt | Kind::Bug, _) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if error.kind() == Kind::Unavailable {
            // Its caller is told; that the store is away is told once, and not for every request.
            tracing::debug!(code = error.code(), %error, "request refused for now");
        } else if status.is_server_error() {
            tracing::error!(kind = ?error.kind(), code = error.code(), error = %error, "request failed");
        }
        match error.kind() {
            Kind::Invalid if !error.fields().is_empty() => {
                Self::invalid(error.fields().iter().cloned().map(field).collect())
            }
            Kind::Corrupt | Kind::Bug => {
                Self::new(status, error.code(), "an error of the server; its log has the details under this request_id")
            }
            _ => Self::new(status, error.code(), error.message()),
        }
    }
}

/// A fault of the domain, on the wire.
pub fn field(error: FieldError) -> FieldProblem {
    let FieldError { pointer, code, message, hint, position } = error;
    FieldProblem { pointer, code: code.to_owned(), message, hint, position }
}

impl IntoResponse for Refusal {
    /// A response without a body: the outermost layer finds the refusal in it, and renders it.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        if self.0.retryable {
            response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

fn title(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "The request is malformed",
        404 => "There is no such thing",
        405 => "This method is not allowed here",
        408 => "The request took too long to arrive",
        409 => "The thing is in another state",
        412 => "The thing is in another version",
        413 => "The request is too large",
        414 => "The address is too long",
        415 => "The body is of a type that is not accepted",
        422 => "The input is not valid",
        429 => "Too many requests",
        431 => "The headers are too large",
        503 => "Not available now",
        504 => "The outcome is not known",
        500.. => "An error of the server",
        _ => "The request was refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_status() {
        for (kind, code, status) in [
            (Kind::Invalid, "key_reused", 422),
            (Kind::NotFound, "job_not_found", 404),
            (Kind::Conflict, "name_taken", 409),
            (Kind::Conflict, "execution_final", 409),
            (Kind::Conflict, "version_mismatch", 412),
            (Kind::Unavailable, "unavailable", 503),
            (Kind::OutcomeUnknown, "outcome_unknown", 504),
            (Kind::Corrupt, "corrupt", 500),
            (Kind::Bug, "internal", 500),
        ] {
            let refusal = Refusal::from(Error::new(kind, "secret detail").with_code(code));
            assert_eq!((refusal.status().as_u16(), refusal.code()), (status, code));
            let problem = refusal.into_problem("req_1");
            assert_eq!(problem.retryable, status == 503);
            assert_eq!(problem.detail.contains("secret"), status != 500, "{problem:?}");
        }
    }

    #[test]
    fn unknown_fields_are_malformed_and_large_payloads_too_large() {
        let fault = |code| FieldProblem::new("/x", code, "wrong");
        assert_eq!(Refusal::invalid(vec![fault("cron_invalid")]).status(), 422);
        assert_eq!(Refusal::invalid(vec![fault("cron_invalid"), fault(UNKNOWN_FIELD)]).status(), 400);
        let large = Refusal::invalid(vec![fault("name_invalid"), fault("payload_too_large")]);
        assert_eq!((large.status().as_u16(), large.code()), (413, "payload_too_large"));
    }
}
