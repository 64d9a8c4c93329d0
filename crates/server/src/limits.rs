//! What every request passes through: its id, the bounds on its head, a time limit, and the headers of every answer.
//!
//! Handlers of writes run in a task of their own, because a dropped connection drops the handler, and a write must not end
//! half-way. Handlers of reads, and claims of workers, end with their client.

use crate::App;
use crate::problem::Refusal;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use campanile_client::wire::json;
use campanile_model::limits;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Longest address.
const URI_BYTES_MAX: usize = 8 * 1024;
/// Longest wait that a client may ask for.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where workers ask for work, and wait for it.
pub(crate) const CLAIM_PATH: &str = "/internal/v1/executions/claim";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The outermost layer: gives the request its id, renders refusals, and sets the headers of every answer.
pub(crate) async fn finish(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let case = query_value(request.uri().query(), "case");
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let camel = match case.as_deref() {
        None | Some("snake") => Ok(false),
        Some("camel") => Ok(true),
        Some(_) => Err(Refusal::bad_request("parameter_invalid", "`case` must be snake or camel")),
    };
    let mut response = match &camel {
        Ok(_) => next.run(request).await,
        Err(refusal) => refusal.clone().into_response(),
    };
    if method == Method::OPTIONS && response.status() == StatusCode::METHOD_NOT_ALLOWED {
        *response.status_mut() = StatusCode::NO_CONTENT;
        *response.body_mut() = Body::empty();
    }
    let mut response = render_refusal(response, &method, &path, id.to_str().unwrap_or_default());
    if camel.unwrap_or(false) {
        response = render_camel(response).await;
    }
    let status = response.status();
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    headers.entry(header::X_FRAME_OPTIONS).or_insert(HeaderValue::from_static("DENY"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'"));
    tracing::debug!(%method, path, status = status.as_u16(), request_id = id.to_str().unwrap_or_default(), "request");
    response
}

/// The inner layer: bounds on the head, and the time limit.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    if let Err(refusal) = check_head(&request) {
        return refusal.into_response();
    }
    // A claim is asked for by somebody who waits. When that one leaves, nobody must be given anything; what was taken
    // already is taken back by the engine, which notices.
    let is_claim = *request.method() == Method::POST && request.uri().path() == CLAIM_PATH;
    let is_read = is_claim || matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let mut limit = Duration::from_millis(app.options.handler_timeout_ms);
    if is_claim || (is_read && query_value(request.uri().query(), "wait").is_some()) {
        limit += WAIT_MAX;
    }
    // What is logged on the way carries the id that the client is told.
    let id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    let span = tracing::info_span!("request", request_id = id);
    let task = tokio::spawn(next.run(request).instrument(span));
    let _ends_with_us = is_read.then(|| AbortOnDrop(task.abort_handle()));
    match tokio::time::timeout(limit, task).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::error!(%error, "a handler panicked");
            let detail = "an error of the server; its log has the details under this request_id";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
        }
        Err(_) => {
            let detail = if is_read {
                "it took too long"
            } else {
                "it took too long and may still happen: read before you send it again, or send it with the same Idempotency-Key"
            };
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", detail).into_response()
        }
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn check_head(request: &Request) -> Result<(), Refusal> {
    let uri = request.uri();
    if uri.path().len() + uri.query().map_or(0, str::len) > URI_BYTES_MAX {
        let detail = format!("an address has at most {URI_BYTES_MAX} bytes");
        return Err(Refusal::new(StatusCode::URI_TOO_LONG, "uri_too_long", detail));
    }
    let bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > limits::HEADER_BYTES_MAX {
        let detail = format!("the headers have more than {} bytes", limits::HEADER_BYTES_MAX);
        return Err(Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", detail));
    }
    Ok(())
}

/// The client's id of the request if it is harmless to log, or one of ours.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let harmless = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"._-:".contains(b);
        (1..=128).contains(&bytes.len()) && bytes.iter().all(allowed)
    };
    headers.get(REQUEST_ID).filter(harmless).cloned().unwrap_or_else(new_request_id)
}

fn new_request_id() -> HeaderValue {
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut random = [0u8; 26];
    // Without entropy ids are equal, which costs an operator time and nobody else anything.
    let _ = aws_lc_rs::rand::fill(&mut random);
    let text: String = random.iter().map(|byte| ALPHABET[(byte & 31) as usize] as char).collect();
    HeaderValue::try_from(format!("req_{text}")).expect("letters and digits are a header value")
}

fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query?.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Turns a refusal, or a refusal by the router itself, into `application/problem+json`.
fn render_refusal(mut response: Response, method: &Method, path: &str, request_id: &str) -> Response {
    let refusal = match response.extensions_mut().remove::<Refusal>() {
        Some(refusal) => refusal,
        None => match response.status() {
            StatusCode::NOT_FOUND => {
                Refusal::new(StatusCode::NOT_FOUND, "route_not_found", format!("there is nothing at {}", shown(path)))
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                let detail = format!("{method} is not allowed at {}", shown(path));
                Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
            }
            StatusCode::BAD_REQUEST => Refusal::bad_request("path_invalid", "the path cannot be read"),
            status if status.is_client_error() || status.is_server_error() => {
                Refusal::new(status, "refused", status.canonical_reason().unwrap_or("refused"))
            }
            _ => return response,
        },
    };
    let body = serde_json::to_string(&refusal.into_problem(request_id)).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
    response
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

/// The same answer with camelCase keys.
async fn render_camel(response: Response) -> Response {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| matches!(value.as_bytes(), b"application/json" | b"application/problem+json"));
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = body.collect().await.map(|body| body.to_bytes()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = match std::str::from_utf8(&bytes) {
        Ok(text) if !text.is_empty() => Body::from(json::camel(text)),
        _ => Body::from(bytes),
    };
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_request_ids_are_kept_and_others_replaced() {
        let id = |value: &[u8]| {
            let headers = HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_bytes(value).unwrap())]);
            request_id(&headers).to_str().unwrap().to_owned()
        };
        assert_eq!(id(b"abc-1.2:3_4"), "abc-1.2:3_4");
        for bad in [&b""[..], b"a b", b"a\"b", b"\xff", &[b'a'; 129]] {
            assert!(id(bad).starts_with("req_"), "{bad:?}");
        }
        assert_ne!(new_request_id(), new_request_id());
    }
}
