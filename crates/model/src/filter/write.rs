//! A filter as text: the form that is shown, kept in links and bound into a plan. It reads back as the same tests.

use super::{Filter, Pattern, Term, Test};
use crate::schedule::format_duration_ms;
use crate::time::Timestamp;
use std::fmt::{self, Display, Formatter};

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let blank = if i == 0 { "" } else { " " };
            write!(f, "{blank}{term}")?;
        }
        Ok(())
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negated { "-" } else { "" }, self.test)
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Test::State(states) => write!(f, "state:{}", list(states, |state| state.as_str().to_ascii_lowercase())),
            Test::Job(pattern) => write!(f, "job:{pattern}"),
            Test::Handler(pattern) => write!(f, "handler:{pattern}"),
            Test::Pool(pools) => write!(f, "pool:{}", list(pools, |pool| literal(pool))),
            Test::Tag(tag) => write!(f, "tag:{}", literal(tag)),
            Test::Worker(pattern) => write!(f, "worker:{pattern}"),
            Test::Error(pattern) => write!(f, "error:{pattern}"),
            Test::Fingerprint(digits) => write!(f, "fp:{digits}"),
            Test::Reason(reasons) => write!(f, "reason:{}", list(reasons, |reason| reason.as_str().to_owned())),
            Test::Kind(kinds) => write!(f, "kind:{}", list(kinds, |kind| kind.as_str().to_ascii_lowercase())),
            Test::Late(compare, ms) => write!(f, "late:{}{}", compare.as_str(), format_duration_ms(*ms)),
            Test::Duration(compare, ms) => write!(f, "duration:{}{}", compare.as_str(), format_duration_ms(*ms)),
            Test::Attempt(compare, count) => write!(f, "attempt:{}{count}", compare.as_str()),
            Test::Scheduled(from, to) => {
                let end = |at: &Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
                write!(f, "scheduled:{}..{}", end(from), end(to))
            }
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, piece) in self.pieces().iter().enumerate() {
            let star = if i == 0 { "" } else { "*" };
            write!(f, "{star}{}", literal(piece))?;
        }
        Ok(())
    }
}

fn list<T>(values: &[T], write: impl Fn(&T) -> String) -> String {
    values.iter().map(write).collect::<Vec<_>>().join(",")
}

/// Text that stands for itself: quoted where the grammar would see more in it.
fn literal(text: &str) -> String {
    if !text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | '*')) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
