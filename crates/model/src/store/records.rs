//! Small things without rules of their own: limits, endpoints, operations.

use super::Page;
use crate::capacity::{Capacity, Scope};
use crate::error::Result;
use crate::ids::{EndpointId, OperationId, TenantId};
use crate::notify::Endpoint;
use crate::operation::{Operation, OperationState};

/// Small things that people write down.
#[async_trait::async_trait]
pub trait Records: Send + Sync + 'static {
    /// Writes the limits of a pool or target.
    async fn put_capacity(&self, capacity: Capacity) -> Result<()>;
    /// Forgets the limits of a pool or target; says whether there were any.
    async fn delete_capacity(&self, tenant: TenantId, scope: Scope, name: &str) -> Result<bool>;
    /// Reads all limits, of one tenant or of all.
    async fn list_capacities(&self, tenant: Option<TenantId>) -> Result<Vec<Capacity>>;
    /// Writes an operation; `expected` is the state it must be in, `None` when it must not be there.
    async fn put_operation(&self, operation: Operation, expected: Option<OperationState>) -> Result<bool>;
    /// Reads an operation.
    async fn get_operation(&self, tenant: TenantId, id: OperationId) -> Result<Option<Operation>>;
    /// Lists operations, newest first, after `before`.
    async fn list_operations(
        &self,
        tenant: TenantId,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Page<Operation>>;
    /// Reads the operations of all tenants that are at work.
    async fn load_operations(&self, limit: usize) -> Result<Vec<Operation>>;
    /// Writes an endpoint.
    async fn put_endpoint(&self, endpoint: Endpoint) -> Result<()>;
    /// Forgets an endpoint and what waits for it; says whether there was one.
    async fn delete_endpoint(&self, tenant: TenantId, id: EndpointId) -> Result<bool>;
    /// Reads all endpoints of a tenant, in the order of their ids.
    async fn list_endpoints(&self, tenant: TenantId) -> Result<Vec<Endpoint>>;
}
