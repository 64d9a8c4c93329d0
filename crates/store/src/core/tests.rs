//! The rules alone, without a database: a set is filled by hand, judged, and looked at. That every store keeps to them is shown
//! by the conformance suites.

use super::cancel::cancel;
use super::claim::{claim, startable};
use super::complete::{complete, jobs_to_judge, may_start};
use super::dead::{Newest, resolve};
use super::fire::{fire, newest};
use super::pools::Pool;
use super::record::{Record, Shape};
use super::set::{IdMap, IdSet, WorkingSet};
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::job::Job;
use campanile_model::job::version::InForce;
use campanile_model::lifecycle::{Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::{
    Applied, AttemptFence, CancelBatch, CancelVerdict, ChangeSeq, Claim, Claimed, Completion, CompletionOf, Fire,
    FireBatch, Fired, Granted, Resolve,
};
use campanile_model::time::Timestamp;
use campanile_testkit::generate as g;
use std::sync::Arc;

const DUE: Timestamp = g::at(60_000);

/// Fires of a job as a backend has loaded them, with all that a claim needs.
fn loaded<'b>(job: &Job, fires: &[Fire]) -> WorkingSet<'b> {
    let mut set = WorkingSet::default();
    for fire in fires {
        let dispatch = &fire.dispatch;
        let texts = (dispatch.pool.clone(), dispatch.target.clone());
        set.insert(Box::new(Record::fired(fire, g::START, texts.0, texts.1)));
        if fire.overlap != Overlap::Allow {
            set.runs.insert_job(dispatch.job);
        }
    }
    let newest = InForce { version: job.version, state: job.state, effective_at: job.effective_at };
    set.newest.insert(job.id, newest);
    set.definitions.insert((job.id, job.version), job.definition.clone());
    set.fences = (1..100).collect::<Vec<u64>>().into_iter();
    set
}

fn fires(job: &Job, count: i64) -> (Vec<Fire>, Vec<ExecutionId>) {
    let fires: Vec<Fire> = (0..count).map(|i| g::fire(job, DUE.saturating_add_ms(i))).collect();
    let ids = fires.iter().map(|fire| fire.dispatch.execution).collect();
    (fires, ids)
}

fn claimed(set: &mut WorkingSet<'_>, id: ExecutionId, attempt: u32, now: Timestamp) -> Claimed {
    claim(set, &[g::claim_by(id, attempt, now, "worker-1")]).unwrap().remove(0)
}

fn granted(claimed: Claimed) -> Granted {
    match claimed {
        Claimed::Granted(granted) => *granted,
        other => panic!("not granted: {other:?}"),
    }
}

const LATE: Timestamp = g::at(100_000);

fn ended(granted: &Granted, event: Event, outcome: AttemptOutcome) -> Vec<Completion> {
    vec![g::complete(granted, event, outcome, LATE)]
}

#[test]
fn a_claim_is_granted_once_and_not_before_its_instant() {
    let job = g::job(1);
    let (fires, ids) = fires(&job, 1);
    let mut set = loaded(&job, &fires);
    let early = DUE.saturating_add_ms(-1);
    assert_eq!(claimed(&mut set, ids[0], 0, early), Claimed::Early { wake_at: DUE });
    assert!(set.changed().is_empty(), "a refusal writes nothing");
    let it = granted(claimed(&mut set, ids[0], 0, DUE));
    assert_eq!((it.fence.attempt, it.fence.fence), (1, 1));
    assert_eq!(set.changed()[0].changed, Some(Shape::Started));
    assert_eq!(claimed(&mut set, ids[0], 0, DUE), Claimed::Stale { state: State::Running });
    assert_eq!(claimed(&mut set, g::fire(&g::job(2), DUE).dispatch.execution, 0, DUE), Claimed::Gone);
}

#[test]
fn an_execution_that_another_version_governs_is_discarded() {
    let job = g::job(1);
    let (fires, ids) = fires(&job, 1);
    let before = DUE.saturating_add_ms(-1);
    for (change, at, verdict) in [
        (g::define(&job, |_| ()), before, Claimed::Discarded(Reason::StaleVersion)),
        (g::Change::Pause(None), before, Claimed::Discarded(Reason::Paused)),
        (g::Change::Delete, LATE, Claimed::Discarded(Reason::JobDeleted)),
    ] {
        let mut set = loaded(&g::changed(&job, &change, at), &fires);
        assert_eq!(claimed(&mut set, ids[0], 0, LATE), verdict);
        assert_eq!(set.get(ids[0]).unwrap().state, State::Skipped);
    }
    // A change at the instant does not govern it: the version before it does, and runs as it was.
    let mut set = loaded(&g::changed(&job, &g::define(&job, |d| d.payload = "2".into()), DUE), &fires);
    set.governing.insert(ids[0], InForce { version: 1, state: job.state, effective_at: job.effective_at });
    set.definitions.insert((job.id, 1), job.definition.clone());
    let it = granted(claimed(&mut set, ids[0], 0, LATE));
    assert_eq!((it.job_version, &it.definition), (1, &job.definition));
}

#[test]
fn a_pool_grants_as_many_as_it_has_slots() {
    let job = g::job(1);
    let (fires, ids) = fires(&job, 3);
    let mut set = loaded(&job, &fires);
    set.pools.push(Pool { tenant: job.tenant, name: job.definition.pool.clone(), paused: false, slots: Some((5, 3)) });
    let claims: Vec<_> = ids.iter().map(|&id| g::claim(id, 0, LATE)).collect();
    let verdicts = claim(&mut set, &claims).unwrap();
    let granted = verdicts.iter().filter(|verdict| matches!(verdict, Claimed::Granted(_))).count();
    assert_eq!((granted, &verdicts[2]), (2, &Claimed::Deferred(Reason::QuotaDeferred)));
    set.pools[0].paused = true;
    assert_eq!(claimed(&mut set, ids[2], 0, LATE), Claimed::Deferred(Reason::Paused));
}

#[test]
fn the_end_of_a_run_makes_the_next_one_ready() {
    let job = g::job_with(1, |d| d.overlap = Overlap::BufferAll);
    let (fires, ids) = fires(&job, 2);
    let mut set = loaded(&job, &fires);
    let first = granted(claimed(&mut set, ids[0], 0, LATE));
    assert_eq!(claimed(&mut set, ids[1], 0, LATE), Claimed::Held { by: ids[0], cancel: false });
    assert_eq!(set.get(ids[1]).unwrap().state, State::Held);
    let completions = ended(&first, Event::Succeed, AttemptOutcome::Succeeded);
    let mut set = held_over(set);
    assert_eq!(complete(&mut set, &completions).unwrap(), [Applied::Done]);
    let ready: Vec<ExecutionId> = set.ready.iter().map(|waiting| waiting.dispatch.execution).collect();
    assert_eq!((ready, set.get(ids[1]).unwrap().state), (vec![ids[1]], State::Pending));
}

/// The set of the next batch: what this one left is stored.
fn held_over<'b>(mut set: WorkingSet<'_>) -> WorkingSet<'b> {
    let records: Vec<Box<Record>> = set.take_records().collect();
    let mut next = WorkingSet::default();
    (next.newest, next.definitions, next.runs, next.fences) = (set.newest, set.definitions, set.runs, set.fences);
    for mut record in records {
        record.set_stored();
        next.insert(record);
    }
    next
}

#[test]
fn only_the_attempt_that_runs_ends_and_a_repeated_end_is_the_same() {
    let job = g::job(1);
    let (fires, ids) = fires(&job, 1);
    let mut set = loaded(&job, &fires);
    let it = granted(claimed(&mut set, ids[0], 0, LATE));
    let mut wrong = ended(&it, Event::Succeed, AttemptOutcome::Succeeded);
    wrong[0].of = CompletionOf::Running(AttemptFence { fence: it.fence.fence + 1, ..it.fence });
    let right = ended(&it, Event::Succeed, AttemptOutcome::Succeeded);
    let other = ended(&it, Event::FailFinal, AttemptOutcome::Failed);
    let mut set = held_over(set);
    assert_eq!(complete(&mut set, &wrong).unwrap(), [Applied::Stale { state: State::Running }]);
    assert_eq!(complete(&mut set, &right).unwrap(), [Applied::Done]);
    assert_eq!(complete(&mut set, &right).unwrap(), [Applied::Done], "an answer that was lost");
    assert_eq!(complete(&mut set, &other).unwrap(), [Applied::Stale { state: State::Succeeded }]);
    assert_eq!(set.effects.sums.changed(job.tenant, &job.definition.pool, State::Succeeded), 1, "counted once");
}

#[test]
fn a_newer_version_takes_over_what_has_not_begun() {
    let job = g::job(1);
    let (older, ids) = fires(&job, 2);
    let newer = Job { version: job.version + 1, ..job.clone() };
    let mut set = loaded(&job, &older);
    granted(claimed(&mut set, ids[1], 0, LATE));
    let (fires, _) = fires(&newer, 3);
    let batch = FireBatch { fences: Arc::new([]), fires, skips: Vec::new(), now: LATE, idempotency: None };
    let born = [batch.fires[2].dispatch.execution].into_iter().collect();
    assert_eq!(fire(&mut set, &batch, &newest(&batch.fires), &born).unwrap(), [Fired::New, Fired::Exists, Fired::New]);
    assert_eq!(set.get(ids[0]).unwrap().job_version, newer.version);
    assert_eq!(set.get(ids[1]).unwrap().job_version, job.version, "it has begun");
}

#[test]
fn of_two_versions_of_an_instant_in_one_batch_the_newer_counts() {
    let job = g::job(1);
    let (mut both, ids) = fires(&job, 2);
    let newer = Job { version: job.version + 1, ..job.clone() };
    both.splice(0..0, fires(&newer, 1).0);
    both.push(both[2].clone());
    assert_eq!(newest(&both), [0, 2]);
    let batch = FireBatch { fences: Arc::new([]), fires: both, skips: Vec::new(), now: LATE, idempotency: None };
    let mut set = WorkingSet::default();
    let born = ids.iter().copied().collect();
    let verdicts = fire(&mut set, &batch, &newest(&batch.fires), &born).unwrap();
    assert_eq!(verdicts, [Fired::New, Fired::Exists, Fired::New, Fired::Exists]);
}

#[test]
fn what_a_completion_makes_ready_may_end_in_the_same_batch() {
    let job = g::job_with(1, |d| d.overlap = Overlap::BufferAll);
    let (fires, ids) = fires(&job, 2);
    let mut set = loaded(&job, &fires);
    let first = granted(claimed(&mut set, ids[0], 0, LATE));
    claimed(&mut set, ids[1], 0, LATE);
    let mut completions = ended(&first, Event::Succeed, AttemptOutcome::Succeeded);
    completions.push(g::complete_unclaimed(g::claim(ids[1], 0, LATE)));
    let mut set = held_over(set);
    let CompletionOf::Unclaimed(second) = &completions[1].of else { unreachable!() };
    assert!(startable(&set, second).is_none() && may_start(&set, second).is_some());
    assert_eq!(complete(&mut set, &completions).unwrap(), [Applied::Done, Applied::Done]);
}

#[test]
fn a_cancel_ends_what_waits_and_asks_a_worker() {
    let job = g::job(1);
    let (fires, ids) = fires(&job, 2);
    let mut set = loaded(&job, &fires);
    granted(claimed(&mut set, ids[0], 0, LATE));
    let batch = CancelBatch { grace_ms: Some(1_000), ..g::cancel(&ids, LATE) };
    let (verdicts, all_new) = cancel(&mut set, &batch, IdSet::default()).unwrap();
    assert!(matches!(verdicts[..], [CancelVerdict::Asked { .. }, CancelVerdict::Done]) && all_new);
    assert_eq!(set.get(ids[0]).unwrap().state, State::Running);
    let (verdicts, all_new) = cancel(&mut set, &g::cancel(&ids[1..], LATE), IdSet::default()).unwrap();
    assert_eq!((&verdicts[..], all_new), (&[CancelVerdict::Stale { state: State::Cancelled }][..], false));
    let others = CancelBatch { tenant: TenantId(99), ..g::cancel(&ids[..1], LATE) };
    assert_eq!(cancel(&mut set, &others, IdSet::default()).unwrap().0, [CancelVerdict::Gone]);
}

#[test]
fn the_dead_run_again_or_are_given_up() {
    let job = g::job(1);
    let (fires, ids) = fires(&job, 2);
    let mut set = loaded(&job, &fires);
    let attempts: Vec<Granted> = ids.iter().map(|&id| granted(claimed(&mut set, id, 0, LATE))).collect();
    let died: Vec<Completion> =
        attempts.iter().flat_map(|it| ended(it, Event::FailFinal, AttemptOutcome::Failed)).collect();
    let mut set = held_over(set);
    complete(&mut set, &died).unwrap();
    let mended = Newest { version: 3, firing: job.firing().into() };
    let again = [Resolve::Replay { execution: ids[0], wake_at: LATE }];
    let none = IdMap::default();
    let refused = resolve(&mut set, (job.tenant, &again, LATE), &none).unwrap();
    assert_eq!(refused, [Applied::Stale { state: State::Dead }], "its job is deleted");
    let newest = [(job.id, mended)].into_iter().collect();
    assert_eq!(resolve(&mut set, (job.tenant, &again, LATE), &newest).unwrap(), [Applied::Done]);
    assert_eq!((set.attempts.len(), set.ready.len()), (1, 1), "the old attempt is kept, and it waits");
    assert_eq!(set.get(ids[0]).unwrap().job_version, 3, "by the newest version");
    let given_up = g::discard(ids.iter().copied(), "no use");
    let verdicts = resolve(&mut set, (job.tenant, &given_up, LATE), &none).unwrap();
    assert_eq!(verdicts, [Applied::Stale { state: State::Pending }, Applied::Done]);
    assert_eq!(set.get(ids[1]).unwrap().reason, Some(Reason::DiscardedByUser));
}

#[test]
fn who_saw_the_last_change_needs_no_version_unless_runs_may_not_overlap() {
    for (overlap, needed) in [(Overlap::Allow, 0), (Overlap::BufferOne, 1)] {
        let job = g::job_with(1, |d| d.overlap = overlap);
        let (fires, ids) = fires(&job, 1);
        let mut set = loaded(&job, &fires);
        set.last_change = Some(ChangeSeq(3));
        let claim = |as_of| Claim { as_of: ChangeSeq(as_of), ..g::claim(ids[0], 0, LATE) };
        assert_eq!(jobs_to_judge(&set, &[&claim(3)]).len(), needed, "{overlap:?}");
        assert_eq!(jobs_to_judge(&set, &[&claim(2)]).len(), 1);
    }
}
