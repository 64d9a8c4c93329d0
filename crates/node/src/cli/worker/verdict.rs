//! What the end of a program means. Pure.
//!
//! | Exit | Meaning |
//! |---|---|
//! | 0 | success; what it printed is the result |
//! | 65 | failed for good (`EX_DATAERR`: the payload is wrong) |
//! | 99 | not yet: tried again in a minute, or as a last line `snooze:SECONDS` says; uses up no attempt |
//! | others, signals | failed, and tried again by the job's policy (75, `EX_TEMPFAIL`, says so by its name) |
//!
//! A program that was told to stop and did so is cancelled, whatever its exit code; only 99 keeps its meaning, so that it can
//! ask for the rest to be done later.

use super::program::{Exit, Finished};
use campanile_client::worker::{Failure, Outcome};
use serde_json::Value;
use std::time::Duration;

const SUCCESS: Exit = Exit::Code(0);
const PERMANENT: Exit = Exit::Code(65);
const SNOOZE: Exit = Exit::Code(99);
const SNOOZE_DEFAULT: Duration = Duration::from_secs(60);

/// The result, or why there is none.
pub fn verdict(finished: &Finished) -> Result<Value, Outcome> {
    match finished.exit {
        SNOOZE => Err(Outcome::Snooze(snooze(&finished.printed))),
        _ if finished.stopped => Err(Outcome::Cancelled),
        SUCCESS => Ok(result(&finished.printed)),
        PERMANENT => Err(Outcome::Permanent(failure(finished))),
        _ => Err(Outcome::Retry(failure(finished))),
    }
}

/// JSON where it is JSON, otherwise text; nothing where nothing was printed.
fn result(printed: &str) -> Value {
    match printed {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

/// How long the last line asks for.
fn snooze(printed: &str) -> Duration {
    let line = printed.lines().next_back().unwrap_or_default();
    let seconds = line.trim().strip_prefix("snooze:").and_then(|seconds| seconds.trim().parse().ok());
    seconds.map_or(SNOOZE_DEFAULT, Duration::from_secs)
}

/// The exit as the kind, so that failures of one kind are grouped; the last complaints as the message.
fn failure(finished: &Finished) -> Failure {
    let kind = match finished.exit {
        Exit::Code(code) => format!("exit_{code}"),
        Exit::Signal(signal) => format!("signal_{signal}"),
    };
    match finished.complaint.as_str() {
        "" => Failure::new(kind, format!("the program ended with {}", finished.exit)),
        complaint => Failure::new(kind, complaint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn finished(exit: Exit, printed: &str, complaint: &str) -> Finished {
        Finished { exit, printed: printed.into(), complaint: complaint.into(), stopped: false }
    }

    #[track_caller]
    fn check(exit: Exit, printed: &str, expected: Result<Value, Outcome>) {
        assert_eq!(verdict(&finished(exit, printed, "")), expected);
    }

    #[test]
    fn success_prints_its_result() {
        check(Exit::Code(0), "", Ok(Value::Null));
        check(Exit::Code(0), r#"{"sent": 3}"#, Ok(json!({"sent": 3})));
        check(Exit::Code(0), "3 sent", Ok(json!("3 sent")));
    }

    #[test]
    fn failures_carry_the_exit_and_the_last_complaints() {
        for (exit, kind) in [
            (Exit::Code(1), "exit_1"),
            (Exit::Code(75), "exit_75"),
            (Exit::Code(64), "exit_64"),
            (Exit::Signal(9), "signal_9"),
        ] {
            let Err(Outcome::Retry(failure)) = verdict(&finished(exit, "", "no disk\nbye")) else { panic!("{exit}") };
            assert_eq!((failure.kind.as_str(), failure.message.as_str()), (kind, "no disk\nbye"));
        }
        let silent = Failure::new("exit_65", "the program ended with exit code 65");
        check(Exit::Code(65), "", Err(Outcome::Permanent(silent)));
    }

    #[test]
    fn a_snooze_may_say_how_long() {
        for (printed, seconds) in
            [("", 60), ("busy\nsnooze:90", 90), ("snooze: 5 ", 5), ("snooze:soon", 60), ("snooze:9\nbusy", 60)]
        {
            check(Exit::Code(99), printed, Err(Outcome::Snooze(Duration::from_secs(seconds))));
        }
    }

    #[test]
    fn told_to_stop_only_a_snooze_keeps_its_meaning() {
        for (exit, expected) in [
            (Exit::Code(0), Outcome::Cancelled),
            (Exit::Code(1), Outcome::Cancelled),
            (Exit::Signal(15), Outcome::Cancelled),
            (Exit::Code(99), Outcome::Snooze(SNOOZE_DEFAULT)),
        ] {
            let stopped = Finished { stopped: true, ..finished(exit, "", "") };
            assert_eq!(verdict(&stopped), Err(expected));
        }
    }
}
