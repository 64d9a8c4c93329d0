//! The outer form of a filter: terms, their fields and values, quotes and positions. Which fields exist is not known here.

use super::{FilterError, TERMS_MAX, TEXT_BYTES_MAX};

/// A term before its field has a meaning.
#[derive(Debug)]
pub(super) struct RawTerm<'a> {
    pub negated: bool,
    pub field: &'a str,
    pub field_at: (usize, usize),
    /// At least one, none of them empty.
    pub values: Vec<Value>,
    pub position: (usize, usize),
}

/// A value without its quotes.
#[derive(Debug, Default)]
pub(super) struct Value {
    pub text: String,
    /// The bytes of `text` at which a bare `*` stands.
    pub stars: Vec<usize>,
    pub position: (usize, usize),
    /// Whether quotes were taken away, so that places in `text` are not places in the filter.
    pub unquoted: bool,
}

impl Value {
    /// Where these bytes of `text` stand in the filter; the whole value where that cannot be told.
    pub fn within(&self, from: usize, to: usize) -> (usize, usize) {
        if self.unquoted { self.position } else { (self.position.0 + from, self.position.0 + to) }
    }
}

/// The terms of a filter.
pub(super) fn scan(text: &str) -> Result<Vec<RawTerm<'_>>, FilterError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the filter has {} bytes; the limit is {TEXT_BYTES_MAX}", text.len());
        return Err(FilterError::new(message, (text.floor_char_boundary(TEXT_BYTES_MAX), text.len())));
    }
    let mut scanner = Scanner { text, at: 0 };
    let mut terms = Vec::new();
    while scanner.skip_blanks() {
        let term = scanner.term()?;
        if terms.len() == TERMS_MAX {
            return Err(FilterError::new(format!("a filter has at most {TERMS_MAX} terms"), term.position));
        }
        terms.push(term);
    }
    Ok(terms)
}

/// The user's text as it appears in a message: control characters escaped, and cut to a readable length.
pub(super) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    let shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    let dots = if text.chars().nth(CHARS_MAX).is_some() { "..." } else { "" };
    format!("`{shown}{dots}`")
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Moves to the next term; says whether there is one.
    fn skip_blanks(&mut self) -> bool {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
        self.at < self.text.len()
    }

    fn term(&mut self) -> Result<RawTerm<'a>, FilterError> {
        let start = self.at;
        let negated = self.peek() == Some('-');
        self.at += usize::from(negated);
        let field = self.field(start)?;
        let field_at = (self.at - field.len(), self.at);
        let mut values = Vec::new();
        // Stands at the colon, and then at each comma.
        loop {
            self.at += 1;
            values.push(self.value(field)?);
            if self.peek() != Some(',') {
                break;
            }
        }
        Ok(RawTerm { negated, field, field_at, values, position: (start, self.at) })
    }

    /// The word before the colon, for the term that begins at `start`.
    fn field(&mut self, start: usize) -> Result<&'a str, FilterError> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| c == ':' || c == '"' || c.is_whitespace()).unwrap_or(rest.len());
        if length > 0 && rest[length..].starts_with(':') {
            self.at += length;
            return Ok(&rest[..length]);
        }
        let end = self.text[start..].find(char::is_whitespace).map_or(self.text.len(), |length| start + length);
        let message = format!("{} is not of the form field:value", shown(&self.text[start..end]));
        Err(FilterError::new(message, (start, end)).hint("such as state:dead, or job:*part-of-a-name*"))
    }

    fn value(&mut self, field: &str) -> Result<Value, FilterError> {
        let start = self.at;
        let mut value = Value::default();
        while let Some(c) = self.peek().filter(|c| *c != ',' && !c.is_whitespace()) {
            if c == '"' {
                value.unquoted = true;
                self.quoted(&mut value.text)?;
                continue;
            }
            if c == '*' {
                value.stars.push(value.text.len());
            }
            value.text.push(c);
            self.at += c.len_utf8();
        }
        value.position = (start, self.at);
        if value.text.is_empty() {
            let after = if self.text[..start].ends_with(',') { "," } else { ":" };
            let message = format!("a value is missing after {}", shown(&format!("{field}{after}")));
            return Err(FilterError::new(message, value.position).hint("no blank stands before or within a value"));
        }
        Ok(value)
    }

    /// Adds what stands between the quote here and the one that closes it.
    fn quoted(&mut self, value: &mut String) -> Result<(), FilterError> {
        let start = self.at;
        self.at += 1;
        while let Some(c) = self.peek() {
            let c_at = self.at;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(()),
                '\\' => match self.peek() {
                    Some(escaped @ ('"' | '\\')) => {
                        value.push(escaped);
                        self.at += 1;
                    }
                    Some(other) => {
                        let end = self.at + other.len_utf8();
                        let message = format!("unknown escape {}", shown(&self.text[c_at..end]));
                        return Err(FilterError::new(message, (c_at, end)).hint("write \\\\ for a backslash"));
                    }
                    None => break,
                },
                _ => value.push(c),
            }
        }
        Err(FilterError::new("the quote is not closed", (start, self.text.len())).hint("write \\\" for a quote within"))
    }
}
