//! JSON as text: what a payload needs that must come out as it went in.
//!
//! Parsing into a tree and writing it again changes numbers beyond 64 bits and the order of keys. These functions never do:
//! they take texts apart into slices of themselves. All of them expect JSON that [`check`] has passed; depth is bounded
//! there, so that the recursive ones are bounded too.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;

/// The members of an object, in the order of the text, duplicates included; `None` for anything else.
pub fn members(text: &str) -> Option<Vec<(String, &str)>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de str)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                members.push((key, value.get()));
            }
            Ok(members)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_map(Members).ok()
}

/// The elements of an array; `None` for anything else.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Why a text is not JSON that we read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is not UTF-8.
    NotUtf8,
    /// It is not JSON.
    NotJson(String),
    /// It is nested deeper than the limit.
    TooDeep,
}

/// Checks that `bytes` are one JSON value, nested at most `depth_max` deep. Takes no memory to speak of, whatever is sent.
pub fn check(bytes: &[u8], depth_max: usize) -> Result<&str, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)?;
    if depth(text) > depth_max {
        return Err(Malformed::TooDeep);
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) if has_unpaired_surrogate(text) => {
            Err(Malformed::NotJson("a \\u escape is half of a surrogate pair".to_owned()))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Malformed::NotJson(error.to_string())),
    }
}

/// Whether an escape stands for no character. Parsers disagree about such texts, so they are not let in.
fn has_unpaired_surrogate(text: &str) -> bool {
    let unit = |escape: Option<&str>| u16::from_str_radix(escape?.strip_prefix("\\u")?, 16).ok();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        rest = match unit(rest.get(..6)) {
            Some(0xd800..=0xdbff) => match unit(rest.get(6..12)) {
                Some(0xdc00..=0xdfff) => &rest[12..],
                _ => return true,
            },
            Some(0xdc00..=0xdfff) => return true,
            Some(_) => &rest[6..],
            // Another escape: the character after the backslash, which is ASCII.
            None => rest.get(2..).unwrap_or_default(),
        };
    }
    false
}

/// How deep brackets nest, outside of strings. Needs no valid JSON.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The same JSON without blanks between its tokens.
pub fn compact(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ' ' | '\t' | '\n' | '\r' if !in_string => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The same JSON without blanks and with sorted keys: equal for requests that say the same.
pub fn canonical(text: &str) -> String {
    if let Some(mut members) = members(text) {
        // Stable, so that duplicates keep their order.
        members.sort_by(|a, b| a.0.cmp(&b.0));
        return object(members.into_iter().map(|(key, value)| (key, canonical(value))));
    }
    if let Some(elements) = elements(text) {
        let items: Vec<String> = elements.into_iter().map(canonical).collect();
        return format!("[{}]", items.join(","));
    }
    compact(text)
}

/// JSON merge patch (RFC 7396).
pub fn merge_patch(target: &str, patch: &str) -> String {
    let Some(patches) = members(patch) else { return compact(patch) };
    let old = members(target).unwrap_or_default();
    let mut merged: Vec<Option<(String, String)>> = Vec::with_capacity(old.len() + patches.len());
    // Where each name is, since both sides may have many thousands.
    let mut places: HashMap<String, usize> = HashMap::with_capacity(old.len());
    for (key, value) in old {
        places.insert(key.clone(), merged.len());
        merged.push(Some((key, compact(value))));
    }
    for (key, value) in patches {
        match places.get(&key).copied() {
            Some(place) if value == "null" => merged[place] = None,
            Some(place) => {
                let before = merged[place].take().map_or_else(|| "null".to_owned(), |(_, value)| value);
                merged[place] = Some((key, merge_patch(&before, value)));
            }
            None if value == "null" => {}
            None => {
                places.insert(key.clone(), merged.len());
                // Against nothing, so that nulls inside vanish.
                merged.push(Some((key, merge_patch("null", value))));
            }
        }
    }
    object(merged.into_iter().flatten())
}

/// The same JSON with camelCase keys, except below the keys that hold what users own.
pub fn camel(text: &str) -> String {
    const OPAQUE: [&str; 5] = ["payload", "body", "headers", "result", "checkpoint"];
    if let Some(members) = members(text) {
        return object(members.into_iter().map(|(key, value)| {
            let value = if OPAQUE.contains(&key.as_str()) { value.to_owned() } else { camel(value) };
            (camel_key(&key), value)
        }));
    }
    match elements(text) {
        Some(elements) => format!("[{}]", elements.into_iter().map(camel).collect::<Vec<_>>().join(",")),
        None => text.to_owned(),
    }
}

fn camel_key(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let mut upper = false;
    for c in key.chars() {
        match c {
            '_' => upper = true,
            _ if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            _ => out.push(c),
        }
    }
    out
}

/// The text of an object with these members.
pub fn object(members: impl Iterator<Item = (String, String)>) -> String {
    let members: Vec<String> = members.map(|(key, value)| format!("{}:{value}", string(&key))).collect();
    format!("{{{}}}", members.join(","))
}

/// The text of a string.
pub fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_strings() {
        assert!(check(br#"{"a":"[[[[\"[["}"#, 1).is_ok());
        assert_eq!(check("[".repeat(100_000).as_bytes(), 128), Err(Malformed::TooDeep));
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(check(deep.as_bytes(), 128).is_ok());
        assert_eq!(check(format!("[{deep}]").as_bytes(), 128), Err(Malformed::TooDeep));
    }

    #[test]
    fn junk_is_not_json() {
        for junk in ["", "{", "{\"a\":NaN}", "{} {}", "{'a':1}", "\u{feff}{}", "[1,]", "nul"] {
            assert!(matches!(check(junk.as_bytes(), 128), Err(Malformed::NotJson(_))), "{junk}");
        }
        assert_eq!(check(b"\"\xff\"", 128), Err(Malformed::NotUtf8));
        for half in
            [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\ud800x""#, r#""\\\ud800""#, r#""\ud83d\n""#]
        {
            assert!(matches!(check(half.as_bytes(), 128), Err(Malformed::NotJson(_))), "{half}");
        }
        for whole in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u0041\\""#, r#""\"""#, r#""é\u00e9""#] {
            assert!(check(whole.as_bytes(), 128).is_ok(), "{whole}");
        }
    }

    #[test]
    fn numbers_and_order_survive() {
        let text = r#"{ "z" : 123456789012345678901234567890 , "a" : [ 1.10, "x \" y" ] }"#;
        assert_eq!(compact(text), r#"{"z":123456789012345678901234567890,"a":[1.10,"x \" y"]}"#);
        assert_eq!(canonical(text), r#"{"a":[1.10,"x \" y"],"z":123456789012345678901234567890}"#);
    }

    #[test]
    fn merge_patch_follows_rfc_7396() {
        // The table of appendix A.
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(merge_patch(target, patch), result, "{target} + {patch}");
        }
    }

    #[test]
    fn camel_leaves_what_users_own() {
        let text =
            r#"{"next_fire_at":null,"payload":{"a_b":1},"retry_policy":{"max_attempts":3},"data":[{"job_id":"x"}]}"#;
        let camel = camel(text);
        assert_eq!(
            camel,
            r#"{"nextFireAt":null,"payload":{"a_b":1},"retryPolicy":{"maxAttempts":3},"data":[{"jobId":"x"}]}"#
        );
    }
}
