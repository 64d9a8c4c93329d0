//! A connection that is lost while it commits: before the server heard of it, or after, and before we heard its answer.
//! Either way the store answers what is true, and nothing happens twice.
//!
//! Between the store and the server stands a proxy that knows a `COMMIT` when it sees one. Where the server crashes too, what
//! was not written yet is as if it had never been, and so is its number.

mod schema;

use campanile_model::execution::AttemptOutcome;
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{Applied, Completion, FireVerdict, Fired, Verdicts};
use campanile_model::{Kind, TenantId};
use campanile_pg::Target;
use campanile_pg::tokio_postgres::Config;
use campanile_pg::tokio_postgres::config::Host;
use campanile_store::postgres::{Options, PostgresStore};
use campanile_testkit::clock::ManualClock;
use campanile_testkit::conformance::store::{DUE, Fixture, batch, lives};
use campanile_testkit::generate as g;
use campanile_testkit::postgres::private::PrivatePostgres;
use campanile_testkit::postgres::schema as new_schema;
use parking_lot::Mutex;
use schema::Schema;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// When a connection is cut.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Cut {
    /// The server never hears of the commit.
    Before,
    /// The server commits, and we never hear of it.
    After,
    /// The server never hears of the commit, nor that we are gone: it would write down that the transaction was aborted.
    Crash,
}

/// What the next commit that comes by meets.
#[derive(Clone, Default)]
struct Armed {
    cut: Arc<Mutex<Option<Cut>>>,
    /// Whether nobody gets through to the server any more.
    closed: Arc<AtomicBool>,
}

/// Passes everything on, until it is armed.
async fn proxy(server: (String, u16), armed: Armed) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port for the proxy");
    let port = listener.local_addr().expect("its address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            if armed.closed.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(server) = TcpStream::connect((server.0.as_str(), server.1)).await else { continue };
            tokio::spawn(pass(client, server, armed.clone()));
        }
    });
    port
}

/// Passes messages between two until one of them is gone, or a commit is to be lost.
async fn pass(client: TcpStream, server: TcpStream, armed: Armed) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let cut = {
        let answers = tokio::io::copy(&mut from_server, &mut to_client);
        let questions = pass_until_cut(&mut from_client, &mut to_server, &armed);
        tokio::select! {
            cut = questions => cut,
            _ = answers => None,
        }
    };
    drop((from_client, to_client));
    if matches!(cut, Some(Cut::After | Cut::Crash)) {
        // Its answer means that it has happened, its end that it has crashed. It goes nowhere.
        let _ = from_server.read(&mut [0; 1_024]).await;
    }
}

/// Passes messages on; ends with why, when a commit is to be lost.
async fn pass_until_cut(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, armed: &Armed) -> Option<Cut> {
    let startup = message(from, &[]).await?;
    to.write_all(&startup).await.ok()?;
    loop {
        let kind = from.read_u8().await.ok()?;
        let message = message(from, &[kind]).await?;
        let cut = if message[0] == b'Q' && &message[5..] == b"COMMIT\0" { armed.cut.lock().take() } else { None };
        if !matches!(cut, Some(Cut::Before | Cut::Crash)) {
            to.write_all(&message).await.ok()?;
        }
        if cut.is_some() {
            return cut;
        }
    }
}

/// A message whose first bytes were read: its length, which counts itself, and the rest.
async fn message(from: &mut OwnedReadHalf, first: &[u8]) -> Option<Vec<u8>> {
    let length = from.read_u32().await.ok()?;
    let mut message = [first, &length.to_be_bytes()].concat();
    let start = message.len();
    message.resize(start + length as usize - 4, 0);
    from.read_exact(&mut message[start..]).await.ok()?;
    Some(message)
}

/// A store behind a proxy.
struct Behind {
    store: Fixture,
    armed: Armed,
}

impl Behind {
    async fn open() -> Self {
        let schema = Schema::new();
        Self::with(schema.options(), schema).await
    }

    /// With these options; `guard` lives as long.
    async fn with(options: Options, guard: impl Send + Sync + 'static) -> Self {
        let config: Config = options.url.parse().expect("the address of the test database");
        let Some(Host::Tcp(host)) = config.get_hosts().first() else { panic!("this test needs a server with a port") };
        let server = (host.clone(), config.get_ports().first().copied().unwrap_or(5432));
        let armed = Armed::default();
        let port = proxy(server, armed.clone()).await;
        let mut url = format!("host=127.0.0.1 port={port} sslmode=disable");
        let password = config.get_password().map(String::from_utf8_lossy);
        let parts = [("user", config.get_user()), ("dbname", config.get_dbname()), ("password", password.as_deref())];
        for (name, value) in parts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            url = format!("{url} {name}='{value}'");
        }
        let (clock, options) = (ManualClock::new(g::START), Options { url, ..options });
        let store = PostgresStore::open_with_clock(&options, Some(Arc::new(clock.clone()))).await;
        Self { store: Fixture::new(Arc::new(store.expect("a new store opens")), clock, guard), armed }
    }

    /// Does something whose commit is lost.
    async fn lose<T>(&self, cut: Cut, what: impl Future<Output = T>) -> T {
        *self.armed.cut.lock() = Some(cut);
        let answer = what.await;
        assert_eq!(*self.armed.cut.lock(), None, "the commit was lost");
        answer
    }
}

#[tokio::test]
async fn a_fire_happens_once() {
    let behind = Behind::open().await;
    let store = &behind.store;
    let job = store.job(1).await;
    let fences = store.open_all().await;
    for (n, cut) in [Cut::Before, Cut::After, Cut::Before].into_iter().enumerate() {
        let fires = vec![g::fire(&job, DUE.saturating_add_ms(n as i64))];
        let fired = behind.lose(cut, store.fire(batch(fences.clone(), fires.clone()))).await.unwrap();
        assert_eq!(fired, FireVerdict::Fired(Verdicts::of(vec![Fired::New])), "{cut:?}");
        let listed = store.list_executions(&lives::all(100)).await.unwrap().items;
        assert_eq!(listed.len(), n + 1, "{cut:?}");
        assert_eq!(
            lives::counts(store).await,
            [(job.definition.pool.to_string(), State::Pending, n as u64 + 1)],
            "{cut:?}"
        );
        let again = store.fire(batch(fences.clone(), fires)).await.unwrap();
        assert_eq!(again, FireVerdict::Fired(Verdicts::of(vec![Fired::Exists])));
    }
}

#[tokio::test]
async fn a_claim_happens_once() {
    let behind = Behind::open().await;
    let store = &behind.store;
    let job = store.job(1).await;
    for (n, cut) in [Cut::Before, Cut::After].into_iter().enumerate() {
        let fire = g::fire(&job, DUE.saturating_add_ms(n as i64));
        let id = fire.dispatch.execution;
        store.fired(vec![fire]).await;
        let now = DUE.saturating_add_ms(100);
        let granted = behind.lose(cut, store.granted(id, 0, now)).await;
        let row = store.execution(id).await;
        assert_eq!((row.state, row.attempt, row.deliveries), (State::Running, 1, 1), "{cut:?}");
        assert_eq!(row.fence, granted.fence.fence, "{cut:?}: the answer is the row's");
        assert_eq!(store.list_attempts(TenantId::DEFAULT, id).await.unwrap().len(), 1, "{cut:?}");
        let running = (job.definition.pool.to_string(), State::Running, n as u64 + 1);
        assert_eq!(lives::counts(store).await, [running], "{cut:?}");
    }
}

#[tokio::test]
async fn a_completion_happens_once() {
    let behind = Behind::open().await;
    let store = &behind.store;
    let job = store.job(1).await;
    for (n, cut) in [Cut::Before, Cut::After].into_iter().enumerate() {
        let fire = g::fire(&job, DUE.saturating_add_ms(n as i64));
        let id = fire.dispatch.execution;
        store.fired(vec![fire]).await;
        let now = DUE.saturating_add_ms(100);
        let first = store.granted(id, 0, now).await;
        let lost = g::complete(&first, Event::FailRetryable, AttemptOutcome::WorkerLost, now);
        let applied = behind.lose(cut, store.completed(Completion { wake_at: now, ..lost })).await;
        assert_eq!(applied, Applied::Done, "{cut:?}");
        let row = store.execution(id).await;
        assert_eq!((row.state, row.attempt, row.losses), (State::Retrying, 1, 1), "{cut:?}");
        let second = store.granted(id, 1, now).await;
        assert!(second.fence.fence > first.fence.fence);
        let done = g::complete(&second, Event::Succeed, AttemptOutcome::Succeeded, now);
        assert_eq!(behind.lose(cut, store.completed(done)).await, Applied::Done, "{cut:?}");
        let fences: Vec<u64> =
            store.list_attempts(TenantId::DEFAULT, id).await.unwrap().iter().map(|attempt| attempt.fence).collect();
        assert_eq!(fences, [first.fence.fence, second.fence.fence], "{cut:?}");
        let succeeded = (job.definition.pool.to_string(), State::Succeeded, n as u64 + 1);
        assert_eq!(lives::counts(store).await, [succeeded], "{cut:?}");
    }
    assert_eq!(store.reconcile().await.unwrap(), 0, "nothing was counted twice");
}

/// The server crashes before it has written the commit, and gives the number to others, who commit: theirs is not ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_given_again_proves_nothing() {
    let mut postgres = PrivatePostgres::start();
    let direct = Target::new(&Options::new(postgres.url(), "node:other")).unwrap();
    // Nothing is written but by commits.
    let (client, connection) = direct.connect().await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("ALTER SYSTEM SET wal_writer_delay = '10s'").await.unwrap();
    client.batch_execute("CREATE TABLE public.others (number bigint)").await.unwrap();
    postgres.restart_immediate(Duration::ZERO);

    let options = Options { schema: new_schema(), connections: 2, ..Options::new(postgres.url(), "node:test") };
    let behind = Arc::new(Behind::with(options, ()).await);
    let job = behind.store.job(1).await;
    let fences = behind.store.open_all().await;
    let fires = vec![g::fire(&job, DUE)];
    *behind.armed.cut.lock() = Some(Cut::Crash);
    let firing = tokio::spawn({
        let (behind, fires, fences) = (behind.clone(), fires.clone(), fences.clone());
        async move { behind.store.fire(batch(fences, fires)).await }
    });
    while behind.armed.cut.lock().is_some() {
        tokio::task::yield_now().await;
    }
    behind.armed.closed.store(true, Ordering::SeqCst);
    postgres.restart_immediate(Duration::ZERO);
    let (client, connection) = direct.connect().await.unwrap();
    tokio::spawn(connection);
    for number in 0..200i64 {
        client.execute("INSERT INTO public.others VALUES ($1)", &[&number]).await.unwrap();
    }
    behind.armed.closed.store(false, Ordering::SeqCst);

    let outcome = firing.await.unwrap();
    let written = behind.store.list_executions(&lives::all(100)).await.unwrap().items.len();
    match outcome {
        Err(error) => assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}"),
        Ok(verdict) => panic!("{verdict:?} with {written} rows: the case was not reached, or a lie"),
    }
    assert_eq!(written, 0);
    assert_eq!(
        behind.store.fire(batch(fences, fires)).await.unwrap(),
        FireVerdict::Fired(Verdicts::of(vec![Fired::New])),
        "asked again, it happens"
    );
}
