//! The workers that a server has heard of: one method per endpoint.

use crate::wire::{Page, WorkerStatus};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;

impl Client {
    /// `GET /v1/workers`: those heard of within the last hour.
    pub async fn list_workers(&self) -> Result<Page<WorkerStatus>> {
        self.send(self.request(Method::GET, &["v1", "workers"])).await
    }

    /// `POST /v1/workers/{id}/quiet`: it takes nothing new, and goes on with what it has.
    pub async fn quiet_worker(&self, id: &str, options: &WriteOptions) -> Result<WorkerStatus> {
        self.direct(id, "quiet", options).await
    }

    /// `POST /v1/workers/{id}/drain`: it takes nothing new, finishes, and ends.
    pub async fn drain_worker(&self, id: &str, options: &WriteOptions) -> Result<WorkerStatus> {
        self.direct(id, "drain", options).await
    }

    /// `POST /v1/workers/{id}/run`: it takes work again.
    pub async fn resume_worker(&self, id: &str, options: &WriteOptions) -> Result<WorkerStatus> {
        self.direct(id, "run", options).await
    }

    async fn direct(&self, id: &str, verb: &str, options: &WriteOptions) -> Result<WorkerStatus> {
        self.send(self.write::<()>(Method::POST, &["v1", "workers", id, verb], None, options)).await
    }
}
