//! The bounds of a worker, and how what is beyond them is cut: with a note, so that nobody takes a part for the whole.

use serde_json::{Value, json};

/// Attempts that one worker runs at the same time.
pub const CONCURRENCY_MAX: usize = 10_000;
/// Executions in one claim.
pub const CLAIM_ITEMS_MAX: usize = 1_000;
/// Log lines that one attempt keeps between two heartbeats; further ones are counted.
pub const LOG_LINES_MAX: usize = 1_000;
/// Bytes of them.
pub const LOG_BYTES_MAX: usize = 256 * 1024;
/// A message, a log line, or what is said about an error.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// The type of an error.
pub const KIND_BYTES_MAX: usize = 200;
/// A checkpoint, as JSON. A larger one is refused: half of it would be of no use.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;
/// A result, as JSON.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// What a program printed.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// One request of many items: what servers take, with room for escapes.
pub(super) const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// Signs of life in one request.
pub(super) const BEATS_MAX: usize = 500;
/// Completions in one request.
pub(super) const COMPLETIONS_MAX: usize = 100;

/// The text within `max` bytes; where it was longer, its end says so.
pub fn cut(text: impl Into<String>, max: usize) -> String {
    let mut text = text.into();
    if text.len() > max {
        let note = format!("... (cut, {} bytes)", text.len());
        text.truncate(text.floor_char_boundary(max.saturating_sub(note.len())));
        text.push_str(&note);
        text.truncate(text.floor_char_boundary(max));
    }
    text
}

/// A result within its limit; a larger one becomes an object with its size and its beginning.
pub fn cut_result(result: Value) -> Value {
    let text = result.to_string();
    if text.len() <= RESULT_BYTES_MAX {
        return result;
    }
    // Within a string, half of the characters may need an escape.
    let head = &text[..text.floor_char_boundary(RESULT_BYTES_MAX / 2 - 100)];
    json!({ "truncated": true, "bytes": text.len(), "head": head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("short", 100), "short");
        let long = cut("ä".repeat(5_000), MESSAGE_BYTES_MAX);
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.len() > MESSAGE_BYTES_MAX - 3, "{}", long.len());
        assert!(long.ends_with("ä... (cut, 10000 bytes)"), "{long}");
        assert_eq!(cut("ääääääääää", 3), "...");
    }

    #[test]
    fn a_large_result_shows_its_beginning() {
        assert_eq!(cut_result(json!([1, 2])), json!([1, 2]));
        let cut = cut_result(json!("\"".repeat(100_000)));
        assert_eq!((&cut["truncated"], &cut["bytes"]), (&json!(true), &json!(200_002)));
        assert!(cut.to_string().len() <= RESULT_BYTES_MAX, "{}", cut.to_string().len());
    }
}
