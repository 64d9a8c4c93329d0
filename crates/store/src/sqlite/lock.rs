//! One process per data directory: an advisory lock of the operating system on a file beside the database.
//!
//! The lock ends with the process, however that ends. The file itself stays; what is written in it (who, since when) is
//! for people and for the refusal that a second process gets.

use campanile_model::error::{Error, Kind, Result};
use campanile_model::time::Timestamp;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Holds the directory until it is dropped.
pub(super) struct Lock {
    file: File,
}

const FILE_NAME: &str = "campanile.lock";

impl Lock {
    /// Takes the directory of `database`, or says who has it.
    pub(super) fn take(database: &Path) -> Result<Self> {
        let directory = match database.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let shown = directory.display();
        let failed = |what: &str, error: std::io::Error| {
            Error::new(Kind::Unavailable, format!("cannot {what} data directory {shown}: {error}"))
                .with_code("data_directory_unusable")
        };
        std::fs::create_dir_all(directory).map_err(|e| failed("create", e))?;
        let path = directory.join(FILE_NAME);
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(|e| failed("lock", e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // What is written there only serves the message.
                let _ = file.take(256).read_to_string(&mut owner);
                let owner = if owner.trim().is_empty() { "another process" } else { owner.trim() };
                let message = format!("data directory {shown} is in use by {owner}; only one process may open it");
                return Err(Error::new(Kind::Conflict, message).with_code("data_directory_in_use"));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", error)),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "process {} since {}", std::process::id(), now()));
        written.map_err(|e| failed("write to", e))?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// Unlocks by name: a child that is just being started holds a copy of the file until it runs its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

#[allow(clippy::disallowed_methods, reason = "only shown to people, and before there is any injected clock")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(since_epoch.as_millis() as i64)
}
