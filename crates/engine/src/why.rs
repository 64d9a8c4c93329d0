//! Step 14, why: did it run, and why not? The answer for any job and instant, with the evidence and what to do.
//!
//! Asked of the version of the job that governs the instant. Looked up in this order: an execution of that instant; a recorded
//! skip; then what the schedule of that version says about it. Every answer carries one reason of the closed set (`Reason`),
//! except that what ran well needs none.

use crate::context::Context;
use crate::{jobs, versions};
use campanile_model::action::Runner;
use campanile_model::execution::{Attempt, Execution, Reason};
use campanile_model::filter::Filter;
use campanile_model::job::{Blackout, Job, JobState, count_fires, next_fire};
use campanile_model::lifecycle::State;
use campanile_model::store::{ExecutionQuery, JobKey, JobVersion, Skip};
use campanile_model::{ExecutionId, Result, TenantId, Timestamp, limits};

/// What is asked for lies within this of the instant, since people say `02:00` and not `02:00:00.417`.
const NEAR_MS: i64 = 999;

#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    pub verdict: Verdict,
    /// Why, where it did not simply run.
    pub reason: Option<Reason>,
    /// The instant that the answer is about: the fire's, or the one that was asked for.
    pub at: Timestamp,
    /// The execution of that instant.
    pub execution: Option<Execution>,
    pub attempts: Vec<Attempt>,
    /// The recorded skip that covers it.
    pub skip: Option<Skip>,
    /// Facts that show it, one per line.
    pub evidence: Vec<String>,
    /// What was looked at and was not the cause.
    pub not_the_cause: Vec<String>,
    /// What to do about it: commands.
    pub fixes: Vec<String>,
    /// The fires of the schedule around it.
    pub around: (Option<Timestamp>, Option<Timestamp>),
}

/// What became of an instant.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It ran, and succeeded.
    Ran,
    Running,
    /// It ran, and failed for good.
    Failed,
    /// It waits to run.
    Waiting,
    /// It did not run, and will not.
    DidNotRun,
    /// It had its execution, which is older than what is kept.
    NoLongerKept,
    /// It has not come yet.
    WillRun,
}

impl Verdict {
    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Ran => "RAN",
            Verdict::Running => "RUNNING",
            Verdict::Failed => "FAILED",
            Verdict::Waiting => "WAITING",
            Verdict::DidNotRun => "DID_NOT_RUN",
            Verdict::NoLongerKept => "NO_LONGER_KEPT",
            Verdict::WillRun => "WILL_RUN",
        }
    }
}

/// Answers for a job and an instant. `ready` is whether this node fires.
pub async fn why(ctx: &Context, tenant: TenantId, key: &JobKey, at: Timestamp, ready: bool) -> Result<Why> {
    let newest = find(ctx, tenant, key).await?;
    let (version, fire) = find_fire(ctx, newest, at).await?;
    let job = &version.job;
    let plan = jobs::decode(&job.plan)?;
    let offset_ms = job.spread_offset_ms();
    let before = at.saturating_add_ms(-1);
    let at = fire.unwrap_or(at);
    let mut answer = Why {
        verdict: Verdict::DidNotRun,
        reason: None,
        at,
        execution: None,
        attempts: Vec::new(),
        skip: None,
        evidence: Vec::new(),
        not_the_cause: Vec::new(),
        fixes: Vec::new(),
        around: (
            plan.last(1, Timestamp::MIN, before.saturating_add_ms(-(offset_ms as i64)))
                .pop()
                .map(|last| last.saturating_add_ms(offset_ms as i64)),
            next_fire(&plan, offset_ms, at),
        ),
    };
    if let Some(execution) = find_execution(ctx, job, fire, at).await? {
        answer.attempts = ctx.store.list_attempts(tenant, execution.id).await?;
        explain_execution(ctx, job, &mut answer, execution).await?;
        return Ok(answer);
    }
    let skips = ctx.store.list_skips(tenant, job.id, Some((at, at)), 1).await?;
    if fire.is_some() && skips.pruned.contains(&at) {
        no_longer_kept(&mut answer, "it had an execution, which is no longer kept".into());
        return Ok(answer);
    }
    if let Some(skip) = skips.items.into_iter().next().filter(|_| fire.is_some()) {
        explain_skip(job, &mut answer, skip);
        return Ok(answer);
    }
    explain_nothing(ctx, &version, &mut answer, fire, ready);
    Ok(answer)
}

/// The version that governs an instant, and its fire there or a moment later. A version that follows within that moment is asked
/// too.
async fn find_fire(ctx: &Context, newest: Job, at: Timestamp) -> Result<(JobVersion, Option<Timestamp>)> {
    let (before, end) = (at.saturating_add_ms(-1), at.saturating_add_ms(NEAR_MS));
    let versions = versions::governing(ctx, newest, before, end).await?;
    for version in &versions {
        let job = &version.job;
        let plan = jobs::decode(&job.plan)?;
        let from = if job.version == 1 { before } else { before.max(job.effective_at) };
        let fire = next_fire(&plan, job.spread_offset_ms(), from);
        let end = version.ended_at.map_or(end, |ended_at| end.min(ended_at));
        if let Some(fire) = fire.filter(|&fire| fire <= end) {
            return Ok((version.clone(), Some(fire)));
        }
    }
    Ok((versions.into_iter().next().expect("there is at least one version"), None))
}

/// The job, also a deleted one: what became of its fires is still recorded.
async fn find(ctx: &Context, tenant: TenantId, key: &JobKey) -> Result<Job> {
    match ctx.store.get_jobs(tenant, std::slice::from_ref(key)).await?.pop().flatten() {
        Some(job) => Ok(job),
        None => jobs::find(ctx, tenant, key).await,
    }
}

/// The execution of an instant: the scheduled one; where the schedule has no fire there, a manual one.
async fn find_execution(ctx: &Context, job: &Job, fire: Option<Timestamp>, at: Timestamp) -> Result<Option<Execution>> {
    if let Some(fire) = fire {
        let id = ExecutionId::scheduled(job.tenant, job.id, fire);
        return Ok(ctx.store.get_executions(job.tenant, &[id]).await?.pop().flatten());
    }
    let query = ExecutionQuery {
        tenant: job.tenant,
        job: Some(job.id),
        states: Vec::new(),
        from: Some(at),
        to: Some(at.saturating_add_ms(NEAR_MS + 1)),
        filter: Filter::default(),
        before: None,
        limit: limits::PAGE_ITEMS_DEFAULT,
    };
    let page = ctx.store.list_executions(&query).await?;
    // The earliest of those near; of several at the same instant, the newest attempt tells most.
    Ok(page.items.into_iter().min_by_key(|execution| execution.fire_at))
}

async fn explain_execution(ctx: &Context, job: &Job, answer: &mut Why, execution: Execution) -> Result<()> {
    answer.at = execution.fire_at;
    answer.reason = execution.reason;
    let name = job.name();
    match execution.state {
        State::Succeeded => {
            answer.verdict = Verdict::Ran;
            answer.reason = None;
        }
        State::Running => {
            answer.verdict = Verdict::Running;
            let worker = execution.worker.as_deref().unwrap_or("nobody");
            answer.evidence.push(format!("attempt {} is running on {worker}", execution.attempt));
            if let Some(progress) = ctx.store.reports(job.tenant, execution.id, 0, 0).await?.progress {
                if let Some(fraction) = progress.fraction {
                    answer.evidence.push(format!("progress {:.0} %, told at {}", fraction * 100.0, progress.at));
                }
                answer.evidence.extend(progress.message.map(|message| format!("it says: {message}")));
            }
            if let Some(at) = execution.cancel_requested_at {
                answer.evidence.push(format!("it was asked to stop at {at}"));
            }
        }
        State::Dead => {
            answer.verdict = Verdict::Failed;
            answer.evidence.push(format!("all {} attempts failed", execution.attempt - execution.attempts_from));
            answer.evidence.extend(execution.error.as_ref().map(|e| format!("last error {}: {}", e.kind, e.message)));
            answer.fixes.push(format!("campanile dead replay {}", execution.id));
        }
        state if state.is_final() => {
            answer.evidence.extend(execution.note.as_ref().map(|note| format!("note: {note}")));
            answer.evidence.extend(execution.finished_at.map(|at| format!("decided at {at}")));
            explain_ended(ctx, job, answer, &execution).await?;
        }
        _ => {
            answer.verdict = Verdict::Waiting;
            waiting(ctx, answer, &execution);
        }
    }
    lateness(answer, &execution);
    if execution.state == State::Dead || (execution.state == State::Retrying && execution.error.is_some()) {
        answer.fixes.push(format!("campanile exec get {}", execution.id));
    }
    if answer.verdict == Verdict::DidNotRun && execution.reason != Some(Reason::CancelledByUser) {
        answer.fixes.push(format!("{} --reprocess failed", backfill(name, execution.fire_at)));
    }
    answer.execution = Some(execution);
    Ok(())
}

/// What else there is to say about an execution that ended without a run.
async fn explain_ended(ctx: &Context, job: &Job, answer: &mut Why, execution: &Execution) -> Result<()> {
    match execution.reason {
        Some(Reason::OverlapForbidden | Reason::OverlapReplaced) => {
            answer.evidence.push(format!("the job's overlap policy is {}", job.definition.overlap.as_str()));
            let query = ExecutionQuery {
                tenant: job.tenant,
                job: Some(job.id),
                states: Vec::new(),
                from: None,
                to: None,
                filter: Filter::default(),
                before: Some(execution.id),
                limit: 5,
            };
            let earlier = ctx.store.list_executions(&query).await?.items;
            let at = execution.finished_at.unwrap_or(execution.fire_at);
            let overlapped = |e: &&Execution| {
                e.first_start().is_some_and(|start| start <= at) && e.finished_at.is_none_or(|end| end >= at)
            };
            for other in earlier.iter().filter(overlapped) {
                let since = other.first_start().map_or(0, |start| at.ms_since(start));
                let worker = other.worker.as_deref().unwrap_or("nobody");
                answer.evidence.push(format!("{} had been running for {since} ms on {worker}", other.id));
            }
            answer.fixes.push(format!("campanile job edit {} --overlap BUFFER_ONE", job.name()));
        }
        Some(Reason::StaleVersion) => {
            let (fired, governs) = (execution.job_version, job.version);
            answer
                .evidence
                .push(format!("it was made under version {fired}, and version {governs} governs its instant"));
        }
        _ => {}
    }
    Ok(())
}

/// Why an execution that waits is not running.
fn waiting(ctx: &Context, answer: &mut Why, execution: &Execution) {
    let now = ctx.clock.now();
    let waits_for = match execution.state {
        State::Held => Some("it waits for an earlier run of its job to end"),
        State::Waiting => Some("it waits for its parents to end"),
        State::Blocked => Some("a parent that it needs is dead or was skipped; somebody must act"),
        _ => None,
    };
    if let Some(evidence) = waits_for {
        answer.reason = Some(Reason::DependencyWaiting);
        answer.evidence.push(evidence.into());
        return;
    }
    if execution.wake_at > now {
        let why = if execution.state == State::Retrying { "it is tried again" } else { "it may start" };
        answer.evidence.push(format!("{why} at {}", execution.wake_at));
        match execution.reason {
            Some(Reason::RateLimited) => {
                answer.evidence.push(format!("{} takes no more per second than its limit", execution.target));
                answer.fixes.push("campanile target ls".into());
            }
            Some(Reason::CircuitOpen) => {
                answer.evidence.push(format!("{} keeps failing; one probe at a time is sent", execution.target));
            }
            _ => {}
        }
        answer.evidence.extend(execution.error.as_ref().map(|e| format!("last error {}: {}", e.kind, e.message)));
        return;
    }
    if let Some(reason) = ctx.gate.keeps(execution.tenant, &execution.pool, &execution.target) {
        answer.reason = Some(reason);
        let (pool, target) = (&execution.pool, &execution.target);
        let (evidence, fix) = match reason {
            Reason::Paused => (format!("the pool `{pool}` is paused"), Some(format!("campanile pool resume {pool}"))),
            Reason::CircuitOpen => (format!("{target} keeps failing; one probe at a time is sent"), None),
            _ => (format!("pool `{pool}` or target {target} has no free slot"), Some("campanile pool ls".into())),
        };
        answer.evidence.push(evidence);
        answer.fixes.extend(fix);
        return;
    }
    answer.not_the_cause.push(format!("pool `{}` is neither paused nor full", execution.pool));
    if execution.action.runner() == Runner::Worker {
        let serving = ctx.workers.serving(&execution.pool, &execution.target, now);
        if serving == 0 {
            answer.reason = Some(Reason::NoWorker);
            let (pool, handler) = (&execution.pool, &execution.target);
            answer.evidence.push(format!("no worker asks for handler `{handler}` in pool `{pool}`"));
            answer.fixes.push(format!("campanile worker run --pool {pool} --handler {handler} -- COMMAND"));
            return;
        }
        answer.not_the_cause.push(format!("{serving} workers ask for this handler and pool"));
    }
    answer.evidence.push("it is due, and waits for its turn".into());
}

/// Where the time went between due and done.
fn lateness(answer: &mut Why, execution: &Execution) {
    let Some(started) = execution.first_start() else { return };
    let late = started.ms_since(execution.fire_at);
    answer.evidence.push(format!("due {}, first started {started} (+{late} ms)", execution.fire_at));
    let newest_is_first = execution.first_started_at.is_none();
    if let (Some(queued), Some(claimed), true) = (execution.queued_at, execution.claimed_at, newest_is_first) {
        answer.evidence.push(format!(
            "of these: scheduler {} ms, queue {} ms, worker {} ms",
            queued.ms_since(execution.fire_at),
            claimed.ms_since(queued),
            started.ms_since(claimed)
        ));
    }
    if let Some(finished) = execution.finished_at.filter(|_| execution.state.is_final()) {
        answer.evidence.push(format!("finished {finished} after {} attempt(s)", execution.attempt.max(1)));
    }
}

fn explain_skip(job: &Job, answer: &mut Why, skip: Skip) {
    answer.reason = Some(skip.reason);
    answer
        .evidence
        .push(format!("fires from {} to {} were skipped, decided at {}", skip.from, skip.to, skip.recorded_at));
    let name = job.name();
    match skip.reason {
        Reason::MisfireDiscarded | Reason::MisfireCoalesced | Reason::Expired => {
            answer.evidence.push("nobody fired at that instant: the server was down, stopped or behind".into());
            answer.fixes.push(format!("campanile job edit {name} --catch-up all"));
        }
        Reason::Blackout => answer.evidence.push("a blackout of the job covers it".into()),
        _ => {}
    }
    if !matches!(skip.reason, Reason::JobDeleted | Reason::Blackout) {
        answer.fixes.push(backfill(name, answer.at));
    }
    answer.skip = Some(skip);
}

fn no_longer_kept(answer: &mut Why, evidence: String) {
    answer.verdict = Verdict::NoLongerKept;
    answer.evidence.push(evidence);
}

/// No execution, no skip: then the schedule of that time says it.
fn explain_nothing(ctx: &Context, version: &JobVersion, answer: &mut Why, fire: Option<Timestamp>, ready: bool) {
    let (now, at) = (ctx.clock.now(), answer.at);
    let JobVersion { job, ended_at } = version;
    let (name, window) = (job.name(), &job.definition.window);
    let mut not_due = |evidence: String| {
        answer.reason = Some(Reason::NotDue);
        answer.evidence.push(evidence);
    };
    if at < job.created_at {
        return not_due(format!("the job was created at {}", job.created_at));
    }
    if job.version > 1 && at <= job.effective_at {
        let evidence = format!("the version of that time is no longer kept; version {} came later", job.version);
        return no_longer_kept(answer, evidence);
    }
    if job.state == JobState::Deleted {
        answer.reason = Some(Reason::JobDeleted);
        answer.evidence.push(format!("the job was deleted at {}", job.effective_at));
        return;
    }
    let Some(fire) = fire else {
        let then =
            if ended_at.is_some() { format!(" in version {}, which was in force", job.version) } else { String::new() };
        not_due(format!("the schedule has no fire at that instant{then}"));
        let (last, next) = answer.around;
        answer.evidence.extend(last.map(|last| format!("the last one before it is {last}")));
        answer.evidence.extend(next.map(|next| format!("the next one after it is {next}")));
        return;
    };
    if window.starts_at.is_some_and(|start| fire < start) || window.ends_at.is_some_and(|end| fire > end) {
        return not_due("it lies outside the job's window".into());
    }
    // What a version passes over is recorded. Where that is not there any more, nobody knows whether somebody made up for it.
    let is_accounted_for = fire <= now && job.cursor.next_fire_at.is_none_or(|cursor| fire < cursor);
    let is_paused = job.state == JobState::Paused && job.paused_until.is_none_or(|until| fire <= until);
    // While a job is paused its blackouts are not recorded: what has come meanwhile is a matter of the pause.
    if Blackout::covers(&job.definition.blackouts, fire) && !(is_paused && fire <= now) {
        if is_accounted_for {
            return no_longer_kept(answer, "a blackout covered it, and what became of that is no longer kept".into());
        }
        answer.reason = Some(Reason::Blackout);
        answer.evidence.push("a blackout of the job covers it".into());
        answer.fixes.push(format!("campanile job edit {name} --blackout none"));
        return;
    }
    if is_paused {
        let until = ended_at.or(job.paused_until).map_or_else(String::new, |until| format!(", until {until}"));
        let evidence = format!("the job was paused from {}{until}", job.effective_at);
        if ended_at.is_some() && fire <= now {
            return no_longer_kept(
                answer,
                format!("{evidence}; what became of the fires of that time is no longer kept"),
            );
        }
        answer.reason = Some(Reason::Paused);
        answer.evidence.push(evidence);
        if ended_at.is_none() {
            answer.fixes.push(format!("campanile job resume {name}"));
        }
        return;
    }
    let is_over = job.cursor.next_fire_at.is_none() && job.state == JobState::Active && ended_at.is_none();
    if fire > now {
        answer.verdict = Verdict::WillRun;
        if is_over {
            answer.verdict = Verdict::DidNotRun;
            return not_due("the job has no further fires: max_fires or ends_at is reached".into());
        }
        answer.reason = Some(Reason::NotDue);
        answer.evidence.push(format!("it is due in {} ms", fire.ms_since(now)));
        return;
    }
    if job.cursor.next_fire_at.is_some_and(|cursor| cursor <= fire) {
        // Not accounted for: nobody has fired it yet.
        answer.verdict = Verdict::Waiting;
        answer.reason = Some(Reason::NoLeader);
        let node = if ready { "this node fires, and is behind" } else { "this node does not fire yet" };
        answer
            .evidence
            .push(format!("the job's fires are accounted for up to {}", job.cursor.next_fire_at.unwrap_or(fire)));
        answer.evidence.push(node.into());
        answer.fixes.push("campanile doctor".into());
        return;
    }
    if is_beyond_max_fires(job, fire) {
        return not_due("the job had no further fires: max_fires was reached".into());
    }
    // Accounted for, and nothing left of it.
    no_longer_kept(answer, "it had an execution, which is no longer kept".into());
}

/// Whether a job had fired as often as it may before an instant. After a change nobody knows how often it had.
fn is_beyond_max_fires(job: &Job, fire: Timestamp) -> bool {
    let (Some(max), Ok(plan)) = (job.definition.window.max_fires.map(u64::from), jobs::decode(&job.plan)) else {
        return false;
    };
    let first = job.definition.window.starts_at.map_or(job.created_at, |start| start.max(job.created_at));
    job.version == 1 && count_fires(&plan, job.spread_offset_ms(), first, fire, max + 1) > max
}

fn backfill(name: &str, at: Timestamp) -> String {
    format!("campanile backfill {name} --from {at} --to {}", at.saturating_add_ms(1))
}
