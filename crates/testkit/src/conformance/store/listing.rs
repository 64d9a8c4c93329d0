//! Lists: the union of the pages is the set, and nothing comes twice.

use super::lives::{self, Dice, all, pages};
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Execution, Reason};
use campanile_model::filter::{Filter, Subject};
use campanile_model::job::{Job, JobState};
use campanile_model::lifecycle::{Event, State};
use campanile_model::limits;
use campanile_model::store::{CancelTarget, ExecutionQuery, Fire, JobQuery, Skip};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use std::collections::{BTreeSet, HashMap, HashSet};

fn ids(items: &[Execution]) -> Vec<ExecutionId> {
    items.iter().map(|execution| execution.id).collect()
}

/// By name, whatever the order of writing.
pub async fn job_pages_are_the_whole_and_disjoint(store: Fixture) {
    let mut jobs: Vec<Job> = (1..=25).rev().map(g::job).collect();
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    jobs.reverse();
    let deleted = store.change(&jobs[3], g::at(1), g::Change::Delete).await;
    jobs.retain(|job| job.id != deleted.id);
    for limit in [1, 7, 24, 100] {
        let mut query = JobQuery { limit, ..JobQuery::default() };
        let mut read = Vec::new();
        loop {
            let page = store.list_jobs(&query).await.unwrap();
            query.after = page.items.last().map(|last| last.name().to_owned());
            let more = page.has_more;
            read.extend(page.items);
            if !more {
                break;
            }
        }
        assert_eq!(read, jobs, "limit {limit}");
    }
}

/// State, tag, prefix; the prefix is plain text, not a pattern.
pub async fn jobs_are_filtered(store: Fixture) {
    let names = ["a", "a%", "a%b", "a_", "ab", "b", "ä"];
    for (n, name) in (1..).zip(names) {
        let tags = vec![format!("t{}", n % 2), "x".into()];
        let state = if n == 1 { JobState::Paused } else { JobState::Active };
        let job = Job { state, ..g::job_with(n, |d| (d.name, d.tags) = (name.into(), tags)) };
        store.create(&job).await;
    }
    let list = async |query: JobQuery| -> Vec<String> {
        let page = store.list_jobs(&JobQuery { limit: 100, ..query }).await.unwrap();
        page.items.into_iter().map(|job| job.name().to_owned()).collect()
    };
    let prefix = |prefix: &str| JobQuery { name_prefix: Some(prefix.into()), ..JobQuery::default() };
    let tag = |tag: &str| JobQuery { tag: Some(tag.into()), ..JobQuery::default() };
    assert_eq!(list(prefix("a%")).await, ["a%", "a%b"]);
    assert_eq!(list(prefix("ä")).await, ["ä"]);
    assert_eq!(list(prefix("")).await, names);
    assert_eq!(list(JobQuery { after: Some("a%".into()), ..prefix("a") }).await, ["a%b", "a_", "ab"]);
    assert_eq!(list(tag("t1")).await, ["a", "a%b", "ab", "ä"]);
    assert_eq!(list(tag("t")).await, Vec::<String>::new(), "a tag is matched whole");
    assert_eq!(list(JobQuery { state: Some(JobState::Paused), ..tag("x") }).await, ["a"]);
}

/// Newest first, with many executions at the same instant.
pub async fn execution_pages_are_the_whole_and_disjoint(store: Fixture) {
    let jobs = store.jobs(10).await;
    let fires: Vec<Fire> = (0..6).flat_map(|i| jobs.iter().map(move |job| g::fire(job, g::at(i / 2)))).collect();
    store.fired(fires.clone()).await;
    let expected: BTreeSet<ExecutionId> = fires.iter().map(|fire| fire.dispatch.execution).collect();
    assert_eq!(expected.len(), 30);
    for limit in [1, 7, 30, 100] {
        let read = ids(&pages(&store, all(limit)).await);
        assert_eq!(read, expected.iter().rev().copied().collect::<Vec<_>>(), "limit {limit}");
    }
    let of_one = pages(&store, ExecutionQuery { job: Some(jobs[3].id), ..all(2) }).await;
    assert_eq!(
        of_one.iter().map(|e| (e.job, e.fire_at)).collect::<Vec<_>>(),
        [(jobs[3].id, g::at(2)), (jobs[3].id, g::at(1)), (jobs[3].id, g::at(0))]
    );
}

/// Time window, states, job, and all of them together.
pub async fn executions_are_filtered(store: Fixture) {
    let jobs = store.jobs(8).await;
    let fires: Vec<Fire> = jobs.iter().map(|job| g::fire(job, DUE)).collect();
    store.fired(fires.clone()).await;
    store.fired(vec![g::fire(&jobs[0], g::at(70_000)), g::fire(&jobs[0], g::at(80_000))]).await;
    let id = |i: usize| fires[i].dispatch.execution;
    let running = store.granted(id(0), 0, DUE).await;
    store.complete(vec![g::complete(&running, Event::FailFinal, AttemptOutcome::Failed, DUE)]).await.unwrap();
    store.complete(vec![g::complete_unclaimed(g::claim(id(1), 0, DUE))]).await.unwrap();
    lives::cancel(&store, vec![CancelTarget::Execution(id(2))], DUE).await;
    let list = async |query| ids(&pages(&store, query).await).into_iter().collect::<BTreeSet<_>>();
    let states = |states: &[State]| ExecutionQuery { states: states.into(), ..all(2) };
    assert_eq!(list(states(&[State::Dead])).await, [id(0)].into());
    assert_eq!(list(states(&[State::Dead, State::Cancelled])).await, [id(0), id(2)].into());
    assert_eq!(list(states(&[State::Succeeded, State::Cancelled])).await, [id(1), id(2)].into());
    assert_eq!(list(states(&[State::Pending])).await.len(), 7);
    assert_eq!(list(states(&[State::Running])).await.len(), 0);
    let window = |from, to| ExecutionQuery { from: Some(g::at(from)), to: Some(g::at(to)), ..all(3) };
    assert_eq!(list(window(60_000, 60_001)).await.len(), 8);
    assert_eq!(list(window(60_001, 80_000)).await.len(), 1);
    assert_eq!(list(window(60_001, 80_001)).await.len(), 2);
    let both = ExecutionQuery { job: Some(jobs[0].id), states: vec![State::Dead], ..window(0, 80_000) };
    assert_eq!(list(both.clone()).await, [id(0)].into());
    assert_eq!(list(ExecutionQuery { from: Some(g::at(60_001)), ..both }).await, BTreeSet::new());
}

/// I12: rows that were there are read once, whatever is inserted meanwhile.
pub async fn pages_stay_disjoint_under_inserts(store: Fixture) {
    let jobs = store.jobs(4).await;
    let fires = |ms: i64| jobs.iter().map(|job| g::fire(job, g::at(ms))).collect::<Vec<_>>();
    let mut there = BTreeSet::new();
    for ms in (0..100).step_by(10) {
        there.extend(fires(ms).iter().map(|fire| fire.dispatch.execution));
        store.fired(fires(ms)).await;
    }
    for job in [None, Some(jobs[1].id)] {
        let mut query = ExecutionQuery { job, ..all(3) };
        let mut read = Vec::new();
        for round in 0.. {
            // Before, between and after what is there.
            store.fired(fires(1 + 3 * round)).await;
            store.fired(fires(1_000 + round)).await;
            let page = store.list_executions(&query).await.unwrap();
            read.extend(page.items.iter().map(|execution| (execution.id, execution.job)));
            query.before = page.next;
            if page.next.is_none() || round > 200 {
                break;
            }
        }
        let distinct: BTreeSet<ExecutionId> = read.iter().map(|(id, _)| *id).collect();
        assert_eq!(distinct.len(), read.len(), "nothing comes twice");
        let of_job: Vec<Execution> = pages(&store, ExecutionQuery { job, ..all(100) }).await;
        let expected = of_job.iter().filter(|execution| there.contains(&execution.id));
        assert!(expected.map(|execution| execution.id).all(|id| distinct.contains(&id)), "nothing is left out");
        assert!(read.iter().all(|(_, of)| job.is_none_or(|job| job == *of)));
    }
}

/// I13: lists and reads are cut by tenant.
pub async fn tenants_see_only_their_own(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let foreign = g::of_tenant(g::job(2), TenantId(2));
    store.put(g::create(&foreign)).await;
    store.fired(vec![g::fire(&foreign, DUE)]).await;
    let foreign_id = g::fire(&foreign, DUE).dispatch.execution;
    assert_eq!(ids(&pages(&store, all(10)).await), [id]);
    assert_eq!(ids(&pages(&store, ExecutionQuery { tenant: TenantId(2), ..all(10) }).await), [foreign_id]);
    assert_eq!(ids(&pages(&store, ExecutionQuery { job: Some(foreign.id), ..all(10) }).await), []);
    assert_eq!(store.get_executions(TenantId::DEFAULT, &[foreign_id]).await.unwrap(), [None]);
    let jobs = store.list_jobs(&JobQuery { limit: 10, ..JobQuery::default() }).await.unwrap();
    assert_eq!(jobs.items, [job]);
    let other = JobQuery { tenant: Some(TenantId(2)), limit: 10, ..JobQuery::default() };
    assert_eq!(store.list_jobs(&other).await.unwrap().items, [foreign]);
}

/// Many batches, many jobs: each finds its own, in order. Stores may index behind; readers must not notice.
pub async fn the_history_of_a_job_is_complete(store: Fixture) {
    let jobs = store.jobs(100).await;
    let fences = store.open_all().await;
    for round in 0..30 {
        let fires = jobs.iter().map(|job| g::fire(job, g::at(round * 10))).collect();
        store.fire(super::batch(fences.clone(), fires)).await.unwrap();
    }
    for job in &jobs {
        let read = pages(&store, ExecutionQuery { job: Some(job.id), ..all(11) }).await;
        let instants: Vec<_> = read.iter().map(|execution| execution.fire_at).collect();
        assert_eq!(instants, (0..30).rev().map(|round| g::at(round * 10)).collect::<Vec<_>>());
    }
}

/// What a filter sees of an execution; `tags` are its job's.
fn subject<'a>(execution: &'a Execution, tags: &'a [String]) -> Subject<'a> {
    Subject {
        state: execution.state,
        job_name: &execution.job_name,
        handler: &execution.target,
        pool: &execution.pool,
        tags,
        worker: execution.worker.as_deref(),
        error_kind: execution.error.as_ref().map(|error| &*error.kind),
        fingerprint: execution.fingerprint,
        reason: execution.reason,
        kind: execution.kind,
        late_ms: execution.first_start().map(|at| at.ms_since(execution.fire_at)),
        duration_ms: execution.started_at.zip(execution.finished_at).map(|(from, to)| to.ms_since(from)),
        attempt: execution.attempt,
        fire_at: execution.fire_at,
    }
}

/// A filter of up to three terms that mostly let something through.
fn any_filter(dice: &Dice, fingerprints: &[u64], from: Timestamp) -> String {
    let fingerprint = format!("{:016x}", dice.of(fingerprints));
    let start = from.saturating_add_ms(dice.below(20_000) as i64);
    let end = start.saturating_add_ms(1 + dice.below(20_000) as i64);
    let terms = [
        "state:dead".into(),
        "state:pending,running".into(),
        "state:running".into(),
        "state:retrying,held".into(),
        "state:dead,cancelled".into(),
        "state:succeeded".into(),
        "job:even-*".into(),
        "job:odd-1".into(),
        "handler:handler-1".into(),
        "pool:long".into(),
        "pool:short,narrow".into(),
        "tag:all".into(),
        "tag:team=t1".into(),
        "worker:worker-*".into(),
        "worker:other".into(),
        "error:http_*".into(),
        "reason:ATTEMPTS_EXHAUSTED".into(),
        "kind:schedule".into(),
        "kind:manual".into(),
        "late:>2s".into(),
        "late:<=4s".into(),
        "duration:<1s".into(),
        "attempt:>=2".into(),
        "attempt:0".into(),
        format!("fp:{fingerprint}"),
        format!("fp:{}", &fingerprint[..1 + dice.below(15) as usize]),
        format!("scheduled:{start}..{end}"),
        format!("scheduled:{start}.."),
    ];
    let signs = ["", "", "-"];
    let some: Vec<String> = (0..dice.below(4)).map(|_| format!("{}{}", dice.of(&signs), dice.of(&terms))).collect();
    some.join(" ")
}

/// Whatever is asked for, and in whatever steps it is read: the pages together are what testing every execution gives, in order,
/// without repetition and without gaps.
pub async fn filtered_pages_are_what_testing_everything_gives(store: Fixture) {
    let dice = Dice::new(7);
    let jobs = lives::jobs(&store, 7).await;
    let start = g::at(0);
    lives::live(&store, &jobs, start, 40, &dice).await;
    let tags: HashMap<_, _> = jobs.iter().map(|job| (job.id, job.definition.tags.clone())).collect();
    let everything = pages(&store, all(1_000)).await;
    assert_eq!(everything.len(), 280);
    let fingerprints: BTreeSet<u64> = everything.iter().filter_map(|execution| execution.fingerprint).collect();
    let fingerprints: Vec<u64> = fingerprints.into_iter().collect();
    let states: HashSet<State> = everything.iter().map(|execution| execution.state).collect();
    assert!(fingerprints.len() > 3 && states.len() > 5, "{fingerprints:?} {states:?}");
    let mut some = 0;
    for _ in 0..400 {
        let text = any_filter(&dice, &fingerprints, start);
        let sometimes = |n: u64| dice.below(n) == 0;
        let query = ExecutionQuery {
            job: sometimes(4).then(|| dice.of(&jobs).id),
            states: if sometimes(4) { vec![*dice.of(&State::ALL), *dice.of(&State::ALL)] } else { Vec::new() },
            from: sometimes(5).then(|| start.saturating_add_ms(dice.below(30_000) as i64)),
            to: sometimes(5).then(|| start.saturating_add_ms(10_000 + dice.below(30_000) as i64)),
            filter: Filter::parse(&text, g::START).unwrap(),
            ..all(1 + dice.below(60) as usize)
        };
        let meant = |execution: &&Execution| {
            query.job.is_none_or(|job| job == execution.job)
                && (query.states.is_empty() || query.states.contains(&execution.state))
                && query.from.is_none_or(|from| execution.fire_at >= from)
                && query.to.is_none_or(|to| execution.fire_at < to)
                && query.filter.matches(&subject(execution, &tags[&execution.job]))
        };
        let expected: Vec<Execution> = everything.iter().filter(meant).cloned().collect();
        some += usize::from(!expected.is_empty());
        assert_eq!(pages(&store, query.clone()).await, expected, "{text} {query:?}");
    }
    assert!(some > 100, "most filters let something through: {some}");
}

/// A page stops where it has looked at enough, says where, and the next one goes on from there; by every way to read.
pub async fn a_page_looks_at_a_bounded_number_of_rows(store: Fixture) {
    let job = store.job(1).await;
    let fences = store.open_all().await;
    let count = limits::SCAN_ROWS_MAX as i64 + 5_000;
    let fires: Vec<Fire> = (0..count).map(|i| g::fire(&job, g::at(i))).collect();
    for chunk in fires.chunks(limits::WRITE_ITEMS_MAX) {
        store.fire(super::batch(fences.clone(), chunk.to_vec())).await.unwrap();
    }
    let oldest = fires[0].dispatch.execution;
    let granted = store.granted(oldest, 0, DUE).await;
    store.complete(vec![g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, DUE)]).await.unwrap();
    let filter = |text: &str| Filter::parse(text, g::START).unwrap();
    for query in [
        ExecutionQuery { states: vec![State::Succeeded], ..all(10) },
        ExecutionQuery { filter: filter("worker:worker-1"), ..all(10) },
        ExecutionQuery { filter: filter("worker:*"), job: Some(job.id), ..all(10) },
    ] {
        let first = store.list_executions(&query).await.unwrap();
        assert!(first.items.is_empty() && first.next.is_some(), "{query:?}");
        let read: Vec<ExecutionId> = ids(&pages(&store, query).await);
        assert_eq!(read, [oldest]);
    }
    // The rest waits, and is more than is sorted at once.
    let waiting = ExecutionQuery { states: vec![State::Pending], ..all(100_000) };
    assert_eq!(ids(&pages(&store, waiting).await).len(), fires.len() - 1);
}

/// Those that touch the window, newest first.
pub async fn skips_are_listed_by_window(store: Fixture) {
    let job = store.job(1).await;
    let skip = |from: i64, to: i64, reason| Skip {
        tenant: job.tenant,
        job: job.id,
        from: g::at(from),
        to: g::at(to),
        reason,
        recorded_at: g::at(to),
    };
    let skips = [
        skip(0, 10, Reason::MisfireDiscarded),
        skip(5, 15, Reason::Blackout),
        skip(20, 20, Reason::Expired),
        skip(30, 90, Reason::Paused),
    ];
    store.skipped(&skips).await;
    let list = async |within: Option<(i64, i64)>, limit| {
        let within = within.map(|(from, to)| (g::at(from), g::at(to)));
        store.list_skips(job.tenant, job.id, within, limit).await.unwrap().items
    };
    let those = |indexes: &[usize]| indexes.iter().map(|&i| skips[i].clone()).collect::<Vec<_>>();
    assert_eq!(list(None, 10).await, those(&[3, 2, 1, 0]));
    assert_eq!(list(None, 2).await, those(&[3, 2]));
    assert_eq!(list(Some((8, 8)), 10).await, those(&[1, 0]));
    assert_eq!(list(Some((10, 20)), 10).await, those(&[2, 1, 0]));
    assert_eq!(list(Some((16, 19)), 10).await, []);
    assert_eq!(list(Some((50, 50)), 10).await, those(&[3]));
    assert_eq!(list(Some((90, 1_000)), 10).await, those(&[3]));
    assert_eq!(list(Some((91, 1_000)), 10).await, []);
    assert_eq!(store.list_skips(TenantId(2), job.id, None, 10).await.unwrap().items, []);
}
