//! What is known to wait for one kind of runner, and which of these runners wait. Pure.
//!
//! A *fetch* is planned for everybody in line whom something is known for, longest waiting first, and carried out by
//! one statement; meanwhile they stay in line, and may give up. What was fetched for one that did is handed on to the
//! next who wants it. What nobody wants goes back into the table. What is published while receivers in line have room
//! for it never goes there.

use super::known::{Known, Lane, Quota, Stamp, Taken};
use super::level::Level;
use super::rows::Row;
use crate::waiters::Waiters;
use crate::want::{Want, target_of};
use campanile_model::queue::{Depth, Dispatch};
use campanile_model::{Error, Kind};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// Rows that one fetch takes.
const FETCH_ROWS_MAX: usize = 2_048;
/// How often a fetch plans again for a receiver that got less than half of what it wants.
const ROUNDS_MAX: u32 = 3;

/// What is known to wait for one kind of runner, and which of these runners wait.
#[derive(Default)]
pub(super) struct Side {
    known: Known,
    waiters: Waiters,
    /// Fetched for receivers that gave up. Neither in the table nor anybody's.
    left: Vec<Dispatch>,
    /// What those want whom the fetch that is under way serves.
    fetching: Vec<Arc<Want>>,
    /// Put into the table without a ring, because receivers in line have room for it; and not fetched yet.
    unrung: usize,
    pub level: Level,
    trouble: Option<Error>,
}

/// What is to be done next for those in line.
pub(super) enum Next {
    /// Nothing is known that anybody in line wants.
    Rest,
    /// Back into the table.
    PutBack(Vec<Dispatch>),
    Fetch(Fetch),
}

/// What is being fetched, and for whom.
pub(super) struct Fetch {
    orders: Vec<Order>,
    pub quotas: Vec<Quota>,
    since: Stamp,
    round: u32,
}

struct Order {
    ticket: u64,
    want: Arc<Want>,
    limit: usize,
    planned: Vec<Lane>,
    got: Vec<Dispatch>,
}

/// Who should hear of what was put into the table.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct News {
    pub is_wanted_here: bool,
    pub is_for_others: bool,
}

impl Side {
    pub fn depth(&self) -> Depth {
        let depth = self.level.depth();
        Depth { waiting: depth.waiting + self.left.len(), ..depth }
    }

    /// Whether anything is there for a receiver, as far as is known.
    pub fn has(&self, want: &Want) -> bool {
        self.known.has(want) || self.left.iter().any(|item| is_wanted(want, item))
    }

    /// Whether anybody is in line.
    pub fn is_waited_for(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Whether anybody is in line for whom nothing is known.
    pub fn is_starving(&self) -> bool {
        self.waiters.wants().any(|want| !self.known.has(want))
    }

    /// A place at the end of the line: its ticket, and the bell that rings once something was laid down for it.
    pub fn stand_in_line(&mut self, want: &Arc<Want>, limit: usize) -> (u64, Arc<Notify>) {
        self.waiters.enter(want, limit)
    }

    /// Gives up a place in line; what was laid down there.
    pub fn leave(&mut self, want: &Arc<Want>, ticket: u64) -> Vec<Dispatch> {
        self.waiters.leave(want, ticket)
    }

    /// What was laid down for a receiver that gave up. `next` must follow.
    pub fn give_up(&mut self, laid_down: Vec<Dispatch>) {
        self.level.settle(laid_down.len());
        self.left.extend(laid_down);
    }

    /// What could not be put back into the table.
    pub fn keep(&mut self, batch: Vec<Dispatch>) {
        self.left.splice(..0, batch);
    }

    /// Hands a batch over past the table, if those in line have room for all of it and nothing is known to wait that would have
    /// its turn first. Who is being fetched for is left out: it gets something already. What is left is to be put into the table.
    pub fn hand_over(&mut self, batch: Vec<Dispatch>) -> Vec<Dispatch> {
        let lanes: HashSet<Lane> = batch.iter().map(Lane::of).collect();
        let is_one = |want: &Want| self.is_free(want) && lanes.iter().any(|lane| is_of(want, lane));
        let others_wait = !self.left.is_empty() || lanes.iter().any(|lane| self.known.has_before(lane));
        if others_wait || self.waiters.room_for(batch.len(), is_one) < batch.len() {
            return batch;
        }
        self.left = batch;
        self.hand_on();
        std::mem::take(&mut self.left)
    }

    fn is_free(&self, want: &Want) -> bool {
        self.fetching.iter().all(|fetching| **fetching != *want)
    }

    /// Rows were put into the table, the first of them with this number.
    pub fn was_put<'a>(&mut self, items: impl Iterator<Item = &'a Dispatch>, count: usize, first_seq: i64) -> News {
        self.level.change(count as i64);
        let lanes: HashSet<Lane> = items.map(Lane::of).collect();
        lanes.iter().for_each(|lane| self.known.put(lane, first_seq));
        let is_one = |want: &Want| lanes.iter().any(|lane| is_of(want, lane));
        let is_wanted_by_any = |lane: &Lane| self.waiters.wants().any(|want| is_of(want, lane));
        let room = self.waiters.room_for(count, is_one);
        let is_for_others = room < count || !lanes.iter().all(is_wanted_by_any);
        if !is_for_others {
            self.unrung += count;
        }
        News { is_wanted_here: room > 0, is_for_others }
    }

    /// What a look at the table found.
    pub fn found(&mut self, lanes: Vec<(Lane, i64)>, is_all: bool, since: Stamp) {
        self.known.found(lanes, is_all, since);
    }

    /// Whether anything is known for anybody in line.
    pub fn has_for_somebody(&self) -> bool {
        self.waiters.wants().any(|want| self.known.has(want))
    }

    pub fn stamp(&self) -> Stamp {
        self.known.stamp()
    }

    /// What is to be done next.
    pub fn next(&mut self) -> Next {
        self.hand_on();
        if !self.left.is_empty() {
            return Next::PutBack(std::mem::take(&mut self.left));
        }
        let mut next = self.waiters.first_of_each(|want| self.known.has(want));
        let since = self.known.stamp();
        let mut orders = Vec::new();
        let mut rows_left = FETCH_ROWS_MAX;
        while rows_left > 0
            && let Some((ticket, (want, limit))) = next.pop_first()
        {
            let limit = limit.min(rows_left);
            let planned = self.known.plan(&want, limit);
            rows_left -= planned.len();
            if let Some((ticket, limit)) = self.waiters.next_of(&want, ticket) {
                next.insert(ticket, (Arc::clone(&want), limit));
            }
            orders.push(Order { ticket, want, limit, planned, got: Vec::new() });
        }
        if orders.is_empty() {
            return Next::Rest;
        }
        let quotas = self.known.quotas(orders.iter().flat_map(|order| &order.planned));
        self.level.begin(quotas.iter().map(|quota| quota.count).sum());
        self.fetching = orders.iter().map(|order| Arc::clone(&order.want)).collect();
        Next::Fetch(Fetch { orders, quotas, since, round: 1 })
    }

    /// Whether others must be told of what receivers in line had room for and did not take.
    pub fn must_ring(&mut self) -> bool {
        std::mem::take(&mut self.unrung) > 0 && !self.known.is_empty()
    }

    /// What came of a fetch; the rest of it, if there is more to be had for those that got little.
    pub fn fetched(&mut self, mut fetch: Fetch, rows: Vec<Row>) -> Option<Fetch> {
        self.level.end(fetch.quotas.iter().map(|quota| quota.count).sum());
        self.level.change(-(rows.len() as i64));
        self.unrung = self.unrung.saturating_sub(rows.len());
        let mut lanes: HashMap<Lane, (Taken, VecDeque<Dispatch>)> = HashMap::new();
        for Row { seq, item } in rows {
            let (taken, items) = lanes.entry(Lane::of(&item)).or_default();
            *taken = Taken { count: taken.count + 1, last_seq: seq };
            items.push_back(item);
        }
        for quota in &fetch.quotas {
            let taken = lanes.get(&quota.lane).map(|(taken, _)| *taken).unwrap_or_default();
            self.known.taken(quota, taken, fetch.since);
        }
        for order in &mut fetch.orders {
            let items = order.planned.drain(..).filter_map(|lane| lanes.get_mut(&lane)?.1.pop_front());
            order.got.extend(items);
        }
        self.left.extend(lanes.into_values().flat_map(|(_, items)| items));
        if fetch.round < ROUNDS_MAX {
            fetch.round += 1;
            fetch.since = self.known.stamp();
            for order in fetch.orders.iter_mut().filter(|order| order.got.len() * 2 < order.limit) {
                if self.waiters.is_in_line(&order.want, order.ticket) {
                    order.planned = self.known.plan(&order.want, order.limit - order.got.len());
                }
            }
            fetch.quotas = self.known.quotas(fetch.orders.iter().flat_map(|order| &order.planned));
            if !fetch.quotas.is_empty() {
                self.level.begin(fetch.quotas.iter().map(|quota| quota.count).sum());
                return Some(fetch);
            }
        }
        self.lay_down(fetch);
        None
    }

    /// A fetch failed. What earlier rounds brought is laid down.
    pub fn not_fetched(&mut self, fetch: Fetch) {
        self.level.end(fetch.quotas.iter().map(|quota| quota.count).sum());
        self.lay_down(fetch);
    }

    /// The database is gone: whoever is in line is told.
    pub fn despair(&mut self, error: &Error) {
        self.trouble = Some(error.clone());
        self.waiters.call_all();
    }

    /// Why nothing was laid down.
    pub fn trouble(&self) -> Error {
        self.trouble.clone().unwrap_or_else(|| Error::new(Kind::Unavailable, "the queue is not available"))
    }

    fn lay_down(&mut self, fetch: Fetch) {
        self.fetching.clear();
        for Order { ticket, want, got, .. } in fetch.orders {
            if got.is_empty() {
                continue;
            }
            if self.waiters.is_in_line(&want, ticket) {
                self.level.take(got.len());
                self.waiters.lay_down(&want, ticket, got);
            } else {
                self.left.extend(got);
            }
        }
    }

    /// Lays down what was left for those in line who want it and are not served by a fetch.
    fn hand_on(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let mut lanes: Vec<(Lane, VecDeque<Dispatch>)> = Vec::new();
        let mut places: HashMap<Lane, usize> = HashMap::new();
        for item in std::mem::take(&mut self.left) {
            let lane = Lane::of(&item);
            let place = *places.entry(lane.clone()).or_insert(lanes.len());
            if place == lanes.len() {
                lanes.push((lane, VecDeque::new()));
            }
            lanes[place].1.push_back(item);
        }
        lanes.sort_by_key(|(lane, _)| lane.level);
        let is_one = |want: &Want| self.is_free(want) && lanes.iter().any(|(lane, _)| is_of(want, lane));
        let mut next = self.waiters.first_of_each(is_one);
        while let Some((ticket, (want, limit))) = next.pop_first() {
            let mut items = Vec::new();
            for (_, waiting) in lanes.iter_mut().filter(|(lane, _)| is_of(&want, lane)) {
                let count = waiting.len().min(limit - items.len());
                items.extend(waiting.drain(..count));
            }
            if items.is_empty() {
                continue;
            }
            self.level.take(items.len());
            if let Some((ticket, limit)) = self.waiters.lay_down(&want, ticket, items) {
                next.insert(ticket, (want, limit));
            }
        }
        self.left = lanes.into_iter().flat_map(|(_, items)| items).collect();
    }
}

fn is_of(want: &Want, lane: &Lane) -> bool {
    want.is(&lane.pool, lane.level, &lane.target)
}

fn is_wanted(want: &Want, item: &Dispatch) -> bool {
    want.is(&item.pool, item.priority.code(), &target_of(item))
}

#[cfg(test)]
mod tests;
