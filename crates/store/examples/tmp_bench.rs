//! Temporary.
use campanile_model::execution::AttemptOutcome;
use campanile_model::job::Job;
use campanile_model::lifecycle::Event;
use campanile_model::store::*;
use campanile_model::{JobId, Timestamp, shard};
use campanile_store::sqlite::{Options, SqliteStore};
use campanile_testkit::generate as g;
use std::sync::Arc;
use std::time::Instant;

fn writer_ns() -> u64 {
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        if std::fs::read_to_string(path.join("comm")).unwrap().trim() == "store-writer" {
            let stat = std::fs::read_to_string(path.join("schedstat")).unwrap();
            return stat.split(' ').next().unwrap().parse().unwrap();
        }
    }
    0
}

async fn each<T: Clone + Send + 'static, F>(items: &[T], batch: usize, work: impl Fn(Vec<T>) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = writer_ns();
    let _ = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for chunk in items.chunks(batch) {
        while set.len() >= 4 {
            set.join_next().await.unwrap().unwrap();
        }
        set.spawn(work(chunk.to_vec()));
    }
    set.join_all().await;
    (writer_ns() - start) as f64 / items.len() as f64
}

#[tokio::main]
async fn main() {
    let stop: u32 = std::env::var("STOP").map_or(9, |n| n.parse().unwrap());
    let jobs: usize = std::env::args().nth(1).map_or(200_000, |n| n.parse().unwrap());
    let batch = 2000;
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&Options::new(dir.path().join("c.db"))).unwrap());
    let at = g::at(60_000);
    let all: Vec<Job> =
        (0..jobs).map(|n| Job { id: JobId::new(g::START, (n >> 20) as u16, n as u64), ..g::job(n as u64) }).collect();
    let put = each(&all, batch, |chunk| {
        let store = store.clone();
        async move {
            let v = store.put_jobs(chunk.into_iter().map(g::create).collect()).await.unwrap();
            assert!(v.iter().all(|v| *v == Put::Done));
        }
    })
    .await;
    if stop == 0 {
        return;
    }
    let shards: Vec<_> = shard::all().collect();
    let fences: Arc<[_]> = store.open_shards(&shards, "bench").await.unwrap().into();
    let mut fires: Vec<Fire> = all.iter().map(|job| g::fire(job, at)).collect();
    fires.sort_by_key(|f| f.dispatch.execution);
    let fire = each(&fires, batch, |fires| {
        let (store, fences) = (store.clone(), fences.clone());
        async move {
            let FireVerdict::Fired(v) =
                store.fire(FireBatch { fences, fires, skips: vec![], now: at, idempotency: None }).await.unwrap()
            else {
                panic!()
            };
            assert!(v.iter().all(|v| *v == Fired::New));
        }
    })
    .await;
    if stop == 1 {
        return;
    }
    let (claimed, unclaimed) = fires.split_at(jobs / 2);
    let granted = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let worker: Arc<str> = "bench".into();
    let mk = |f: &Fire, now: Timestamp| Claim { worker: worker.clone(), ..g::claim(f.dispatch.execution, 0, now) };
    if stop == 8 {
        let direct: Vec<Completion> = unclaimed.iter().map(|f| g::complete_unclaimed(mk(f, at))).collect();
        each(&direct, batch, |c| {
            let store = store.clone();
            async move {
                store.complete(c).await.unwrap();
            }
        })
        .await;
        return;
    }
    let claims: Vec<Claim> = claimed.iter().map(|f| mk(f, at)).collect();
    let claim = each(&claims, batch, |claims| {
        let (store, granted) = (store.clone(), granted.clone());
        async move {
            for v in store.claim(claims).await.unwrap() {
                let Claimed::Granted(x) = v else { panic!() };
                granted.lock().push(x.fence);
            }
        }
    })
    .await;
    if stop == 2 {
        return;
    }
    let mut f = std::mem::take(&mut *granted.lock());
    f.sort_by_key(|f| f.execution);
    let done: Vec<Completion> =
        f.into_iter().map(|f| g::complete_fence(f, Event::Succeed, AttemptOutcome::Succeeded, at)).collect();
    let complete = each(&done, batch, |c| {
        let store = store.clone();
        async move {
            store.complete(c).await.unwrap();
        }
    })
    .await;
    if stop == 3 {
        return;
    }
    let direct: Vec<Completion> = unclaimed.iter().map(|f| g::complete_unclaimed(mk(f, at))).collect();
    let both = each(&direct, batch, |c| {
        let store = store.clone();
        async move {
            store.complete(c).await.unwrap();
        }
    })
    .await;
    println!(
        "writer ns/row: put {put:.0} fire {fire:.0} claim {claim:.0} complete {complete:.0} unclaimed {both:.0} | life {:.0} drain {:.0}",
        fire + claim + complete,
        fire + both
    );
}
