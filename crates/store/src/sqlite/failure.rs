//! From SQLite's errors to ours: what the caller must do about them.

use campanile_model::error::{Error, Kind};
use campanile_model::ids::ExecutionId;
use rusqlite::ErrorCode;

/// Why a command did not succeed. Either way its transaction is rolled back.
#[derive(Debug)]
pub(super) enum Failure {
    Sql(rusqlite::Error),
    /// We refused, or could not read what is stored.
    Ours(Error),
}

/// The result of a command inside a transaction.
pub(super) type Done<T> = Result<T, Failure>;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
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
    pub(super) fn corrupt(what: &str) -> Self {
        Failure::Ours(Error::new(Kind::Corrupt, format!("cannot read the stored {what}")))
    }

    /// As an answer to a caller, after the transaction was rolled back.
    pub(super) fn into_error(self, location: &str) -> Error {
        match self {
            Failure::Sql(error) => classify(&error, location),
            Failure::Ours(error) => error,
        }
    }
}

/// A guarded write that was judged in the same transaction must find its row.
pub(super) fn expect_one(changed: usize, execution: ExecutionId) -> Done<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Failure::Ours(Error::new(Kind::Bug, format!("execution {execution} changed under its writer")))),
    }
}

/// What an error of SQLite on a transaction that was rolled back means to the caller.
pub(super) fn classify(error: &rusqlite::Error, location: &str) -> Error {
    let Some(code) = error.sqlite_error_code() else {
        // Conversions of columns: the statement and the code disagree, or the file holds what we never wrote.
        return Error::new(Kind::Corrupt, format!("cannot read {location}: {error}"));
    };
    let new = |kind, stable, what: &str| Error::new(kind, format!("{what} {location}: {error}")).with_code(stable);
    match code {
        ErrorCode::DiskFull => new(Kind::Unavailable, "store_full", "no space left for"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            new(Kind::Unavailable, "store_locked", "another connection locks")
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            new(Kind::Unavailable, "store_read_only", "not allowed to write")
        }
        ErrorCode::SystemIoFailure => new(Kind::Unavailable, "store_io", "cannot read or write"),
        ErrorCode::CannotOpen => new(Kind::Unavailable, "store_cannot_open", "cannot open"),
        ErrorCode::OutOfMemory => new(Kind::Unavailable, "store_memory", "not enough memory for"),
        ErrorCode::DatabaseCorrupt => new(Kind::Corrupt, "store_corrupt", "damaged database"),
        ErrorCode::NotADatabase => new(Kind::Corrupt, "store_foreign", "not a Campanile database:"),
        _ => new(Kind::Bug, "internal", "unexpected answer of"),
    }
}

/// The same for an error of COMMIT itself. A failed sync leaves the transaction unfinished for us, but a crash before
/// the next write might bring it back from the log: the outcome is unknown.
pub(super) fn classify_commit(error: &rusqlite::Error, location: &str) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => {
            Error::new(Kind::OutcomeUnknown, format!("cannot sync {location}: {error}")).with_code("store_io")
        }
        _ => classify(error, location),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_tells_what_to_do() {
        let kind = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            (classify(&error, "x.db").kind(), classify_commit(&error, "x.db").kind())
        };
        use rusqlite::ffi;
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_READONLY, ffi::SQLITE_CANTOPEN, ffi::SQLITE_PERM] {
            assert_eq!(kind(code), (Kind::Unavailable, Kind::Unavailable), "{code}");
        }
        for code in [ffi::SQLITE_READONLY_DIRECTORY, ffi::SQLITE_BUSY_SNAPSHOT] {
            assert_eq!(kind(code), (Kind::Unavailable, Kind::Unavailable), "{code}");
        }
        assert_eq!(kind(ffi::SQLITE_IOERR_FSYNC), (Kind::Unavailable, Kind::OutcomeUnknown));
        assert_eq!(kind(ffi::SQLITE_CORRUPT), (Kind::Corrupt, Kind::Corrupt));
        assert_eq!(kind(ffi::SQLITE_NOTADB), (Kind::Corrupt, Kind::Corrupt));
        assert_eq!(kind(ffi::SQLITE_CONSTRAINT_UNIQUE), (Kind::Bug, Kind::Bug));
    }
}
