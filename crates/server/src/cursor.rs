//! Cursors: opaque positions in a list.
//!
//! A cursor is the position of the last item and a signature over it, the list, and the filter. So a cursor cannot be made
//! up, changed, or used with another filter: the position would mean something else there.

use crate::problem::Refusal;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use campanile_model::fault::{Bug, planted};

/// Bytes of the signature that a cursor carries.
const TAG_BYTES: usize = 16;
/// Longest cursor that is looked at; positions are names or ids.
const CURSOR_BYTES_MAX: usize = 1_024;

/// A cursor at `position` in `list`, which names the list and its filter.
pub(crate) fn encode(key: &hmac::Key, list: &str, position: &[u8]) -> String {
    let mut bytes = sign(key, list, position).as_ref()[..TAG_BYTES].to_vec();
    bytes.extend_from_slice(position);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position of a cursor that was made for the same list and filter.
pub(crate) fn decode(key: &hmac::Key, list: &str, cursor: &str) -> Result<Vec<u8>, Refusal> {
    let refused = || {
        let detail = "this cursor was not made for this list and filter; start again without it";
        Refusal::bad_request("cursor_invalid", detail)
    };
    if cursor.len() > CURSOR_BYTES_MAX {
        return Err(refused());
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
    let (tag, position) = bytes.split_at_checked(TAG_BYTES).ok_or_else(refused)?;
    let expected = sign(key, list, position);
    // Constant time, so that a signature cannot be found byte by byte.
    match aws_lc_rs::constant_time::verify_slices_are_equal(tag, &expected.as_ref()[..TAG_BYTES]) {
        Ok(()) => Ok(position.to_vec()),
        Err(_) => Err(refused()),
    }
}

fn sign(key: &hmac::Key, list: &str, position: &[u8]) -> hmac::Tag {
    // trigger.dev#3852: a position of one list is taken for a position of another.
    let list = if planted(Bug("cursor-of-another-list")) { "" } else { list };
    let mut context = hmac::Context::with_key(key);
    context.update(&(list.len() as u64).to_be_bytes());
    context.update(list.as_bytes());
    context.update(position);
    context.sign()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_list_filter_and_key_only() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        let cursor = encode(&key, "jobs state=ACTIVE", b"daily");
        assert_eq!(decode(&key, "jobs state=ACTIVE", &cursor).unwrap(), b"daily");
        assert!(decode(&key, "jobs state=PAUSED", &cursor).is_err());
        assert!(decode(&hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]), "jobs state=ACTIVE", &cursor).is_err());
        for i in 0..cursor.len() {
            let mut bytes = cursor.clone().into_bytes();
            bytes[i] = if bytes[i] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(changed == cursor || decode(&key, "jobs state=ACTIVE", &changed).is_err(), "{i}");
        }
        for junk in ["", "x", "!!!!", &"A".repeat(5_000)] {
            assert!(decode(&key, "jobs state=ACTIVE", junk).is_err());
        }
    }
}
