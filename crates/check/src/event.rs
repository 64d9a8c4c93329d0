//! What is written down during a run: one JSON object per line, one file per process, in one folder.
//!
//! Reading is strict: an unknown event, an unknown field or a missing one is refused with its file and line. Only rows
//! that the API has shown (in `dump`) may carry fields that are not known here.

use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// An instant in milliseconds since the Unix epoch. Written as a number; read as a number or as RFC 3339.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ms(pub i64);

/// One line; `line` reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The machine's monotonic clock, which all processes of a run share, when this was written. The order of all.
    pub mono_ns: u64,
    /// The wall clock of the process then.
    pub wall_ns: u64,
    /// Who wrote it: another name for every start of a process.
    pub node: Text,
    /// Counts the lines of that process from 1. A gap is a lost line.
    pub seq: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// What happened; `ev` names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum Event {
    /// What kind of run this is. At most one.
    Run(Run),
    /// A client asks for a change, or hears what came of it.
    Op(Box<Op>),
    /// A client has read a job or an execution.
    Read(Box<Read>),
    /// A client has read one page of a list.
    Page(Page),
    /// A node has committed a fire.
    Fire(Fire),
    /// A node's fire was refused, because its epoch is over.
    FireRejected(Fire),
    /// A node has committed that fires become no executions.
    Skip(Skip),
    /// A runner has committed a claim.
    Claim(Claim),
    /// A runner's claim was refused.
    ClaimRejected(Claim),
    /// The job's own body begins.
    Start(Body),
    /// The job's own body ends.
    End(Body),
    /// The sink was called.
    Effect(Effect),
    /// An outcome was accepted by the store.
    Report(Report),
    /// An outcome was refused by the store.
    ReportRejected(Report),
    /// An execution was seen to become dead.
    Dead(Dead),
    /// A shard was opened, or seen open.
    Epoch(Epoch),
    /// The harness harms, heals, or has verified that the harm was real.
    Fault(Fault),
    /// Everything the API shows at the end, in one or several pieces.
    Dump(Box<Dump>),
}

/// What kind of run this is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Version of this schema; [`SCHEMA`].
    pub schema: u32,
    /// From which all random choices of the harness come.
    #[serde(default)]
    pub seed: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The version of this schema.
pub const SCHEMA: u32 = 1;

/// What became of an operation.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is about to be sent.
    Invoke,
    /// It was done (2xx).
    Ok,
    /// It was certainly not done (4xx, or the connection was refused).
    Fail,
    /// Nobody knows: no answer, or 5xx.
    Info,
}

/// What was asked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    Create,
    /// Another version of a job.
    Update,
    /// A job stops firing.
    Pause,
    /// A job fires again.
    Resume,
    /// An execution (`execution`), or a fire that has perhaps not come (`job` and `fire_at`), is cancelled.
    Cancel,
    /// A job is run by hand.
    Run,
    /// A job is deleted.
    Delete,
    /// A dead execution is run again.
    Replay,
    /// A dead execution is given up.
    Discard,
}

/// A client's operation: `invoke` with what is asked, then at most one of `ok`, `fail` and `info` with what came of it.
/// Both carry the same `op`. A second try of the same request is a new `op` with the same `key`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Op {
    /// Unique in the run, and the same on both lines.
    pub op: Text,
    /// Which of the two lines, and what came of it.
    pub phase: Phase,
    pub kind: OpKind,
    /// On whose behalf, by name.
    pub tenant: Text,
    /// The node that is asked, by the name it has in `dump.nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Text>,
    /// The job by id; of a create, on the second line where it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Text>,
    /// The job by name. Needed on the first line of a create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// The execution by id: of cancel, replay and discard on both lines, of run on the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Text>,
    /// The instant of a cancelled fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire_at: Option<Ms>,
    /// The definition that is asked for, complete also in an update. Needed on the first line of create and update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<Spec>>,
    /// When a pause ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Text>,
    /// Any hash of method, path and body, for comparison only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<Text>,
    /// What was answered; on the second line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// What a client was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// HTTP status; 0 where there was none.
    pub status: u16,
    /// `code` of the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Text>,
    /// Any hash of the body, for comparison only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<Text>,
    /// Whether the server says that this answer is an older one (`Idempotency-Replayed`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// The job's version after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// When the job was created, by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Ms>,
    /// When this change counts from, by the server: the job's `updated_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Ms>,
    /// `fire_at` of an execution that was started or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire_at: Option<Ms>,
    /// State of the job or execution after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Text>,
}

/// A job's definition as far as the oracle needs it. Fields have the names of the API's answer, and can be copied from
/// there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub schedule: Schedule,
    /// How it is tried again.
    pub retry_policy: RetryPolicy,
    /// What happens to missed fires.
    pub catch_up: CatchUp,
    /// `ALLOW`, `SKIP`, `BUFFER_ONE`, `BUFFER_ALL`, `CANCEL_OTHER` or `TERMINATE_OTHER`.
    #[serde(default = "allow")]
    pub overlap: Text,
    /// Time limit of one attempt.
    #[serde(default = "half_a_minute")]
    pub timeout_ms: u64,
    /// Width within which its fires are moved.
    #[serde(default)]
    pub spread_ms: u64,
    /// When it does not fire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Blackout>,
    /// Whether it is created paused.
    #[serde(default)]
    pub paused: bool,
    /// Whether every attempt of it calls the sink. Without it, nothing is expected there.
    #[serde(default)]
    pub sink: bool,
    /// What tells calls of this definition from those of another: the sink is told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Text>,
}

fn allow() -> Text {
    "ALLOW".into()
}

fn half_a_minute() -> u64 {
    30_000
}

/// When a job fires; the API's `schedule` as shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// `CRON`, `EVERY`, `AT`, `AFTER` or `NONE`.
    #[serde(rename = "type")]
    pub kind: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Text>,
    /// Its zone; UTC where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Text>,
    /// `NEXT_VALID`, `SHIFT` or `SKIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<Text>,
    /// `FIRST`, `SECOND` or `BOTH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_ms: Option<u64>,
    /// The instant; one in the past means at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Ms>,
    /// The delay from acceptance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// No fire before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Ms>,
    /// No fire after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Ms>,
    /// No more fires than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fires: Option<u32>,
}

/// How an execution is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Tries in all.
    pub max_attempts: u32,
    /// `FIXED`, `EXPONENTIAL` or `EXPONENTIAL_WITH_JITTER`.
    pub backoff: Text,
    /// Delay after the first attempt.
    pub initial_delay_ms: u64,
    /// Longest delay; an hour where absent.
    #[serde(default = "an_hour")]
    pub max_delay_ms: u64,
    /// All attempts and the waits between them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout_ms: Option<u64>,
}

fn an_hour() -> u64 {
    3_600_000
}

/// What happens to fires that were missed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    /// `NONE`, `LAST`, `LAST_N`, `COALESCED` or `ALL`.
    pub mode: Text,
    /// How many, for `LAST_N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// Those older than this do not run.
    pub max_age_ms: u64,
    /// At least this long between their starts.
    #[serde(default)]
    pub drip_ms: u64,
}

/// A range in which a job does not fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blackout {
    /// First instant, inclusive.
    pub from: Ms,
    /// Last instant, exclusive.
    pub to: Ms,
}

/// What a client saw. The line is written when the answer has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The monotonic clock when the question was sent.
    pub began_mono_ns: u64,
    pub tenant: Text,
    /// The node that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Text>,
    /// The job, by id; exactly one of this and `execution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Text>,
    /// The execution, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Text>,
    /// HTTP status; 0 where there was none.
    pub status: u16,
    /// The state that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Text>,
    /// The version of the job that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The attempt of the execution that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The fence that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// One page of a list of jobs or executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The same for all pages of one walk.
    pub list: Text,
    /// The monotonic clock when this page was asked for.
    pub began_mono_ns: u64,
    pub tenant: Text,
    pub of: Listed,
    /// All of the tenant's; otherwise some filter applied, and nothing is expected to be there.
    #[serde(default)]
    pub everything: bool,
    /// Ids in the order shown.
    pub ids: Vec<Text>,
    /// Whether it was the last one.
    pub last: bool,
}

/// What a list lists.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listed {
    /// Jobs that are not deleted.
    Jobs,
    Executions,
}

/// A fire that was committed or refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fire {
    pub execution: Text,
    pub job: Text,
    pub fire_at: Ms,
    /// The shard that it was fired for.
    pub shard: u16,
    pub epoch: u64,
    /// Grows in the order of commits of the store, where the recorder knows it. Without it epochs are compared by what
    /// is certain only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// Whose job it is, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text>,
}

/// Fires that became no executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    pub job: Text,
    /// First instant, inclusive.
    pub from: Ms,
    /// Last instant, inclusive.
    pub until: Ms,
    pub reason: Text,
    /// When it was recorded, by the server.
    pub recorded_at: Ms,
}

/// A claim that was committed or refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub execution: Text,
    /// Which try, from 1.
    pub attempt: u32,
    pub fence: u64,
    /// The monotonic clock when it was asked for; when this was written, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_mono_ns: Option<u64>,
    /// Whose job it is, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text>,
}

/// The job's body begins or ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    pub execution: Text,
    pub attempt: u32,
    pub fence: u64,
}

/// A call of the sink: a process that nobody harms, with one clock. It keeps the largest fence of every execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// The execution it is about.
    pub execution: Text,
    /// Its job, by name.
    pub job_name: Text,
    /// The instant that it was due, as the call said.
    pub fire_at: Ms,
    /// Which try, as the call said.
    pub attempt: u32,
    /// The fence, as the call said.
    pub fence: u64,
    /// When it arrived, by the wall clock; the line is written then or later.
    pub arrived_wall_ns: u64,
    /// The same by the monotonic clock.
    pub arrived_mono_ns: u64,
    /// What was answered; 0 where the sink hung up.
    pub status: u16,
    /// Whether it counted: it was answered 2xx, it is the first such one of its execution, and its fence was not older
    /// than one seen before.
    pub accepted: bool,
    /// Whose job it is, where the call said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text>,
    /// The mark of the definition, where the call said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Text>,
}

/// An outcome that was accepted or refused by the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub execution: Text,
    pub attempt: u32,
    pub fence: u64,
    /// `SUCCEEDED`, `FAILED`, `TIMED_OUT`, `WORKER_LOST`, `CANCELLED`, `SNOOZED` or `RELEASED`.
    pub outcome: Text,
    /// The monotonic clock when it was sent; when this was written, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_mono_ns: Option<u64>,
    /// Whether this is the second answer to a report that was accepted before, word for word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// An execution that became dead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    pub execution: Text,
    pub attempt: u32,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    pub shard: u16,
    /// The number of its ownership.
    pub epoch: u64,
    /// The node that opened it.
    pub owner: Text,
    /// As in [`Fire::commit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
}

/// Where in the life of a fault this is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultPhase {
    /// It is about to be done.
    Begin,
    /// It was seen to work.
    Verified,
    /// It is over: whoever was harmed is well again, or replaced.
    End,
}

/// Something that the harness does to the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Begin, verified or end.
    pub phase: FaultPhase,
    /// Unique in the run, and the same on all three lines.
    pub fault: String,
    /// What kind, such as `kill` or `partition`.
    pub kind: String,
    /// What it is done to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
}

/// What the API shows at the end. Several pieces are put together; each execution and job must be in one of them, once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// All jobs, deleted ones where they are still shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobRow>,
    /// The versions of all jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<ExecutionRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<SkipRow>,
    /// Ids of the dead letters, as `GET /v1/dead` lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead: Vec<Text>,
    /// Executions by state, as `GET /v1/counts` tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// What must be 0 when nothing is under way: depth of queues, messages on their way.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gauges: BTreeMap<String, u64>,
    /// What was counted by all nodes that ever were, such as `stale_refused`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// The nodes that are alive, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Text>,
}

/// A job, as the API shows it; more fields may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    pub id: Text,
    pub name: Text,
    pub tenant: Text,
    /// `ACTIVE`, `PAUSED` or `DELETED`.
    pub state: Text,
    pub version: u32,
    /// When it was created.
    pub created_at: Ms,
    /// When its version was accepted.
    pub updated_at: Ms,
}

/// A version of a job, as the API shows it; more fields may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VersionRow {
    pub id: Text,
    pub version: u32,
    /// `ACTIVE`, `PAUSED` or `DELETED`.
    pub state: Text,
    /// Since when it counts.
    pub effective_at: Ms,
    /// The last instant that it governs; none for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Ms>,
    /// When its pause ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Ms>,
}

/// An execution, as the API shows it; more fields may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionRow {
    pub id: Text,
    pub job_id: Text,
    /// The version of the job that it was fired under.
    pub job_version: u32,
    /// The instant it was due.
    pub fire_at: Ms,
    /// `SCHEDULE`, `MANUAL` or `BACKFILL`.
    pub kind: Text,
    pub state: Text,
    /// Why it is in that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// Tries so far.
    pub attempt: u32,
    /// The fence of the newest.
    pub fence_token: u64,
    /// When it became durable.
    pub fired_at: Ms,
    /// When the newest attempt was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Ms>,
    /// When the first attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_started_at: Option<Ms>,
    /// When the newest attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Ms>,
    /// How the newest attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Text>,
    /// Its attempts, oldest first, as `GET /v1/executions/{id}/attempts` shows them. May be left out where there was
    /// one at most: then the row itself tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptRow>,
}

/// An attempt, as the API shows it; more fields may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// From 1.
    pub attempt: u32,
    pub fence_token: u64,
    pub started_at: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Text>,
}

/// Fires without executions, as the API shows them; more fields may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkipRow {
    pub job_id: Text,
    /// First instant, inclusive.
    pub from: Ms,
    /// Last instant, inclusive.
    pub to: Ms,
    pub reason: Text,
    /// When it was recorded.
    pub recorded_at: Ms,
}

impl Ms {
    /// The same in nanoseconds.
    pub fn nanos(self) -> i128 {
        i128::from(self.0) * 1_000_000
    }
}

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Ms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MsVisitor)
    }
}

struct MsVisitor;

impl serde::de::Visitor<'_> for MsVisitor {
    type Value = Ms;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("milliseconds since the Unix epoch, or RFC 3339")
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Ms, E> {
        Ok(Ms(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Ms, E> {
        i64::try_from(value).map(Ms).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Ms, E> {
        text.parse::<jiff::Timestamp>().map(|at| Ms(at.as_millisecond())).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_numbers_or_rfc_3339() {
        assert_eq!(serde_json::from_str::<Ms>("1500").expect("a number"), Ms(1_500));
        assert_eq!(serde_json::from_str::<Ms>(r#""1970-01-01T00:00:01.5Z""#).expect("a text"), Ms(1_500));
        assert!(serde_json::from_str::<Ms>(r#""soon""#).is_err());
    }
}
