//! What a run does about another run of the same job that is not over.
//!
//! Decided when an execution is about to start, in the transaction that starts it: a check that is not atomic with the
//! start lets two through. A run is over when it has reached a final state; between two attempts it is not.

use crate::execution::Reason;
use crate::ids::ExecutionId;

/// A job's policy for runs that would overlap.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Overlap {
    /// They run side by side.
    #[default]
    Allow,
    /// The new one is skipped.
    Skip,
    /// The new one waits; while one waits, further ones are skipped.
    BufferOne,
    /// The new one waits, and so do further ones, each for its turn.
    BufferAll,
    /// The running one is asked to stop; the new one waits until it has.
    CancelOther,
    /// The running one is ended at once, and the new one starts.
    TerminateOther,
}

/// What becomes of an execution that is about to start.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Start,
    /// It never runs.
    Skip(Reason),
    /// It waits until the one that runs is over, and starts then.
    Wait,
    /// It waits; the one that runs is asked to stop, and those that wait already are skipped (`OVERLAP_REPLACED`).
    CancelAndWait,
    /// The one that runs is ended now, those that wait are skipped, and it starts.
    TerminateAndStart,
}

/// Decides about `execution`, while `running` of the same job has started and is not over, and `waiting` wait for it.
pub fn decide(
    policy: Overlap,
    execution: ExecutionId,
    running: Option<ExecutionId>,
    waiting: &[ExecutionId],
) -> Verdict {
    // Another attempt of the one that runs; and with nobody running, whoever comes starts.
    if running.is_none_or(|running| running == execution) {
        return Verdict::Start;
    }
    let others = waiting.iter().any(|&other| other != execution);
    match policy {
        Overlap::Allow => Verdict::Start,
        Overlap::Skip => Verdict::Skip(Reason::OverlapForbidden),
        Overlap::BufferOne if others => Verdict::Skip(Reason::OverlapForbidden),
        Overlap::BufferOne | Overlap::BufferAll => Verdict::Wait,
        Overlap::CancelOther => Verdict::CancelAndWait,
        Overlap::TerminateOther => Verdict::TerminateAndStart,
    }
}

impl Overlap {
    /// All policies, in the order of their codes.
    pub const ALL: [Overlap; 6] = [
        Overlap::Allow,
        Overlap::Skip,
        Overlap::BufferOne,
        Overlap::BufferAll,
        Overlap::CancelOther,
        Overlap::TerminateOther,
    ];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Overlap::Allow => "ALLOW",
            Overlap::Skip => "SKIP",
            Overlap::BufferOne => "BUFFER_ONE",
            Overlap::BufferAll => "BUFFER_ALL",
            Overlap::CancelOther => "CANCEL_OTHER",
            Overlap::TerminateOther => "TERMINATE_OTHER",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The policy with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ExecutionId = ExecutionId::from_bytes([1; 16]);
    const B: ExecutionId = ExecutionId::from_bytes([2; 16]);
    const C: ExecutionId = ExecutionId::from_bytes([3; 16]);

    #[test]
    fn alone_everybody_starts() {
        for policy in Overlap::ALL {
            assert_eq!(decide(policy, A, None, &[]), Verdict::Start, "{policy:?}");
            assert_eq!(decide(policy, A, Some(A), &[B]), Verdict::Start, "another attempt under {policy:?}");
        }
    }

    #[test]
    fn each_policy_does_what_it_says() {
        let forbidden = Verdict::Skip(Reason::OverlapForbidden);
        let cases = [
            (Overlap::Allow, Verdict::Start, Verdict::Start),
            (Overlap::Skip, forbidden, forbidden),
            (Overlap::BufferOne, Verdict::Wait, forbidden),
            (Overlap::BufferAll, Verdict::Wait, Verdict::Wait),
            (Overlap::CancelOther, Verdict::CancelAndWait, Verdict::CancelAndWait),
            (Overlap::TerminateOther, Verdict::TerminateAndStart, Verdict::TerminateAndStart),
        ];
        for (policy, none_waits, one_waits) in cases {
            assert_eq!(decide(policy, B, Some(A), &[]), none_waits, "{policy:?}");
            assert_eq!(decide(policy, B, Some(A), &[B]), none_waits, "{policy:?}, itself waiting");
            assert_eq!(decide(policy, B, Some(A), &[C]), one_waits, "{policy:?}, another waiting");
        }
    }
}
