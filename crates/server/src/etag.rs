//! Versions as entity tags: job version 7 is `"v7"`.

use crate::problem::Refusal;
use http::{HeaderMap, HeaderValue, header};

/// What a client wants the version to be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum IfMatch {
    /// Anything, as long as the thing exists.
    Any,
    /// This one.
    Version(u32),
}

/// The tag of a version.
pub(crate) fn tag(version: u32) -> HeaderValue {
    HeaderValue::try_from(format!("\"v{version}\"")).expect("a number is a header value")
}

/// The `If-Match` of a request. Several tags are refused: a job has one version.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<IfMatch>, Refusal> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let parsed = match text {
        "*" => Some(IfMatch::Any),
        _ => version(text).map(IfMatch::Version),
    };
    match (parsed, values.next()) {
        (Some(parsed), None) => Ok(Some(parsed)),
        _ => Err(Refusal::bad_request("if_match_invalid", "If-Match must be one version such as \"v7\", or *")),
    }
}

/// Whether `If-None-Match` names this version, so that the client has it already.
pub(crate) fn is_known(headers: &HeaderMap, current: u32) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // Weak comparison, as RFC 9110 has it for this header.
    lists.flat_map(|list| list.split(',')).any(|tag| {
        let tag = tag.trim();
        tag == "*" || version(tag.strip_prefix("W/").unwrap_or(tag)) == Some(current)
    })
}

/// Whether `If-None-Match: *` asks for creation only.
pub(crate) fn must_be_new(headers: &HeaderMap) -> bool {
    headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == b"*")
}

fn version(tag: &str) -> Option<u32> {
    let bare = match tag.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => tag,
    };
    let digits = bare.strip_prefix('v')?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn if_match_takes_one_version_or_a_star() {
        let parse = |value| if_match(&headers(header::IF_MATCH, value)).ok().flatten();
        assert_eq!(parse("\"v7\""), Some(IfMatch::Version(7)));
        assert_eq!(parse("v7"), Some(IfMatch::Version(7)));
        assert_eq!(parse("*"), Some(IfMatch::Any));
        for bad in ["", "7", "\"7\"", "\"v7", "W/\"v7\"", "\"v7\", \"v8\"", "\"v-1\"", "\"v+1\"", "\"v99999999999\""] {
            assert!(if_match(&headers(header::IF_MATCH, bad)).is_err(), "{bad}");
        }
        assert!(if_match(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn if_none_match_compares_weakly_over_a_list() {
        let known = |value| is_known(&headers(header::IF_NONE_MATCH, value), 7);
        assert!(known("\"v7\"") && known("W/\"v7\"") && known("\"v1\", \"v7\"") && known("*"));
        assert!(!known("\"v8\"") && !known("junk"));
    }
}
