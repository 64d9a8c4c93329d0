//! From PostgreSQL's errors to ours: what the caller must do about them.

use campanile_model::{Error, Kind};
use tokio_postgres::error::SqlState;

/// Why something inside a transaction did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// PostgreSQL refused, or is gone.
    Sql(tokio_postgres::Error),
    /// We refused, or could not read what is stored.
    Ours(Error),
    /// There was no answer in time; what there will be is not waited for.
    Silence(Error),
}

/// The result of something inside a transaction.
pub type Done<T> = Result<T, Failure>;

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Sql(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Ours(error)
    }
}

impl Failure {
    /// A stored value that no release has written.
    pub fn corrupt(what: &str) -> Self {
        Failure::Ours(Error::new(Kind::Corrupt, format!("cannot read the stored {what}")))
    }

    /// Whether the same again may succeed at once: we were the victim of a deadlock or of two writers at once.
    pub fn is_collision(&self) -> bool {
        let Failure::Sql(error) = self else { return false };
        error.code().is_some_and(|code| {
            // A check fails where a partition came or goes meanwhile.
            [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::CHECK_VIOLATION]
                .contains(code)
        })
    }

    /// Whether the connection is gone, and with it the transaction.
    pub fn is_lost(&self) -> bool {
        match self {
            Failure::Sql(error) => is_lost(error),
            Failure::Silence(_) => true,
            Failure::Ours(_) => false,
        }
    }

    /// Whether there was no answer in time.
    pub fn is_silence(&self) -> bool {
        matches!(self, Failure::Silence(_))
    }

    /// As an answer to a caller, after the transaction was rolled back.
    pub fn into_error(self, location: &str) -> Error {
        match self {
            Failure::Sql(error) => classify(&error, location),
            Failure::Ours(error) | Failure::Silence(error) => error,
        }
    }
}

/// Whether an error means that the connection is gone.
pub fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        None => !is_ours(error),
        Some(code) => ends_session(code),
    }
}

/// Whether an error without a code was made on this side: a statement and its parameters or columns do not fit. The library
/// keeps its kinds to itself, but for their texts.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    let ours = ["error serializing", "error deserializing", "error encoding", "invalid column", "expected "];
    ours.iter().any(|start| text.starts_with(start)) || text.contains("unexpected number of rows")
}

/// Codes with which a server ends a session: class 08, shutdowns, and the end of idle transactions.
fn ends_session(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::IDLE_SESSION_TIMEOUT,
        ]
        .contains(code)
}

/// What an error on a transaction that was rolled back means to the caller.
pub fn classify(error: &tokio_postgres::Error, location: &str) -> Error {
    let detail = explain(error);
    let new = |kind, stable, what: &str| Error::new(kind, format!("{what} {location}: {detail}")).with_code(stable);
    let Some(code) = error.code() else {
        if is_ours(error) {
            return new(Kind::Bug, "internal", "unexpected answer of");
        }
        return new(Kind::Unavailable, "store_unreachable", "no connection to");
    };
    match code.code() {
        _ if ends_session(code) => new(Kind::Unavailable, "store_unreachable", "lost the connection to"),
        "57014" => new(Kind::Unavailable, "store_slow", "took too long:"),
        // A check that fails is that of a day that is being dropped.
        "55P03" | "40P01" | "40001" | "23514" => {
            new(Kind::Unavailable, "store_locked", "others hold what is needed in")
        }
        "53100" => new(Kind::Unavailable, "store_full", "no space left for"),
        "25006" => new(Kind::Unavailable, "store_read_only", "not allowed to write"),
        c if c.starts_with("53") => new(Kind::Unavailable, "store_busy", "no room left in"),
        c if c.starts_with("28") => new(Kind::Unavailable, "store_refused", "refused by"),
        "3D000" | "42501" => new(Kind::Unavailable, "store_refused", "refused by"),
        c if c.starts_with("58") => new(Kind::Unavailable, "store_io", "cannot read or write"),
        c if c.starts_with("XX") => new(Kind::Corrupt, "store_corrupt", "damaged database"),
        _ => new(Kind::Bug, "internal", "unexpected answer of"),
    }
}

/// What went wrong, with what PostgreSQL says about it.
fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} ({})", error.message(), error.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
