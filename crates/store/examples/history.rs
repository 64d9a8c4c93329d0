//! How fast history is read when there is much of it: `cargo run --release -p campanile-store --example history -- 10000000`.
//!
//! Fills a store through its own verbs (fire, claim, complete), then reads pages in several ways and prints how long each
//! took. "Cold" is the first reading of each page after the file was dropped from the machine's memory, where that is
//! allowed; "warm" is the second.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use campanile_model::execution::{AttemptError, AttemptOutcome};
use campanile_model::filter::Filter;
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::limits::WRITE_ITEMS_MAX;
use campanile_model::shard;
use campanile_model::store::{
    Claimed, Completion, ExecutionQuery, Fire, FireBatch, Jobs, Keep, Path as _, Reads, Records, Retention,
    WaitingQuery, ZoneDatabase,
};
use campanile_model::{TenantId, Timestamp};
use campanile_store::sqlite::{Options, SqliteStore};
use campanile_testkit::generate as g;
use std::path::Path;
use std::time::{Duration, Instant};

type Failed = Box<dyn std::error::Error>;

const ROUND_MS: i64 = 60_000;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let executions: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let jobs = (executions / 1_000).clamp(10, 10_000);
    let directory = match std::env::args().nth(2) {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    };
    let options = Options::new(directory.path().join("campanile.db"));
    let store = SqliteStore::open(&options)?;
    let begun = Instant::now();
    let jobs = fill(&store, jobs, executions).await?;
    let bytes = store.status().await?.bytes;
    println!("filled with {executions} executions of {} jobs in {:?}: {} MB", jobs.len(), begun.elapsed(), bytes >> 20);
    let fingerprint = store.dead_groups(TenantId::DEFAULT, 1).await?[0].fingerprint;
    measure(&store, "right after", &jobs, executions, fingerprint, directory.path()).await?;
    drop(store);
    let store = SqliteStore::open(&options)?;
    measure(&store, "opened again", &jobs, executions, fingerprint, directory.path()).await?;
    upkeep(&store, executions, jobs.len()).await
}

/// Every job fires once a minute. Two in a hundred die, one is cancelled by its job's pause, the rest succeeds; of the last round
/// some run and some wait.
async fn fill(store: &SqliteStore, count: usize, executions: usize) -> Result<Vec<Job>, Failed> {
    let jobs: Vec<Job> = (0..count as u64)
        .map(|n| {
            let job = g::job_with(n + 1, |d| {
                d.pool = ["short", "long"][n as usize % 2].into();
                d.tags = vec![format!("team=t{}", n % 100)];
                d.window.starts_at = Some(g::at(i64::from(u32::MAX)));
            });
            Job { target: format!("handler-{}", n % 20).into(), ..job }
        })
        .collect();
    for jobs in jobs.chunks(WRITE_ITEMS_MAX) {
        store.put_jobs(jobs.iter().map(g::create).collect()).await?;
    }
    let fences = store.seize_shards(&shard::all().collect::<Vec<_>>(), "example").await?;
    let mut left = executions;
    for round in 0.. {
        let at = g::at(round * ROUND_MS);
        let mut fires: Vec<Fire> = jobs.iter().take(left).map(|job| g::fire(job, at)).collect();
        left -= fires.len();
        fires.sort_unstable_by_key(|fire| fire.dispatch.execution);
        for fires in fires.chunks(WRITE_ITEMS_MAX) {
            let fires = fires.to_vec();
            let ids: Vec<_> = fires.iter().map(|fire| fire.dispatch.execution).collect();
            let fences = fences.clone().into();
            store.fire(FireBatch { fences, fires, skips: Vec::new(), now: at, idempotency: None }).await?;
            if left == 0 {
                // The last round waits, but for some.
                store.claim(ids.iter().take(100).map(|id| g::claim(*id, 0, at)).collect()).await?;
                continue;
            }
            let (bad, good) = ids.split_at(ids.len() / 50);
            let claims = bad.iter().map(|id| g::claim(*id, 0, at)).collect();
            let mut ends = Vec::new();
            for (i, claimed) in store.claim(claims).await?.verdicts.into_iter().enumerate() {
                let Claimed::Granted(granted) = claimed else { return Err("a claim was refused".into()) };
                let kind = format!("http_5{:02}", i % 30);
                let error = Some(AttemptError { kind, message: "the target said no".into() });
                let end = g::complete(&granted, Event::FailFinal, AttemptOutcome::Failed, at);
                ends.push(Completion { error, ..end });
            }
            ends.extend(good.iter().map(|id| g::complete_unclaimed(g::claim(*id, 0, at))));
            ends.sort_unstable_by_key(Completion::execution);
            store.complete(ends).await?;
        }
        if left == 0 {
            break;
        }
    }
    Ok(jobs)
}

async fn measure(
    store: &SqliteStore,
    when: &str,
    jobs: &[Job],
    executions: usize,
    fingerprint: u64,
    directory: &Path,
) -> Result<(), Failed> {
    let rounds = (executions / jobs.len()) as i64;
    let all = ExecutionQuery {
        tenant: TenantId::DEFAULT,
        job: None,
        states: Vec::new(),
        from: None,
        to: None,
        filter: Filter::default(),
        before: None,
        limit: 50,
    };
    let filter = |text: &str| Filter::parse(text, g::START);
    // Places all over the time that is covered.
    let places: Vec<Timestamp> = (0..100).map(|i| g::at((i * 37 % 100 + 1) * rounds * ROUND_MS / 100)).collect();
    let of_jobs = |i: usize| jobs[i * 7_919 % jobs.len()].id;
    let mut reads: Vec<(&str, Vec<ExecutionQuery>)> = Vec::new();
    let each = |make: &dyn Fn(usize, Timestamp) -> ExecutionQuery| -> Vec<ExecutionQuery> {
        places.iter().enumerate().map(|(i, at)| make(i, *at)).collect()
    };
    reads.push(("a job, newest", each(&|i, _| ExecutionQuery { job: Some(of_jobs(i)), ..all.clone() })));
    reads.push(("a job, from an instant", {
        each(&|i, at| ExecutionQuery { job: Some(of_jobs(i + 100)), to: Some(at), ..all.clone() })
    }));
    let dead = filter("state:dead")?;
    reads.push(("a job, dead ones", {
        each(&|i, _| ExecutionQuery { job: Some(of_jobs(i + 200)), filter: dead.clone(), ..all.clone() })
    }));
    for state in [State::Dead, State::Succeeded, State::Running, State::Pending] {
        reads.push((state.as_str(), {
            each(&|_, at| ExecutionQuery { states: vec![state], to: (!is_open(state)).then_some(at), ..all.clone() })
        }));
    }
    let pool = filter("pool:long")?;
    reads.push(("a pool, in an hour", {
        each(&|_, at| ExecutionQuery {
            from: Some(at.saturating_add_ms(-3_600_000)),
            to: Some(at),
            filter: pool.clone(),
            ..all.clone()
        })
    }));
    let tag = filter("tag:team=t7")?;
    reads.push(("a tag, from an instant", {
        each(&|_, at| ExecutionQuery { to: Some(at), filter: tag.clone(), ..all.clone() })
    }));
    let group = filter(&format!("fp:{fingerprint:016x}"))?;
    reads.push(("dead of a fingerprint", {
        each(&|_, at| ExecutionQuery { to: Some(at), filter: group.clone(), ..all.clone() })
    }));
    let rare = filter("worker:nobody")?;
    reads.push(("nothing, as many rows as a page looks at", {
        each(&|_, at| ExecutionQuery { to: Some(at), filter: rare.clone(), ..all.clone() })
    }));
    let cold = drop_caches();
    println!("\n{when}; the file was {}dropped from memory; ms", if cold { "" } else { "NOT " });
    println!(
        "{:42} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "page of 50", "cold p50", "cold max", "warm p50", "warm max", "items"
    );
    for (name, queries) in reads {
        let mut items = 0;
        let mut took = [Vec::new(), Vec::new()];
        for took in &mut took {
            items = 0;
            for query in &queries {
                let begun = Instant::now();
                items += store.list_executions(query).await?.items.len();
                took.push(begun.elapsed());
            }
            took.sort_unstable();
        }
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let [(cold_mid, cold_max), (warm_mid, warm_max)] =
            took.map(|took| (ms(took[took.len() / 2]), ms(took[took.len() - 1])));
        let items = items / queries.len();
        println!("{name:42} {cold_mid:9.2} {cold_max:9.2} {warm_mid:9.2} {warm_max:9.2} {items:6}");
    }
    println!("{:42} {} MB", "file", std::fs::metadata(directory.join("campanile.db"))?.len() >> 20);
    Ok(())
}

fn is_open(state: State) -> bool {
    !state.is_final()
}

/// Has the machine forget what it read of files; only root may.
fn drop_caches() -> bool {
    let _ = std::process::Command::new("sync").status();
    std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// What upkeep costs, and how long a write waits meanwhile.
async fn upkeep(store: &SqliteStore, executions: usize, jobs: usize) -> Result<(), Failed> {
    println!();
    let begun = Instant::now();
    let drift = store.reconcile().await?;
    println!("reconcile: {:?}, drift {drift}", begun.elapsed());
    // A tenth goes.
    let rounds = (executions / jobs) as i64;
    let now = g::at(rounds * ROUND_MS);
    let states = [State::Succeeded, State::Dead].map(|state| Keep {
        state,
        age_ms: Some((rounds * ROUND_MS * 9 / 10) as u64),
        count: None,
    });
    let retention = Retention {
        states: states.to_vec(),
        rollups_ms: u64::MAX,
        deliveries_ms: u64::MAX,
        skips_ms: u64::MAX,
        versions_ms: u64::MAX,
    };
    let (begun, mut pruned, mut calls, mut longest) = (Instant::now(), 0, 0, Duration::ZERO);
    let mut waited = Duration::ZERO;
    loop {
        let call = Instant::now();
        let write = async {
            let begun = Instant::now();
            store.put_record(ZoneDatabase { version: "measured".into() }.into(), None).await.map(|_| begun.elapsed())
        };
        let (one, write) = tokio::join!(store.prune(&retention, now, 500), write);
        let one = one?;
        waited = waited.max(write?);
        longest = longest.max(call.elapsed());
        pruned += one.executions;
        calls += 1;
        if !one.more {
            break;
        }
    }
    println!(
        "prune: {pruned} executions in {:?}, {calls} calls, longest {longest:?}; longest wait of another write {waited:?}",
        begun.elapsed()
    );
    let query = WaitingQuery { shards: Vec::new(), before: now, fired_until: Timestamp::MAX, after: None, limit: 1 };
    assert_eq!(store.load_waiting(&query).await?.len(), 1, "what waits is there");
    assert_eq!(store.reconcile().await?, 0, "the counters know");
    Ok(())
}
