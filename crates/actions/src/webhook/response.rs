//! What a target's answer means. Pure.
//!
//! | Answer | Outcome |
//! |---|---|
//! | 2xx | success |
//! | 408, 429, 5xx | failed, tried again; not before `Retry-After` |
//! | 410 | failed for good, and the job is paused: the target says that it is gone |
//! | other 4xx | failed for good, unless the target says `X-Retryable: true` |
//! | 3xx, anything else | failed for good: redirects are not followed |

use campanile_model::execution::{AttemptError, Outcome, Response};
use campanile_model::{Timestamp, limits};
use http::{HeaderMap, StatusCode, header};
use jiff::fmt::rfc2822;

/// What the answer's headers ask for.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wishes {
    /// `Retry-After`: not before this many milliseconds.
    pub retry_after_ms: Option<u64>,
    /// `X-Retryable: true`.
    pub retryable: bool,
}

impl Wishes {
    /// Reads the headers; what cannot be read asks for nothing.
    pub fn read(headers: &HeaderMap, now: Timestamp) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        Self {
            retry_after_ms: text(header::RETRY_AFTER.as_str()).and_then(|value| retry_after_ms(value, now)),
            retryable: text("x-retryable").is_some_and(|value| value.eq_ignore_ascii_case("true")),
        }
    }
}

/// The outcome of an attempt that was answered.
pub(super) fn settle(origin: &str, wishes: Wishes, response: Response) -> Outcome {
    let status = response.status;
    if (200..=299).contains(&status) {
        return Outcome::Succeeded { response: Some(response) };
    }
    let retryable = match status {
        408 | 429 | 500..=599 => true,
        410 => false,
        400..=499 => wishes.retryable,
        _ => false,
    };
    let advice = match status {
        300..=399 => "; redirects are not followed: give the job the new URL",
        410 => "; it is gone for good, so the job is paused",
        _ => "",
    };
    let reason =
        StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason()).unwrap_or("no known status");
    Outcome::Failed {
        error: AttemptError {
            kind: format!("http_{status}"),
            message: format!("{origin} answered {status} {reason}{advice}"),
        },
        retryable,
        retry_after_ms: wishes.retry_after_ms.filter(|_| retryable),
        pause_job: status == 410,
        response: Some(response),
    }
}

/// `Retry-After`, in seconds or as an HTTP date, held at the longest delay there is.
fn retry_after_ms(value: &str, now: Timestamp) -> Option<u64> {
    let ms = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        value.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000)
    } else {
        let at = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
        Timestamp::from_millis(at.as_millisecond()).ms_since(now)
    };
    Some(ms.min(limits::BACKOFF_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Timestamp = Timestamp::from_millis(784_111_777_000);

    #[test]
    fn every_status_has_its_outcome() {
        // (status, X-Retryable, retryable, paused); `None` is success.
        let table = [
            (200, false, None),
            (201, false, None),
            (202, false, None),
            (204, true, None),
            (299, false, None),
            (300, false, Some((false, false))),
            (301, false, Some((false, false))),
            (302, true, Some((false, false))),
            (307, false, Some((false, false))),
            (308, false, Some((false, false))),
            (400, false, Some((false, false))),
            (400, true, Some((true, false))),
            (401, false, Some((false, false))),
            (403, false, Some((false, false))),
            (404, false, Some((false, false))),
            (404, true, Some((true, false))),
            (408, false, Some((true, false))),
            (409, false, Some((false, false))),
            (410, false, Some((false, true))),
            (410, true, Some((false, true))),
            (422, true, Some((true, false))),
            (425, false, Some((false, false))),
            (429, false, Some((true, false))),
            (451, false, Some((false, false))),
            (500, false, Some((true, false))),
            (501, false, Some((true, false))),
            (502, false, Some((true, false))),
            (503, false, Some((true, false))),
            (504, false, Some((true, false))),
            (599, false, Some((true, false))),
            (600, true, Some((false, false))),
            (999, true, Some((false, false))),
        ];
        for (status, asked, expected) in table {
            let response = Response { status, body: b"b".to_vec(), truncated: false };
            let wishes = Wishes { retry_after_ms: Some(5), retryable: asked };
            match (settle("https://x.example", wishes, response.clone()), expected) {
                (Outcome::Succeeded { response: kept }, None) => assert_eq!(kept, Some(response)),
                (
                    Outcome::Failed { error, retryable, retry_after_ms, pause_job, response: kept },
                    Some((should_retry, should_pause)),
                ) => {
                    assert_eq!((retryable, pause_job), (should_retry, should_pause), "{status}");
                    assert_eq!(retry_after_ms, should_retry.then_some(5), "{status}");
                    assert_eq!(error.kind, format!("http_{status}"));
                    assert_eq!(kept, Some(response));
                }
                (outcome, _) => panic!("{status}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms_and_held_at_the_limit() {
        let week = Some(limits::BACKOFF_MS_MAX);
        for (value, expected) in [
            ("0", Some(0)),
            ("120", Some(120_000)),
            ("99999999999999999999999999", week),
            ("604801", week),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", week),
            ("", None),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after_ms(value, NOW), expected, "{value}");
        }
    }

    #[test]
    fn headers_that_cannot_be_read_ask_for_nothing() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", http::HeaderValue::from_bytes(b"\xff\xfe").unwrap());
        headers.insert("x-retryable", http::HeaderValue::from_static("yes"));
        assert_eq!(Wishes::read(&headers, NOW), Wishes::default());
        headers.insert("retry-after", http::HeaderValue::from_static(" 3 "));
        headers.insert("x-retryable", http::HeaderValue::from_static("True"));
        assert_eq!(Wishes::read(&headers, NOW), Wishes { retry_after_ms: Some(3_000), retryable: true });
    }
}
