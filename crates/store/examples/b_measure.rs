//! Temporary: measures put_jobs and load_due.
use campanile_model::shard::ShardId;
use campanile_model::store::*;
use campanile_model::time::Timestamp;
use campanile_store::postgres::*;
use campanile_testkit::generate as g;
use std::sync::Arc;
use std::time::Instant;
#[tokio::main]
async fn main() {
    let options = Options {
        schema: campanile_testkit::postgres::schema(),
        connections: 8,
        ..Options::new(campanile_testkit::postgres::url(), "node:test")
    };
    let t = Instant::now();
    let store = Arc::new(PostgresStore::open(&options).await.unwrap());
    println!("open new {:?}", t.elapsed());
    let t = Instant::now();
    let other = PostgresStore::open(&options).await.unwrap();
    println!("open again {:?}", t.elapsed());
    drop(other);
    let job = |n: u64| {
        let mut j = g::job(n);
        j.cursor.next_fire_at = Some(g::at(((n * 7919) % 3_600_000) as i64));
        j
    };
    let t = Instant::now();
    for b in 0..200u64 {
        let v = store.put_jobs((b * 1000..(b + 1) * 1000).map(|n| g::create(job(n))).collect()).await.unwrap();
        assert!(v.iter().all(|v| *v == Put::Done));
        if b == 19 {
            println!("first 20k: {:.0} rows/s", 20_000.0 / t.elapsed().as_secs_f64());
        }
    }
    println!("insert 200k by 1000: {:.0} rows/s", 200_000.0 / t.elapsed().as_secs_f64());
    let t = Instant::now();
    for b in 0..50u64 {
        let v = store
            .put_jobs((b * 1000..(b + 1) * 1000).map(|n| g::change(&job(n), g::at(1), |j| j.timeout_ms = 7)).collect())
            .await
            .unwrap();
        assert!(v.iter().all(|v| *v == Put::Done));
    }
    println!("update 50k by 1000: {:.0} rows/s", 50_000.0 / t.elapsed().as_secs_f64());
    let t = Instant::now();
    let tasks: Vec<_> = (0..64u64)
        .map(|w| {
            let store = store.clone();
            tokio::spawn(async move {
                for i in 0..150u64 {
                    store.put_jobs(vec![g::create(g::job(10_000_000 + w * 1000 + i))]).await.unwrap();
                }
            })
        })
        .collect();
    for t in tasks {
        t.await.unwrap();
    }
    println!("64 concurrent single puts: {:.0} rows/s", 9_600.0 / t.elapsed().as_secs_f64());
    let t = Instant::now();
    for i in 0..200u64 {
        store.put_jobs(vec![g::create(g::job(20_000_000 + i))]).await.unwrap();
    }
    println!("1 caller single puts: {:.0} rows/s", 200.0 / t.elapsed().as_secs_f64());
    for shards in [vec![], (0..85).map(ShardId).collect::<Vec<_>>(), (0..8).map(ShardId).collect::<Vec<_>>()] {
        for limit in [1_000usize, 10_000] {
            let t = Instant::now();
            let mut after: Option<(Timestamp, campanile_model::JobId)> = None;
            let (mut n, mut pages) = (0, 0);
            let mut max = std::time::Duration::ZERO;
            loop {
                let p = Instant::now();
                let page = store
                    .load_due(&DueQuery { shards: shards.clone(), before: g::at(4_000_000), after, limit })
                    .await
                    .unwrap();
                max = max.max(p.elapsed());
                n += page.len();
                pages += 1;
                if page.len() < limit {
                    break;
                }
                let last = page.last().unwrap();
                after = Some((last.cursor.next_fire_at.unwrap(), last.id));
            }
            println!(
                "load_due {} shards, pages of {limit}: {n} jobs, {pages} pages, {:.0} rows/s, worst page {max:?}",
                shards.len(),
                n as f64 / t.elapsed().as_secs_f64()
            );
        }
    }
    for prefix in [None, Some("job-0000001".to_owned())] {
        let t = Instant::now();
        let (mut after, mut n, mut worst) = (None, 0, std::time::Duration::ZERO);
        loop {
            let p = Instant::now();
            let page = store
                .list_jobs(&JobQuery { after, limit: 200, name_prefix: prefix.clone(), ..JobQuery::default() })
                .await
                .unwrap();
            worst = worst.max(p.elapsed());
            n += page.items.len();
            if !page.has_more || n >= 20_000 {
                break;
            }
            after = page.items.last().map(|j| j.name.clone());
        }
        println!(
            "list_jobs by 200, prefix {prefix:?}: {n} jobs, {:.0} rows/s, worst page {worst:?}",
            n as f64 / t.elapsed().as_secs_f64()
        );
    }
    let fences: Arc<[_]> =
        store.open_shards(&campanile_model::shard::all().collect::<Vec<_>>(), "x").await.unwrap().into();
    let t = Instant::now();
    for b in 0..50u64 {
        let c = (b * 1000 + 50_000..(b + 1) * 1000 + 50_000)
            .map(|n| {
                let j = job(n);
                let mut c = j.cursor;
                c.next_fire_at = Some(g::at(5_000_000));
                CursorMove { job: j.id, version: 1, cursor: c }
            })
            .collect();
        store.advance(fences.clone(), c).await.unwrap();
    }
    println!("advance 50k by 1000: {:.0} rows/s", 50_000.0 / t.elapsed().as_secs_f64());
    let t = Instant::now();
    for _ in 0..500 {
        store.pulse(g::at(0)).await.unwrap();
    }
    println!("pulse: {:?} each", t.elapsed() / 500);
    if std::env::args().nth(1).is_none() {
        let pool = campanile_pg::Pool::new(&options).unwrap();
        pool.execute(&format!("DROP SCHEMA {} CASCADE", options.schema), &[]).await.unwrap();
    } else {
        println!("{}", options.schema);
    }
}
