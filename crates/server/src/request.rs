//! What handlers are given: the parts of a request, read strictly.

use crate::problem::Refusal;
use crate::{App, convert, etag, idempotency};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use campanile_client::wire::FieldProblem;
use campanile_client::wire::input::{Faults, nearest};
use campanile_client::wire::json;
use campanile_model::fault::{Bug, planted};
use campanile_model::schedule::parse_duration_ms;
use campanile_model::store::JobKey;
use campanile_model::{EndpointId, ExecutionId, JobId, OperationId, Timestamp, limits};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// What a handler answers.
pub(crate) type Answer = Result<Response, Refusal>;

/// The parts of a request before its body.
pub(crate) struct Head {
    pub(crate) headers: HeaderMap,
    pub(crate) uri: Uri,
    query: Vec<(String, String)>,
}

impl FromRequestParts<App> for Head {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        // The address as the client wrote it; behind the alias `/api`, the router sees only a part of it.
        let uri =
            parts.extensions.get::<axum::extract::OriginalUri>().map_or_else(|| parts.uri.clone(), |uri| uri.0.clone());
        let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        Ok(Self { headers: parts.headers.clone(), uri, query })
    }
}

impl Head {
    /// The query's parameters, of which there are only these (and `case`, which every route has).
    pub(crate) fn params(&self, known: &'static [&'static str]) -> Result<Params<'_>, Refusal> {
        for (i, (name, _)) in self.query.iter().enumerate() {
            let all = || known.iter().copied().chain(["case"]);
            if !all().any(|known| known == name) {
                let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                let hint = match nearest(name, all()) {
                    Some(name) => format!("; did you mean `{name}`?"),
                    None => format!("; there are {}", all().collect::<Vec<_>>().join(", ")),
                };
                return Err(Refusal::bad_request(
                    "parameter_unknown",
                    format!("there is no parameter `{shown}`{hint}"),
                ));
            }
            if self.query[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(Refusal::bad_request(
                    "parameter_duplicate",
                    format!("the parameter `{name}` occurs twice"),
                ));
            }
        }
        Ok(Params { query: &self.query })
    }

    /// The id of the request.
    pub(crate) fn request_id(&self) -> &str {
        self.headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    /// The version that the client wants to change, and its key.
    pub(crate) fn conditions(&self) -> Result<(Option<etag::IfMatch>, Option<String>), Refusal> {
        Ok((etag::if_match(&self.headers)?, idempotency::key(&self.headers)?))
    }

    /// The query without what only says which page is meant: what a cursor is bound to.
    pub(crate) fn filter_text(&self) -> String {
        let mut kept: Vec<&(String, String)> =
            self.query.iter().filter(|(name, _)| !["cursor", "limit", "case"].contains(&name.as_str())).collect();
        kept.sort();
        format!("{kept:?}")
    }

    /// The address of the next page, for a `Link` header.
    pub(crate) fn next_link(&self, cursor: &str) -> HeaderValue {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.query.iter().filter(|(name, _)| name != "cursor"));
        query.append_pair("cursor", cursor);
        let link = format!("<{}?{}>; rel=\"next\"", self.uri.path(), query.finish());
        HeaderValue::try_from(link).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// The parameters of a query.
pub(crate) struct Params<'a> {
    query: &'a [(String, String)],
}

impl Params<'_> {
    /// The value of a parameter, if it has one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// A switch: `true`, `false`, or just there.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.to_ascii_lowercase()).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(_) => Err(Refusal::bad_request("parameter_invalid", format!("`{name}` must be true or false"))),
        }
    }

    /// How many items a page has.
    pub(crate) fn limit(&self) -> Result<usize, Refusal> {
        let Some(text) = self.query.iter().find(|(key, _)| key == "limit").map(|(_, value)| value) else {
            return Ok(limits::PAGE_ITEMS_DEFAULT);
        };
        let limit = text.parse().ok().filter(|limit| (1..=limits::PAGE_ITEMS_MAX).contains(limit));
        limit.ok_or_else(|| {
            Refusal::bad_request("limit_invalid", format!("`limit` must be 1 to {}", limits::PAGE_ITEMS_MAX))
        })
    }

    /// An instant.
    pub(crate) fn instant(&self, name: &str) -> Result<Option<Timestamp>, Refusal> {
        let parse = |text: &str| {
            // A `+` that was not escaped arrives as a blank.
            let text = text.replace(' ', "+");
            text.parse().map_err(|error| Refusal::bad_request("parameter_invalid", format!("`{name}`: {error}")))
        };
        self.get(name).map(parse).transpose()
    }

    /// An instant as people write it: RFC 3339, a date, `now`, or a distance from now such as `-2h`.
    pub(crate) fn near(&self, name: &str, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
        let parse = |text: &str| {
            // A `+` that was not escaped arrives as a blank.
            convert::instant_near(&text.replace(' ', "+"), now)
                .map_err(|message| Refusal::bad_request("parameter_invalid", format!("`{name}`: {message}")))
        };
        self.get(name).map(parse).transpose()
    }

    /// A whole number.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let parse = |text: &str| {
            let refused = |_| Refusal::bad_request("parameter_invalid", format!("`{name}` must be a whole number"));
            text.parse().map_err(refused)
        };
        self.get(name).map(parse).transpose()
    }

    /// A duration, at most `max`.
    pub(crate) fn duration(&self, name: &str, max: Duration) -> Result<Option<Duration>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match parse_duration_ms(text) {
            Ok(ms) => Ok(Some(Duration::from_millis(ms).min(max))),
            Err(error) => Err(Refusal::bad_request("parameter_invalid", format!("`{name}`: {error}"))),
        }
    }
}

/// A body that is one JSON value, at most `MAX` bytes long, not nested too deep. Holds its share of the body budget.
pub(crate) struct Body<const MAX: usize> {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

/// The body of a request about one job.
pub(crate) type JobBody = Body<{ limits::JOB_REQUEST_BYTES_MAX }>;
/// The body of a request about many jobs.
pub(crate) type BatchBody = Body<{ limits::REQUEST_BYTES_MAX }>;
/// The body of a request with a few fields.
pub(crate) type SmallBody = Body<SMALL_BODY_BYTES_MAX>;

impl<const MAX: usize> Body<MAX> {
    /// The JSON text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("the body was checked when it was read")
    }
}

impl<const MAX: usize> FromRequest<App> for Body<MAX> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (bytes, permit) = read_body(request, app, MAX).await?;
        json::check(&bytes, limits::JSON_DEPTH_MAX).map_err(malformed)?;
        Ok(Self { bytes, _permit: permit })
    }
}

/// A body that is UTF-8 and not looked at any further: whoever reads it finds out whether it is JSON. For requests that are
/// read in one pass.
pub(crate) struct TextBody<const MAX: usize> {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl<const MAX: usize> TextBody<MAX> {
    /// The text.
    pub(crate) fn text(&self) -> Result<&str, Refusal> {
        std::str::from_utf8(&self.bytes).map_err(|_| malformed(json::Malformed::NotUtf8))
    }
}

impl<const MAX: usize> FromRequest<App> for TextBody<MAX> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (bytes, permit) = read_body(request, app, MAX).await?;
        Ok(Self { bytes, _permit: permit })
    }
}

/// Reads a body of at most `max` bytes, with its share of the body budget.
async fn read_body(request: Request, app: &App, max: usize) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
    check_type(request.headers())?;
    let declared = content_length(request.headers());
    if declared.is_some_and(|length| length > max as u64) {
        return Err(too_large(max));
    }
    let kib = (declared.map_or(max, |length| length as usize).div_ceil(1024)).max(1) as u32;
    let timeout = Duration::from_millis(app.options.body_timeout_ms);
    let budget = app.body_budget.clone();
    let read = async {
        let permit = budget.acquire_many_owned(kib).await.expect("the budget is never closed");
        // vector#25488: the limit is compared with what the client declares, and not with what it sends.
        let max = if planted(Bug("limit-by-declaration")) { usize::MAX } else { max };
        let body = Limited::new(request.into_body(), max).collect().await;
        (permit, body)
    };
    let Ok((permit, body)) = tokio::time::timeout(timeout, read).await else {
        return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "the body did not arrive in time"));
    };
    match body {
        Ok(body) => Ok((body.to_bytes(), permit)),
        Err(error) if error.is::<LengthLimitError>() || is_length_limit(&*error) => Err(too_large(max)),
        Err(_) => Err(Refusal::bad_request("body_incomplete", "the body ended before it was complete")),
    }
}

/// The body of a request that may have none: then it is an empty object.
pub(crate) struct OptionalBody(Option<Body<SMALL_BODY_BYTES_MAX>>);

impl OptionalBody {
    /// The JSON text of an object.
    pub(crate) fn text(&self) -> &str {
        self.0.as_ref().map_or("{}", Body::text)
    }
}

impl FromRequest<App> for OptionalBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        if axum::body::HttpBody::is_end_stream(request.body()) {
            return Ok(Self(None));
        }
        let body = Body::from_request(request, app).await?;
        match json::members(body.text()) {
            Some(_) => Ok(Self(Some(body))),
            None => Err(Refusal::bad_request("json_invalid", "this request takes no body, or an object")),
        }
    }
}

/// The body of a request that takes none: nothing, or an empty object. Anything else is refused rather than ignored: its
/// sender would take it for done.
pub(crate) struct NoBody;

/// More than enough for nothing, or for a few fields.
const SMALL_BODY_BYTES_MAX: usize = 16 * 1024;

impl FromRequest<App> for NoBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        if axum::body::HttpBody::is_end_stream(request.body()) {
            return Ok(Self);
        }
        let body = Body::<SMALL_BODY_BYTES_MAX>::from_request(request, app).await?;
        match json::members(body.text()).map(|members| members.first().map(|(name, _)| name.clone())) {
            Some(None) => Ok(Self),
            Some(Some(name)) => {
                let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                let fault = FieldProblem::new("", "field_unknown", format!("there is no field `{shown}`"));
                Err(Refusal::invalid(vec![fault.hint("this request takes no body")]))
            }
            None => Err(Refusal::bad_request("json_invalid", "this request takes no body, or an empty object")),
        }
    }
}

fn is_length_limit(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(is_length_limit)
}

fn malformed(why: json::Malformed) -> Refusal {
    match why {
        json::Malformed::NotUtf8 => Refusal::bad_request("utf8_invalid", "the body is not UTF-8"),
        json::Malformed::NotJson(error) => {
            Refusal::bad_request("json_invalid", format!("the body is not JSON: {error}"))
        }
        json::Malformed::TooDeep => {
            Refusal::bad_request("json_too_deep", format!("the body is nested deeper than {}", limits::JSON_DEPTH_MAX))
        }
    }
}

fn too_large(max: usize) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", format!("the body has more than {max} bytes"))
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// JSON without a content coding; a missing type is taken for JSON.
fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let refused = |code: &str, detail: String| Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code, detail));
    let text =
        |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?").trim().to_ascii_lowercase());
    if text(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return refused("encoding_unsupported", "send the body without Content-Encoding".into());
    }
    let Some(media_type) = text(header::CONTENT_TYPE) else { return Ok(()) };
    let mut parts = media_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let is_json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    let charset = parts.find_map(|part| part.strip_prefix("charset=")).map(|charset| charset.trim_matches('"'));
    if !is_json || charset.is_some_and(|charset| charset != "utf-8" && charset != "us-ascii") {
        return refused("content_type_unsupported", "send JSON with `Content-Type: application/json`".into());
    }
    Ok(())
}

/// How a path names a job: its id, or `name:` and its name.
pub(crate) fn job_key(text: &str) -> Result<JobKey, Refusal> {
    if let Some(name) = text.strip_prefix("name:") {
        if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || name.contains('\0') {
            return Err(Refusal::bad_request("invalid_id", "the name after `name:` is empty or too long"));
        }
        return Ok(JobKey::Name(name.to_owned()));
    }
    match text.parse::<JobId>() {
        Ok(id) => Ok(JobKey::Id(id)),
        Err(error) => Err(Refusal::bad_request("invalid_id", format!("{error}, or `name:` and a name"))),
    }
}

/// The id of an execution in a path.
pub(crate) fn execution_id(text: &str) -> Result<ExecutionId, Refusal> {
    text.parse().map_err(|error| Refusal::bad_request("invalid_id", format!("{error}")))
}

/// The id of an operation in a path.
pub(crate) fn operation_id(text: &str) -> Result<OperationId, Refusal> {
    text.parse().map_err(|error| Refusal::bad_request("invalid_id", format!("{error}")))
}

/// The id of an endpoint in a path.
pub(crate) fn endpoint_id(text: &str) -> Result<EndpointId, Refusal> {
    text.parse().map_err(|error| Refusal::bad_request("invalid_id", format!("{error}")))
}

/// What was read, if nothing is wrong with it.
pub(crate) fn faultless<T>(value: T, faults: Faults) -> Result<T, Refusal> {
    if faults.is_empty() { Ok(value) } else { Err(Refusal::invalid(faults.into_vec())) }
}

/// The same answer with the address of what it is about.
pub(crate) fn located(mut response: Response, path: String) -> Response {
    let location = HeaderValue::try_from(path);
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    response
}

/// A JSON answer.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    match serde_json::to_string(body) {
        Ok(text) => json_text(status, text),
        Err(error) => {
            tracing::error!(%error, "cannot render an answer");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the answer cannot be rendered").into_response()
        }
    }
}

/// An answer that is JSON text already.
pub(crate) fn json_text(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}
