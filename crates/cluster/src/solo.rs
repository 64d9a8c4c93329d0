//! The coordinator of a node that is alone: it owns every shard from `join` to `leave`.
//!
//! Nothing else can be alive, so what an earlier process claimed is lost as soon as this one has joined. Should a second
//! process run on the same store all the same, the epochs in the store let only one of them fire.

use campanile_model::coordinator::{Assignment, Coordinator};
use campanile_model::{Error, Kind, Result, shard};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The coordinator of a node that is alone.
#[derive(Debug, Default)]
pub struct Solo {
    member: Mutex<Member>,
    changed: Notify,
}

#[derive(Debug, Default)]
enum Member {
    /// Before `join`.
    #[default]
    New,
    /// Joined, and `assignment` has not answered yet.
    Joined(String),
    /// Joined, and nothing will change until `leave`.
    Told,
    /// After `leave`.
    Left,
}

impl Solo {
    /// A coordinator that nobody has joined.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait::async_trait]
impl Coordinator for Solo {
    async fn join(&self, node: &str) -> Result<()> {
        let mut member = self.member.lock();
        match *member {
            Member::New | Member::Left => {
                *member = Member::Joined(node.to_owned());
                Ok(())
            }
            Member::Joined(_) | Member::Told => {
                Err(Error::new(Kind::Conflict, format!("cannot join as `{node}`: this node has joined already")))
            }
        }
    }

    async fn assignment(&self) -> Result<Option<Assignment>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut member = self.member.lock();
                match &mut *member {
                    Member::New => return Err(Error::new(Kind::Conflict, "cannot be assigned shards before joining")),
                    Member::Joined(node) => {
                        let live_nodes = vec![std::mem::take(node)];
                        *member = Member::Told;
                        return Ok(Some(Assignment { shards: shard::all().collect(), live_nodes }));
                    }
                    Member::Told => {}
                    Member::Left => return Ok(None),
                }
            }
            changed.await;
        }
    }

    async fn leave(&self) -> Result<()> {
        *self.member.lock() = Member::Left;
        self.changed.notify_waiters();
        Ok(())
    }
}
