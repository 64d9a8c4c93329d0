//! A program from start to end: in a process group of its own, so that all of it can be ended.
//!
//! Told to stop, the group gets SIGTERM, and what is left of it after a while SIGKILL. Dropped, it gets SIGKILL at once: the
//! work is somebody else's by then. A program that ends by itself may leave others behind; they are its own business,
//! and nobody waits long for what they print.

use super::group::Group;
use super::pipes::{Head, Tail, feed};
use rustix::process::Signal;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::Instant;

/// How long a program may take to end when it was asked to.
pub const TERM_GRACE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });
/// How long pipes are read after the program has ended, when others hold them open.
const PIPES: Duration = Duration::from_secs(1);

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code, or the signal that ended it.
    pub exit: Exit,
    /// What it printed, up to a limit.
    pub printed: String,
    /// The last lines that it complained with.
    pub complaint: String,
    /// Whether it was told to stop.
    pub stopped: bool,
}

/// An exit code, or a signal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ended by itself.
    Code(i32),
    /// Somebody ended it.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.signal().unwrap_or_default()),
        }
    }
}

/// Runs a program with `input` on its stdin until it ends; tells it to end when `stop` is ready. Fails only where it cannot be
/// started or waited for.
pub async fn run(
    command: &mut Command,
    input: &str,
    stop: impl Future<Output = ()>,
    log: impl FnMut(&str),
) -> io::Result<Finished> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let group = Group::led_by(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut printed, mut complaint) = (Head::default(), Tail::default());
    let mut kill_at = None;
    let exit = {
        // All three at once: a program may print before it has read everything.
        let mut talk =
            pin!(async { tokio::join!(feed(stdin, input), printed.read(stdout), complaint.read(stderr, log)) });
        let (mut stop, mut talking, mut killed) = (pin!(stop), true, false);
        let status = loop {
            tokio::select! {
                biased;
                status = child.wait() => break status?,
                _ = &mut talk, if talking => talking = false,
                () = &mut stop, if kill_at.is_none() => {
                    group.signal(Signal::TERM);
                    kill_at = Some(Instant::now() + TERM_GRACE);
                }
                () = at(kill_at), if kill_at.is_some() && !killed => {
                    group.signal(Signal::KILL);
                    killed = true;
                }
            }
        };
        if let Some(kill_at) = kill_at {
            // The program has ended, but perhaps not all that it started.
            group.end(kill_at).await;
        }
        if talking {
            let _ = tokio::time::timeout(PIPES, talk).await;
        }
        Exit::from(status)
    };
    group.release();
    let (printed, complaint) = (printed.into_text(), complaint.into_text());
    Ok(Finished { exit, printed, complaint, stopped: kill_at.is_some() })
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Whether a process is gone, or only waits for somebody to look at its end.
    fn is_gone(pid: &str) -> bool {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
            Err(_) => true,
        }
    }

    async fn until_gone(pid: &str) {
        let gone = async {
            while !is_gone(pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the process ends");
    }

    #[tokio::test]
    async fn input_output_complaints_and_exit_code() {
        let mut said = Vec::new();
        let script = "cat; echo one >&2; echo two >&2; exit 3";
        let finished = run(&mut sh(script), "{\"n\":1}", pending(), |line| said.push(line.to_owned())).await.unwrap();
        assert_eq!((finished.exit, finished.stopped), (Exit::Code(3), false));
        assert_eq!((finished.printed.as_str(), finished.complaint.as_str()), ("{\"n\":1}", "one\ntwo"));
        assert_eq!(said, ["one", "two"]);
        let killed = run(&mut sh("kill -9 $$"), "", pending(), |_| {}).await.unwrap();
        assert_eq!(killed.exit, Exit::Signal(9));
        assert!(run(&mut Command::new("/does/not/exist"), "", pending(), |_| {}).await.is_err());
    }

    #[tokio::test]
    async fn a_program_need_not_read_and_may_print_much() {
        let input = "x".repeat(1_000_000);
        let finished = run(&mut sh("exit 0"), &input, pending(), |_| {}).await.unwrap();
        assert_eq!(finished.exit, Exit::Code(0));
        let script = "head -c 3000000 /dev/zero | tr '\\0' y; cat >/dev/null";
        let finished = run(&mut sh(script), &input, pending(), |_| {}).await.unwrap();
        assert_eq!(finished.exit, Exit::Code(0));
        assert!(finished.printed.ends_with("... (cut, 3000000 bytes)"));
    }

    #[tokio::test]
    async fn told_to_stop_the_whole_group_ends() {
        // The program ends when it is asked to, and what it has started as well.
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let mut tell = Some(tell);
        let mut pid = String::new();
        let log = |line: &str| {
            pid = line.to_owned();
            drop(tell.take());
        };
        let script = "sleep 600 & echo $! >&2; wait";
        let finished = run(&mut sh(script), "", async { drop(told.await) }, log).await.unwrap();
        assert_eq!((finished.exit, finished.stopped), (Exit::Signal(15), true));
        until_gone(&pid).await;
    }

    #[tokio::test]
    async fn one_that_does_not_listen_is_killed() {
        let started = Instant::now();
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let mut tell = Some(tell);
        let log = |_: &str| drop(tell.take());
        let script = "trap '' TERM; echo ready >&2; while :; do sleep 0.1; done";
        let finished = run(&mut sh(script), "", async { drop(told.await) }, log).await.unwrap();
        assert_eq!((finished.exit, finished.stopped), (Exit::Signal(9), true));
        assert!(started.elapsed() >= TERM_GRACE);
    }

    #[tokio::test]
    async fn what_the_program_started_is_killed_too() {
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let mut tell = Some(tell);
        let mut pid = String::new();
        let log = |line: &str| {
            pid = line.to_owned();
            drop(tell.take());
        };
        // The program listens, the one below it does not.
        let script = "sh -c 'trap \"\" TERM; echo $$ >&2; while :; do sleep 0.1; done' & wait";
        let finished = run(&mut sh(script), "", async { drop(told.await) }, log).await.unwrap();
        assert_eq!(finished.exit, Exit::Signal(15));
        until_gone(&pid).await;
    }

    #[tokio::test]
    async fn dropped_the_whole_group_is_killed() {
        let (lines, mut line) = tokio::sync::mpsc::unbounded_channel();
        let mut command = sh("trap '' TERM; sleep 600 & echo $! >&2; wait");
        let running = run(&mut command, "", pending(), |line| lines.send(line.to_owned()).unwrap());
        let pid = tokio::select! {
            _ = running => panic!("it ended by itself"),
            pid = line.recv() => pid.unwrap(),
        };
        until_gone(&pid).await;
    }

    #[tokio::test]
    async fn what_stays_behind_holds_nobody_up() {
        let finished = run(&mut sh("sleep 30 & echo $!"), "", pending(), |_| {}).await.unwrap();
        assert_eq!(finished.exit, Exit::Code(0));
        assert!(!is_gone(&finished.printed), "it is the program's own business");
        let pid = rustix::process::Pid::from_raw(finished.printed.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
}
