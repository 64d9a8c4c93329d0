//! A schema of its own with the queue's table, for each test; and a wire to the database that can be cut.

#![allow(dead_code, reason = "each test uses its part")]

use campanile_pg::tokio_postgres::config::{Config, Host};
use campanile_pg::{Options, Pool};
use campanile_testkit::postgres;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The store's first migration, of which the queue's table is a part.
const MIGRATION: &str = include_str!("../../../store/src/postgres/migrations/0001_start.sql");

/// A fresh schema with the queue's table, and how a node of this name reaches it.
pub async fn schema(node: &str) -> Options {
    let options = Options { schema: postgres::schema(), ..Options::new(postgres::url(), node) };
    let table = &MIGRATION[MIGRATION.find("CREATE UNLOGGED TABLE ready").expect("the queue's table")..];
    let client = Pool::new(&options).unwrap().get().await.unwrap();
    client.batch_execute(&format!("CREATE SCHEMA {}; {table}", options.schema)).await.unwrap();
    options
}

/// A wire to the database. While it is cut, whatever is connected is not, and nobody connects.
pub struct Wire {
    /// The same database, through the wire.
    pub options: Options,
    is_cut: Arc<watch::Sender<bool>>,
    asked: Arc<AtomicUsize>,
}

impl Wire {
    pub async fn to(options: &Options) -> Self {
        let database: Config = options.url.parse().unwrap();
        let Some(Host::Tcp(host)) = database.get_hosts().first().cloned() else { panic!("a database over TCP") };
        let port = database.get_ports().first().copied().unwrap_or(5432);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let is_cut = Arc::new(watch::channel(false).0);
        let asked = Arc::new(AtomicUsize::new(0));
        let (cut, count) = (Arc::clone(&is_cut), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (host, mut cut, count) = (host.clone(), cut.subscribe(), Arc::clone(&count));
                tokio::spawn(async move {
                    if *cut.borrow() {
                        return;
                    }
                    let far = TcpStream::connect((host.as_str(), port)).await.unwrap();
                    near.set_nodelay(true).unwrap();
                    far.set_nodelay(true).unwrap();
                    let ((mut questions, mut answer), (mut answers, mut ask)) = (near.into_split(), far.into_split());
                    let asking = async {
                        let mut bytes = vec![0; 64 * 1024];
                        while let Ok(read @ 1..) = questions.read(&mut bytes).await
                            && ask.write_all(&bytes[..read]).await.is_ok()
                        {
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    };
                    tokio::select! {
                        () = asking => {}
                        _ = tokio::io::copy(&mut answers, &mut answer) => {}
                        _ = cut.wait_for(|&cut| cut) => {}
                    }
                });
            }
        });
        let password = database.get_password().map(|word| format!(" password={}", String::from_utf8_lossy(word)));
        let url = format!(
            "host=127.0.0.1 port={} user={} dbname={}{}",
            here.port(),
            database.get_user().unwrap_or("postgres"),
            database.get_dbname().unwrap_or("postgres"),
            password.unwrap_or_default(),
        );
        Self { options: Options { url, ..options.clone() }, is_cut, asked }
    }

    /// How often the database was asked something.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}
