//! How records are written down: JSON in one column, the same in every store, so that an installation can be copied from one to
//! another.
//!
//! What the stores themselves ask for while they write has columns beside it: `slots` and `paused` of a pool, which every
//! claim compares; `events` of an endpoint, which every change of state compares; `at_work`, which the pulse looks
//! for. They follow from the record, and nobody writes them alone.

use campanile_model::capacity::{Capacity, Scope};
use campanile_model::error::{Error, Kind, Result};
use campanile_model::fault::Step;
use campanile_model::ids::{EndpointId, JobId, OperationId};
use campanile_model::notify::{Endpoint, EventKind};
use campanile_model::operation::{Operation, OperationKind, OperationState};
use campanile_model::store::{Record, RecordKey, RecordKind, RecordQuery, ZoneDatabase};
use campanile_model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A record as a row has it, without its version.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) key: RecordKey,
    pub(crate) body: String,
    pub(crate) slots: Option<u32>,
    pub(crate) paused: bool,
    pub(crate) events: u8,
    pub(crate) at_work: bool,
}

impl Row {
    pub(crate) fn of(record: &Record) -> Result<Self> {
        let (slots, paused, events) = match record {
            Record::Limits(limits) => (limits.slots, limits.paused, 0),
            Record::Endpoint(endpoint) => (None, endpoint.paused, mask(&endpoint.events)),
            Record::Operation(_) | Record::ZoneDatabase(_) => (None, false, 0),
        };
        Ok(Self { key: record.key(), body: encode(record)?, slots, paused, events, at_work: record.is_at_work() })
    }
}

/// Where a list starts: before the record that it names, or before whatever comes after those that it may name.
pub(crate) fn position(query: &RecordQuery) -> (i16, i64, &str) {
    let tenant = query.tenant.map_or(i64::MAX, |tenant| i64::from(tenant.0) + 1);
    match &query.before {
        Some(key) => (i16::from(key.kind.code()), i64::from(key.tenant.0), &key.id),
        None => (i16::from(query.kinds.end().code()), tenant, ""),
    }
}

/// Kinds of events as a mask: bit n stands for the kind with code n.
pub(crate) fn mask(events: &[EventKind]) -> u8 {
    events.iter().fold(0, |mask, kind| mask | 1 << kind.code())
}

/// The step of a write of this kind.
pub(crate) fn put_step(kind: RecordKind) -> Step {
    match kind {
        RecordKind::Pool | RecordKind::Target => Step("put_capacity"),
        RecordKind::Endpoint => Step("put_endpoint"),
        RecordKind::Operation => Step("put_operation"),
        RecordKind::ZoneDatabase => Step("put_zone_database"),
    }
}

/// The step of a deletion of this kind. Nobody deletes the others.
pub(crate) fn delete_step(kind: RecordKind) -> Step {
    match kind {
        RecordKind::Pool | RecordKind::Target => Step("delete_capacity"),
        RecordKind::Endpoint => Step("delete_endpoint"),
        RecordKind::Operation | RecordKind::ZoneDatabase => Step::NONE,
    }
}

#[derive(Serialize, Deserialize)]
struct Limits {
    slots: Option<u32>,
    per_second_milli: Option<u64>,
    paused: bool,
    updated_at: i64,
}

#[derive(Serialize, Deserialize)]
struct Listener {
    url: String,
    events: u8,
    /// The digits of its id; `sql/outbox/list_wanting.sql` of PostgreSQL reads this and `tag`.
    job: Option<String>,
    tag: Option<String>,
    paused: bool,
    created_at: i64,
}

#[derive(Serialize, Deserialize)]
struct Work {
    kind: u8,
    state: u8,
    spec: String,
    progress: String,
    created_at: i64,
    updated_at: i64,
}

#[derive(Serialize, Deserialize)]
struct Zones {
    version: String,
}

fn encode(record: &Record) -> Result<String> {
    let text = match record {
        Record::Limits(limits) => serde_json::to_string(&Limits {
            slots: limits.slots,
            per_second_milli: limits.per_second_milli,
            paused: limits.paused,
            updated_at: limits.updated_at.millis(),
        }),
        Record::Endpoint(endpoint) => serde_json::to_string(&Listener {
            url: endpoint.url.clone(),
            events: mask(&endpoint.events),
            job: endpoint.job.map(|job| job.to_digits()),
            // PostgreSQL can take it out of the JSON only without NUL.
            tag: endpoint.tag.as_ref().map(|tag| tag.replace('\0', "\u{fffd}")),
            paused: endpoint.paused,
            created_at: endpoint.created_at.millis(),
        }),
        Record::Operation(operation) => serde_json::to_string(&Work {
            kind: operation.kind.code(),
            state: operation.state.code(),
            spec: operation.spec.clone(),
            progress: operation.progress.clone(),
            created_at: operation.created_at.millis(),
            updated_at: operation.updated_at.millis(),
        }),
        Record::ZoneDatabase(zones) => serde_json::to_string(&Zones { version: zones.version.clone() }),
    };
    text.map_err(|error| Error::new(Kind::Bug, format!("a record cannot be written: {error}")))
}

/// The record of a row.
pub(crate) fn decode(key: RecordKey, body: &str) -> Result<Record> {
    let unreadable = || Error::new(Kind::Corrupt, format!("cannot read the stored record {key:?}"));
    let record = match key.kind {
        RecordKind::Pool => limits(Scope::Pool, &key, body),
        RecordKind::Target => limits(Scope::Target, &key, body),
        RecordKind::Endpoint => endpoint(&key, body),
        RecordKind::Operation => operation(&key, body),
        RecordKind::ZoneDatabase => zone_database(body),
    };
    record.ok_or_else(unreadable)
}

fn limits(scope: Scope, key: &RecordKey, body: &str) -> Option<Record> {
    let body: Limits = serde_json::from_str(body).ok()?;
    Some(Record::Limits(Capacity {
        tenant: key.tenant,
        scope,
        name: key.id.clone(),
        slots: body.slots,
        per_second_milli: body.per_second_milli,
        paused: body.paused,
        updated_at: Timestamp::from_millis(body.updated_at),
    }))
}

fn endpoint(key: &RecordKey, body: &str) -> Option<Record> {
    let body: Listener = serde_json::from_str(body).ok()?;
    let job = match body.job {
        Some(digits) => Some(JobId::from_digits(&digits)?),
        None => None,
    };
    Some(Record::Endpoint(Endpoint {
        id: EndpointId::from_digits(&key.id)?,
        tenant: key.tenant,
        url: body.url,
        events: EventKind::ALL.into_iter().filter(|kind| body.events & (1 << kind.code()) != 0).collect(),
        job,
        tag: body.tag,
        paused: body.paused,
        created_at: Timestamp::from_millis(body.created_at),
    }))
}

fn operation(key: &RecordKey, body: &str) -> Option<Record> {
    let body: Work = serde_json::from_str(body).ok()?;
    Some(Record::Operation(Operation {
        id: OperationId::from_digits(&key.id)?,
        tenant: key.tenant,
        kind: OperationKind::from_code(body.kind)?,
        state: OperationState::from_code(body.state)?,
        spec: body.spec,
        progress: body.progress,
        created_at: Timestamp::from_millis(body.created_at),
        updated_at: Timestamp::from_millis(body.updated_at),
    }))
}

fn zone_database(body: &str) -> Option<Record> {
    let body: Zones = serde_json::from_str(body).ok()?;
    Some(Record::ZoneDatabase(ZoneDatabase { version: body.version }))
}
