//! What a run is measured by; every number is an argument of the binary.

/// Tolerances, and how much must have happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// How far two clocks of the run may be apart.
    pub clock_ms: i64,
    /// How late the first start may be when all is well.
    pub late_ms: i64,
    /// How long after a fault everything may take to be well.
    pub recover_ms: i64,
    /// How long an unanswered operation may still have an effect.
    pub info_ms: i64,
    /// At least so many acknowledged jobs.
    pub min_jobs: usize,
    /// At least so many fires that had to be.
    pub min_fires: usize,
    /// At least so many of them inside fault spans.
    pub min_fires_in_faults: usize,
    /// At least so many faults.
    pub min_faults: usize,
    /// At least this share of acknowledged jobs has fires that had to be, in percent.
    pub min_judged_percent: usize,
    /// After the last fault every node answers so many operations in a row.
    pub min_healed_ops: usize,
    /// What must have been met at least once; see `met` in the verdict.
    pub sometimes: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clock_ms: 5,
            late_ms: 2_000,
            recover_ms: 15_000,
            info_ms: 30_000,
            min_jobs: 1_000,
            min_fires: 1_000,
            min_fires_in_faults: 100,
            min_faults: 1,
            min_judged_percent: 50,
            min_healed_ops: 5,
            sometimes: Vec::new(),
        }
    }
}
