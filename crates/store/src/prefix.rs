//! Texts that start with a prefix, as a range of texts: for lists by name.

/// The first text after all that start with `prefix`; `None` when there is none.
pub(crate) fn prefix_end(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        // Characters compare as their bytes do; the surrogates between are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn the_end_of_a_prefix_lies_after_all_that_start_with_it() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("ab", Some("ac")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
            assert!(end.is_none_or(|end| end > prefix));
        }
    }
}
