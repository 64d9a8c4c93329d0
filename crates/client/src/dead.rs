//! Dead letters: one method per endpoint.

use crate::wire::{DeadGroup, DeadPlan, DiscardRequest, Discarded, Execution, Operation, Page, ReplayRequest};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;

/// Which dead executions to list, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeadFilter {
    /// Only those that match this filter.
    pub q: Option<String>,
    /// Only of this job: its id, or `name:` and its name.
    pub job: Option<String>,
    /// Only of the group whose fingerprint starts so.
    pub fp: Option<String>,
    /// At most this many, 1 to 500.
    pub limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// `GET /v1/dead`.
    pub async fn list_dead(&self, filter: &DeadFilter) -> Result<Page<Execution>> {
        let limit = filter.limit.map(|limit| limit.to_string());
        let query = [
            ("q", filter.q.as_deref()),
            ("job", filter.job.as_deref()),
            ("fp", filter.fp.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", filter.cursor.as_deref()),
        ];
        self.send(self.ask(Method::GET, &["v1", "dead"], &query)).await
    }

    /// `GET /v1/dead/groups`, most recently grown first.
    pub async fn list_dead_groups(&self, limit: Option<u32>) -> Result<Page<DeadGroup>> {
        let limit = limit.map(|limit| limit.to_string());
        self.send(self.ask(Method::GET, &["v1", "dead", "groups"], &[("limit", limit.as_deref())])).await
    }

    /// `POST /v1/dead/replay`: runs dead executions again, as an operation.
    pub async fn replay_dead(&self, request: &ReplayRequest, options: &WriteOptions) -> Result<Operation> {
        self.send(self.write(Method::POST, &["v1", "dead", "replay"], Some(request), options)).await
    }

    /// The same with `dry_run`: what would be run again.
    pub async fn preview_replay_dead(&self, request: &ReplayRequest) -> Result<DeadPlan> {
        self.send(self.write(Method::POST, &["v1", "dead", "replay"], Some(request), &WriteOptions::preview())).await
    }

    /// `POST /v1/dead/discard`: gives dead executions up.
    pub async fn discard_dead(&self, request: &DiscardRequest, options: &WriteOptions) -> Result<Discarded> {
        self.send(self.write(Method::POST, &["v1", "dead", "discard"], Some(request), options)).await
    }

    /// The same with `dry_run`: what would be given up.
    pub async fn preview_discard_dead(&self, request: &DiscardRequest) -> Result<DeadPlan> {
        self.send(self.write(Method::POST, &["v1", "dead", "discard"], Some(request), &WriteOptions::preview())).await
    }

    /// `POST /v1/executions/{id}/replay`: runs one dead execution again, at once.
    pub async fn replay_execution(&self, id: &str, options: &WriteOptions) -> Result<Execution> {
        self.send(self.write::<()>(Method::POST, &["v1", "executions", id, "replay"], None, options)).await
    }
}
