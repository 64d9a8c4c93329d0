//! What attempts report about themselves: progress, checkpoints, logs.

use campanile_model::execution::{LogLine, Progress};
use campanile_model::ids::ExecutionId;
use campanile_model::limits;
use std::collections::{BTreeMap, HashMap};

/// What the attempts of a batch report.
#[derive(Default)]
pub(crate) struct Reports<'b> {
    /// By execution, and under which fence. What is left out stays as it was.
    pub(crate) progress: BTreeMap<ExecutionId, (u64, Progress)>,
    /// How many lines executions have that will log.
    pub(crate) lines: HashMap<ExecutionId, i64>,
    pub(crate) logs: Vec<Logged<'b>>,
}

/// A line with its position.
pub(crate) struct Logged<'b> {
    pub(crate) execution: ExecutionId,
    pub(crate) seq: i64,
    pub(crate) fence: u64,
    pub(crate) line: &'b LogLine,
}

impl<'b> Reports<'b> {
    /// Keeps the progress that an attempt reported.
    pub(super) fn put(&mut self, execution: ExecutionId, fence: u64, progress: &Progress) {
        let (_, kept) = self.progress.entry(execution).or_insert_with(|| (fence, Progress::default()));
        kept.at = progress.at;
        kept.fraction = progress.fraction.or(kept.fraction);
        if progress.message.is_some() {
            kept.message.clone_from(&progress.message);
        }
        if progress.checkpoint.is_some() {
            kept.checkpoint.clone_from(&progress.checkpoint);
        }
    }

    /// Appends to the log of an execution, as far as there is room.
    pub(super) fn log(&mut self, execution: ExecutionId, fence: u64, lines: &'b [LogLine]) {
        if lines.is_empty() {
            return;
        }
        let there = self.lines.entry(execution).or_default();
        for (line, seq) in lines.iter().zip(*there + 1..=limits::LOG_LINES_MAX as i64) {
            *there = seq;
            self.logs.push(Logged { execution, seq, fence, line });
        }
    }
}
