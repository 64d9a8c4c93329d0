//! A PostgreSQL server of our own: it listens on this host only, and ends with us, whatever ends us.
//!
//! A shell watches over it. It waits for the end of its input, which is a pipe from us: so when we end, by Ctrl-C or
//! killed or as we should, it stops the server and removes the files. The server refuses to run as root; then it runs
//! as another user.

use crate::root;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Keeps the server: its folder, then the command that runs it. The file `ended` tells that it is over.
const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1; shift
{ "$@" >"$folder/log" 2>&1 </dev/null; : >"$folder/ended"; } &
cat >/dev/null
pid=$(head -n 1 "$folder/data/postmaster.pid" 2>/dev/null) && kill -INT "$pid"
wait
rm -rf "$folder"
"#;

/// Settings for tests. Syncing stays on: tests of crashes need commits that are.
const SETTINGS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "max_connections=300",
    "shared_buffers=256MB",
    "max_wal_size=2GB",
    "fsync=on",
    // Their names have a limit that a deep folder passes, and TCP is what tests use.
    "unix_socket_directories=",
    "logging_collector=off",
];

/// Users to run as instead of root, and ways to become them, each with what follows the user's name.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// How often another free port is tried.
const TRIES_MAX: u32 = 5;
/// How long a server may take to start, and between two looks.
const START: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(20));

/// A server that runs. Dropping it stops it and removes its files.
pub struct Private {
    keeper: Child,
    url: String,
}

impl Private {
    /// Makes a database and starts a server on a free port.
    pub fn start(programs: &Path) -> Result<Self, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::try_start(programs) {
                // Somebody took the port between our look and the server's.
                Err(message) if message.contains("could not bind") && tries < TRIES_MAX => {}
                done => return done,
            }
        }
    }

    fn try_start(programs: &Path) -> Result<Self, String> {
        let disguise = if is_root() { disguise()? } else { Vec::new() };
        let folder = make_folder(&disguise)?;
        let made = initialise(programs, &folder, &disguise);
        let port = made.and_then(|()| free_port()).inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&folder);
        })?;
        let keeper = keep(programs, &folder, &disguise, port)?;
        let private = Self { keeper, url: format!("postgres://postgres@127.0.0.1:{port}/postgres") };
        // From here on the keeper removes the folder, also when this fails.
        wait_until_ready(&folder)?;
        Ok(private)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Whether we are root.
pub fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Words before a command that make it run as somebody who is not root; the first is the user.
fn disguise() -> Result<Vec<String>, String> {
    for user in USERS {
        let group = output(Command::new("id").args(["-g", user])).unwrap_or_default();
        let setpriv = [&format!("--reuid={user}"), &format!("--regid={}", group.trim()), "--clear-groups", "--"];
        let ways: [(&str, &[&str]); 3] = [
            ("setpriv", &setpriv),
            ("runuser", &["-u", user, "--"]),
            ("su", &["-s", "/bin/sh", "-c", r#"exec "$@""#, "--", user, "sh"]),
        ];
        for (way, words) in ways {
            if output(Command::new(way).args(words).arg("true")).is_ok() {
                return Ok([user, way].iter().chain(words).map(|word| (*word).to_owned()).collect());
            }
        }
    }
    Err(format!(
        "PostgreSQL does not run as root, and none of setpriv, runuser and su makes us one of the users {}",
        USERS.join(", ")
    ))
}

/// A command, disguised if need be.
fn command(disguise: &[String], program: &Path) -> Vec<String> {
    disguise.iter().skip(1).cloned().chain([program.display().to_string()]).collect()
}

/// An empty folder that belongs to whoever runs the server. Not below our own folders when that is somebody else, who
/// may not look into them.
fn make_folder(disguise: &[String]) -> Result<PathBuf, String> {
    let parent = match disguise.first() {
        None => {
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |target| root().join(target))
        }
        Some(_) if Path::new("/var/tmp").is_dir() => PathBuf::from("/var/tmp"),
        Some(_) => std::env::temp_dir(),
    };
    let cannot = |error| format!("cannot make a folder in {}: {error}", parent.display());
    std::fs::create_dir_all(&parent).map_err(cannot)?;
    let name = |n| parent.join(format!("campanile-postgres-{}-{n}", std::process::id()));
    let folder = (0..1_000).map(name).find_map(|folder| match std::fs::create_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
        done => Some(done.map(|()| folder)),
    });
    let folder = folder.unwrap_or_else(|| Err(std::io::ErrorKind::AlreadyExists.into())).map_err(cannot)?;
    if let Some(user) = disguise.first() {
        output(Command::new("chown").arg(user).arg(&folder))?;
    }
    Ok(folder)
}

/// Makes the data directory. Nobody else can reach it, so nobody is asked for a password.
fn initialise(programs: &Path, folder: &Path, disguise: &[String]) -> Result<(), String> {
    let words = command(disguise, &programs.join("initdb"));
    let mut initdb = Command::new(&words[0]);
    initdb.args(&words[1..]).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
    output(initdb.arg(folder.join("data")).current_dir(folder)).map(drop)
}

/// A port that is free now.
fn free_port() -> Result<u16, String> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// Starts the shell that keeps the server.
fn keep(programs: &Path, folder: &Path, disguise: &[String], port: u16) -> Result<Child, String> {
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "sh"]).arg(folder).args(command(disguise, &programs.join("postgres")));
    keeper.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
    keeper.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    keeper.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null());
    keeper.spawn().map_err(|error| format!("cannot run sh: {error}"))
}

/// Waits until the server says that it is ready, in the file that also has its process id.
fn wait_until_ready(folder: &Path) -> Result<(), String> {
    let (pid, ended) = (folder.join("data/postmaster.pid"), folder.join("ended"));
    let mut left = START.0;
    loop {
        let text = std::fs::read_to_string(&pid).unwrap_or_default();
        if text.lines().any(|line| line.trim() == "ready") {
            return Ok(());
        }
        if ended.exists() || left.is_zero() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            let how = if left.is_zero() { "did not get ready" } else { "ended at once" };
            return Err(format!("the private PostgreSQL {how}:\n{}", log.trim_end()));
        }
        std::thread::sleep(START.1);
        left = left.saturating_sub(START.1);
    }
}

/// Runs a command to its end, and answers what it wrote, or why it failed.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ended = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {program}: {error}"))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!("{program} ended with {}: {}", ended.status, said.trim_end()))
}
