//! Single fields as plain values: every shape that a field can have, and one fault for each that it has not.

use super::{Entry, Faults, Fields, Form};
use crate::wire::FieldProblem;
use serde_json::Value;

/// A duration, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// A number of milliseconds.
    Ms(u64),
    /// A text such as `30s`.
    Text(String),
}

/// Takes the fields out of a request, one by one.
pub(super) struct Reader<'a> {
    pub(super) fields: &'a mut Fields,
    pub(super) faults: &'a mut Faults,
}

impl Reader<'_> {
    /// The value of a field, unless it is absent or null.
    pub(super) fn value(&mut self, canonical: &str) -> Option<(Value, Form)> {
        let Entry { raw, form } = self.fields.entries.remove(canonical)?;
        match serde_json::from_str(&raw) {
            Ok(Value::Null) => None,
            Ok(value) => Some((value, form)),
            Err(_) => {
                self.refuse(canonical, "number_invalid", "this number is out of range");
                None
            }
        }
    }

    pub(super) fn refuse(&mut self, canonical: &str, code: &str, message: impl Into<String>) {
        self.faults.add(FieldProblem::new(self.fields.pointers.sent(canonical), code, message));
    }

    pub(super) fn wrong_type<T>(&mut self, canonical: &str, expected: &str, got: &Value) -> Option<T> {
        self.refuse(canonical, "wrong_type", format!("expected {expected}, got {}", describe(got)));
        None
    }

    pub(super) fn text(&mut self, canonical: &str) -> Option<String> {
        match self.value(canonical)?.0 {
            Value::String(text) => Some(text),
            other => self.wrong_type(canonical, "a string", &other),
        }
    }

    /// A word of a fixed set, in capitals, with `-` and blanks as `_`.
    pub(super) fn word(&mut self, canonical: &str) -> Option<String> {
        self.text(canonical).map(|word| capitals(&word))
    }

    pub(super) fn flag(&mut self, canonical: &str) -> Option<bool> {
        match self.value(canonical)?.0 {
            Value::Bool(flag) => Some(flag),
            other => self.wrong_type(canonical, "true or false", &other),
        }
    }

    pub(super) fn count(&mut self, canonical: &str) -> Option<u64> {
        match self.value(canonical)?.0 {
            Value::Number(number) if number.as_u64().is_some() => number.as_u64(),
            other => self.wrong_type(canonical, "a whole number that is not negative", &other),
        }
    }

    /// Any number.
    pub(super) fn number(&mut self, canonical: &str) -> Option<f64> {
        match self.value(canonical)?.0 {
            Value::Number(number) => number.as_f64(),
            other => self.wrong_type(canonical, "a number", &other),
        }
    }

    pub(super) fn span(&mut self, canonical: &str) -> Option<Span> {
        let (value, form) = self.value(canonical)?;
        match (&value, form) {
            (Value::String(text), _) => Some(Span::Text(text.clone())),
            (Value::Number(number), Form::Span(unit)) => {
                let ms = match (number.as_u64(), number.as_f64()) {
                    (Some(whole), _) => whole.checked_mul(unit),
                    // Half a second is a duration; half a millisecond is not.
                    (None, Some(part)) if unit > 1 && (0.0..1e15).contains(&part) => {
                        Some((part * unit as f64).round() as u64)
                    }
                    _ => None,
                };
                if ms.is_none() {
                    self.refuse(canonical, "duration_invalid", format!("{number} is not a duration that can be used"));
                }
                ms.map(Span::Ms)
            }
            (Value::Number(number), _) => {
                let name = self.fields.pointers.sent(canonical);
                let name = name.rsplit('/').next().unwrap_or_default().to_owned();
                let fault = FieldProblem::new(
                    self.fields.pointers.sent(canonical),
                    "unit_missing",
                    format!("{number} has no unit"),
                );
                self.faults.add(fault.hint(format!("write \"{number}s\", or send `{name}_ms` in milliseconds")));
                None
            }
            (other, _) => self.wrong_type(canonical, "a duration such as \"30s\"", other),
        }
    }

    /// An array of strings; nothing is an empty one.
    pub(super) fn texts(&mut self, canonical: &str) -> Vec<String> {
        let items = match self.value(canonical) {
            Some((Value::Array(items), _)) => items,
            Some((other, _)) => {
                return self.wrong_type(canonical, "an array of strings", &other).unwrap_or_default();
            }
            None => return Vec::new(),
        };
        let mut texts = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text),
                other => {
                    let _: Option<()> = self.wrong_type(&format!("{canonical}/{i}"), "a string", &other);
                }
            }
        }
        texts
    }

    /// Refuses a group that was sent as something else than an object.
    pub(super) fn object_only(&mut self, canonical: &str) {
        if let Some((other, _)) = self.value(canonical) {
            let _: Option<()> = self.wrong_type(canonical, "an object", &other);
        }
    }
}

pub(super) fn capitals(word: &str) -> String {
    word.trim().chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_uppercase() }).collect()
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            format!("\"{}\"", text.chars().take(40).flat_map(char::escape_debug).collect::<String>())
        }
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}
