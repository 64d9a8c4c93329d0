//! The worker protocol: one method per call. [`crate::worker`] is a whole worker that makes these calls.

use crate::wire::{
    ClaimRequest, ClaimResponse, CompleteBatchRequest, CompleteBatchResponse, CompleteRequest, CompleteResponse,
    HeartbeatRequest, HeartbeatResponse, ReleaseRequest,
};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;
use serde::Serialize;
use std::time::Duration;

/// Longest wait that a server grants.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// What an answer may take beyond the wait.
const ANSWER: Duration = Duration::from_secs(15);

impl Client {
    /// `POST /internal/v1/executions/claim`. Takes up to `wait_ms` (at most a minute) when there is no work.
    ///
    /// Whoever drops the call does not know whether something was claimed; a lost claim comes back when its lease ends.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse> {
        let wait = Duration::from_millis(request.wait_ms).min(WAIT_MAX);
        self.send(self.call(&["claim"], request).timeout(wait + ANSWER)).await
    }

    /// `POST /internal/v1/executions/heartbeat`.
    pub async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<HeartbeatResponse> {
        self.send(self.call(&["heartbeat"], request)).await
    }

    /// `POST /internal/v1/executions/{id}/complete`. Sending the same again is answered the same.
    pub async fn complete(&self, id: &str, request: &CompleteRequest) -> Result<CompleteResponse> {
        self.send(self.call(&[id, "complete"], request)).await
    }

    /// `POST /internal/v1/executions/complete`, with one result per item. Sending the same again is answered the same.
    pub async fn complete_batch(&self, request: &CompleteBatchRequest) -> Result<CompleteBatchResponse> {
        self.send(self.call(&["complete"], request)).await
    }

    /// `POST /internal/v1/executions/{id}/release`.
    pub async fn release(&self, id: &str, request: &ReleaseRequest) -> Result<CompleteResponse> {
        self.send(self.call(&[id, "release"], request)).await
    }

    fn call<B: Serialize>(&self, path: &[&str], body: &B) -> reqwest::RequestBuilder {
        let path = [&["internal", "v1", "executions"], path].concat();
        self.write(Method::POST, &path, Some(body), &WriteOptions::default())
    }
}
