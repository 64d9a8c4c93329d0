//! The config of a webhook: from JSON text to a request's fixed parts, and to its canonical text.
//!
//! Fields: `url`; `method` (POST where nothing is said); `headers`, an object of strings; `body`, any JSON, sent as it is
//! written instead of the job's payload; `secret`, one or (during a rotation) several. Every fault is found in one go.

use super::sign::Secret;
use crate::client;
use crate::config::{self, Fields};
use crate::guard::{HINT_URL, Targets};
use aws_lc_rs::digest;
use campanile_model::{FieldError, limits};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use url::Url;

const FIELDS: [&str; 5] = ["url", "method", "headers", "body", "secret"];
/// Most headers of a user.
const HEADERS_MAX: usize = 64;
/// Most secrets at the same time.
const SECRETS_MAX: usize = 4;

/// A webhook's request, as far as it is the same for every attempt.
pub(super) struct Target {
    pub url: Url,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Option<Box<RawValue>>,
    pub secrets: Vec<Secret>,
}

impl fmt::Debug for Target {
    /// No more than may be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.origin())
    }
}

impl Target {
    /// Reads a config. What is wrong with any field is found; no secret is repeated.
    pub fn parse(text: &str, targets: &Targets) -> Result<Self, Vec<FieldError>> {
        let fields = config::parse(text, &FIELDS)?;
        let mut errors = Vec::new();
        let url = keep(&mut errors, read_url(&fields, targets).map_err(|e| vec![e]));
        let method = keep(&mut errors, read_method(&fields).map_err(|e| vec![e]));
        let headers = keep(&mut errors, read_headers(&fields));
        let secrets = keep(&mut errors, read_secrets(&fields));
        let body = keep(&mut errors, read_body(&fields, method.as_ref()).map_err(|e| vec![e]));
        match (url, method, headers, secrets, body) {
            (Some(url), Some(method), Some(headers), Some(secrets), Some(body)) if errors.is_empty() => {
                Ok(Self { url, method, headers, body, secrets })
            }
            _ => Err(errors),
        }
    }

    /// The canonical text: fixed order of fields, defaults written out, header names in lower case and sorted.
    pub fn canonical(&self) -> String {
        let json = |text: &str| Value::from(text).to_string();
        let mut parts = vec![
            format!(r#""url":{}"#, json(self.url.as_str())),
            format!(r#""method":{}"#, json(self.method.as_str())),
        ];
        if !self.headers.is_empty() {
            let headers: BTreeMap<&str, &str> =
                self.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default())).collect();
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| format!("{}:{}", json(name), json(value))).collect();
            parts.push(format!(r#""headers":{{{}}}"#, headers.join(",")));
        }
        if let Some(body) = &self.body {
            parts.push(format!(r#""body":{}"#, body.get()));
        }
        match &self.secrets[..] {
            [] => {}
            [secret] => parts.push(format!(r#""secret":{}"#, json(secret.as_written()))),
            several => {
                let several: Vec<_> = several.iter().map(|secret| json(secret.as_written())).collect();
                parts.push(format!(r#""secret":[{}]"#, several.join(",")));
            }
        }
        format!("{{{}}}", parts.join(","))
    }

    /// Whether requests have a body.
    pub fn has_body(&self) -> bool {
        takes_body(&self.method)
    }

    /// The part of the URL that may be shown: the rest can be a secret.
    pub fn origin(&self) -> String {
        client::origin(&self.url)
    }
}

/// The origin of a config's URL, in at most `limits::NAME_BYTES_MAX` bytes; of text that is no config, nothing. It does not
/// ask where webhooks may go: what was counted under a name still is when the rules become stricter.
pub(super) fn target(text: &str) -> Option<String> {
    let url = Url::parse(&config::text(text, "url")?).ok()?;
    Some(bounded(client::origin(&url)))
}

/// An origin as it is, or the beginning of a long one and a digest of the whole, so that two of them stay two. What it
/// makes of an origin is stored, and must not change.
fn bounded(mut origin: String) -> String {
    if origin.len() <= limits::NAME_BYTES_MAX {
        return origin;
    }
    let digest = digest::digest(&digest::SHA256, origin.as_bytes());
    let digest: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    origin.truncate(origin.floor_char_boundary(limits::NAME_BYTES_MAX - digest.len() - 1));
    format!("{origin}~{digest}")
}

fn keep<T>(errors: &mut Vec<FieldError>, result: Result<T, Vec<FieldError>>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(found) => {
            errors.extend(found);
            None
        }
    }
}

fn takes_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn read_url(fields: &Fields, targets: &Targets) -> Result<Url, FieldError> {
    let refused = |code, message: String, hint| FieldError::new("/action/url", code, message).hint(hint);
    let Some(raw) = fields.get("url") else {
        return Err(refused("url_missing", "a webhook needs a URL".into(), HINT_URL));
    };
    let text: String =
        serde_json::from_str(raw.get()).map_err(|_| refused("url_invalid", "url must be a string".into(), HINT_URL))?;
    targets.parse(&text).map_err(|why| refused(why.code, why.message, why.hint))
}

fn read_method(fields: &Fields) -> Result<Method, FieldError> {
    let Some(raw) = fields.get("method") else {
        return Ok(Method::POST);
    };
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    match text.map(|text| text.to_ascii_uppercase()).as_deref() {
        Some("POST") => Ok(Method::POST),
        Some("GET") => Ok(Method::GET),
        Some("HEAD") => Ok(Method::HEAD),
        Some("PUT") => Ok(Method::PUT),
        Some("PATCH") => Ok(Method::PATCH),
        Some("DELETE") => Ok(Method::DELETE),
        _ => Err(FieldError::new("/action/method", "method_invalid", "this is no method of a webhook")
            .hint("use POST, GET, HEAD, PUT, PATCH or DELETE")),
    }
}

fn read_body(fields: &Fields, method: Option<&Method>) -> Result<Option<Box<RawValue>>, FieldError> {
    let refused = |code, message: String| FieldError::new("/action/body", code, message);
    let Some(body) = fields.get("body") else {
        return Ok(None);
    };
    if let Some(method) = method.filter(|method| !takes_body(method)) {
        return Err(refused("body_unused", format!("{method} sends no body")).hint("remove the body, or use POST"));
    }
    if body.get().len() > limits::PAYLOAD_BYTES_MAX {
        let message = format!("the body has {} bytes; the limit is {}", body.get().len(), limits::PAYLOAD_BYTES_MAX);
        return Err(refused("body_too_large", message));
    }
    // Read whole once, for its depth: the text itself is kept, so that no number changes on the way.
    serde_json::from_str::<Value>(body.get()).map_err(|error| refused("body_invalid", format!("not JSON: {error}")))?;
    Ok(Some(body.clone()))
}

fn read_secrets(fields: &Fields) -> Result<Vec<Secret>, Vec<FieldError>> {
    let refused = |pointer: String, message: String| {
        let hint = "make one with: echo whsec_$(head -c 32 /dev/urandom | base64)";
        FieldError::new(pointer, "secret_invalid", message).hint(hint)
    };
    let Some(raw) = fields.get("secret") else {
        return Ok(Vec::new());
    };
    let one: Option<String> = serde_json::from_str(raw.get()).ok();
    let texts: Vec<String> = match one {
        Some(text) => vec![text],
        None => serde_json::from_str(raw.get()).unwrap_or_default(),
    };
    if !(1..=SECRETS_MAX).contains(&texts.len()) {
        let message = format!("secret must be a string, or a list of 1 to {SECRETS_MAX} strings during a rotation");
        return Err(vec![refused("/action/secret".into(), message)]);
    }
    let is_list = raw.get().starts_with('[');
    let (mut secrets, mut errors) = (Vec::new(), Vec::new());
    for (i, text) in texts.iter().enumerate() {
        match Secret::parse(text) {
            Ok(secret) => secrets.push(secret),
            Err(error) => {
                let pointer = if is_list { format!("/action/secret/{i}") } else { "/action/secret".into() };
                errors.push(refused(pointer, error.to_string()));
            }
        }
    }
    if errors.is_empty() { Ok(secrets) } else { Err(errors) }
}

fn read_headers(fields: &Fields) -> Result<HeaderMap, Vec<FieldError>> {
    let Some(raw) = fields.get("headers") else {
        return Ok(HeaderMap::new());
    };
    let refused = |message: String| vec![FieldError::new("/action/headers", "headers_invalid", message)];
    let written: BTreeMap<String, String> = serde_json::from_str(raw.get())
        .map_err(|_| refused("headers must be an object whose values are strings".into()))?;
    if written.len() > HEADERS_MAX {
        return Err(refused(format!("a webhook has at most {HEADERS_MAX} headers, got {}", written.len())));
    }
    let bytes: usize = written.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if bytes > limits::HEADER_BYTES_MAX {
        return Err(refused(format!("the headers have {bytes} bytes; the limit is {}", limits::HEADER_BYTES_MAX)));
    }
    let (mut headers, mut errors) = (HeaderMap::new(), Vec::new());
    for (name, value) in &written {
        match read_header(name, value) {
            Ok((name, _)) if headers.contains_key(&name) => {
                errors.push(header_error(
                    name.as_str(),
                    "header_twice",
                    "this header is given twice, in different cases",
                ));
            }
            Ok((name, value)) => drop(headers.insert(name, value)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(headers) } else { Err(errors) }
}

fn read_header(written: &str, value: &str) -> Result<(HeaderName, HeaderValue), FieldError> {
    let name = HeaderName::from_bytes(written.as_bytes())
        .map_err(|_| header_error(written, "header_name_invalid", "this is no name of a header"))?;
    if is_reserved(name.as_str()) {
        let error = header_error(written, "header_reserved", "this header is set by Campanile or by the protocol");
        return Err(error.hint("remove it"));
    }
    let mut value = HeaderValue::from_str(value).ok().filter(|value| value.to_str().is_ok()).ok_or_else(|| {
        header_error(written, "header_value_invalid", "a header's value is one line of printable ASCII")
            .hint("percent-encode what is not ASCII")
    })?;
    // May be a credential: kept out of logs and of HTTP/2's shared compression table.
    value.set_sensitive(true);
    Ok((name, value))
}

fn header_error(name: &str, code: &'static str, message: &str) -> FieldError {
    FieldError::new(format!("/action/headers/{}", config::escape(name)), code, message)
}

/// Headers that users must not set: those that frame the message or belong to the connection, and our own.
fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 23] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "keep-alive",
        "expect",
        "http2-settings",
        "cookie",
        "idempotency-key",
        "x-execution-id",
        "x-fence-token",
        "x-job-id",
        "x-job-name",
        "x-attempt",
        "x-max-attempts",
        "x-scheduled-at",
        "x-covers-from",
        "x-deadline-ms",
        "traceparent",
        "tracestate",
    ];
    const PREFIXES: [&str; 3] = ["proxy-", "webhook-", "x-callback-"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
