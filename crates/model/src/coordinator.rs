//! The contract of a coordinator: which node tries to own which shard.
//!
//! It is liveness only. A wrong answer may delay work; that work is not done twice is the business of the epochs in the
//! store.

use crate::error::Result;
use crate::settings::SharedSettings;
use crate::shard::ShardId;
use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// What a node does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Roles {
    /// It answers the API.
    pub api: bool,
    /// It owns shards and fires.
    pub scheduler: bool,
    pub worker: bool,
}

impl Roles {
    pub const ALL: Roles = Roles { api: true, scheduler: true, worker: true };
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(self.api, "api"), (self.scheduler, "scheduler"), (self.worker, "worker")];
        let names: Vec<&str> = names.into_iter().filter_map(|(has, name)| has.then_some(name)).collect();
        f.write_str(&names.join(","))
    }
}

/// Text that names no roles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a list of roles: some of api, scheduler and worker, with commas between")]
pub struct InvalidRoles(pub String);

impl FromStr for Roles {
    type Err = InvalidRoles;

    fn from_str(text: &str) -> Result<Self, InvalidRoles> {
        let mut roles = Roles { api: false, scheduler: false, worker: false };
        for name in text.split(',') {
            match name.trim() {
                "api" => roles.api = true,
                "scheduler" => roles.scheduler = true,
                "worker" => roles.worker = true,
                _ => return Err(InvalidRoles(text.chars().take(64).collect())),
            }
        }
        Ok(roles)
    }
}

/// How a node introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Its name, unique for every start of a process.
    pub node: String,
    pub roles: Roles,
    pub version: String,
    pub address: String,
    /// What it has set that should be the same everywhere.
    pub settings: SharedSettings,
}

/// A node that is alive, as far as the others know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: String,
    pub roles: Roles,
    pub version: String,
    pub address: String,
    pub started_at: Timestamp,
    /// How long ago it was last heard of.
    pub silent_ms: u64,
    /// How far its machine's clock is ahead of the one that counts.
    pub clock_offset_ms: i64,
    /// How late what it fires is, as it reports.
    pub lag_ms: u64,
    /// How many shards it should own.
    pub shards: usize,
    /// What it has set that should be the same everywhere.
    pub settings: SharedSettings,
}

/// What a node should own now, and who else is alive.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Shards to own. Those no longer listed must be given up before the next call.
    pub shards: Vec<ShardId>,
    /// Names of the nodes that are alive, this one included. What others claimed is lost.
    pub live_nodes: Vec<String>,
}

#[async_trait::async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Makes this node a member.
    async fn join(&self, me: Introduction) -> Result<()>;
    /// Waits for the next change of this node's assignment, or of who is alive; the first call answers at once. `None` after
    /// `leave`.
    async fn assignment(&self) -> Result<Option<Assignment>>;
    /// Who is alive, asked now.
    async fn members(&self) -> Result<Vec<Member>>;
    /// Tells the others how late this node fires, with the next sign of life.
    fn report(&self, lag_ms: u64);
    /// Gives all shards up for good, and stays a member: what it runs is not lost yet.
    async fn resign(&self) -> Result<()>;
    /// Gives everything up, and is a member no more.
    async fn leave(&self) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_a_list_of_names() {
        assert_eq!("api,scheduler,worker".parse(), Ok(Roles::ALL));
        let some: Roles = "worker, api".parse().unwrap();
        assert_eq!(some.to_string(), "api,worker");
        for bad in ["", "api,", "apis", "api worker"] {
            assert!(bad.parse::<Roles>().is_err(), "{bad}");
        }
    }
}
