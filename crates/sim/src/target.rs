//! What jobs are done to: targets that answer, fail, are slow or never answer; and what arrived there.

use crate::process::Process;
use crate::world::World;
use campanile_model::FieldError;
use campanile_model::action::{Action, ActionKind, Work};
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::notify::Sender;
use campanile_model::queue::Dispatch;
use campanile_model::{ExecutionId, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What arrived at the targets: fences, by execution.
#[derive(Default)]
pub struct Sink(Mutex<BTreeMap<ExecutionId, Vec<u64>>>);

impl Sink {
    /// Whether anything arrived for an execution.
    pub fn has(&self, execution: ExecutionId) -> bool {
        self.0.lock().contains_key(&execution)
    }

    /// How many requests arrived.
    pub fn len(&self) -> usize {
        self.0.lock().values().map(Vec::len).sum()
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A webhook as one process sends it.
pub struct Target {
    pub world: Arc<World>,
    pub process: Arc<Process>,
    pub sink: Arc<Sink>,
}

/// An answer of a target.
enum Answer {
    Good,
    Failed,
    Refused,
    Late,
    Never,
}

impl Target {
    fn answer(&self) -> Answer {
        let odds = self.world.odds.lock().clone();
        if self.world.chance(odds.failing) {
            Answer::Failed
        } else if self.world.chance(odds.refusing) {
            Answer::Refused
        } else if self.world.chance(odds.hanging) {
            if self.world.chance(200) { Answer::Never } else { Answer::Late }
        } else {
            Answer::Good
        }
    }
}

#[async_trait::async_trait]
impl Action for Target {
    fn kind(&self) -> ActionKind {
        ActionKind::Webhook
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn target(&self, config: &str) -> String {
        config.trim_matches('"').to_owned()
    }

    async fn run(&self, work: &Work) -> Outcome {
        self.process.switch.pass().await;
        let (world, execution) = (&self.world, work.execution);
        world.time.sleep(world.between(0, 20)).await;
        world.note("sink", format_args!("{execution} attempt {} fence {} arrives", work.attempt, work.fence));
        if !world.monitor.lock().was_granted(execution, work.fence) {
            world.violated(format!("{execution} with fence {} arrived, which nobody claimed", work.fence));
        }
        let said = {
            let versions = &world.monitor.lock().versions;
            versions.began(execution).and_then(|began| versions.definition(work.job, began).cloned())
        };
        if said.as_ref() != Some(&work.definition) {
            world.violated(format!("{execution} arrived with something else than its version says"));
        }
        {
            let mut arrived = self.sink.0.lock();
            let fences = arrived.entry(execution).or_default();
            if !fences.is_empty() {
                world.sometimes("target saw an execution again");
            }
            fences.push(work.fence);
        }
        let failed = |kind: &str, retryable| Outcome::Failed {
            error: AttemptError { kind: kind.into(), message: "as told".into() },
            retryable,
            retry_after_ms: None,
            pause_job: false,
            response: None,
        };
        let timeout = || Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message: "late".into() } };
        let (ms, outcome) = match self.answer() {
            Answer::Good => (world.between(0, 3_000), Outcome::Succeeded { response: None }),
            Answer::Failed => (world.between(0, 500), failed("http_503", true)),
            Answer::Refused => (world.between(0, 500), failed("http_400", false)),
            Answer::Late => (work.timeout_ms, timeout()),
            Answer::Never => {
                world.sometimes("target never answered");
                return std::future::pending().await;
            }
        };
        world.time.sleep(ms).await;
        self.process.switch.pass().await;
        outcome
    }
}

/// Does nothing, at once.
pub struct Nothing {
    pub sink: Arc<Sink>,
}

#[async_trait::async_trait]
impl Action for Nothing {
    fn kind(&self) -> ActionKind {
        ActionKind::Noop
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn instant(&self, work: &Dispatch, _now: Timestamp) -> Option<Outcome> {
        self.sink.0.lock().entry(work.execution).or_default().push(0);
        Some(Outcome::Succeeded { response: None })
    }

    async fn run(&self, _work: &Work) -> Outcome {
        Outcome::Succeeded { response: None }
    }
}

/// What external workers run.
pub struct Pulled;

#[async_trait::async_trait]
impl Action for Pulled {
    fn kind(&self) -> ActionKind {
        ActionKind::Worker
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn target(&self, config: &str) -> String {
        config.trim_matches('"').to_owned()
    }

    async fn run(&self, _work: &Work) -> Outcome {
        std::future::pending().await
    }
}

/// Sends notifications to nobody.
pub struct Nobody;

#[async_trait::async_trait]
impl Sender for Nobody {
    fn check(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    async fn send(&self, _url: &str, _id: &str, _body: String) -> Result<u16, String> {
        Ok(204)
    }
}
