//! The coordinator of a node that is alone: it owns every shard from `join` to `leave`.
//!
//! Nothing else can be alive, so what an earlier process claimed is lost as soon as this one has joined. Should a second
//! process run on the same store all the same, the epochs in the store let only one of them fire.

use campanile_model::coordinator::{Assignment, Coordinator, Introduction, Member};
use campanile_model::{Error, Kind, Result, Timestamp, limits, shard};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// The coordinator of a node that is alone.
#[derive(Debug, Default)]
pub struct Solo {
    membership: Mutex<Membership>,
    changed: Notify,
    lag_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Membership {
    /// `None` before `join` and after `leave`.
    me: Option<Introduction>,
    left: bool,
    /// Whether shards are owned no more.
    resigned: bool,
    /// Whether `assignment` has answered since the last change.
    told: bool,
}

impl Solo {
    /// A coordinator that nobody has joined.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait::async_trait]
impl Coordinator for Solo {
    async fn join(&self, me: Introduction) -> Result<()> {
        let mut membership = self.membership.lock();
        if membership.me.is_some() {
            let message = format!("cannot join as `{}`: this node has joined already", me.node);
            return Err(Error::new(Kind::Conflict, message));
        }
        *membership = Membership { me: Some(me), ..Membership::default() };
        Ok(())
    }

    async fn assignment(&self) -> Result<Option<Assignment>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut membership = self.membership.lock();
                let Membership { me, left, resigned, told } = &mut *membership;
                match me {
                    None if *left => return Ok(None),
                    None => return Err(Error::new(Kind::Conflict, "cannot be assigned shards before joining")),
                    Some(_) if *told => {}
                    Some(me) => {
                        *told = true;
                        let owns = me.roles.scheduler && !*resigned;
                        let shards = if owns { shard::all().collect() } else { Vec::new() };
                        return Ok(Some(Assignment { shards, live_nodes: vec![me.node.clone()] }));
                    }
                }
            }
            changed.await;
        }
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let membership = self.membership.lock();
        let Some(me) = &membership.me else { return Ok(Vec::new()) };
        let owns = me.roles.scheduler && !membership.resigned;
        Ok(vec![Member {
            node: me.node.clone(),
            roles: me.roles,
            version: me.version.clone(),
            address: me.address.clone(),
            started_at: Timestamp::MIN,
            silent_ms: 0,
            clock_offset_ms: 0,
            lag_ms: self.lag_ms.load(Ordering::Relaxed),
            shards: if owns { usize::from(limits::SHARDS) } else { 0 },
            settings: me.settings.clone(),
        }])
    }

    fn report(&self, lag_ms: u64) {
        self.lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    async fn resign(&self) -> Result<()> {
        let mut membership = self.membership.lock();
        if !membership.resigned {
            (membership.resigned, membership.told) = (true, false);
            self.changed.notify_waiters();
        }
        Ok(())
    }

    async fn leave(&self) -> Result<()> {
        *self.membership.lock() = Membership { left: true, ..Membership::default() };
        self.changed.notify_waiters();
        Ok(())
    }
}
