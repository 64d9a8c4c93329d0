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
use std::rc::Rc;

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// What is in the tables.
pub(super) struct Known {
    endpoints: Vec<Rc<Endpoint>>,
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
        let endpoints: Vec<_> = records::list_endpoints(connection)?.into_iter().map(Rc::new).collect();
        let wanted = endpoints.iter().fold(0, |mask, endpoint| mask | crate::records::mask(&endpoint.events));
        let (expected, failing) = (watches::list_expected(connection)?, watches::list_failing(connection)?);
        // What this transaction wrote before the first question is part of it.
        Ok(Self { endpoints, wanted, expected, failing, changed: true })
    }

    /// Whether anybody wants to hear of `kind`.
    pub(super) fn is_wanted(&self, tenant: TenantId, kind: EventKind) -> bool {
        self.wanted & (1 << kind.code()) != 0 && self.wanting(tenant, kind).next().is_some()
    }

    /// Who wants to hear of `kind`.
    pub(super) fn wanting(&self, tenant: TenantId, kind: EventKind) -> impl Iterator<Item = &Rc<Endpoint>> {
        self.endpoints.iter().filter(move |endpoint| endpoint.tenant == tenant && endpoint.events.contains(&kind))
    }
}

/// Answers a question.
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

/// A transaction begins.
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
