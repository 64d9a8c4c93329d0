//! Webhook endpoints, which notifications go to: one method per endpoint of ours.

use crate::wire::{Delivery, Page, WebhookEndpoint, WebhookEndpointSpec};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;

const ROUTE: &str = "webhook-endpoints";

impl Client {
    /// `GET /v1/webhook-endpoints`.
    pub async fn list_endpoints(&self) -> Result<Page<WebhookEndpoint>> {
        self.send(self.request(Method::GET, &["v1", ROUTE])).await
    }

    /// `GET /v1/webhook-endpoints/{id}`.
    pub async fn get_endpoint(&self, id: &str) -> Result<WebhookEndpoint> {
        self.send(self.request(Method::GET, &["v1", ROUTE, id])).await
    }

    /// `POST /v1/webhook-endpoints`.
    pub async fn create_endpoint(&self, spec: &WebhookEndpointSpec, options: &WriteOptions) -> Result<WebhookEndpoint> {
        self.send(self.write(Method::POST, &["v1", ROUTE], Some(spec), options)).await
    }

    /// `DELETE /v1/webhook-endpoints/{id}`: forgets it, and what waits for it.
    pub async fn delete_endpoint(&self, id: &str, options: &WriteOptions) -> Result<()> {
        self.send_for_nothing(self.write::<()>(Method::DELETE, &["v1", ROUTE, id], None, options)).await
    }

    /// `POST /v1/webhook-endpoints/{id}/pause`: events are kept, and not sent.
    pub async fn pause_endpoint(&self, id: &str, options: &WriteOptions) -> Result<WebhookEndpoint> {
        self.send(self.write::<()>(Method::POST, &["v1", ROUTE, id, "pause"], None, options)).await
    }

    /// `POST /v1/webhook-endpoints/{id}/resume`.
    pub async fn resume_endpoint(&self, id: &str, options: &WriteOptions) -> Result<WebhookEndpoint> {
        self.send(self.write::<()>(Method::POST, &["v1", ROUTE, id, "resume"], None, options)).await
    }

    /// `GET /v1/webhook-endpoints/{id}/deliveries`, newest first.
    pub async fn list_deliveries(&self, id: &str, limit: Option<u32>, cursor: Option<&str>) -> Result<Page<Delivery>> {
        let limit = limit.map(|limit| limit.to_string());
        let query = [("limit", limit.as_deref()), ("cursor", cursor)];
        self.send(self.ask(Method::GET, &["v1", ROUTE, id, "deliveries"], &query)).await
    }

    /// `POST /v1/webhook-endpoints/{id}/deliveries/{seq}/replay`: sends it again.
    pub async fn replay_delivery(&self, id: &str, seq: u64, options: &WriteOptions) -> Result<Delivery> {
        let seq = seq.to_string();
        let path = ["v1", ROUTE, id, "deliveries", &seq, "replay"];
        self.send(self.write::<()>(Method::POST, &path, None, options)).await
    }
}
