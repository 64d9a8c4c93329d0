//! What can go wrong, by what the caller must do about it.
//!
//! Losing a race is an answer (`store::Applied`), not an error. `OutcomeUnknown` is a kind of its own because the caller
//! must read again and never assume.

use std::fmt;

/// What an error means for its caller.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The input is wrong; sending it again will not help.
    Invalid,
    /// The thing named does not exist.
    NotFound,
    /// It exists in another state or version than the caller assumed.
    Conflict,
    /// Nothing happened, and it may work later.
    Unavailable,
    /// It may or may not have happened: read again.
    OutcomeUnknown,
    /// Stored data cannot be read.
    Corrupt,
    Bug,
}

/// One thing wrong with one field of the input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldError {
    /// JSON pointer to the field, such as `/schedule/cron`.
    pub pointer: String,
    /// Stable machine-readable code, such as `cron_invalid`.
    pub code: &'static str,
    /// What is wrong, in words.
    pub message: String,
    /// What to do about it, where we know.
    pub hint: Option<String>,
    /// Byte range within a string field, where there is one.
    pub position: Option<(usize, usize)>,
}

impl FieldError {
    /// An error about `pointer`.
    pub fn new(pointer: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code, message: message.into(), hint: None, position: None }
    }

    /// The same with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// An error of a contract in this crate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Error {
    kind: Kind,
    code: &'static str,
    message: String,
    fields: Vec<FieldError>,
}

/// The result of a contract's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let code = match kind {
            Kind::Invalid => "invalid",
            Kind::NotFound => "not_found",
            Kind::Conflict => "conflict",
            Kind::Unavailable => "unavailable",
            Kind::OutcomeUnknown => "outcome_unknown",
            Kind::Corrupt => "corrupt",
            Kind::Bug => "internal",
        };
        Self { kind, code, message: message.into(), fields: Vec::new() }
    }

    /// The same with a more precise stable code.
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Input that is wrong in these fields.
    pub fn invalid(fields: Vec<FieldError>) -> Self {
        let message =
            fields.first().map_or_else(|| "invalid input".into(), |f| format!("{}: {}", f.pointer, f.message));
        let code = fields.first().map_or("invalid", |f| f.code);
        Self { kind: Kind::Invalid, code, message, fields }
    }

    /// What the caller must do.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Stable machine-readable code, such as `name_taken`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The message without the fields.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The fields at fault; empty unless the input was invalid.
    pub fn fields(&self) -> &[FieldError] {
        &self.fields
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
