//! How a command ends: an exit code, one line that says what is wrong, and a hint that says what to do.

use super::output::clean;
use campanile_client::wire::{FieldProblem, Problem};
use campanile_model::Kind;
use campanile_model::filter::FilterError;
use campanile_model::schedule::ScheduleError;
use serde_json::Value;
use std::process::ExitCode;

/// Exit codes; stable, since scripts depend on them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// It worked.
    Ok = 0,
    /// It did not.
    Failed = 1,
    /// There is no such thing.
    NotFound = 3,
    /// Not allowed.
    Auth = 4,
    /// It is in another state or version.
    Conflict = 5,
    /// The wait ended before what was waited for.
    TimedOut = 6,
    /// Nobody answers.
    Unreachable = 7,
    /// Some of many worked.
    Partial = 8,
    /// What was waited for ended, but not well.
    NotSucceeded = 10,
    /// The command line is wrong.
    Usage = 64,
    /// Ctrl-C.
    Interrupted = 130,
}

/// Why a command did not do what it should.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
    /// Shown under the message, as they are.
    details: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// A failure in one line: lower case, no full stop, names the thing.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new(), hints: Vec::new() }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// Whoever read our output has left: nothing to say, and nobody to say it to.
    pub fn reader_gone() -> Self {
        Self::new(Code::Ok, "")
    }

    /// The same with something to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same with a line under the message.
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// The exit code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Says it on stderr, and how the process ends.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {}", clean(&self.message));
            for detail in &self.details {
                eprintln!("  {detail}");
            }
            for hint in &self.hints {
                eprintln!("hint: {hint}");
            }
        }
        ExitCode::from(self.code as u8)
    }

    /// A refused text with the place marked.
    pub fn schedule(text: &str, error: &ScheduleError) -> Self {
        let failure = Self::new(Code::Failed, &error.message).marked(text, error.position);
        match &error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// A refused filter with the place marked.
    pub fn filter(text: &str, error: &FilterError) -> Self {
        let failure = Self::usage(format!("--filter: {}", error.message)).marked(text, Some(error.position));
        match &error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// What a server said about a request with this body.
    pub fn refused(error: campanile_client::Error, body: &Value) -> Self {
        match error {
            campanile_client::Error::Refused(problem) => Self::problem(&problem, body),
            other => other.into(),
        }
    }

    fn problem(problem: &Problem, body: &Value) -> Self {
        let code = match problem.status {
            401 | 403 => Code::Auth,
            404 | 410 => Code::NotFound,
            409 | 412 => Code::Conflict,
            _ => Code::Failed,
        };
        let detail = if problem.detail.is_empty() { &problem.title } else { &problem.detail };
        let failure = match problem.errors.as_slice() {
            [] => Self::new(code, detail),
            [one] => Self::new(code, field(one)).marked(text_at(body, &one.pointer), one.position),
            several => {
                several.iter().fold(Self::new(code, format!("{} fields are wrong", several.len())), |failure, one| {
                    let hint = one.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                    failure.detail(clean(&format!("{}{hint}", field(one))))
                })
            }
        };
        let failure = match problem.errors.as_slice() {
            [FieldProblem { hint: Some(hint), .. }] => failure.hint(clean(hint)),
            _ => failure,
        };
        match problem.code.as_str() {
            "job_not_found" => failure.hint("`campanile job ls` lists the jobs"),
            "execution_not_found" => failure.hint("`campanile exec ls` lists the executions"),
            "operation_not_found" => failure.hint("`campanile op ls` lists the operations"),
            "worker_not_found" => failure.hint("`campanile worker ls` lists the workers"),
            "pool_not_found" => failure.hint("`campanile pool ls` lists the pools"),
            "target_not_found" => failure.hint("`campanile target ls` lists the targets with limits"),
            "endpoint_not_found" => failure.hint("`campanile notify ls` lists the endpoints"),
            "delivery_not_found" => failure.hint("`campanile notify deliveries` lists what was sent"),
            "not_a_fire" => failure.hint("`campanile job get` shows the next fires, `campanile preview` any"),
            "version_mismatch" => failure.hint("somebody else changed it; `campanile job get` shows it as it is now"),
            "no_api_role" => failure.hint("`campanile cluster status` lists the nodes and their roles"),
            "name_taken" => failure.hint("`campanile job edit` changes a job that exists"),
            _ if problem.retryable => failure.hint("it may work later; try again"),
            _ => failure,
        }
    }

    /// Shows `text` with carets under the wrong bytes.
    fn marked(self, text: &str, position: Option<(usize, usize)>) -> Self {
        let Some((start, end)) = position else { return self };
        let (Some(before), Some(wrong)) = (text.get(..start), text.get(start..end)) else { return self };
        let (before, width) = (clean(before).chars().count(), clean(wrong).chars().count().max(1));
        self.detail(clean(text)).detail(format!("{}{}", " ".repeat(before), "^".repeat(width)))
    }
}

/// A field at fault, in one line. The pointer is left out where it says nothing.
fn field(problem: &FieldProblem) -> String {
    match problem.pointer.trim_start_matches('/') {
        "" => problem.message.clone(),
        pointer => format!("{}: {}", pointer.replace('/', "."), problem.message),
    }
}

fn text_at<'a>(body: &'a Value, pointer: &str) -> &'a str {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl From<campanile_client::Error> for Failure {
    fn from(error: campanile_client::Error) -> Self {
        match error {
            campanile_client::Error::Refused(problem) => Self::problem(&problem, &Value::Null),
            campanile_client::Error::Unreachable { url, message } => {
                let origin: Vec<&str> = url.splitn(4, '/').take(3).collect();
                let reason = message.rsplit(": ").next().unwrap_or(&message);
                Self::new(Code::Unreachable, format!("cannot reach {}: {reason}", origin.join("/")))
                    .hint("start a server with `campanile dev`, or name another one with --url or CAMPANILE_URL")
            }
            campanile_client::Error::Request(message) => Self::usage(message),
            other => Self::new(Code::Failed, other.to_string()).hint("is this a Campanile server? check --url"),
        }
    }
}

/// A node that cannot start, or cannot go on.
impl From<campanile_model::Error> for Failure {
    fn from(error: campanile_model::Error) -> Self {
        let code = match error.kind() {
            Kind::Conflict => Code::Conflict,
            Kind::Invalid => Code::Usage,
            _ => Code::Failed,
        };
        let failure = Self::new(code, error.message());
        match error.code() {
            "data_directory_in_use" => failure.hint("stop that process, or choose another directory with --data-dir"),
            "store_moved" => failure
                .hint("start it on that database, with --store or store.url")
                .hint("if this store shall fire again, and nothing does there: `campanile migrate --unmark`"),
            "store_newer" => failure.hint("start that release, or a later one"),
            _ => failure,
        }
    }
}
