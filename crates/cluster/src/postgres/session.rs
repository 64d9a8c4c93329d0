//! One connection of a member: the SQL it speaks, and the doorbell it listens to.
//!
//! It is never shared and never used again after an error: the locks that it holds are known only as long as every
//! statement was answered.

use super::LEASE_MS;
use campanile_model::coordinator::{Introduction, Member, Roles};
use campanile_model::fault::{self, Bug, Point, planted};
use campanile_model::settings::SharedSettings;
use campanile_model::shard::ShardId;
use campanile_model::{Result, Timestamp};
use campanile_pg::Target;
use campanile_pg::failure::classify;
use campanile_pg::target::{Driver, application_name};
use campanile_pg::tokio_postgres::error::SqlState;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::tokio_postgres::{AsyncMessage, Client, Error, Row, Statement};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use xxhash_rust::xxh3::xxh3_64;

/// The channel of this coordinator's doorbells.
const CHANNEL: &str = "members";
/// How long the server is given to hear that we close.
const CLOSE: Duration = Duration::from_millis(200);

/// A connection, and what is known about it.
pub struct Session {
    client: Arc<Client>,
    bell: Arc<Bell>,
    driver: Driving,
    channel: String,
    classes: Classes,
    beat: Statement,
    take: Statement,
    release: Statement,
    ring: Statement,
}

/// The first halves of the keys of our locks.
#[derive(Copy, Clone)]
struct Classes {
    member: i32,
    leader: i32,
    shard: i32,
}

/// What a beat writes.
pub struct Beat<'a> {
    pub me: &'a Introduction,
    /// What we do now.
    pub roles: &'a str,
    /// When we joined; `None` for the first time.
    pub started_at: Option<i64>,
    /// How far our clock is ahead.
    pub clock_offset_ms: i64,
    /// How late we fire.
    pub lag_ms: u64,
    /// How many shards we own.
    pub shards: usize,
}

/// What a beat brought.
pub struct Beaten {
    /// When we joined.
    pub started_at: i64,
    /// The database's clock.
    pub now_ms: i64,
    /// Whether somebody holds the lock of the leader.
    pub is_led: bool,
    pub others: Vec<Other>,
}

/// Another member, as its row says.
pub struct Other {
    pub node: String,
    /// What it does now.
    pub roles: Roles,
    /// When it wrote its row.
    pub seen_at: i64,
    /// For how long it has not.
    pub silent_ms: u64,
    /// Whether its lock is held.
    pub is_locked: bool,
}

/// Rings when others have rung, and when the connection ends.
#[derive(Default)]
struct Bell {
    rung: Notify,
    /// Our own rings are not for us.
    pid: AtomicI32,
}

impl Session {
    /// Connects, listens, takes the member's lock, and ends what an earlier session of it left behind.
    pub async fn open(target: &Target, node: &str) -> Result<Self, Error> {
        let (client, driver) = target.connect().await?;
        let bell = Arc::new(Bell::default());
        let channel = target.channel(CHANNEL);
        let driver = Driving(tokio::spawn(drive(driver, channel.clone(), bell.clone())));
        let client = Arc::new(client);
        // A beat need not survive a crash of the server, so it does not wait for its disk: a slow one must cost
        // nobody his lease.
        let settings = format!("SET synchronous_commit = off; SET statement_timeout = {LEASE_MS}; LISTEN {channel}");
        let ((), beat, take, release, ring, enter, end_older) = tokio::try_join!(
            client.batch_execute(&settings),
            client.prepare(include_str!("sql/beat.sql")),
            client.prepare(include_str!("sql/take.sql")),
            client.prepare(include_str!("sql/release.sql")),
            client.prepare(include_str!("sql/ring.sql")),
            client.prepare(include_str!("sql/enter.sql")),
            client.prepare(include_str!("sql/end_older.sql")),
        )?;
        let classes = Classes {
            member: target.lock_class("member"),
            leader: target.lock_class("leader"),
            shard: target.lock_class("shard"),
        };
        let entered = client.query_one(&enter, &[&classes.member, &lock_of(node)]).await?;
        bell.pid.store(entered.get("pid"), Ordering::Relaxed);
        match client.query_one(&end_older, &[&classes.member, &lock_of(node)]).await {
            Ok(row) if row.get::<_, i64>("ended") > 0 => tracing::info!("ended an older session of this node"),
            Ok(_) => {}
            Err(error) if is_refused(&error) => tracing::warn!(%error, "cannot end older sessions of this node"),
            Err(error) => return Err(error),
        }
        Ok(Self { client, bell, driver, channel, classes, beat, take, release, ring })
    }

    /// The connection, for questions of others.
    pub fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Waits until somebody rings, or the connection ends.
    pub async fn rung(&self) {
        self.bell.rung.notified().await;
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Writes our row, and reads all.
    pub async fn beat(&self, beat: &Beat<'_>) -> Result<Beaten, Error> {
        let Beat { me, roles, started_at, clock_offset_ms, lag_ms, shards } = beat;
        let (lag_ms, shards) = (i64::try_from(*lag_ms).unwrap_or(i64::MAX), i64::try_from(*shards).unwrap_or(i64::MAX));
        let settings = me.settings.encode();
        let params: [&(dyn ToSql + Sync); 11] = [
            &me.node,
            roles,
            &me.version,
            &me.address,
            started_at,
            clock_offset_ms,
            &lag_ms,
            &shards,
            &self.classes.member,
            &self.classes.leader,
            &settings,
        ];
        fault::reach(Point("cluster.beat.before"));
        let rows = self.client.query(&self.beat, &params).await?;
        fault::reach(Point("cluster.beat.after"));
        let mut beaten = Beaten { started_at: 0, now_ms: 0, is_led: false, others: Vec::with_capacity(rows.len()) };
        let mut locks = Vec::new();
        for row in &rows {
            let node: String = row.get("node");
            if node == me.node {
                (beaten.started_at, beaten.now_ms) = (row.get("started_at"), row.get("now_ms"));
                (beaten.is_led, locks) = (row.get("is_led"), row.get::<_, Vec<i64>>("locks"));
            } else {
                beaten.others.push(Other::read(node, row));
            }
        }
        beaten.others.iter_mut().for_each(|other| other.is_locked = locks.contains(&i64::from(lock_of(&other.node))));
        Ok(beaten)
    }

    /// Takes the locks of shards that are free, and says which. None of them may be held already.
    pub async fn take(&self, shards: &[ShardId]) -> Result<Vec<ShardId>, Error> {
        fault::reach(Point("cluster.take.before"));
        let rows = self.client.query(&self.take, &[&self.classes.shard, &numbers(shards)]).await?;
        fault::reach(Point("cluster.take.after"));
        let shard = |row: &Row| u16::try_from(row.get::<_, i32>(0)).ok().map(ShardId);
        Ok(rows.iter().filter_map(shard).collect())
    }

    /// Releases the locks of shards.
    pub async fn release(&self, shards: &[ShardId]) -> Result<(), Error> {
        fault::reach(Point("cluster.release.before"));
        self.unlock(self.classes.shard, &numbers(shards)).await?;
        fault::reach(Point("cluster.release.after"));
        Ok(())
    }

    /// Takes the lock of the leader, if it is free. It must not be held already.
    pub async fn lead(&self) -> Result<bool, Error> {
        Ok(!self.client.query(&self.take, &[&self.classes.leader, &vec![0]]).await?.is_empty())
    }

    /// Releases the lock of the leader.
    pub async fn stop_leading(&self) -> Result<(), Error> {
        self.unlock(self.classes.leader, &[0]).await
    }

    async fn unlock(&self, class: i32, keys: &[i32]) -> Result<(), Error> {
        let unheld: i64 = self.client.query_one(&self.release, &[&class, &keys]).await?.get("unheld");
        if unheld > 0 {
            tracing::error!(unheld, "released locks that were not held: this is a bug");
        }
        Ok(())
    }

    /// Rings at the others.
    pub async fn ring(&self) -> Result<(), Error> {
        self.client.query_one(&self.ring, &[&self.channel]).await.map(drop)
    }

    /// Ends the sessions of a member that is dead, and deletes its row. Whether it was there, as old as it was.
    pub async fn evict(&self, dead: &Other) -> Result<bool, Error> {
        fault::reach(Point("cluster.evict.before"));
        let name = application_name(&dead.node);
        let ended = self.client.query_one(include_str!("sql/end.sql"), &[&dead.node, &dead.seen_at, &name]).await;
        let sessions: i64 = match ended {
            Ok(row) => row.get("ended"),
            Err(error) if is_refused(&error) => {
                tracing::warn!(node = dead.node, %error, "not allowed to end the sessions of a dead node");
                0
            }
            Err(error) => return Err(error),
        };
        let is_evicted = self.client.execute(include_str!("sql/evict.sql"), &[&dead.node, &dead.seen_at]).await? > 0;
        fault::reach(Point("cluster.evict.after"));
        if is_evicted {
            let silent_ms = dead.silent_ms;
            tracing::warn!(node = dead.node, silent_ms, sessions, "a node is dead; the sessions it left were ended");
        }
        Ok(is_evicted)
    }

    /// Deletes our row, gives every lock up, and tells the others.
    pub async fn leave(&self, node: &str) -> Result<(), Error> {
        self.client.execute(include_str!("sql/leave.sql"), &[&node]).await?;
        if !planted(Bug("lock-kept-by-the-pool")) {
            self.client.batch_execute("SELECT pg_advisory_unlock_all()").await?;
        }
        self.ring().await
    }

    /// Closes the connection in good order.
    pub async fn close(self) {
        let Self { client, mut driver, .. } = self;
        if planted(Bug("lock-kept-by-the-pool")) {
            // Sketch S8, heym#436: the connection goes back to its pool, and the locks with it.
            std::mem::forget((client, driver));
            return;
        }
        // The driver ends when it has said goodbye for its last user.
        drop(client);
        let _ = tokio::time::timeout(CLOSE, &mut driver.0).await;
    }
}

/// Who is a member now: asked on a member's connection, or on one of its own.
pub async fn list(target: &Target, client: Option<&Client>) -> Result<Vec<Member>> {
    let ask = async |client: &Client| client.query(include_str!("sql/list.sql"), &[]).await;
    let rows = match client {
        Some(client) => ask(client).await,
        None => {
            let connect = async {
                let (client, driver) = target.connect().await?;
                let _driver = Driving(tokio::spawn(async move { drop(driver.await) }));
                ask(&client).await
            };
            connect.await
        }
    };
    let rows = rows.map_err(|error| classify(&error, target.location()))?;
    Ok(rows.iter().map(member).collect())
}

fn member(row: &Row) -> Member {
    let natural = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Member {
        node: row.get("node"),
        roles: roles(row.get("roles")),
        version: row.get("version"),
        address: row.get("address"),
        started_at: Timestamp::from_millis(row.get("started_at")),
        silent_ms: natural("silent_ms"),
        clock_offset_ms: row.get("clock_offset_ms"),
        lag_ms: natural("lag_ms"),
        shards: usize::try_from(natural("shards")).unwrap_or(usize::MAX),
        settings: SharedSettings::decode(row.get("settings")),
    }
}

impl Other {
    fn read(node: String, row: &Row) -> Self {
        let (seen_at, now_ms): (i64, i64) = (row.get("seen_at"), row.get("now_ms"));
        let silent_ms = u64::try_from(now_ms.saturating_sub(seen_at)).unwrap_or(0);
        Self { node, roles: roles(row.get("roles")), seen_at, silent_ms, is_locked: false }
    }
}

/// Text without roles is that of a scheduler that is nothing else and owns nothing for now.
fn roles(text: &str) -> Roles {
    text.parse().unwrap_or(Roles { api: false, scheduler: false, worker: false })
}

/// The second half of the key of a member's lock.
fn lock_of(node: &str) -> i32 {
    // The remainder fits; two names with one hash share the lock, and both can be noticed by their silence only.
    i32::try_from(xxh3_64(node.as_bytes()) % (1 << 31)).unwrap_or_default()
}

fn numbers(shards: &[ShardId]) -> Vec<i32> {
    shards.iter().map(|shard| i32::from(shard.0)).collect()
}

/// Whether we may not end the sessions of others.
fn is_refused(error: &Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Drives a connection until it ends.
async fn drive(mut driver: Driver, channel: String, bell: Arc<Bell>) {
    while let Some(Ok(message)) = std::future::poll_fn(|context| driver.poll_message(context)).await {
        match message {
            AsyncMessage::Notification(ring)
                if ring.channel() == channel && ring.process_id() != bell.pid.load(Ordering::Relaxed) =>
            {
                bell.rung.notify_one();
            }
            _ => {}
        }
    }
    // Only now does the client know that it is closed.
    drop(driver);
    bell.rung.notify_one();
}

/// A driver, which ends with whoever holds this.
struct Driving(JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}
