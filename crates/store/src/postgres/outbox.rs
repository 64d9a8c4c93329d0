//! The outbox: events, written in the transaction of what they tell of, once per endpoint that wants them. What becomes
//! of them is in `deliveries`.
//!
//! Who wants to hear is asked once per batch, and what is told of a job read only where somebody does.

use super::rows::{Columns, storable};
use super::sheet::{column, job_ids};
use crate::event::{Happened, data};
use campanile_model::ids::{EndpointId, ExecutionId, JobId, TenantId};
use campanile_model::notify::{DeliveryState, EventKind};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Tx, Uuid};
use std::collections::{BTreeSet, HashMap};

/// Who wants to hear of what in a batch, and what they hear.
#[derive(Default)]
pub(super) struct Outbox {
    endpoints: Vec<Wanting>,
    jobs: HashMap<JobId, Told>,
    events: Vec<Event>,
}

/// An endpoint.
struct Wanting {
    id: EndpointId,
    tenant: TenantId,
    /// Bit n stands for the event kind with code n.
    events: u64,
    job: Option<JobId>,
    tag: Option<String>,
}

/// What is told of a job.
struct Told {
    name: String,
    /// A line each.
    tags: String,
}

/// An event for an endpoint.
struct Event {
    tenant: TenantId,
    endpoint: EndpointId,
    kind: EventKind,
    job: JobId,
    execution: Option<ExecutionId>,
    at: Timestamp,
    data: String,
}

impl Wanting {
    fn wants(&self, tenant: TenantId, kind: EventKind, job: JobId) -> bool {
        self.tenant == tenant && self.events & 1 << kind.code() != 0 && self.job.is_none_or(|only| only == job)
    }
}

impl Outbox {
    /// Reads who wants to hear of what may happen: whose, to which job, and what.
    pub(super) async fn load(tx: &Tx<'_>, may: Vec<(TenantId, JobId, EventKind)>) -> Done<Self> {
        let mut outbox = Self::default();
        if may.is_empty() {
            return Ok(outbox);
        }
        let tenants: BTreeSet<i64> = may.iter().map(|(tenant, ..)| i64::from(tenant.0)).collect();
        let tenants: Vec<i64> = tenants.into_iter().collect();
        let kinds = may.iter().fold(0i64, |kinds, (.., kind)| kinds | 1 << kind.code());
        for row in tx.query(include_str!("sql/outbox/list_wanting.sql"), &[&tenants, &kinds]).await? {
            let mut columns = Columns::of(&row);
            outbox.endpoints.push(Wanting {
                id: columns.next::<Uuid>()?.into(),
                tenant: columns.tenant()?,
                events: columns.number()?,
                job: columns.next::<Option<Uuid>>()?.map(JobId::from),
                tag: columns.next()?,
            });
        }
        let is_wanted = |(tenant, job, kind): &&(TenantId, JobId, EventKind)| {
            outbox.endpoints.iter().any(|endpoint| endpoint.wants(*tenant, *kind, *job))
        };
        let jobs = job_ids(may.iter().filter(is_wanted).map(|(_, job, _)| *job));
        if jobs.is_empty() {
            return Ok(outbox);
        }
        for row in tx.query(include_str!("sql/outbox/get_jobs.sql"), &[&jobs]).await? {
            let mut columns = Columns::of(&row);
            outbox.jobs.insert(columns.job_id()?, Told { name: columns.next()?, tags: columns.next()? });
        }
        Ok(outbox)
    }

    /// Whether anybody wants to hear of `kind`: worth asking before the facts are gathered.
    pub(super) fn wants(&self, tenant: TenantId, kind: EventKind) -> bool {
        let wants = |endpoint: &Wanting| endpoint.tenant == tenant && endpoint.events & 1 << kind.code() != 0;
        self.endpoints.iter().any(wants)
    }

    /// Notes an event for every endpoint that wants it.
    pub(super) fn emit(&mut self, happened: &Happened<'_>) {
        let Happened { tenant, kind, job, execution, at, .. } = *happened;
        let Some(told) = self.jobs.get(&job) else { return };
        let has = |tag: &String| told.tags.split('\n').any(|has| has == tag);
        let wanting = self.endpoints.iter().filter(|endpoint| endpoint.wants(tenant, kind, job));
        let mut wanting = wanting.filter(|endpoint| endpoint.tag.as_ref().is_none_or(has)).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let data = data(happened, &told.name);
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

    /// Writes what there is to tell.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Done<()> {
        let events = &self.events;
        if events.is_empty() {
            return Ok(());
        }
        tx.execute(
            include_str!("sql/outbox/insert.sql"),
            &[
                &i16::from(DeliveryState::Waiting.code()),
                &column(events, |event| i64::from(event.tenant.0)),
                &column(events, |event| Uuid::from(event.endpoint)),
                &column(events, |event| i16::from(event.kind.code())),
                &column(events, |event| Uuid::from(event.job)),
                &column(events, |event| event.execution.map(Uuid::from)),
                &column(events, |event| event.at.millis()),
                &column(events, |event| storable(&event.data)),
            ],
        )
        .await?;
        Ok(())
    }
}
