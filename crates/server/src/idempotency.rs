//! Idempotency keys: the same write sent again has the same effect, once.
//!
//! The key and the rendered answer are stored in the transaction of the write itself. The namespace of a key is tenant,
//! method and route; its fingerprint is the request's path and body, without blanks and with sorted keys, so that another
//! request under the same key is noticed and refused.

use crate::problem::Refusal;
use aws_lc_rs::digest::{SHA256, digest};
use campanile_client::wire::json;
use campanile_model::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use http::HeaderMap;

/// The `Idempotency-Key` of a request, bare or quoted.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let bare = match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').unwrap_or_default(),
        None => text,
    };
    if values.next().is_some() {
        return Err(invalid());
    }
    check(bare).map(Some)
}

/// A key as it may be: printable ASCII, and not too long.
pub(crate) fn check(key: &str) -> Result<String, Refusal> {
    let fits = (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
    if fits && key.bytes().all(|b| (b' '..=b'~').contains(&b)) { Ok(key.to_owned()) } else { Err(invalid()) }
}

fn invalid() -> Refusal {
    let detail =
        format!("an Idempotency-Key has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII characters, and occurs once");
    Refusal::bad_request("idempotency_key_invalid", detail)
}

/// What tells this request from others under the same key. `body` is JSON; where keys stood in it is left out.
pub(crate) fn fingerprint(path: &str, body: &str) -> u128 {
    let members = json::members(body).unwrap_or_default().into_iter();
    let is_key = |name: &str| matches!(name, "idempotency_key" | "idempotencyKey");
    let kept = members.filter(|(name, _)| !is_key(name)).map(|(name, value)| (name, value.to_owned()));
    let canonical = json::canonical(&json::object(kept));
    let hash = digest(&SHA256, format!("{path}\n{canonical}").as_bytes());
    u128::from_be_bytes(hash.as_ref()[..16].try_into().expect("SHA-256 has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn parse(value: &[u8]) -> Result<Option<String>, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_bytes(value).unwrap());
        key(&headers)
    }

    #[test]
    fn bare_and_quoted_keys_are_the_same() {
        assert_eq!(parse(b"abc-1").unwrap().as_deref(), Some("abc-1"));
        assert_eq!(parse(b"\"abc-1\"").unwrap().as_deref(), Some("abc-1"));
        assert_eq!(key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn bad_keys_are_refused() {
        let long = vec![b'a'; 256];
        for bad in [&b""[..], b"\"\"", b"\"abc", b"\xff", &long] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_fingerprint_ignores_blanks_order_and_the_key() {
        let one = fingerprint("/v1/jobs", r#"{"a":1,"b":{"d":2,"c":3}}"#);
        assert_eq!(one, fingerprint("/v1/jobs", r#"{ "b": {"c":3, "d":2}, "idempotency_key":"k", "a": 1}"#));
        assert_ne!(one, fingerprint("/v1/jobs", r#"{"a":2,"b":{"d":2,"c":3}}"#));
        assert_ne!(one, fingerprint("/v1/jobs/x", r#"{"a":1,"b":{"d":2,"c":3}}"#));
    }
}
