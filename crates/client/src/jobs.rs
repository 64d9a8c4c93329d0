//! Jobs: one method per endpoint. A job is named by its id, or by `name:` and its name.

use crate::wire::{Batch, Execution, Job, Page, PauseRequest, RevertRequest, Skip};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;
use serde::Serialize;

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// At most this many, 1 to 500.
    pub limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Only in this state: `ACTIVE` or `PAUSED`.
    pub state: Option<String>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only with names that start so.
    pub name_prefix: Option<String>,
}

impl Client {
    /// `POST /v1/jobs`. The body is a [`JobSpec`](crate::wire::JobSpec), or any JSON that the server accepts.
    pub async fn create_job<B: Serialize + ?Sized>(&self, job: &B, options: &WriteOptions) -> Result<Job> {
        self.send(self.write(Method::POST, &["v1", "jobs"], Some(job), options)).await
    }

    /// `POST /v1/jobs:batch`, with one result per item.
    pub async fn create_jobs<B: Serialize>(&self, jobs: &[B], options: &WriteOptions) -> Result<Batch> {
        #[derive(Serialize)]
        struct Body<'a, B> {
            jobs: &'a [B],
        }
        self.send(self.write(Method::POST, &["v1", "jobs:batch"], Some(&Body { jobs }), options)).await
    }

    /// `GET /v1/jobs/{job}`.
    pub async fn get_job(&self, job: &str) -> Result<Job> {
        self.send(self.request(Method::GET, &["v1", "jobs", job])).await
    }

    /// `GET /v1/jobs`.
    pub async fn list_jobs(&self, filter: &JobFilter) -> Result<Page<Job>> {
        let limit = filter.limit.map(|limit| limit.to_string());
        let query = [
            ("limit", limit.as_deref()),
            ("cursor", filter.cursor.as_deref()),
            ("state", filter.state.as_deref()),
            ("tag", filter.tag.as_deref()),
            ("name_prefix", filter.name_prefix.as_deref()),
        ];
        self.send(self.ask(Method::GET, &["v1", "jobs"], &query)).await
    }

    /// `PUT /v1/jobs/{job}`: replaces; by name, creates where there is none.
    pub async fn replace_job<B: Serialize + ?Sized>(&self, job: &str, to: &B, options: &WriteOptions) -> Result<Job> {
        self.send(self.write(Method::PUT, &["v1", "jobs", job], Some(to), options)).await
    }

    /// `PATCH /v1/jobs/{job}`: JSON merge patch.
    pub async fn patch_job<B: Serialize + ?Sized>(&self, job: &str, patch: &B, options: &WriteOptions) -> Result<Job> {
        self.send(self.write(Method::PATCH, &["v1", "jobs", job], Some(patch), options)).await
    }

    /// `DELETE /v1/jobs/{job}`.
    pub async fn delete_job(&self, job: &str, options: &WriteOptions) -> Result<()> {
        self.send_for_nothing(self.write::<()>(Method::DELETE, &["v1", "jobs", job], None, options)).await
    }

    /// `POST /v1/jobs/{job}/pause`: until it is resumed.
    pub async fn pause_job(&self, job: &str, options: &WriteOptions) -> Result<Job> {
        self.send(self.write::<()>(Method::POST, &["v1", "jobs", job, "pause"], None, options)).await
    }

    /// `POST /v1/jobs/{job}/pause` with an end: an RFC 3339 instant, or a duration from now.
    pub async fn pause_job_until(&self, job: &str, until: &str, options: &WriteOptions) -> Result<Job> {
        let body = PauseRequest { until: Some(until.to_owned()) };
        self.send(self.write(Method::POST, &["v1", "jobs", job, "pause"], Some(&body), options)).await
    }

    /// `POST /v1/jobs/{job}/resume`.
    pub async fn resume_job(&self, job: &str, options: &WriteOptions) -> Result<Job> {
        self.send(self.write::<()>(Method::POST, &["v1", "jobs", job, "resume"], None, options)).await
    }

    /// `GET /v1/jobs/{job}/versions`: newest first; the newest is the job as it is.
    pub async fn list_versions(&self, job: &str, limit: Option<u32>, cursor: Option<&str>) -> Result<Page<Job>> {
        let limit = limit.map(|limit| limit.to_string());
        let query = [("limit", limit.as_deref()), ("cursor", cursor)];
        self.send(self.ask(Method::GET, &["v1", "jobs", job, "versions"], &query)).await
    }

    /// `GET /v1/jobs/{job}/versions/{version}`.
    pub async fn get_version(&self, job: &str, version: u32) -> Result<Job> {
        self.send(self.request(Method::GET, &["v1", "jobs", job, "versions", &version.to_string()])).await
    }

    /// `POST /v1/jobs/{job}/revert`: gives it the definition that it had in an earlier version.
    pub async fn revert_job(&self, job: &str, version: u32, options: &WriteOptions) -> Result<Job> {
        let body = RevertRequest { version };
        self.send(self.write(Method::POST, &["v1", "jobs", job, "revert"], Some(&body), options)).await
    }

    /// `POST /v1/jobs/{job}/run`: fires now, by hand.
    pub async fn run_job(&self, job: &str, options: &WriteOptions) -> Result<Execution> {
        self.send(self.write::<()>(Method::POST, &["v1", "jobs", job, "run"], None, options)).await
    }

    /// `GET /v1/jobs/{job}/skips`: fires that did not become executions, newest first.
    pub async fn list_skips(&self, job: &str, limit: Option<u32>) -> Result<Page<Skip>> {
        let limit = limit.map(|limit| limit.to_string());
        self.send(self.ask(Method::GET, &["v1", "jobs", job, "skips"], &[("limit", limit.as_deref())])).await
    }
}
