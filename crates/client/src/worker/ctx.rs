//! What a handler knows about its attempt, and how it talks to the scheduler while it runs.
//!
//! Nothing here waits for the network: news go with the next heartbeat (checkpoints with one within a second), and what a
//! heartbeat brought back is already here.

use super::limits::CHECKPOINT_BYTES_MAX;
use super::running::{Running, Stop};
use crate::wire::ClaimedExecution;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An attempt, as its handler sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ctx {
    running: Arc<Running>,
}

/// A checkpoint that cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It has too many bytes.
    #[error("a checkpoint of {0} bytes is larger than {CHECKPOINT_BYTES_MAX}")]
    TooLarge(usize),
    /// It is not JSON.
    #[error("a checkpoint must be JSON: {0}")]
    NotJson(#[from] serde_json::Error),
}

impl Ctx {
    pub(super) fn new(running: Arc<Running>) -> Self {
        Self { running }
    }

    /// All that came with the claim.
    pub fn execution(&self) -> &ClaimedExecution {
        &self.running.execution
    }

    /// The execution's id, the same for every attempt: the key for deduplication.
    pub fn execution_id(&self) -> &str {
        &self.execution().execution_id
    }

    /// The job's name.
    pub fn job_name(&self) -> &str {
        &self.execution().job_name
    }

    /// Which try this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.execution().attempt
    }

    /// How many there may be.
    pub fn max_attempts(&self) -> u32 {
        self.execution().max_attempts
    }

    /// Grows with every attempt. Who writes elsewhere can hand it on, so that writes of an older attempt are refused there.
    pub fn fence(&self) -> u64 {
        self.execution().fence_token
    }

    /// The instant it was due, RFC 3339.
    pub fn scheduled_at(&self) -> &str {
        &self.execution().scheduled_at
    }

    /// When the attempt times out, by this process's clock; never, where it has no limit.
    pub fn deadline(&self) -> Option<Instant> {
        self.running.deadline().map(tokio::time::Instant::into_std)
    }

    /// How much time is left until then.
    pub fn time_left(&self) -> Duration {
        let left = |deadline: tokio::time::Instant| deadline.saturating_duration_since(tokio::time::Instant::now());
        self.running.deadline().map_or(Duration::MAX, left)
    }

    /// Waits until the handler should stop, and return soon: usually [`Cancelled`](super::Outcome::Cancelled).
    /// [`stopping`](Ctx::stopping) says why.
    pub async fn cancelled(&self) {
        self.running.stopped(Stop::Draining).await;
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.stopping().is_some()
    }

    /// Why the handler should stop, if it should.
    pub fn stopping(&self) -> Option<Stop> {
        self.running.stopping()
    }

    /// How far it is, 0 to 1.
    pub fn progress(&self, progress: f64) {
        self.running.tell(|news| news.progress(progress, None));
    }

    /// How far it is, and what it does now.
    pub fn progress_with(&self, progress: f64, message: impl Into<String>) {
        self.running.tell(|news| news.progress(progress, Some(message.into())));
    }

    /// A line for the execution's log, with a level such as `info`. Lines beyond the [limits](super::limits) are counted and
    /// dropped.
    pub fn log(&self, level: &str, message: impl Into<String>) {
        self.running.tell(|news| news.log(level, message.into()));
    }

    /// Where a later attempt can go on, replacing what was said before. It is on its way within a second; before a failed
    /// attempt is reported, it has arrived.
    pub fn checkpoint(&self, value: impl Serialize) -> Result<(), CheckpointError> {
        let value = serde_json::to_value(value)?;
        match value.to_string().len() {
            bytes if bytes > CHECKPOINT_BYTES_MAX => Err(CheckpointError::TooLarge(bytes)),
            _ => {
                self.running.tell(|news| news.checkpoint(value));
                Ok(())
            }
        }
    }

    /// Where an earlier attempt got to.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.execution().checkpoint.as_ref().map(T::deserialize).transpose()
    }

    /// Text that is kept with the attempt however it ends, such as what a program printed; at most 64 KiB.
    pub fn output(&self, text: impl Into<String>) {
        self.running.tell(|news| news.output(text.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::running::Registry;
    use super::super::running::tests::claimed;
    use super::*;
    use serde_json::json;

    #[test]
    fn checkpoints_are_typed_and_bounded() {
        let resumed = ClaimedExecution { checkpoint: Some(json!({"page": 7})), ..claimed("e", 1) };
        let ctx = Ctx::new(Registry::default().insert(resumed));
        #[derive(serde::Deserialize)]
        struct Place {
            page: u32,
        }
        assert_eq!(ctx.last_checkpoint::<Place>().unwrap().unwrap().page, 7);
        assert!(ctx.last_checkpoint::<String>().is_err());
        assert!(matches!(ctx.checkpoint("x".repeat(70_000)), Err(CheckpointError::TooLarge(70_002))));
        ctx.checkpoint(json!({"page": 8})).unwrap();
        assert_eq!(ctx.running.news.lock().checkpoint, Some(json!({"page": 8})));
        let fresh = Ctx::new(Registry::default().insert(claimed("e", 1)));
        assert!(fresh.last_checkpoint::<Place>().unwrap().is_none());
    }
}
