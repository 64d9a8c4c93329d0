//! Lists: the union of the pages is the set, and nothing comes twice.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Execution};
use campanile_model::job::{Job, JobState};
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{ExecutionQuery, Fire, JobQuery, Put};
use campanile_model::{ExecutionId, TenantId};
use std::collections::BTreeSet;

fn all(limit: usize) -> ExecutionQuery {
    ExecutionQuery {
        tenant: TenantId::DEFAULT,
        job: None,
        states: Vec::new(),
        from: None,
        to: None,
        before: None,
        limit,
    }
}

/// Reads every page of a query.
async fn pages(store: &Fixture, mut query: ExecutionQuery) -> Vec<Execution> {
    let mut items = Vec::new();
    loop {
        let page = store.list_executions(&query).await.unwrap();
        assert!(page.items.len() <= query.limit);
        query.before = page.items.last().map(|last| last.id).or(query.before);
        items.extend(page.items);
        if !page.has_more {
            return items;
        }
    }
}

fn ids(items: &[Execution]) -> Vec<ExecutionId> {
    items.iter().map(|execution| execution.id).collect()
}

/// By name, whatever the order of writing.
pub async fn job_pages_are_the_whole_and_disjoint(store: Fixture) {
    let mut jobs: Vec<Job> = (1..=25).rev().map(g::job).collect();
    store.put_jobs(jobs.iter().cloned().map(g::create).collect()).await.unwrap();
    jobs.reverse();
    let deleted = store.change(&jobs[3], g::at(1), |job| job.state = JobState::Deleted).await;
    jobs.retain(|job| job.id != deleted.id);
    for limit in [1, 7, 24, 100] {
        let mut query = JobQuery { limit, ..JobQuery::default() };
        let mut read = Vec::new();
        loop {
            let page = store.list_jobs(&query).await.unwrap();
            query.after = page.items.last().map(|last| last.name.clone());
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
        let job = Job { name: name.into(), tags, state, ..g::job(n) };
        assert_eq!(store.put(g::create(job)).await, Put::Done);
    }
    let list = async |query: JobQuery| -> Vec<String> {
        let page = store.list_jobs(&JobQuery { limit: 100, ..query }).await.unwrap();
        page.items.into_iter().map(|job| job.name).collect()
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
    store.cancel(TenantId::DEFAULT, vec![id(2)], DUE, None).await.unwrap();
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
            query.before = page.items.last().map(|last| last.id);
            read.extend(page.items.iter().map(|execution| (execution.id, execution.job)));
            if !page.has_more || round > 200 {
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
    let foreign = Job { tenant: TenantId(2), ..g::job(2) };
    store.put(g::create(foreign.clone())).await;
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
