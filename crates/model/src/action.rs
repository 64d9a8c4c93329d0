//! The contract of an action: what a job does when it fires.

use crate::error::FieldError;
use crate::execution::Outcome;
use crate::ids::{ExecutionId, JobId, TenantId};
use crate::job::Definition;
use crate::queue::Dispatch;
use crate::time::Timestamp;
use std::sync::Arc;

/// The kinds of actions.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ActionKind {
    /// Does nothing, successfully; for benchmarks and as a heartbeat.
    Noop,
    /// Sends an HTTP request.
    Webhook,
    /// Waits for an external worker to take it.
    Worker,
}

/// Who runs an action.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Runner {
    /// A Campanile node itself.
    Node,
    /// An external worker that pulls.
    Worker,
}

/// How the name of a runner starts that is a node itself. No external worker may be called so.
pub const NODE_PREFIX: &str = "node:";

impl ActionKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [ActionKind; 3] = [ActionKind::Noop, ActionKind::Webhook, ActionKind::Worker];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            ActionKind::Noop => "NOOP",
            ActionKind::Webhook => "WEBHOOK",
            ActionKind::Worker => "WORKER",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    pub const fn runner(self) -> Runner {
        match self {
            ActionKind::Noop | ActionKind::Webhook => Runner::Node,
            ActionKind::Worker => Runner::Worker,
        }
    }
}

/// What a job does, as stored: the kind and its own JSON config, which only the action understands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionSpec {
    pub kind: ActionKind,
    /// Its config, canonical JSON text.
    pub config: Arc<str>,
}

/// One attempt, handed to an action: everything it needs, nothing it must look up.
#[derive(Clone, Debug)]
pub struct Work {
    pub execution: ExecutionId,
    pub tenant: TenantId,
    pub job: JobId,
    /// What to do: name, action, payload.
    pub definition: Arc<Definition>,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// The attempt's fence: grows with every claim.
    pub fence: u64,
    /// The instant it was due.
    pub fire_at: Timestamp,
    /// Time limit of this attempt.
    pub timeout_ms: u64,
    /// The first missed fire that this run stands for.
    pub covers_from: Option<Timestamp>,
}

/// What a job can do. One implementation per kind; a registry finds it.
#[async_trait::async_trait]
pub trait Action: Send + Sync + 'static {
    /// Which kind this is.
    fn kind(&self) -> ActionKind;

    /// Checks a config (JSON text of an object) and returns its canonical form, or every field at fault with pointers
    /// below `/action`. Never does I/O.
    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>>;

    /// Whom an action of this config (canonical, as `validate` returned it) is done to: what limits and failures are counted
    /// by. A worker's handler, or the origin of a URL; empty when it is done to nobody.
    fn target(&self, _config: &str) -> String {
        String::new()
    }

    /// For an action that ends at once and touches nothing outside the process: its outcome. The engine may then record
    /// claim and completion as one durable write. All others answer `None` and get `run`.
    fn instant(&self, _work: &Dispatch, _now: Timestamp) -> Option<Outcome> {
        None
    }

    /// Attempts that were handed over and have not begun, because too many others of their target are under way. Nobody
    /// should start more meanwhile: what waits in the queue goes by priority, and costs no attempt when the node dies.
    fn waiting(&self) -> usize {
        0
    }

    /// Runs one attempt. Must end by itself within `work.timeout_ms` from when it has begun, and must not panic on anything a
    /// target sends.
    async fn run(&self, work: &Work) -> Outcome;
}

/// The actions that a node knows: one per kind.
///
/// It is what the engine and the API are given, so that neither depends on the crate that implements the actions.
#[derive(Clone, Default)]
pub struct Registry {
    by_kind: [Option<Arc<dyn Action>>; ActionKind::ALL.len()],
}

impl Registry {
    /// A registry of these actions; of two of the same kind, the later one counts.
    pub fn new(actions: impl IntoIterator<Item = Arc<dyn Action>>) -> Self {
        let mut registry = Self::default();
        for action in actions {
            let slot = usize::from(action.kind().code());
            registry.by_kind[slot] = Some(action);
        }
        registry
    }

    /// The action of this kind.
    pub fn get(&self, kind: ActionKind) -> Option<&Arc<dyn Action>> {
        self.by_kind[usize::from(kind.code())].as_ref()
    }

    /// Attempts that have not begun, of all actions.
    pub fn waiting(&self) -> usize {
        self.by_kind.iter().flatten().map(|action| action.waiting()).sum()
    }

    /// Which kinds there are.
    pub fn kinds(&self) -> impl Iterator<Item = ActionKind> + '_ {
        ActionKind::ALL.into_iter().filter(|&kind| self.get(kind).is_some())
    }

    /// The spec with its config in canonical form and its target, or every field at fault with pointers below `/action`.
    pub fn validate(&self, spec: &ActionSpec) -> Result<(ActionSpec, Arc<str>), Vec<FieldError>> {
        let Some(action) = self.get(spec.kind) else {
            let known: Vec<_> = self.kinds().map(ActionKind::as_str).collect();
            let message = format!("this installation has no action of type {}", spec.kind.as_str());
            let error = FieldError::new("/action/type", "action_unknown", message);
            return Err(vec![error.hint(format!("use one of {}", known.join(", ")))]);
        };
        let config = action.validate(&spec.config)?;
        let target = action.target(&config).into();
        Ok((ActionSpec { kind: spec.kind, config: config.into() }, target))
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.kinds()).finish()
    }
}
