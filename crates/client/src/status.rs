//! How the server is.

use crate::wire::{Cluster, Health, Status};
use crate::{Client, Result};
use reqwest::Method;

impl Client {
    /// `GET /v1/status`.
    pub async fn status(&self) -> Result<Status> {
        self.send(self.request(Method::GET, &["v1", "status"])).await
    }

    /// `GET /v1/cluster`: the nodes that are alive, and what they own.
    pub async fn cluster(&self) -> Result<Cluster> {
        self.send(self.request(Method::GET, &["v1", "cluster"])).await
    }

    /// `GET /healthz`: whether the process answers.
    pub async fn health(&self) -> Result<Health> {
        self.send(self.request(Method::GET, &["healthz"])).await
    }

    /// `GET /readyz`: whether it takes work; refused with 503 until it does.
    pub async fn ready(&self) -> Result<Health> {
        self.send(self.request(Method::GET, &["readyz"])).await
    }

    /// `GET /openapi.json`, as text.
    pub async fn openapi(&self) -> Result<serde_json::Value> {
        self.send(self.request(Method::GET, &["openapi.json"])).await
    }
}
