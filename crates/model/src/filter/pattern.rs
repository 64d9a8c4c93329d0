//! Text with `*` wildcards, each of which stands for any text, also none.

/// A pattern for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The literal text between the wildcards: one piece means no wildcard. Pieces in the middle are not empty.
    pieces: Vec<String>,
}

impl Pattern {
    /// The pattern that only this text matches, stars and all.
    pub fn exact(text: impl Into<String>) -> Self {
        Self { pieces: vec![text.into()] }
    }

    /// The pattern in which every `*` is a wildcard.
    pub fn glob(text: &str) -> Self {
        let stars: Vec<usize> = text.match_indices('*').map(|(at, _)| at).collect();
        Self::with_stars(text, &stars)
    }

    /// The pattern in which the stars at these bytes are wildcards, and others are literal.
    pub(super) fn with_stars(text: &str, stars: &[usize]) -> Self {
        let mut pieces = Vec::with_capacity(stars.len() + 1);
        let mut start = 0;
        for &star in stars {
            // Two wildcards in a row are one: equal patterns then have equal pieces.
            if pieces.is_empty() || star > start {
                pieces.push(text[start..star].to_owned());
            }
            start = star + 1;
        }
        pieces.push(text[start..].to_owned());
        Self { pieces }
    }

    /// Whether the whole of `text` fits.
    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.as_exact() == Some(text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str())) else {
            return false;
        };
        // The leftmost place for each piece leaves the most room for the next ones.
        middle.iter().all(|piece| match rest.split_once(piece.as_str()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }

    /// The only text that fits, where there is no wildcard.
    pub fn as_exact(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// What every fitting text starts with and all that is asked of it, where the only wildcard stands at the end.
    pub fn as_prefix(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [prefix, rest] if rest.is_empty() => Some(prefix),
            _ => None,
        }
    }

    /// The literal text before, between and after the wildcards; one piece more than there are wildcards.
    pub fn pieces(&self) -> &[String] {
        &self.pieces
    }
}
