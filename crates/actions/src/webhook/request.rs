//! The request of one attempt: its headers, its body and its signature. Pure.

use super::config::Target;
use super::sign::{Secret, set, stamp};
use campanile_model::Timestamp;
use campanile_model::action::Work;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

pub(super) struct Request {
    pub headers: HeaderMap,
    pub body: Option<String>,
}

/// The request of one attempt, at `now`. What is signed is what is sent, byte for byte. `defaults` sign where the job has
/// no secret of its own.
pub(super) fn build(target: &Target, work: &Work, now: Timestamp, defaults: &[Secret]) -> Request {
    let body = target.has_body().then(|| match &target.body {
        Some(body) => body.get().to_owned(),
        None => work.definition.payload.as_ref().to_owned(),
    });
    let mut headers = HeaderMap::with_capacity(16 + target.headers.len());
    if body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    // What the user says goes before our defaults; our own names are refused in a config.
    headers.extend(target.headers.iter().map(|(name, value)| (name.clone(), value.clone())));

    let id = work.execution.to_string();
    let secrets = if target.secrets.is_empty() { defaults } else { &target.secrets };
    stamp(&mut headers, secrets, &id, now, body.as_deref().unwrap_or_default().as_bytes());
    let mut set = |name, value: &str| set(&mut headers, name, value);
    set("x-execution-id", &id);
    set("idempotency-key", &id);
    set("x-fence-token", &work.fence.to_string());
    set("x-job-id", &work.job.to_string());
    set("x-job-name", &percent_encode(&work.definition.name));
    set("x-attempt", &work.attempt.to_string());
    set("x-max-attempts", &work.max_attempts.to_string());
    set("x-scheduled-at", &work.fire_at.to_string());
    set("x-deadline-ms", &work.timeout_ms.to_string());
    if let Some(from) = work.covers_from {
        set("x-covers-from", &from.to_string());
    }
    Request { headers, body }
}

/// Printable ASCII as it is, and everything else (and `%`) as `%XX` of its UTF-8 bytes.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..=0x1f | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_travel_as_printable_ascii() {
        assert_eq!(percent_encode("daily invoices"), "daily invoices");
        assert_eq!(percent_encode("100% Fähre\r\nX: 1\u{7f}"), "100%25 F%C3%A4hre%0D%0AX: 1%7F");
    }
}
