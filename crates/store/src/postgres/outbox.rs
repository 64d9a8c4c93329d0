//! The outbox, as it is read and written; which events there are is in `core::outbox`, and what becomes of them in
//! `deliveries`.

use super::load::job_ids;
use super::rows::{Columns, storable};
use super::write::column;
use crate::core::outbox::{Named, Outbox, Subscriber};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::notify::{DeliveryState, EventKind};
use campanile_pg::{Done, Tx, Uuid};
use std::collections::BTreeSet;

/// Reads who wants the events that may be sent: whose, of which job, and which.
pub(super) async fn load(tx: &Tx<'_>, may: &[(TenantId, JobId, EventKind)]) -> Done<Outbox> {
    let mut outbox = Outbox::default();
    if may.is_empty() {
        return Ok(outbox);
    }
    let tenants: BTreeSet<i64> = may.iter().map(|(tenant, ..)| i64::from(tenant.0)).collect();
    let tenants: Vec<i64> = tenants.into_iter().collect();
    let kinds = may.iter().fold(0i64, |kinds, (.., kind)| kinds | 1 << kind.code());
    for row in tx.query(include_str!("sql/outbox/list_wanting.sql"), &[&tenants, &kinds]).await? {
        let mut columns = Columns::of(&row);
        outbox.endpoints.push(Subscriber {
            id: columns.next::<Uuid>()?.into(),
            tenant: columns.tenant()?,
            events: columns.number()?,
            job: columns.next::<Option<Uuid>>()?.map(JobId::from),
            tag: columns.next()?,
        });
    }
    let jobs = job_ids(outbox.wanted_jobs(may));
    if jobs.is_empty() {
        return Ok(outbox);
    }
    for row in tx.query(include_str!("sql/outbox/get_jobs.sql"), &[&jobs]).await? {
        let mut columns = Columns::of(&row);
        outbox.jobs.insert(columns.job_id()?, Named { name: columns.next()?, tags: columns.next()? });
    }
    Ok(outbox)
}

pub(super) async fn write(tx: &Tx<'_>, outbox: &Outbox) -> Done<()> {
    let events = &outbox.events;
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
