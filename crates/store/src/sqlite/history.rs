//! The executions of each job: an index that is written behind.
//!
//! Keeping it in order at every fire costs six times what the rest of a fire costs: fires are of many jobs, and each job
//! has its own place in the tree. So a fire appends its pairs (job, execution) to a tail, one blob per batch, in the
//! same transaction; and the writer folds the tail into the tree in key order, in slices between its groups, when it has
//! time. Readers look at both. A pair that is in both is the same pair, so a crash between any two slices is harmless.

use super::failure::{Done, Failure};
use campanile_model::ids::{ExecutionId, JobId};
use rusqlite::{Connection, params};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a pair.
const PAIR_BYTES: usize = 32;
/// Fewer pairs than this stay in the tail: reading through them costs about a millisecond.
const FOLD_PAIRS_MIN: usize = 64 * 1_024;
/// With more pairs than this in the tail, the writer folds even when it is busy.
const TAIL_PAIRS_MAX: usize = 8 * 1_024 * 1_024;
/// Pairs that are sorted together: 32 MB.
const FOLD_PAIRS_MAX: usize = 1_024 * 1_024;
/// Pairs in one transaction: some milliseconds.
const SLICE_PAIRS: usize = 4_096;

/// Appends pairs to the tail.
pub(super) fn append(connection: &Connection, pairs: impl Iterator<Item = (JobId, ExecutionId)>) -> Done<()> {
    let mut entries = Vec::with_capacity(pairs.size_hint().0 * PAIR_BYTES);
    for (job, execution) in pairs {
        entries.extend_from_slice(job.as_bytes());
        entries.extend_from_slice(execution.as_bytes());
    }
    if !entries.is_empty() {
        connection.prepare_cached(include_str!("sql/history/append.sql"))?.execute([entries])?;
    }
    Ok(())
}

/// Calls `visit` for the executions of a job in `[from, end)`, newest first, until it answers `false`.
pub(super) fn newest_first(
    connection: &Connection,
    job: JobId,
    (from, end): ([u8; 16], [u8; 16]),
    mut visit: impl FnMut(ExecutionId) -> Done<bool>,
) -> Done<()> {
    let mut recent = Vec::new();
    let mut read = connection.prepare_cached(include_str!("sql/history/read_tail.sql"))?;
    let mut tail = read.query([0])?;
    while let Some(row) = tail.next()? {
        let entries = row.get_ref(1)?.as_blob().unwrap_or_default();
        let of_job = entries.chunks_exact(PAIR_BYTES).filter(|pair| pair[..16] == *job.as_bytes());
        recent.extend(of_job.map(second).filter(|id| (from..end).contains(id)));
    }
    recent.sort_unstable();
    let mut list = connection.prepare_cached(include_str!("sql/history/list.sql"))?;
    let mut folded = list.query(params![job.as_bytes(), from, end])?;
    let mut next_folded = || -> Done<Option<[u8; 16]>> { Ok(folded.next()?.map(|row| row.get(0)).transpose()?) };
    let mut older = next_folded()?;
    let mut last = None;
    loop {
        let id = match (recent.last(), older) {
            (Some(&new), Some(old)) if new >= old => recent.pop(),
            (Some(_), None) => recent.pop(),
            (_, Some(old)) => {
                older = next_folded()?;
                Some(old)
            }
            (None, None) => None,
        };
        let Some(id) = id else { return Ok(()) };
        // In the tail twice (a refire), or in both.
        if last == Some(id) {
            continue;
        }
        last = Some(id);
        if !visit(ExecutionId::from_bytes(id))? {
            return Ok(());
        }
    }
}

/// Takes a pruned execution out of its job's history. Where it is in the tail, the fold leaves it out: it is told by
/// `note_pruned`.
pub(super) fn remove(connection: &Connection, job: JobId, execution: ExecutionId) -> Done<usize> {
    let mut delete = connection.prepare_cached(include_str!("sql/history/delete.sql"))?;
    Ok(delete.execute([job.as_bytes(), execution.as_bytes()])?)
}

/// The key under which `meta` keeps the newest execution that was ever pruned.
const PRUNED_UPTO: &str = "pruned_upto";

/// Notes that executions up to this one were pruned.
pub(super) fn note_pruned(connection: &Connection, upto: ExecutionId) -> Done<()> {
    if pruned_upto(connection)?.is_none_or(|before| before < *upto.as_bytes()) {
        super::put_meta(connection, PRUNED_UPTO, &upto.to_string())?;
    }
    Ok(())
}

fn pruned_upto(connection: &Connection) -> Done<Option<[u8; 16]>> {
    let Some(text) = super::get_meta(connection, PRUNED_UPTO)? else { return Ok(None) };
    let id: ExecutionId = text.parse().map_err(|_| Failure::corrupt("newest pruned execution"))?;
    Ok(Some(*id.as_bytes()))
}

fn second(pair: &[u8]) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&pair[16..PAIR_BYTES]);
    id
}

/// The fold: what is left of it between two slices.
#[derive(Default)]
pub(super) struct Fold {
    /// About how many pairs the tail holds.
    tail: Arc<AtomicUsize>,
    /// Sorted pairs to insert, and the tail row up to which they reach.
    sorted: VecDeque<[u8; PAIR_BYTES]>,
    upto: i64,
    /// How many pairs the last sort took off the count of the tail.
    taken: usize,
}

impl Fold {
    /// What a store finds when it is opened.
    pub(super) fn open(connection: &Connection) -> rusqlite::Result<Self> {
        let bytes: i64 = connection.query_row(include_str!("sql/history/measure_tail.sql"), [], |row| row.get(0))?;
        Ok(Self { tail: Arc::new(AtomicUsize::new(bytes as usize / PAIR_BYTES)), ..Self::default() })
    }

    /// About how many pairs the tail holds, to be raised by whoever appends.
    pub(super) fn tail(&self) -> Arc<AtomicUsize> {
        self.tail.clone()
    }

    /// Whether a slice is worth doing, `idle` or not.
    pub(super) fn is_due(&self, idle: bool) -> bool {
        let many = if idle { FOLD_PAIRS_MIN } else { TAIL_PAIRS_MAX };
        self.tail.load(Ordering::Relaxed) >= many || (idle && !self.sorted.is_empty())
    }

    /// Folds a slice, in the caller's transaction. When it fails, nothing is lost: `restart` and try later.
    pub(super) fn slice(&mut self, connection: &Connection) -> Done<()> {
        if self.sorted.is_empty() {
            self.sort(connection)?;
        }
        let mut insert = connection.prepare_cached(include_str!("sql/history/insert.sql"))?;
        let mut exists = connection.prepare_cached(include_str!("sql/history/exists.sql"))?;
        let pruned = pruned_upto(connection)?;
        for _ in 0..SLICE_PAIRS {
            let Some(pair) = self.sorted.pop_front() else { break };
            let (job, execution) = pair.split_at(16);
            // What was pruned while it was in the tail stays out. Newer ones need not be looked for.
            let may_be_gone = pruned.is_some_and(|pruned| execution <= &pruned[..]);
            if !may_be_gone || exists.exists([execution])? {
                insert.execute([job, execution])?;
            }
        }
        if self.sorted.is_empty() {
            connection.prepare_cached(include_str!("sql/history/cut_tail.sql"))?.execute([self.upto])?;
        }
        Ok(())
    }

    /// Forgets what was sorted: the tail has it still.
    pub(super) fn restart(&mut self) {
        self.sorted.clear();
        self.tail.fetch_add(std::mem::take(&mut self.taken), Ordering::Relaxed);
    }

    fn sort(&mut self, connection: &Connection) -> Done<()> {
        let mut pairs: Vec<[u8; PAIR_BYTES]> = Vec::new();
        let mut read = connection.prepare_cached(include_str!("sql/history/read_tail.sql"))?;
        let mut tail = read.query([0])?;
        while pairs.len() < FOLD_PAIRS_MAX {
            let Some(row) = tail.next()? else { break };
            self.upto = row.get(0)?;
            pairs.extend_from_slice(row.get_ref(1)?.as_blob().unwrap_or_default().as_chunks().0);
        }
        let counted = self.tail.load(Ordering::Relaxed);
        // The count is only about right; an empty tail sets it straight.
        self.taken = if pairs.is_empty() { counted } else { counted.min(pairs.len()) };
        self.tail.fetch_sub(self.taken, Ordering::Relaxed);
        pairs.sort_unstable();
        self.sorted = pairs.into();
        Ok(())
    }
}
