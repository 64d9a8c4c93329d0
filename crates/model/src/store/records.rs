//! Records: small things without rules of their own, which people or the engine write down and the engine goes by. Limits of
//! pools and targets, endpoints for notifications, operations, the zone database of the cursors.
//!
//! A record is known by its kind, its tenant and its id, and has a version that grows with every write. A new kind needs a
//! variant here and its encoding in the store crate; no verb and no table.

use super::{Expected, Page};
use crate::capacity::{Capacity, Scope};
use crate::error::{Error, Kind, Result};
use crate::ids::TenantId;
use crate::notify::Endpoint;
use crate::operation::{Operation, OperationState};
use std::ops::RangeInclusive;

/// Small things that somebody writes down.
#[async_trait::async_trait]
pub trait Records: Send + Sync + 'static {
    /// Writes a record, if what is there is what the writer expects: `None` is whatever is there. Says whether it was.
    async fn put_record(&self, record: Record, expected: Option<Expected>) -> Result<bool>;
    async fn get_record(&self, key: &RecordKey) -> Result<Option<Stored>>;
    /// Lists records by kind, tenant and id, the last ones first.
    async fn list_records(&self, query: &RecordQuery) -> Result<Page<Stored>>;
    /// Forgets a record, and with an endpoint what waits for it; says whether there was one.
    async fn delete_record(&self, key: &RecordKey) -> Result<bool>;
}

/// What a record is about.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum RecordKind {
    /// The limits of a pool.
    Pool,
    /// The limits of a target.
    Target,
    /// An endpoint for notifications.
    Endpoint,
    /// A replay or backfill.
    Operation,
    /// The zone database of the cursors.
    ZoneDatabase,
}

impl RecordKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [RecordKind; 5] =
        [RecordKind::Pool, RecordKind::Target, RecordKind::Endpoint, RecordKind::Operation, RecordKind::ZoneDatabase];

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl From<Scope> for RecordKind {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Pool => RecordKind::Pool,
            Scope::Target => RecordKind::Target,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The limits of a pool or target.
    Limits(Capacity),
    /// An endpoint for notifications.
    Endpoint(Endpoint),
    /// A replay or backfill.
    Operation(Operation),
    /// The zone database of the cursors.
    ZoneDatabase(ZoneDatabase),
}

/// The zone database that the cursors of all jobs were computed with. There is one for the whole installation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneDatabase {
    pub version: String,
}

impl ZoneDatabase {
    /// What it is known by.
    pub fn key() -> RecordKey {
        RecordKey::new(RecordKind::ZoneDatabase, TenantId::DEFAULT, "")
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecordKey {
    pub kind: RecordKind,
    pub tenant: TenantId,
    /// The name of a pool or target; of an endpoint or operation the digits of its id (`to_digits`), which sort as it does; empty
    /// where there is only one.
    pub id: String,
}

impl RecordKey {
    /// A record by kind, tenant and id.
    pub fn new(kind: RecordKind, tenant: TenantId, id: impl Into<String>) -> Self {
        Self { kind, tenant, id: id.into() }
    }
}

impl Record {
    /// What it is known by.
    pub fn key(&self) -> RecordKey {
        match self {
            Record::Limits(limits) => RecordKey::new(limits.scope.into(), limits.tenant, &*limits.name),
            Record::Endpoint(endpoint) => {
                RecordKey::new(RecordKind::Endpoint, endpoint.tenant, endpoint.id.to_digits())
            }
            Record::Operation(operation) => {
                RecordKey::new(RecordKind::Operation, operation.tenant, operation.id.to_digits())
            }
            Record::ZoneDatabase(_) => ZoneDatabase::key(),
        }
    }

    /// Whether somebody has to go on with it.
    pub fn is_at_work(&self) -> bool {
        matches!(self, Record::Operation(operation) if operation.state == OperationState::Running)
    }
}

/// A record as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    /// Its version, from 1.
    pub version: u32,
    pub record: Record,
}

impl Stored {
    /// What is in it, where the caller knows its kind.
    pub fn into_inner<T: TryFrom<Record, Error = Error>>(self) -> Result<T> {
        self.record.try_into()
    }
}

/// Which records to list.
#[derive(Clone, Debug)]
pub struct RecordQuery {
    /// Of which kinds, by their codes.
    pub kinds: RangeInclusive<RecordKind>,
    /// Whose; `None` is everybody's.
    pub tenant: Option<TenantId>,
    /// Only those that somebody has to go on with.
    pub at_work: bool,
    /// Only before this one.
    pub before: Option<RecordKey>,
    /// At most this many.
    pub limit: usize,
}

impl RecordQuery {
    /// The records of one kind, of one tenant or of all.
    pub fn new(kind: RecordKind, tenant: Option<TenantId>, limit: usize) -> Self {
        Self { kinds: kind..=kind, tenant, at_work: false, before: None, limit }
    }

    /// The limits of pools and targets, of one tenant or of all.
    pub fn limits(tenant: Option<TenantId>, limit: usize) -> Self {
        Self { kinds: RecordKind::Pool..=RecordKind::Target, ..Self::new(RecordKind::Pool, tenant, limit) }
    }
}

/// Records that are read at once where all are wanted.
pub const RECORDS_PAGE: usize = 1_000;

/// Reads all records that match, page by page, in the order of kind, tenant and id.
pub async fn list_all<T: TryFrom<Record, Error = Error>>(
    records: &(impl Records + ?Sized),
    mut query: RecordQuery,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    loop {
        let page = records.list_records(&query).await?;
        query.before = page.items.last().map(|last| last.record.key());
        for stored in page.items {
            all.push(stored.into_inner()?);
        }
        if !page.has_more {
            all.reverse();
            return Ok(all);
        }
    }
}

macro_rules! record {
    ($variant:ident, $inner:ident) => {
        impl From<$inner> for Record {
            fn from(inner: $inner) -> Self {
                Record::$variant(inner)
            }
        }

        impl TryFrom<Record> for $inner {
            type Error = Error;

            fn try_from(record: Record) -> Result<Self> {
                match record {
                    Record::$variant(inner) => Ok(inner),
                    other => Err(Error::new(Kind::Bug, format!("a record of another kind: {:?}", other.key()))),
                }
            }
        }
    };
}

record!(Limits, Capacity);
record!(Endpoint, Endpoint);
record!(Operation, Operation);
record!(ZoneDatabase, ZoneDatabase);
