//! What an attempt has to tell since its last heartbeat. Bounded, whatever a handler does.
//!
//! News are taken to be sent, and put back when nobody answered; what was said meanwhile is newer and wins. A checkpoint
//! stays until it was answered, so that an attempt which ends knows whether its own has arrived.

use super::clock;
use super::limits::{LOG_BYTES_MAX, LOG_LINES_MAX, MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX, cut};
use crate::wire::LogLine;
use serde_json::Value;

/// Longest name of a level.
const LEVEL_BYTES_MAX: usize = 32;

/// What is to be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct News {
    pub progress: Option<f64>,
    pub message: Option<String>,
    /// The newest checkpoint that was not answered yet.
    pub checkpoint: Option<Value>,
    /// How many there were, which tells them apart.
    checkpoints: u64,
    /// Whether nobody is sending it.
    checkpoint_waits: bool,
    /// Kept until the end, since only a completion carries it.
    pub output: Option<String>,
    lines: Vec<LogLine>,
    bytes: usize,
    dropped: u64,
}

impl News {
    /// How far it is. What is no number is not told.
    pub(super) fn progress(&mut self, progress: f64, message: Option<String>) {
        if !progress.is_nan() {
            self.progress = Some(progress.clamp(0.0, 1.0));
        }
        if let Some(message) = message {
            self.message = Some(cut(message, MESSAGE_BYTES_MAX));
        }
    }

    /// Where to go on.
    pub(super) fn checkpoint(&mut self, value: Value) {
        self.checkpoint = Some(value);
        self.checkpoints += 1;
        self.checkpoint_waits = true;
    }

    /// Whether a checkpoint has not arrived, as far as we know.
    pub(super) fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// A line; beyond the limits, only counted.
    pub(super) fn log(&mut self, level: &str, message: String) {
        let message = cut(message, MESSAGE_BYTES_MAX);
        if !self.has_room(&message) {
            self.dropped += 1;
            return;
        }
        self.bytes += message.len();
        let level = Some(level).filter(|level| !level.is_empty()).map(|level| cut(level, LEVEL_BYTES_MAX));
        self.lines.push(LogLine { at: Some(clock::now()), level, message });
    }

    /// What the attempt printed.
    pub(super) fn output(&mut self, output: String) {
        self.output = Some(cut(output, OUTPUT_BYTES_MAX));
    }

    /// Whether they should not wait for the next regular heartbeat: a checkpoint is there to survive us, and a buffer that
    /// overflows loses lines.
    pub(super) fn are_urgent(&self) -> bool {
        self.checkpoint_waits || self.lines.len() >= LOG_LINES_MAX / 2 || self.bytes >= LOG_BYTES_MAX / 2
    }

    /// Takes what a heartbeat carries.
    pub(super) fn take(&mut self) -> News {
        let (checkpoint, checkpoints) = (self.checkpoint.clone(), self.checkpoints);
        let rest = News { checkpoint, checkpoints, output: self.output.take(), ..News::default() };
        std::mem::replace(self, rest)
    }

    /// What was taken has arrived.
    pub(super) fn arrived(&mut self, taken: &News) {
        if self.checkpoints == taken.checkpoints {
            self.checkpoint = None;
            self.checkpoint_waits = false;
        }
    }

    /// Puts back what was taken and did not arrive.
    pub(super) fn put_back(&mut self, taken: News) {
        self.progress = self.progress.or(taken.progress);
        self.message = self.message.take().or(taken.message);
        self.checkpoint_waits = self.checkpoint.is_some();
        let newer = std::mem::replace(&mut self.lines, taken.lines);
        self.bytes = taken.bytes;
        self.dropped += taken.dropped;
        for line in newer {
            if self.has_room(&line.message) {
                self.bytes += line.message.len();
                self.lines.push(line);
            } else {
                self.dropped += 1;
            }
        }
    }

    /// Whether one more line fits, and after it the one about those that are missing.
    fn has_room(&self, message: &str) -> bool {
        self.lines.len() + 1 < LOG_LINES_MAX && self.bytes + message.len() <= LOG_BYTES_MAX
    }

    /// The lines, with a last one about those that are missing.
    pub(super) fn lines(&self) -> Vec<LogLine> {
        let mut lines = self.lines.clone();
        if self.dropped > 0 {
            let message =
                format!("{} more lines were dropped: more than {LOG_LINES_MAX} between two heartbeats", self.dropped);
            lines.push(LogLine { at: Some(clock::now()), level: Some("warn".into()), message });
        }
        lines
    }

    /// What they weigh in a request, roughly.
    pub(super) fn weight(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.to_string().len());
        200 + self.bytes + self.lines.len() * 80 + checkpoint + self.message.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_beyond_the_limits_are_counted() {
        let mut news = News::default();
        for n in 0..LOG_LINES_MAX + 5 {
            news.log("info", format!("line {n}"));
        }
        let lines = news.lines();
        assert_eq!(lines.len(), LOG_LINES_MAX);
        assert!(lines[LOG_LINES_MAX - 1].message.starts_with("6 more lines were dropped"));
        let mut wide = News::default();
        for _ in 0..LOG_LINES_MAX {
            wide.log("", "x".repeat(10_000));
        }
        assert!(wide.bytes <= LOG_BYTES_MAX && wide.dropped > 0 && wide.lines[0].level.is_none());
        assert!(wide.are_urgent());
    }

    #[test]
    fn what_did_not_arrive_is_told_again_in_order() {
        let mut news = News::default();
        news.progress(0.1, Some("one".into()));
        news.output("printed".into());
        news.log("info", "first".into());
        let taken = news.take();
        assert_eq!((news.progress, news.lines().len(), news.output.is_some()), (None, 0, true));
        news.progress(7.0, None);
        news.progress(f64::NAN, None);
        news.log("info", "second".into());
        news.put_back(taken);
        let said: Vec<String> = news.lines().into_iter().map(|line| line.message).collect();
        assert_eq!(said, ["first", "second"]);
        assert_eq!((news.progress, news.message.as_deref()), (Some(1.0), Some("one")));
    }

    #[test]
    fn a_checkpoint_stays_until_it_has_arrived() {
        let mut news = News::default();
        news.checkpoint(json!(1));
        assert!(news.are_urgent());
        let taken = news.take();
        assert_eq!(taken.checkpoint, Some(json!(1)));
        assert!(news.has_checkpoint() && !news.are_urgent(), "on its way");
        news.put_back(taken);
        assert!(news.has_checkpoint() && news.are_urgent(), "not arrived");
        let taken = news.take();
        news.checkpoint(json!(2));
        news.arrived(&taken);
        assert_eq!(
            (news.checkpoint.clone(), news.are_urgent()),
            (Some(json!(2)), true),
            "the newer one is still to come"
        );
        let taken = news.take();
        news.arrived(&taken);
        assert!(!news.has_checkpoint() && !news.are_urgent());
    }
}
