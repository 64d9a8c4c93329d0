//! What an installation keeps to itself: files of mode 0600 in a data directory of mode 0700, made on the first start.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates the data directory where it is missing, readable by nobody else.
pub fn create_data_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The secret that signs webhooks of jobs without one: `whsec_` and base64, as Standard Webhooks has it.
pub fn webhook_secret(data_dir: &Path) -> io::Result<String> {
    let make = || Ok(format!("{}\n", new_webhook_secret()?).into_bytes());
    let text = read_or_create(data_dir, "webhook-secret", make)?;
    let text = String::from_utf8(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(text.trim().to_owned())
}

/// A secret for webhooks that nobody knows yet.
pub fn new_webhook_secret() -> io::Result<String> {
    Ok(format!("whsec_{}", STANDARD.encode(random::<32>()?)))
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same back.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let pair = |i: usize| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len() / 2).map(pair).collect();
    bytes?.try_into().ok()
}

/// The key that signs page cursors, so that nobody can make one up.
pub fn cursor_key(data_dir: &Path) -> io::Result<[u8; 32]> {
    let bytes = read_or_create(data_dir, "cursor-key", || Ok(random::<32>()?.to_vec()))?;
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "`cursor-key` does not have 32 bytes; delete it");
    bytes.try_into().map_err(wrong)
}

/// Bytes from the operating system.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Reads a file, or makes it. It is written aside and renamed, so that a crash leaves no half of it.
fn read_or_create(dir: &Path, name: &str, make: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let path = dir.join(name);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(named),
    }
    let content = make()?;
    let aside = dir.join(format!("{name}.new"));
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
        file.write_all(&content)?;
        file.sync_all()?;
        std::fs::rename(&aside, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(named)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_are_made_once_and_readable_by_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("a/b");
        create_data_dir(&data).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&data), 0o700);
        let (secret, key) = (webhook_secret(&data).unwrap(), cursor_key(&data).unwrap());
        assert!(campanile_actions::Secret::parse(&secret).is_ok());
        assert_eq!(mode(&data.join("webhook-secret")), 0o600);
        assert_eq!(mode(&data.join("cursor-key")), 0o600);
        assert_eq!((webhook_secret(&data).unwrap(), cursor_key(&data).unwrap()), (secret, key));
        std::fs::write(data.join("cursor-key"), b"short").unwrap();
        assert!(cursor_key(&data).is_err());
    }
}
