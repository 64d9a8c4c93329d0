//! Programs that tests use beside PostgreSQL, and how they are installed where they are missing.

use crate::postgres::is_root;
use std::path::Path;
use std::process::{Command, Stdio};

/// A package manager: the program, what it does before, and what installs something.
pub type Manager = (&'static str, &'static [&'static str], &'static [&'static str]);

/// What tests with faults need: disks that fail, networks of their own, clocks that lie.
const PROGRAMS: [&str; 5] = ["strace", "mkfs.ext4", "ip", "nft", "faketime"];

/// What installs them.
const MANAGERS: [Manager; 5] = [
    (
        "apt-get",
        &["update", "-q"],
        &[
            "install",
            "-y",
            "-q",
            "--no-install-recommends",
            "strace",
            "e2fsprogs",
            "iproute2",
            "nftables",
            "faketime",
            "procps",
        ],
    ),
    ("dnf", &[], &["install", "-y", "strace", "e2fsprogs", "iproute", "nftables", "libfaketime", "procps-ng"]),
    ("apk", &[], &["add", "--no-cache", "strace", "e2fsprogs", "iproute2", "nftables", "libfaketime", "procps"]),
    ("pacman", &[], &["-Sy", "--noconfirm", "--needed", "strace", "e2fsprogs", "iproute2", "nftables", "libfaketime"]),
    ("zypper", &[], &["--non-interactive", "install", "strace", "e2fsprogs", "iproute2", "nftables", "libfaketime"]),
];

/// Sees to it that they are there. Tests with faults also need root, and say so.
pub fn get() -> Result<(), String> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let tried = match install("tools for faults", &MANAGERS) {
        Ok(command) => match PROGRAMS.iter().find(|program| !is_there(program)) {
            None => return Ok(()),
            Some(program) => format!("`{command}` went well, and {program} is still not there"),
        },
        Err(why) => why,
    };
    Err(format!(
        "tests with faults need the programs {}, and these are missing: {}.\n  Tried to install them: {tried}\n  \
         Install them by hand (Debian: apt-get install strace e2fsprogs iproute2 nftables faketime procps)",
        PROGRAMS.join(", "),
        missing.join(", "),
    ))
}

/// Whether a program is on the path, or where only root looks.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned());
    std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).is_file())
}

/// Installs something by the first of these package managers that is there; answers by which command, or why not.
pub fn install(what: &str, managers: &[Manager]) -> Result<String, String> {
    let Some((manager, before, arguments)) = managers.iter().find(|(manager, ..)| is_there(manager)) else {
        let names: Vec<_> = managers.iter().map(|(manager, ..)| *manager).collect();
        return Err(format!("none of the package managers {} is there", names.join(", ")));
    };
    let mut words = vec![*manager];
    // brew refuses to run as root, and needs nobody's leave.
    if *manager != "brew" && !is_root() {
        let may = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
        if !may.is_ok_and(|status| status.success()) {
            return Err(format!("{manager} needs root, and sudo does not let us without a password"));
        }
        words.splice(0..0, ["sudo", "-n"]);
    }
    let shown = |arguments: &[&str]| format!("{} {}", words.join(" "), arguments.join(" "));
    let run = |arguments: &[&str]| {
        eprintln!("installing {what}: {}", shown(arguments));
        let status = Command::new(words[0])
            .args(&words[1..])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    // An index that cannot be renewed may still be good enough.
    if !before.is_empty() && !run(before) {
        eprintln!("`{}` failed; going on with what is known", shown(before));
    }
    if run(arguments) { Ok(shown(arguments)) } else { Err(format!("`{}` failed", shown(arguments))) }
}
