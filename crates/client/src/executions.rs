//! Executions and their attempts: one method per endpoint.

use crate::wire::{Attempt, CancelFireRequest, CancelRequest, Execution, Logs, Page};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;
use std::time::Duration;

/// Which executions to list, newest first.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Only of this job: its id, or `name:` and its name.
    pub job: Option<String>,
    /// Only those that match this filter.
    pub q: Option<String>,
    /// Only in these states, separated by commas.
    pub state: Option<String>,
    /// Only due at or after this instant, RFC 3339.
    pub scheduled_after: Option<String>,
    /// Only due before this instant, RFC 3339.
    pub scheduled_before: Option<String>,
    /// At most this many, 1 to 500.
    pub limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// `GET /v1/executions`.
    pub async fn list_executions(&self, filter: &ExecutionFilter) -> Result<Page<Execution>> {
        let limit = filter.limit.map(|limit| limit.to_string());
        let query = [
            ("job", filter.job.as_deref()),
            ("q", filter.q.as_deref()),
            ("state", filter.state.as_deref()),
            ("scheduled_after", filter.scheduled_after.as_deref()),
            ("scheduled_before", filter.scheduled_before.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", filter.cursor.as_deref()),
        ];
        self.send(self.ask(Method::GET, &["v1", "executions"], &query)).await
    }

    /// `GET /v1/executions/{id}`.
    pub async fn get_execution(&self, id: &str) -> Result<Execution> {
        self.send(self.request(Method::GET, &["v1", "executions", id])).await
    }

    /// `GET /v1/executions/{id}?wait=`: answers when it is final, or after `wait` (at most a minute) as it is then.
    pub async fn wait_for_execution(&self, id: &str, wait: Duration) -> Result<Execution> {
        let wait = wait.min(Duration::from_secs(60));
        let text = format!("{}ms", wait.as_millis());
        let request = self.ask(Method::GET, &["v1", "executions", id], &[("wait", Some(&text))]);
        self.send(request.timeout(wait + Duration::from_secs(35))).await
    }

    /// `GET /v1/executions/{id}/attempts`, first one first.
    pub async fn list_attempts(&self, id: &str) -> Result<Page<Attempt>> {
        self.send(self.request(Method::GET, &["v1", "executions", id, "attempts"])).await
    }

    /// `GET /v1/executions/{id}/logs`: what its attempts logged after position `after`, in the order of arrival.
    pub async fn list_logs(&self, id: &str, after: u64, limit: Option<u32>) -> Result<Logs> {
        let (after, limit) = (after.to_string(), limit.map(|limit| limit.to_string()));
        let query = [("after", Some(after.as_str())), ("limit", limit.as_deref())];
        self.send(self.ask(Method::GET, &["v1", "executions", id, "logs"], &query)).await
    }

    /// `POST /v1/executions/{id}/cancel`.
    pub async fn cancel_execution(
        &self,
        id: &str,
        request: &CancelRequest,
        options: &WriteOptions,
    ) -> Result<Execution> {
        let path = ["v1", "executions", id, "cancel"];
        self.send(self.write(Method::POST, &path, Some(request), options)).await
    }

    /// `POST /v1/jobs/{job}/fires/cancel`: cancels one fire of a job, whether it has come or not.
    pub async fn cancel_fire(
        &self,
        job: &str,
        request: &CancelFireRequest,
        options: &WriteOptions,
    ) -> Result<Execution> {
        let path = ["v1", "jobs", job, "fires", "cancel"];
        self.send(self.write(Method::POST, &path, Some(request), options)).await
    }
}
