//! What the writer knows of notifications without asking the database: who wants to hear of what, and which jobs are
//! expected to succeed or have failed. Every write on the path asks it, and mostly the answer is: nobody, none.
//!
//! It belongs to the thread, because a store has one thread that writes, and nobody else changes these tables. It is read
//! at the first question and changed along with the tables; a transaction that changed it and is rolled back makes
//! it forget everything.

use super::failure::Done;
use super::records;
use super::watches;
use campanile_model::ids::{JobId, TenantId};
use campanile_model::notify::{Endpoint, EventKind};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::HashSet;

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// What is in the tables.
pub(super) struct Known {
    endpoints: Vec<Endpoint>,
    /// The kinds that anybody wants.
    wanted: u8,
    /// Jobs that must succeed in every period.
    pub(super) expected: HashSet<JobId>,
    /// Jobs that have failed since their last success.
    pub(super) failing: HashSet<JobId>,
    /// Whether the running transaction changed any of it.
    changed: bool,
}

impl Known {
    fn read(connection: &Connection) -> Done<Self> {
        let endpoints = records::list_endpoints(connection)?;
        let wanted = endpoints.iter().fold(0, |mask, endpoint| mask | crate::records::mask(&endpoint.events));
        let (expected, failing) = (watches::list_expected(connection)?, watches::list_failing(connection)?);
        // What this transaction wrote before the first question is part of it.
        Ok(Self { endpoints, wanted, expected, failing, changed: true })
    }

    /// Whether nothing is expected of jobs, none fails, and nobody wants events: then a completion needs to know no more.
    pub(super) fn is_nothing(&self) -> bool {
        self.endpoints.is_empty() && self.expected.is_empty() && self.failing.is_empty()
    }

    /// Whether anybody wants events of this kind.
    pub(super) fn is_wanted(&self, tenant: TenantId, kind: EventKind) -> bool {
        let wants = |endpoint: &Endpoint| endpoint.tenant == tenant && endpoint.events.contains(&kind);
        self.wanted & (1 << kind.code()) != 0 && self.endpoints.iter().any(wants)
    }

    /// Who wants events at all.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter()
    }
}

pub(super) fn ask<T>(connection: &Connection, question: impl FnOnce(&Known) -> T) -> Done<T> {
    with(connection, |known| question(known))
}

/// Changes it along with the tables.
pub(super) fn change<T>(connection: &Connection, change: impl FnOnce(&mut Known) -> T) -> Done<T> {
    with(connection, |known| {
        known.changed = true;
        change(known)
    })
}

fn with<T>(connection: &Connection, use_it: impl FnOnce(&mut Known) -> T) -> Done<T> {
    KNOWN.with_borrow_mut(|known| {
        let known = match known {
            Some(known) => known,
            None => known.insert(Known::read(connection)?),
        };
        Ok(use_it(known))
    })
}

/// Forgets everything: the tables were changed, and will be read again.
pub(super) fn forget() {
    KNOWN.set(None);
}

pub(super) fn begun() {
    KNOWN.with_borrow_mut(|known| {
        if let Some(known) = known {
            known.changed = false;
        }
    });
}

/// A transaction was rolled back.
pub(super) fn rolled_back() {
    if KNOWN.with_borrow(|known| known.as_ref().is_some_and(|known| known.changed)) {
        forget();
    }
}
