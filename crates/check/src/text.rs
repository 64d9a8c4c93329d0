//! Texts that are kept once.
//!
//! A recording says the same few things millions of times: ids, names, states. Each different text is kept for as long
//! as the process lives, which judges one recording and ends. What is left in an event is small and copied freely, and
//! two of them are compared by where they are kept, not letter by letter.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A text that is kept once. It is where the text is kept, and half as large as a `&str`: most of an event are these.
#[derive(Copy, Clone)]
pub struct Text(&'static &'static str);

/// All that are kept.
#[derive(Default)]
struct Kept {
    known: HashMap<&'static str, Text>,
    letters: &'static mut [u8],
    places: &'static mut [&'static str],
}

/// One for all threads, or else equal texts would be kept in different places.
static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// Texts are kept side by side in rooms of this many: those that come together are then found together.
const ROOM: usize = 1 << 16;

impl Text {
    /// The text that reads like this.
    pub fn new(text: &str) -> Self {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).keep(text)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl Kept {
    fn keep(&mut self, text: &str) -> Text {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let letters = take(&mut self.letters, text.len());
        letters.copy_from_slice(text.as_bytes());
        let place = take(&mut self.places, 1);
        place[0] = std::str::from_utf8(letters).expect("letters of a text");
        let kept = Text(&place[0]);
        self.known.insert(place[0], kept);
        kept
    }
}

/// Takes the first places of a room; of a new one where there are too few.
fn take<T: Clone + Default>(room: &mut &'static mut [T], count: usize) -> &'static mut [T] {
    if room.len() < count {
        *room = vec![T::default(); count.max(ROOM)].leak();
    }
    let (taken, left) = std::mem::take(room).split_at_mut(count);
    *room = left;
    taken
}

impl Default for Text {
    fn default() -> Self {
        Self::new("")
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

/// In the order of their letters: whatever is listed by id is listed alike in every run.
impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(other.0)
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl serde::de::Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_the_same_text_in_every_thread() {
        let here = Text::new("a text");
        let there = std::thread::spawn(|| Text::from("a text".to_owned())).join().expect("no panic");
        assert_eq!((here, here.as_str()), (there, "a text"));
        assert!(here != Text::new("another") && Text::default() == Text::new(""));
    }

    #[test]
    fn the_order_is_that_of_letters() {
        let mut texts = ["b", "", "ab", "a"].map(Text::new);
        texts.sort();
        assert_eq!(texts, ["", "a", "ab", "b"]);
    }

    #[test]
    fn escapes_are_read_and_written() {
        let text: Text = serde_json::from_str(r#""a\n\"b\"""#).expect("a text");
        assert_eq!(text, "a\n\"b\"");
        assert_eq!(serde_json::to_string(&text).expect("JSON"), r#""a\n\"b\"""#);
    }
}
