//! The shares of the priorities: smooth weighted round robin, 8 : 4 : 2 : 1, counted for each set of targets and
//! priorities that is asked for. And how long a tenant's turn is.

use campanile_model::job::Priority;
use campanile_model::limits;
use std::collections::HashMap;

/// How many priorities there are.
pub(crate) const LEVELS: usize = Priority::ALL.len();
/// Shares of the priorities, in the order of `Priority::ALL`.
const WEIGHTS: [i32; LEVELS] = [8, 4, 2, 1];
/// Executions of one tenant in its turn.
pub(crate) const QUANTUM: u32 = 4;
/// Sets of targets whose shares are remembered; with more of them, the count starts anew. Each worker may have its own.
const ACCOUNTS_MAX: usize = limits::WORKERS_MAX;

/// What the priorities of one pool have coming to them, by the digest of what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    accounts: HashMap<u64, Credits>,
}

impl Shares {
    /// Where the count of an account stands.
    pub fn credits(&self, account: u64) -> Credits {
        self.accounts.get(&account).copied().unwrap_or_default()
    }

    pub fn remember(&mut self, account: u64, credits: Credits) {
        if self.accounts.len() >= ACCOUNTS_MAX && !self.accounts.contains_key(&account) {
            self.accounts.clear();
        }
        self.accounts.insert(account, credits);
    }
}

/// What each priority has coming to it.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Credits([i32; LEVELS]);

impl Credits {
    /// Whose turn it is: everybody open earns its weight, the richest goes and pays for all. Who has nothing earns
    /// nothing for later.
    pub fn next(&mut self, is_open: [bool; LEVELS]) -> Option<usize> {
        let mut earned = 0;
        let mut richest = None;
        for (level, credit) in self.0.iter_mut().enumerate() {
            if !is_open[level] {
                *credit = 0;
                continue;
            }
            earned += WEIGHTS[level];
            *credit += WEIGHTS[level];
            if richest.is_none_or(|(_, most)| *credit > most) {
                richest = Some((level, *credit));
            }
        }
        let (level, _) = richest?;
        self.0[level] -= earned;
        Some(level)
    }
}
