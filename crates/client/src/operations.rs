//! Operations, and the backfills that become one: one method per endpoint.

use crate::wire::{BackfillPlan, BackfillRequest, Operation, Page};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;

impl Client {
    /// `GET /v1/operations`, newest first.
    pub async fn list_operations(&self, limit: Option<u32>, cursor: Option<&str>) -> Result<Page<Operation>> {
        let limit = limit.map(|limit| limit.to_string());
        let query = [("limit", limit.as_deref()), ("cursor", cursor)];
        self.send(self.ask(Method::GET, &["v1", "operations"], &query)).await
    }

    /// `GET /v1/operations/{id}`.
    pub async fn get_operation(&self, id: &str) -> Result<Operation> {
        self.send(self.request(Method::GET, &["v1", "operations", id])).await
    }

    /// `POST /v1/operations/{id}/cancel`: starts nothing more; what it started goes on.
    pub async fn cancel_operation(&self, id: &str, options: &WriteOptions) -> Result<Operation> {
        self.send(self.write::<()>(Method::POST, &["v1", "operations", id, "cancel"], None, options)).await
    }

    /// `POST /v1/jobs/{job}/backfill`: makes up for past fires, as an operation.
    pub async fn backfill(&self, job: &str, request: &BackfillRequest, options: &WriteOptions) -> Result<Operation> {
        self.send(self.write(Method::POST, &["v1", "jobs", job, "backfill"], Some(request), options)).await
    }

    /// The same with `dry_run`: what would be done.
    pub async fn preview_backfill(&self, job: &str, request: &BackfillRequest) -> Result<BackfillPlan> {
        let path = ["v1", "jobs", job, "backfill"];
        self.send(self.write(Method::POST, &path, Some(request), &WriteOptions::preview())).await
    }
}
