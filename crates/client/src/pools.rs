//! Pools and targets, and how many executions are in them: one method per endpoint.

use crate::wire::{Counts, Page, Pool, PoolSpec, Target, TargetSpec};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;

impl Client {
    /// `GET /v1/pools`.
    pub async fn list_pools(&self) -> Result<Page<Pool>> {
        self.send(self.request(Method::GET, &["v1", "pools"])).await
    }

    /// `GET /v1/pools/{name}`.
    pub async fn get_pool(&self, name: &str) -> Result<Pool> {
        self.send(self.request(Method::GET, &["v1", "pools", name])).await
    }

    /// `PUT /v1/pools/{name}`: sets its limits.
    pub async fn put_pool(&self, name: &str, spec: &PoolSpec, options: &WriteOptions) -> Result<Pool> {
        self.send(self.write(Method::PUT, &["v1", "pools", name], Some(spec), options)).await
    }

    /// `DELETE /v1/pools/{name}`: forgets its limits.
    pub async fn delete_pool(&self, name: &str, options: &WriteOptions) -> Result<()> {
        self.send_for_nothing(self.write::<()>(Method::DELETE, &["v1", "pools", name], None, options)).await
    }

    /// `POST /v1/pools/{name}/pause`: nothing of it starts until it is resumed.
    pub async fn pause_pool(&self, name: &str, options: &WriteOptions) -> Result<Pool> {
        self.send(self.write::<()>(Method::POST, &["v1", "pools", name, "pause"], None, options)).await
    }

    /// `POST /v1/pools/{name}/resume`.
    pub async fn resume_pool(&self, name: &str, options: &WriteOptions) -> Result<Pool> {
        self.send(self.write::<()>(Method::POST, &["v1", "pools", name, "resume"], None, options)).await
    }

    /// `GET /v1/targets`: those with limits, and those that this server has something to say about.
    pub async fn list_targets(&self) -> Result<Page<Target>> {
        self.send(self.request(Method::GET, &["v1", "targets"])).await
    }

    /// `PUT /v1/targets/{name}`: sets its limits.
    pub async fn put_target(&self, name: &str, spec: &TargetSpec, options: &WriteOptions) -> Result<Target> {
        self.send(self.write(Method::PUT, &["v1", "targets", name], Some(spec), options)).await
    }

    /// `DELETE /v1/targets/{name}`: forgets its limits.
    pub async fn delete_target(&self, name: &str, options: &WriteOptions) -> Result<()> {
        self.send_for_nothing(self.write::<()>(Method::DELETE, &["v1", "targets", name], None, options)).await
    }

    /// `GET /v1/counts`: executions by pool and state.
    pub async fn counts(&self) -> Result<Counts> {
        self.send(self.request(Method::GET, &["v1", "counts"])).await
    }
}
