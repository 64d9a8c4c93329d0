//! The filter grammar: which executions are meant. The API (`?q=`), the CLI (`--filter`) and bulk operations all read it
//! here, and nowhere else.
//!
//! ```text
//! state:dead,retrying job:nightly-* -tag:team=billing error:"Timeout Error" late:>5s scheduled:-24h..now
//! ```
//!
//! A filter is a list of terms separated by blanks, and an execution must pass all of them. A term is `field:value`, or
//! `-field:value` for the opposite. `state`, `pool`, `reason` and `kind` take several values by comma, of which one must
//! hold. Quotes work as in a shell: what is inside `"..."` is literal (a backslash stands before `"` and `\`), may be
//! glued to bare text, and a `*` is a wildcard only outside. So a name from anywhere can be quoted and means itself:
//! in a bulk operation, a value must never match more than its author saw.
//!
//! A test of something that an execution does not have (a worker before the first attempt, an error without a failure)
//! does not hold; its negation does. `-worker:*` therefore means: never claimed.
//!
//! Relative times are resolved when the text is read, against the `now` of the caller: a filter that was previewed means
//! the same when it is applied. [`Filter`]'s `Display` writes the resolved form, which reads back as the same tests.

mod nearest;
mod parse;
mod pattern;
mod plan;
mod scan;
mod when;
mod write;
#[cfg(test)]
mod tests;

use crate::error::FieldError;
use crate::execution::Reason;
use crate::ids::FireKind;
use crate::lifecycle::State;
use crate::time::Timestamp;

pub use pattern::Pattern;

/// Longest filter, in bytes; as written, and with its relative times written out.
pub const TEXT_BYTES_MAX: usize = 2_000;
/// Most terms of a filter.
pub const TERMS_MAX: usize = 32;

/// Which executions are meant: those that pass every term. Without terms: all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// In the order they were written.
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Whether the test must fail.
    pub negated: bool,
    pub test: Test,
    /// Where it stands in the text, in bytes.
    pub position: (usize, usize),
}

/// What a term asks of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is in one of these states.
    State(Vec<State>),
    /// Its job has such a name.
    Job(Pattern),
    /// It is done by such a handler.
    Handler(Pattern),
    /// It needs one of these pools.
    Pool(Vec<String>),
    /// Its job carries this tag.
    Tag(String),
    /// Such a worker ran its newest attempt.
    Worker(Pattern),
    /// Its newest attempt failed with such a kind of error.
    Error(Pattern),
    /// The fingerprint of its failure starts with these lower-case hexadecimal digits, 1 to 16.
    Fingerprint(String),
    /// It is where it is for one of these reasons.
    Reason(Vec<Reason>),
    /// It exists for one of these causes.
    Kind(Vec<FireKind>),
    /// It started this many milliseconds after it was due.
    Late(Compare, u64),
    /// Its newest attempt took this many milliseconds.
    Duration(Compare, u64),
    /// It has been tried this often.
    Attempt(Compare, u32),
    /// It was due at or after the first and before the second.
    Scheduled(Option<Timestamp>, Option<Timestamp>),
}

/// How a value relates to the one in the filter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `=`
    Eq,
    /// `>=`
    Ge,
    /// `>`
    Gt,
}

/// What a filter looks at in an execution.
#[derive(Copy, Clone, Debug)]
pub struct Subject<'a> {
    /// Where it is in its life.
    pub state: State,
    /// The name of its job.
    pub job_name: &'a str,
    pub handler: &'a str,
    /// The capacity it needs.
    pub pool: &'a str,
    pub tags: &'a [String],
    /// Who runs or ran the newest attempt.
    pub worker: Option<&'a str>,
    /// What kind of error ended the newest attempt.
    pub error_kind: Option<&'a str>,
    /// The group its failure belongs to; see `fingerprint`.
    pub fingerprint: Option<u64>,
    /// Why it is in its state.
    pub reason: Option<Reason>,
    pub kind: FireKind,
    /// How late it started; `None` before it did.
    pub late_ms: Option<u64>,
    /// How long the newest attempt took; `None` before it ended.
    pub duration_ms: Option<u64>,
    /// Tries so far.
    pub attempt: u32,
    /// The instant it was due.
    pub fire_at: Timestamp,
}

/// Text that is not a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FilterError {
    /// What is wrong, in words.
    pub message: String,
    /// Which bytes of the text are at fault.
    pub position: (usize, usize),
    /// What to do about it, where we know.
    pub hint: Option<String>,
}

impl Filter {
    /// Reads a filter; `now` is what its relative times count from. Blank text is the filter that everything passes.
    pub fn parse(text: &str, now: Timestamp) -> Result<Filter, FilterError> {
        let filter = Filter { terms: parse::terms(text, now)? };
        // What was accepted can always be shown and read again, also where `now` became an instant of 24 bytes.
        if filter.to_string().len() > TEXT_BYTES_MAX {
            let message = format!("the filter is longer than {TEXT_BYTES_MAX} bytes with its times written out");
            return Err(FilterError::new(message, (0, text.len())));
        }
        Ok(filter)
    }

    /// Whether an execution is meant.
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        self.terms.iter().all(|term| term.matches(subject))
    }
}

impl Term {
    /// Whether an execution passes this term.
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        self.test.holds(subject) != self.negated
    }
}

impl Test {
    /// Whether this is true of an execution.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Test::State(states) => states.contains(&subject.state),
            Test::Job(pattern) => pattern.matches(subject.job_name),
            Test::Handler(pattern) => pattern.matches(subject.handler),
            Test::Pool(pools) => pools.iter().any(|pool| pool == subject.pool),
            Test::Tag(tag) => subject.tags.contains(tag),
            Test::Worker(pattern) => subject.worker.is_some_and(|worker| pattern.matches(worker)),
            Test::Error(pattern) => subject.error_kind.is_some_and(|kind| pattern.matches(kind)),
            Test::Fingerprint(digits) => subject.fingerprint.is_some_and(|found| starts_with(found, digits)),
            Test::Reason(reasons) => subject.reason.is_some_and(|reason| reasons.contains(&reason)),
            Test::Kind(kinds) => kinds.contains(&subject.kind),
            Test::Late(compare, ms) => subject.late_ms.is_some_and(|late| compare.test(late, *ms)),
            Test::Duration(compare, ms) => subject.duration_ms.is_some_and(|took| compare.test(took, *ms)),
            Test::Attempt(compare, count) => compare.test(subject.attempt, *count),
            Test::Scheduled(from, to) => {
                from.is_none_or(|from| subject.fire_at >= from) && to.is_none_or(|to| subject.fire_at < to)
            }
        }
    }
}

/// Whether the sixteen digits of a fingerprint start with these, without writing them out.
fn starts_with(fingerprint: u64, digits: &str) -> bool {
    let rest_bits = (16usize.checked_sub(digits.len())).map(|rest| 4 * rest as u32);
    let head = rest_bits.and_then(|bits| fingerprint.checked_shr(bits));
    head.is_some() && head == u64::from_str_radix(digits, 16).ok()
}

impl Compare {
    /// Whether `a` relates to `b` in this way.
    pub fn test<T: Ord>(self, a: T, b: T) -> bool {
        match self {
            Compare::Lt => a < b,
            Compare::Le => a <= b,
            Compare::Eq => a == b,
            Compare::Ge => a >= b,
            Compare::Gt => a > b,
        }
    }

    /// The sign, as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Compare::Lt => "<",
            Compare::Le => "<=",
            Compare::Eq => "=",
            Compare::Ge => ">=",
            Compare::Gt => ">",
        }
    }
}

impl FilterError {
    fn new(message: impl Into<String>, position: (usize, usize)) -> Self {
        Self { message: message.into(), position, hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same as an error of the request's field that held the filter.
    pub fn into_field(self, pointer: impl Into<String>) -> FieldError {
        let mut field = FieldError::new(pointer, "filter_invalid", self.message);
        field.hint = self.hint;
        field.position = Some(self.position);
        field
    }
}
