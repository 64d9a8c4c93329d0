//! Signatures of webhooks and events, by Standard Webhooks 1.0: `v1,` and the base64 of HMAC-SHA256 over `{id}.{timestamp}.{body}`.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use campanile_model::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a webhook is signed with: `whsec_` and the base64 of 24 to 64 bytes. Never shown.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
    written: Box<str>,
}

/// Text that is not a secret. Does not repeat it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a secret is `whsec_` and the base64 of 24 to 64 bytes")]
pub struct InvalidSecret;

impl Secret {
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix("whsec_").ok_or(InvalidSecret)?;
        let bytes = BASE64.decode(encoded).map_err(|_| InvalidSecret)?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(InvalidSecret);
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes), written: text.into() })
    }

    /// The secret itself, for where a job is stored.
    pub(super) fn as_written(&self) -> &str {
        &self.written
    }

    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64.encode(context.sign().as_ref()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The value of `webhook-signature`: one signature per secret, so that receivers with the old and with the new one are
/// both content during a rotation. `None` without a secret.
pub fn signature(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect();
    if signatures.is_empty() { None } else { Some(signatures.join(" ")) }
}

/// Sets `webhook-id`, `webhook-timestamp` and, where there is a secret, `webhook-signature` of a request with this body.
pub(crate) fn stamp(headers: &mut HeaderMap, secrets: &[Secret], id: &str, now: Timestamp, body: &[u8]) {
    let seconds = now.millis().div_euclid(1_000);
    if let Some(signed) = signature(secrets, id, seconds, body) {
        set(headers, "webhook-signature", &signed);
    }
    set(headers, "webhook-id", id);
    set(headers, "webhook-timestamp", &seconds.to_string());
}

/// Sets a header of ours. All of them are printable ASCII by construction; one that could not be sent would be left out.
pub(super) fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_reference_libraries_is_met() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn several_secrets_sign_side_by_side_and_none_does_not() {
        let a = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let b = Secret::parse(&format!("whsec_{}", "A".repeat(43))).unwrap();
        let both = signature(&[a.clone(), b.clone()], "exe_1", 7, b"x").unwrap();
        let alone: Vec<_> = [a, b].into_iter().map(|s| signature(&[s], "exe_1", 7, b"x").unwrap()).collect();
        assert_eq!(both, alone.join(" "));
        assert_eq!(signature(&[], "exe_1", 7, b"x"), None);
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        let short = format!("whsec_{}", "A".repeat(30));
        let long = format!("whsec_{}", "A".repeat(88));
        for text in ["", "whsec_", "hunter2", "whsec_!!!!", "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &short, &long] {
            let error = Secret::parse(text).expect_err("accepted");
            assert!(text.is_empty() || text == "whsec_" || !error.to_string().contains(text));
        }
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
