//! The outbox: events for whoever wants them, written in the transaction of what they are about.
//!
//! A backend loads who wants what once per batch, and names and tags of jobs only where somebody wants their events.

use super::event::{Happened, data};
use campanile_model::ids::{EndpointId, ExecutionId, JobId, TenantId};
use campanile_model::notify::{Endpoint, EventKind};
use campanile_model::time::Timestamp;
use std::collections::HashMap;

/// Who wants which events in a batch, and the events.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) endpoints: Vec<Subscriber>,
    /// The jobs that events are about.
    pub(crate) jobs: HashMap<JobId, Named>,
    /// What is to be written.
    pub(crate) events: Vec<Event>,
}

/// An endpoint, and what it wants.
pub(crate) struct Subscriber {
    pub(crate) id: EndpointId,
    pub(crate) tenant: TenantId,
    /// Bit n stands for the event kind with code n.
    pub(crate) events: u64,
    pub(crate) job: Option<JobId>,
    pub(crate) tag: Option<String>,
}

/// What an event says of its job.
pub(crate) struct Named {
    pub(crate) name: String,
    /// One in each line.
    pub(crate) tags: String,
}

/// An event for an endpoint.
pub(crate) struct Event {
    pub(crate) tenant: TenantId,
    pub(crate) endpoint: EndpointId,
    pub(crate) kind: EventKind,
    pub(crate) job: JobId,
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) at: Timestamp,
    pub(crate) data: String,
}

impl Subscriber {
    /// What an endpoint wants.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        Self {
            id: endpoint.id,
            tenant: endpoint.tenant,
            events: endpoint.events.iter().fold(0, |mask, kind| mask | 1 << kind.code()),
            job: endpoint.job,
            tag: endpoint.tag.clone(),
        }
    }

    fn wants(&self, tenant: TenantId, kind: EventKind, job: JobId) -> bool {
        self.tenant == tenant && self.events & 1 << kind.code() != 0 && self.job.is_none_or(|only| only == job)
    }
}

impl Outbox {
    /// The jobs whose names and tags are needed, of events that may be sent.
    pub(crate) fn wanted_jobs(&self, may: &[(TenantId, JobId, EventKind)]) -> Vec<JobId> {
        let is_wanted = |(tenant, job, kind): &&(TenantId, JobId, EventKind)| {
            self.endpoints.iter().any(|endpoint| endpoint.wants(*tenant, *kind, *job))
        };
        let mut jobs: Vec<JobId> = may.iter().filter(is_wanted).map(|(_, job, _)| *job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Whether anybody wants events of this kind: worth asking before the facts are gathered.
    pub(super) fn is_wanted(&self, tenant: TenantId, kind: EventKind) -> bool {
        let wants = |endpoint: &Subscriber| endpoint.tenant == tenant && endpoint.events & 1 << kind.code() != 0;
        self.endpoints.iter().any(wants)
    }

    /// Adds an event for every endpoint that wants it.
    pub(super) fn emit(&mut self, happened: &Happened<'_>) {
        let Happened { tenant, kind, job, execution, at, .. } = *happened;
        let Some(named) = self.jobs.get(&job) else { return };
        let has = |tag: &String| named.tags.split('\n').any(|has| has == tag);
        let wanting = self.endpoints.iter().filter(|endpoint| endpoint.wants(tenant, kind, job));
        let mut wanting = wanting.filter(|endpoint| endpoint.tag.as_ref().is_none_or(has)).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let data = data(happened, &named.name);
        self.events.extend(wanting.map(|endpoint| Event {
            tenant,
            endpoint: endpoint.id,
            kind,
            job,
            execution,
            at,
            data: data.clone(),
        }));
    }
}
