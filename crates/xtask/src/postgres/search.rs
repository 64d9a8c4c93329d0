//! Where PostgreSQL's programs are: on the path, where packages put them, or nowhere yet; then they are installed.

use crate::tools::{self, Manager};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a private server needs.
const NEEDED: [&str; 2] = ["postgres", "initdb"];

/// Where packages put the programs of each version: what is before the number, and after it.
const VERSIONED: [(&str, &str, &str); 6] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/libexec", "postgresql", ""),
    ("/usr/lib", "postgresql", "bin"),
    ("/opt/homebrew/opt", "postgresql@", "bin"),
    ("/usr/local/opt", "postgresql@", "bin"),
];

/// What installs a server.
const MANAGERS: [Manager; 6] = [
    (
        "apt-get",
        &["update", "-q"],
        &["install", "-y", "-q", "--no-install-recommends", "postgresql", "postgresql-client"],
    ),
    ("dnf", &[], &["install", "-y", "postgresql-server", "postgresql"]),
    ("apk", &[], &["add", "--no-cache", "postgresql", "postgresql-client"]),
    ("pacman", &[], &["-Sy", "--noconfirm", "--needed", "postgresql"]),
    ("zypper", &[], &["--non-interactive", "install", "postgresql-server", "postgresql"]),
    ("brew", &[], &["install", "--quiet", "postgresql@17"]),
];

/// The folder with the programs; they are installed if they are nowhere.
pub fn programs() -> Result<PathBuf, String> {
    let folders = folders();
    if let Some(found) = first_with_all(&folders) {
        return Ok(found);
    }
    let tried = match tools::install("PostgreSQL", &MANAGERS) {
        Ok(command) => match first_with_all(&self::folders()) {
            Some(found) => return Ok(found),
            None => format!("`{command}` went well, and they are still not there"),
        },
        Err(why) => why,
    };
    let looked: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(format!(
        "tests need PostgreSQL, and there is none.\n  \
         Looked for the programs {} in: {}\n  \
         Tried to install them: {tried}\n  \
         Either install PostgreSQL 15 or newer and put its programs on the PATH,\n  \
         or set {}=postgres://user@host:port/database to a database in which tests may make and drop schemas,\n  \
         for example that of `docker run --rm -p 5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres:17`",
        NEEDED.join(" and "),
        looked.join(", "),
        super::VARIABLE,
    ))
}

/// The client `psql`, if there is one.
pub fn psql() -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join("psql")).find(|program| program.is_file())
}

/// Where to look, the likeliest first.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    folders.extend(told_by_pg_config());
    for (parent, before, after) in VERSIONED {
        folders.extend(versions(Path::new(parent), before).into_iter().map(|folder| folder.join(after)));
    }
    folders
}

/// The folder that PostgreSQL's own tool names. It comes with the client's headers too, so there may be no server in
/// it.
fn told_by_pg_config() -> Option<PathBuf> {
    let told = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim_end());
    folder.is_absolute().then_some(folder)
}

/// The folders in `parent` whose name is `before` and a version, the newest first.
fn versions(parent: &Path, before: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| Some((version(entry.file_name().to_str()?.strip_prefix(before)?)?, entry.path())))
        .collect();
    found.sort_by_key(|(version, _)| Reverse(version.clone()));
    found.into_iter().map(|(_, path)| path).collect()
}

/// `9.6` and `17` as numbers, because 9 is older than 10.
fn version(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

/// The first folder that has all programs; where they really are, if it only has links to them.
fn first_with_all(folders: &[PathBuf]) -> Option<PathBuf> {
    let all = |folder: &Path| NEEDED.iter().all(|program| folder.join(program).is_file());
    let folder = folders.iter().find(|folder| all(folder))?;
    let real = folder.join(NEEDED[0]).canonicalize().ok();
    let real = real.as_deref().and_then(Path::parent).filter(|folder| all(folder));
    Some(real.unwrap_or(folder).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn with(&self, files: &[&str]) -> &Self {
            for file in files {
                let path = self.0.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            self
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_newest_version_comes_first() {
        let folder = Folder::new("newest");
        folder.with(&["9.6/bin/a", "10/bin/a", "15/bin/a", "17beta/bin/a", "9.10/bin/a", "other/bin/a"]);
        let names = |before| -> Vec<String> {
            let paths = versions(&folder.0, before);
            paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(""), ["15", "10", "9.10", "9.6"]);
        folder.with(&["pgsql-14/bin/a", "pgsql-16/bin/a"]);
        assert_eq!(names("pgsql-"), ["pgsql-16", "pgsql-14"]);
        assert!(versions(&folder.0.join("absent"), "").is_empty());
    }

    #[test]
    fn a_folder_must_have_all_programs() {
        let folder = Folder::new("all");
        folder.with(&["client/initdb", "16/initdb", "16/postgres", "15/initdb", "15/postgres"]);
        let folders = ["absent", "client", "16", "15"].map(|name| folder.0.join(name));
        let found = first_with_all(&folders).unwrap();
        assert_eq!(found.file_name().unwrap(), "16");
        assert_eq!(first_with_all(&folders[..2]), None);
        assert_eq!(first_with_all(&[]), None);
    }
}
