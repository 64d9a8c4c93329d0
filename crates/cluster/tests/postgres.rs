//! Several nodes on one database: how they share shards, and what becomes of them when one dies, stops, or is cut off.

mod common;

use campanile_cluster::postgres::Mode;
use campanile_model::coordinator::{Coordinator, Introduction, Roles};
use campanile_model::settings::SharedSettings;
use common::{Database, Node, Owners, connect, options, until};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

const ALL: usize = 256;

/// Nodes that share all shards within one of even.
async fn shared_evenly(nodes: &[&Node], within_ms: u64) -> Duration {
    let (least, most) = (ALL / nodes.len(), ALL.div_ceil(nodes.len()));
    let what = format!("{} nodes share the shards", nodes.len());
    let owners = || nodes.iter().map(|node| node.count());
    until(&what, within_ms, || owners().sum::<usize>() == ALL && owners().all(|n| (least..=most).contains(&n))).await
}

#[tokio::test]
async fn three_nodes_share_the_shards_evenly_and_know_each_other() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    shared_evenly(&[&a], 500).await;
    let (b, c) = (Node::start(&database, "b", &owners).await, Node::start(&database, "c", &owners).await);
    shared_evenly(&[&a, &b, &c], 2_000).await;
    owners.assert_never_doubled();
    let names = [a.name.clone(), b.name.clone(), c.name.clone()];
    for node in [&a, &b, &c] {
        until("all know all", 1_000, || *node.live.lock() == names).await;
    }
    b.coordinator.report(1_234);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let members = a.coordinator.members().await.unwrap();
    assert_eq!(members.iter().map(|member| member.node.clone()).collect::<Vec<_>>(), names);
    assert_eq!(members.iter().map(|member| member.shards).sum::<usize>(), ALL);
    assert!(members.iter().all(|member| member.silent_ms < 1_300 && member.clock_offset_ms == 0), "{members:?}");
    assert_eq!(members[1].lag_ms, 1_234);
}

#[tokio::test]
async fn no_shard_has_two_owners_while_nodes_come_and_go() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    let (c, d, e) = tokio::join!(
        Node::start(&database, "c", &owners),
        Node::start(&database, "d", &owners),
        Node::start(&database, "e", &owners)
    );
    shared_evenly(&[&a, &b, &c, &d, &e], 2_000).await;
    tokio::join!(a.leave(), c.leave());
    shared_evenly(&[&b, &d, &e], 2_000).await;
    d.stop_firing();
    d.coordinator.resign().await.unwrap();
    let f = Node::start(&database, "f", &owners).await;
    shared_evenly(&[&b, &e, &f], 2_000).await;
    let _ = tokio::join!(b.leave(), e.leave(), d.leave());
    shared_evenly(&[&f], 2_000).await;
    owners.assert_never_doubled();
    assert_eq!(f.coordinator.members().await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_resigns_hands_over_at_once_and_stays() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    a.stop_firing();
    a.coordinator.resign().await.unwrap();
    let took = until("the shards of one that resigned have an owner", 1_000, || b.count() == ALL).await;
    assert!(took < Duration::from_millis(1_000));
    assert_eq!(*b.live.lock(), [a.name.clone(), b.name.clone()], "what it runs is not lost");
    assert!(!a.member(&b).await.unwrap().roles.scheduler);
    assert_eq!(a.coordinator.assignment().await.unwrap().unwrap().shards, []);
    owners.assert_never_doubled();
}

#[tokio::test]
async fn who_leaves_is_gone_at_once() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    a.leave().await;
    until("the shards of one that left have an owner", 1_000, || b.count() == ALL).await;
    until("it is not alive", 500, || b.live.lock().len() == 1).await;
    assert_eq!(database.sessions("a").await, 0);
    owners.assert_never_doubled();
}

#[tokio::test]
async fn a_killed_node_is_replaced_within_two_beats() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    a.kill();
    until("the shards of a killed node have an owner", 2_500, || b.count() == ALL).await;
    assert_eq!(b.live.lock()[..], *std::slice::from_ref(&b.name));
}

/// All of it in one process that is killed with everything: the successor does not wait for a lease.
#[tokio::test]
async fn a_successor_of_a_killed_node_takes_over_soon() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    a.kill();
    let b = Node::start(&database, "b", &owners).await;
    until("the successor owns everything", 2_000, || b.count() == ALL).await;
}

/// A process that can be stopped: a thread with a runtime that stands still when it is told to, a node, and a
/// connection of its pool that is in a transaction.
struct Process {
    stop: std::sync::mpsc::Sender<Duration>,
    thread: std::thread::JoinHandle<()>,
}

impl Process {
    async fn start(database: &Arc<Database>, owners: &Owners, mode: Mode) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel::<Duration>();
        let (tell, started) = tokio::sync::oneshot::channel();
        let (database, owners) = (database.clone(), owners.clone());
        let run = async move {
            let a = Node::start_as(&database, "a", &owners, mode, Roles::ALL).await;
            let pooled = connect(&options(&database.schema, &a.name)).await;
            pooled.batch_execute("BEGIN; LOCK TABLE members IN ROW EXCLUSIVE MODE").await.unwrap();
            tell.send(()).unwrap();
            loop {
                match stopped.try_recv() {
                    // Nothing on this runtime moves meanwhile.
                    Ok(for_how_long) => std::thread::sleep(for_how_long),
                    Err(TryRecvError::Empty) => tokio::time::sleep(Duration::from_millis(5)).await,
                    Err(TryRecvError::Disconnected) => return a.leave().await,
                }
            }
        };
        let thread = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
        });
        started.await.unwrap();
        Self { stop, thread }
    }

    fn end(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_node_is_dead_after_its_lease_and_comes_back() {
    let (database, owners) = (Arc::new(Database::new().await), Owners::default());
    let process = Process::start(&database, &owners, Mode::Shards).await;
    let b = Node::start(&database, "b", &owners).await;
    let half = || owners.count(&database.name("a")) == ALL / 2 && b.count() == ALL / 2;
    until("both own", 2_000, half).await;
    owners.assert_never_doubled();
    assert_eq!(database.sessions("a").await, 2);
    process.stop.send(Duration::from_millis(6_000)).unwrap();
    let took = until("the shards of a stopped node have an owner", 5_500, || b.count() == ALL).await;
    assert!(took > Duration::from_millis(1_900), "it was not given its lease: {took:?}");
    assert_eq!(b.live.lock()[..], *std::slice::from_ref(&b.name));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(database.sessions("a").await, 0, "it holds nobody up");
    until("it is back", 6_000, half).await;
    process.end();
    until("it has left", 1_000, || b.count() == ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_is_replaced() {
    let (database, owners) = (Arc::new(Database::new().await), Owners::default());
    let process = Process::start(&database, &owners, Mode::Leader).await;
    let b = Node::start_as(&database, "b", &owners, Mode::Leader, Roles::ALL).await;
    let a = database.name("a");
    until("the first leads", 1_000, || owners.count(&a) == ALL).await;
    process.stop.send(Duration::from_millis(5_000)).unwrap();
    until("another leads", 4_500, || b.count() == ALL).await;
    until("the first is back", 4_000, || b.live.lock().len() == 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((owners.count(&a), b.count()), (0, ALL), "and stands by");
    process.end();
}

#[tokio::test]
async fn whose_connection_is_cut_loses_its_shards_and_gets_them_back() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    let since = a.member(&b).await.unwrap().started_at;
    database.cut("a").await;
    until("the loss is told", 500, || a.count() == 0).await;
    shared_evenly(&[&a, &b], 2_000).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(a.member(&b).await.unwrap().started_at, since, "it was not taken for dead");
    assert_eq!(b.live.lock().len(), 2);
    assert_eq!((a.count(), b.count()), (ALL / 2, ALL / 2));
    let locks = i64::try_from(ALL / 2).unwrap() + 1;
    assert_eq!(database.locks("a").await, locks, "what it owns, and its own: held again, and not only believed to be");
}

#[tokio::test]
async fn after_an_outage_of_the_server_nobody_is_taken_for_dead() {
    let (database, owners) = (Database::new().await, Owners::default());
    let nodes = [Node::start(&database, "a", &owners).await, Node::start(&database, "b", &owners).await];
    shared_evenly(&[&nodes[0], &nodes[1]], 2_000).await;
    let since = nodes[0].member(&nodes[1]).await.unwrap().started_at;
    // Nobody is answered for longer than a lease, then all are cut off.
    database.client.batch_execute("BEGIN; LOCK TABLE members IN ACCESS EXCLUSIVE MODE").await.unwrap();
    until("nobody owns anything", 3_500, || owners.total() == 0).await;
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    assert_eq!(nodes[0].live.lock().len(), 2, "who is cut off declares nobody dead");
    database.client.batch_execute("COMMIT").await.unwrap();
    shared_evenly(&[&nodes[0], &nodes[1]], 3_000).await;
    assert_eq!(nodes[0].member(&nodes[1]).await.unwrap().started_at, since);
}

/// The server stands still for less than a lease: the locks are held all the time.
#[tokio::test]
async fn who_gets_no_answer_stops_before_its_lease_is_over() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    shared_evenly(&[&a], 500).await;
    database.client.batch_execute("BEGIN; LOCK TABLE members IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let took = until("who gets no answer owns nothing", 2_500, || a.count() == 0).await;
    assert!(took > Duration::from_millis(900), "{took:?}");
    assert_eq!(database.sessions("a").await, 1);
    database.client.batch_execute("COMMIT").await.unwrap();
    shared_evenly(&[&a], 500).await;
}

#[tokio::test]
async fn a_clock_that_is_off_owns_nothing_until_it_is_right() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    assert_eq!(a.offset.get(), 0);
    a.clock.ahead_ms.store(600, Ordering::Relaxed);
    until("one with a wrong clock owns nothing", 2_500, || a.count() == 0 && b.count() == ALL).await;
    assert!((-650..=-550).contains(&a.offset.get()), "{}", a.offset.get());
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let member = a.member(&b).await.unwrap();
    assert!((550..=650).contains(&member.clock_offset_ms) && member.shards == 0, "{member:?}");
    a.clock.ahead_ms.store(450, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(a.count(), 0, "not near enough yet");
    a.clock.ahead_ms.store(-300, Ordering::Relaxed);
    shared_evenly(&[&a, &b], 2_500).await;
    assert!((250..=350).contains(&a.offset.get()), "{}", a.offset.get());
    owners.assert_never_doubled();
}

#[tokio::test]
async fn one_leader_owns_everything_as_long_as_it_lives() {
    let (database, owners) = (Database::new().await, Owners::default());
    let start = async |node| Node::start_as(&database, node, &owners, Mode::Leader, Roles::ALL).await;
    let (z, a, b) = (start("z").await, start("a").await, start("b").await);
    until("the first leads", 500, || z.count() == ALL).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!((z.count(), a.count(), b.count()), (ALL, 0, 0), "nothing moves because others come");
    z.stop_firing();
    z.coordinator.resign().await.unwrap();
    until("another leads", 1_000, || a.count() + b.count() == ALL).await;
    owners.assert_never_doubled();
    let (leader, other) = if a.count() == ALL { (a, b) } else { (b, a) };
    assert_eq!((leader.count(), other.count()), (ALL, 0));
    leader.kill();
    until("the last leads", 2_500, || other.count() == ALL).await;
    drop(z);
}

#[tokio::test]
async fn one_that_only_works_gets_nothing() {
    let (database, owners) = (Database::new().await, Owners::default());
    let only_works = Roles { api: false, scheduler: false, worker: true };
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start_as(&database, "b", &owners, Mode::Shards, only_works).await;
    until("all know all", 1_000, || a.live.lock().len() == 2 && b.live.lock().len() == 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((a.count(), b.count()), (ALL, 0));
    assert_eq!(b.member(&a).await.unwrap().roles, only_works);
}

#[tokio::test]
async fn installations_in_one_database_do_not_see_each_other() {
    let (one, other) = (Database::new().await, Database::new().await);
    let (owners_of_one, owners_of_other) = (Owners::default(), Owners::default());
    let a = Node::start(&one, "a", &owners_of_one).await;
    let b = Node::start(&other, "b", &owners_of_other).await;
    until("each owns everything", 1_000, || a.count() == ALL && b.count() == ALL).await;
    assert_eq!(a.coordinator.members().await.unwrap().len(), 1);
}

#[tokio::test]
async fn without_a_database_there_is_no_joining() {
    let database = Database::new().await;
    let pg = campanile_pg::Options { schema: "campanile_test_none".into(), ..options(&database.schema, "node:a") };
    let (mode, clock) = (Mode::Shards, common::TestClock::new());
    let options = campanile_cluster::postgres::PgOptions { pg, mode, clock, offset: Default::default() };
    let coordinator = campanile_cluster::PgCoordinator::new(options).unwrap();
    let (version, address) = ("0.0.0".into(), "127.0.0.1:1".into());
    let me = Introduction {
        node: "node:a".into(),
        roles: Roles::ALL,
        version,
        address,
        settings: SharedSettings::default(),
    };
    assert!(coordinator.join(me.clone()).await.is_err());
    assert!(coordinator.assignment().await.is_err());
    assert!(coordinator.join(me).await.is_err(), "it may try again");
    coordinator.leave().await.unwrap();
}

/// The URL with another user.
fn as_role(url: &str, role: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, place) = rest.split_once('@').expect("a URL with a user");
    format!("{scheme}://{role}@{place}")
}

/// Sessions of somebody else's role cannot be ended; its row is deleted all the same.
#[tokio::test]
async fn without_permission_a_dead_node_is_dead_too() {
    let (database, owners) = (Database::new().await, Owners::default());
    let role = database.schema.clone();
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {role} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {role} TO {role}"
    );
    database.client.batch_execute(&grants).await.unwrap();
    let a = Node::start(&database, "a", &owners).await;
    let pooled = connect(&options(&database.schema, &a.name)).await;
    let pg = options(&database.schema, &database.name("b"));
    let pg = campanile_pg::Options { url: as_role(&pg.url, &role), ..pg };
    let b = Node::start_on(pg, &owners, Mode::Shards, Roles::ALL).await;
    shared_evenly(&[&a, &b], 2_000).await;
    a.kill();
    until("the shards of a killed node have an owner", 2_500, || b.count() == ALL).await;
    assert_eq!(b.coordinator.members().await.unwrap().len(), 1);
    assert!(!pooled.is_closed());
    b.leave().await;
    database.client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// A node that has nothing to do costs the server little.
#[tokio::test]
async fn idle_nodes_ask_little() {
    let (database, owners) = (Database::new().await, Owners::default());
    let a = Node::start(&database, "a", &owners).await;
    let b = Node::start(&database, "b", &owners).await;
    shared_evenly(&[&a, &b], 2_000).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let name = campanile_pg::target::application_name(&database.name("a"));
    let mut asked: Vec<(String, f64)> = Vec::new();
    let over = tokio::time::sleep(Duration::from_secs(5));
    tokio::pin!(over);
    while !over.is_elapsed() {
        let sql =
            "SELECT query, extract(epoch FROM query_start)::float8 FROM pg_stat_activity WHERE application_name = $1";
        let row = database.client.query_one(sql, &[&name]).await.unwrap();
        let (query, at): (String, f64) = (row.get(0), row.get(1));
        // Binding and executing count as two starts of one statement.
        if !asked.last().is_some_and(|(last, since)| *last == query && at - since < 0.1) {
            asked.push((query, at));
        }
        tokio::select! {
            () = &mut over => {}
            () = tokio::time::sleep(Duration::from_millis(3)) => {}
        }
    }
    // The first was asked before.
    println!("statements in 5 s: {}", asked.len() - 1);
    assert!(asked.len() - 1 <= 6, "{asked:?}");
}
