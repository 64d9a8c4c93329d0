//! A PostgreSQL server of a test's own, which the test may stop in the hardest way and start again.
//!
//! A shell keeps it. Orders reach it through a pipe from us, and its end is the last order: so when the test's process ends,
//! whatever ends it, the server is stopped and its files are removed. It listens on this host only, on a port that stays the
//! same across restarts. PostgreSQL refuses to run as root; then it runs as another user.

use std::cmp::Reverse;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Takes orders, one per line: `start`, and `stop`, which leaves no time to anybody (`pg_ctl -m immediate` sends the same signal).
/// The file `stopped` tells that a stop is over. Its arguments: the folder, then the command that runs the server.
const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1; shift
stop() {
    pid=$(head -n 1 "$folder/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"
    wait
}
while read -r order; do
    case $order in
        start) rm -f "$folder/stopped"; "$@" >>"$folder/log" 2>&1 </dev/null & ;;
        stop) stop; : >"$folder/stopped" ;;
    esac
done
stop
rm -rf "$folder"
"#;

/// Settings for tests. Syncing stays on: what was committed must survive.
const SETTINGS: [&str; 3] = [
    "max_connections=200",
    // Their names have a limit that a deep folder passes, and TCP is what tests use.
    "unix_socket_directories=",
    "logging_collector=off",
];

/// Users to run as instead of root.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// How long a server may take to start or to stop, and between two looks.
const CHANGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(5));

/// A server that runs. Dropping it stops it and removes its files.
pub struct PrivatePostgres {
    keeper: Child,
    folder: PathBuf,
    url: String,
}

impl PrivatePostgres {
    /// Makes a database and starts a server on a free port. Panics with what to do where that cannot be.
    pub fn start() -> Self {
        Self::start_at(&[], "127.0.0.1")
    }

    /// The same on this address, by a command that these words begin: `ip netns exec` and the name of a network. Whoever can reach
    /// the address is let in.
    pub fn start_at(words: &[String], address: &str) -> Self {
        Self::try_start(words, address)
            .unwrap_or_else(|message| panic!("no private PostgreSQL for this test: {message}"))
    }

    fn try_start(words: &[String], address: &str) -> Result<Self, String> {
        let programs = programs()?;
        let disguise = if is_root() { Some(disguise()?) } else { None };
        let folder = make_folder(disguise.as_ref())?;
        let made = initialise(&programs, &folder, disguise.as_ref());
        let made = made.and_then(|()| let_in(&folder, address));
        let kept = made.and_then(|()| keep(words, address, &programs, &folder, disguise.as_ref()));
        let (keeper, port) = kept.inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&folder);
        })?;
        // From here on the keeper removes the folder, also when this fails.
        let mut server = Self { keeper, folder, url: format!("postgres://postgres@{address}:{port}/postgres") };
        server.begin()?;
        Ok(server)
    }

    /// Where it is, before and after restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).ok()?;
        text.lines().next()?.trim().parse().ok()
    }

    /// Stops it as a crash would, without a word to its clients, leaves it down for `pause`, and starts it again. Returns when it
    /// takes connections.
    pub fn restart_immediate(&mut self, pause: Duration) {
        self.stop_immediate();
        std::thread::sleep(pause);
        self.begin().unwrap_or_else(|message| panic!("{message}"));
    }

    /// Stops it as a crash would. [`restart_immediate`](Self::restart_immediate) starts it again.
    pub fn stop_immediate(&mut self) {
        let stopped = self.folder.join("stopped");
        if stopped.exists() {
            return;
        }
        self.order("stop\n").unwrap_or_else(|message| panic!("{message}"));
        let ended = self.wait_until("stopped", || stopped.exists());
        ended.unwrap_or_else(|message| panic!("{message}"));
    }

    /// Starts it, and waits until it says that it is ready, in the file that also has its process id.
    fn begin(&mut self) -> Result<(), String> {
        self.order("start\n")?;
        let pid = self.folder.join("data/postmaster.pid");
        self.wait_until("ready", || {
            let text = std::fs::read_to_string(&pid).unwrap_or_default();
            text.lines().any(|line| line.trim() == "ready")
        })
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        let pipe = self.keeper.stdin.as_mut().ok_or("the private PostgreSQL has ended")?;
        pipe.write_all(order.as_bytes()).map_err(|error| format!("the private PostgreSQL has no keeper: {error}"))
    }

    fn wait_until(&self, what: &str, done: impl Fn() -> bool) -> Result<(), String> {
        let mut left = CHANGE.0;
        while !done() {
            if left.is_zero() {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("the private PostgreSQL did not get {what}:\n{}", log.trim_end()));
            }
            std::thread::sleep(CHANGE.1);
            left = left.saturating_sub(CHANGE.1);
        }
        Ok(())
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The folder with PostgreSQL's programs.
fn programs() -> Result<PathBuf, String> {
    let mut folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    folders.extend(output(Command::new("pg_config").arg("--bindir")).ok().map(|path| PathBuf::from(path.trim())));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    // The newest first.
    versions.sort_by_key(|path| Reverse(path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok())));
    folders.extend(versions.into_iter().map(|version| version.join("bin")));
    let has_all = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    folders.into_iter().find(has_all).ok_or_else(|| {
        "the programs initdb and postgres are neither on the PATH, nor where pg_config says, nor in \
         /usr/lib/postgresql/*/bin. Install the server of PostgreSQL 15 or newer (Debian: apt-get install postgresql); \
         `cargo xtask test` tries to do so"
            .to_owned()
    })
}

/// Another user, and the words before a command that make it run as that one.
struct Disguise {
    user: &'static str,
    words: Vec<String>,
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn disguise() -> Result<Disguise, String> {
    for user in USERS {
        let group = output(Command::new("id").args(["-g", user])).unwrap_or_default();
        let (reuid, regid) = (format!("--reuid={user}"), format!("--regid={}", group.trim()));
        let ways: [&[&str]; 3] = [
            &["setpriv", &reuid, &regid, "--clear-groups", "--"],
            &["runuser", "-u", user, "--"],
            &["su", "-s", "/bin/sh", "-c", r#"exec "$@""#, "--", user, "sh"],
        ];
        for words in ways {
            if output(Command::new(words[0]).args(&words[1..]).arg("true")).is_ok() {
                return Ok(Disguise { user, words: words.iter().map(|&word| word.to_owned()).collect() });
            }
        }
    }
    Err(format!(
        "PostgreSQL does not run as root, and none of setpriv, runuser and su makes us one of the users {}",
        USERS.join(", ")
    ))
}

/// An empty folder that belongs to whoever runs the server.
fn make_folder(disguise: Option<&Disguise>) -> Result<PathBuf, String> {
    let name = super::schema().replacen(super::SCHEMA_PREFIX, "campanile-postgres-", 1);
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    if let Some(disguise) = disguise {
        output(Command::new("chown").arg(disguise.user).arg(&folder))?;
    }
    Ok(folder)
}

/// Makes the data directory. Nobody else can reach it, so nobody is asked for a password.
fn initialise(programs: &Path, folder: &Path, disguise: Option<&Disguise>) -> Result<(), String> {
    let words = words(disguise, &programs.join("initdb"));
    let mut initdb = Command::new(&words[0]);
    initdb.args(&words[1..]).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
    output(initdb.arg(folder.join("data")).current_dir(folder)).map(drop)
}

/// Lets in whoever reaches an address that is not this host's own.
fn let_in(folder: &Path, address: &str) -> Result<(), String> {
    if address == "127.0.0.1" {
        return Ok(());
    }
    let failed = |error| format!("cannot let others in: {error}");
    let mut file = std::fs::File::options().append(true).open(folder.join("data/pg_hba.conf")).map_err(failed)?;
    file.write_all(b"host all all 0.0.0.0/0 trust\n").map_err(failed)
}

/// Starts the shell that keeps the server, and says on which port that will be.
fn keep(
    before: &[String],
    address: &str,
    programs: &Path,
    folder: &Path,
    disguise: Option<&Disguise>,
) -> Result<(Child, u16), String> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| format!("no free port: {error}"))?.port();
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "sh"]).arg(folder).args(before).args(words(disguise, &programs.join("postgres")));
    keeper.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
    keeper.args(["-c", &format!("listen_addresses={address}")]);
    keeper.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    keeper.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null());
    let keeper = keeper.spawn().map_err(|error| format!("cannot run sh: {error}"))?;
    Ok((keeper, port))
}

/// A command, disguised if need be.
fn words(disguise: Option<&Disguise>, program: &Path) -> Vec<String> {
    let before = disguise.map_or(&[][..], |disguise| &disguise.words);
    before.iter().cloned().chain([program.display().to_string()]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of the server's process, as its port tells.
    fn listens(server: &PrivatePostgres) -> bool {
        let address = server.url().trim_start_matches("postgres://postgres@").trim_end_matches("/postgres");
        std::net::TcpStream::connect(address).is_ok()
    }

    #[test]
    fn it_comes_back_at_the_same_place_and_leaves_nothing() {
        let mut server = PrivatePostgres::start();
        let (url, folder) = (server.url().to_owned(), server.folder.clone());
        assert!(listens(&server));
        server.stop_immediate();
        assert!(!listens(&server));
        server.restart_immediate(Duration::ZERO);
        assert!(listens(&server));
        assert_eq!(server.url(), url);
        drop(server);
        assert!(!folder.exists());
    }
}
