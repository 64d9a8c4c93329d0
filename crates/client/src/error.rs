//! What can go wrong with a call, by what the caller can do about it.

use crate::wire::Problem;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server answered: it is down, the address is wrong, or the network is. A write may or may not have happened
    /// when the connection broke after it was sent.
    #[error("cannot reach {url}: {message}")]
    Unreachable {
        /// Where we tried.
        url: String,
        /// What the network said.
        message: String,
    },
    /// The server answered and refused.
    #[error("{}", .0.summary())]
    Refused(Box<Problem>),
    /// Something answered, but not as Campanile does.
    #[error("unexpected answer from {url} (HTTP {status}): {message}")]
    Unexpected {
        /// Whom we asked.
        url: String,
        /// HTTP status of the answer.
        status: u16,
        /// What is odd about it.
        message: String,
    },
    /// The request could not be made: a bad address, or a body that is not JSON.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// The HTTP status, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Refused(problem) => Some(problem.status),
            Error::Unexpected { status, .. } => Some(*status),
            Error::Unreachable { .. } | Error::Request(_) => None,
        }
    }

    /// The server's problem, where it refused.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether no server answered.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }

    /// Whether the same call may work later.
    pub fn is_retryable(&self) -> bool {
        self.is_unreachable() || self.problem().is_some_and(|problem| problem.retryable)
    }
}
