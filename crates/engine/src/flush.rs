//! Step 5, flush: the store's cursors follow what is durable. Before: fire.
//!
//! Never urgent: a lagging cursor only costs the next start time, which finds what exists by its id.

use crate::calls::{self, optional};
use crate::context::Context;
use crate::owned::Owned;
use crate::planner::Planner;
use campanile_model::Result;
use campanile_model::store::CursorMove;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// How often cursors are flushed; and how often where more wait, but fires are being written.
const FLUSH_MS: u64 = 1_000;
const FLUSH_BUSY_MS: u64 = 100;
/// Cursors moved by one write: small, so that it holds nothing up.
const FLUSH_ITEMS_MAX: usize = 2_000;

/// Cursors on their way to the store.
#[derive(Default)]
pub(crate) struct Flush {
    flushing: Option<BoxFuture<'static, Flushed>>,
    due_ms: u64,
}

/// What was sent, and the answer.
type Flushed = (Vec<CursorMove>, Result<()>);

impl Flush {
    /// Begins a write, if it is time; `is_idle` says that no fires are being written.
    pub fn step(&mut self, ctx: &Context, owned: &mut Owned, is_idle: bool, mono: u64) {
        if self.flushing.is_some() || mono < self.due_ms {
            return;
        }
        let many = owned.planner.dirty() >= FLUSH_ITEMS_MAX;
        let moves = owned.planner.take_dirty(ctx.clock.now(), FLUSH_ITEMS_MAX);
        let wait_ms = match (many, is_idle && !moves.is_empty()) {
            (true, true) => 0,
            // Fires go first; and what is durable ahead of its instant waits for that.
            (true, false) => FLUSH_BUSY_MS,
            (false, _) => FLUSH_MS,
        };
        self.due_ms = mono + wait_ms;
        if !moves.is_empty() {
            let (store, fences) = (ctx.store.clone(), owned.fences.clone());
            let flush = async move {
                let answer = store.advance(fences, moves.clone()).await;
                (moves, answer)
            };
            self.flushing = Some(flush.boxed());
        }
    }

    /// Waits for the write that is on its way.
    pub async fn next(&mut self) -> Flushed {
        let flushed = optional(&mut self.flushing).await;
        self.flushing = None;
        flushed
    }

    /// Notes what a write has done.
    pub fn done(&mut self, ctx: &Context, planner: &mut Planner, (moves, answer): Flushed) {
        match answer {
            Ok(()) => planner.flushed(&moves),
            Err(error) => {
                calls::failed(ctx, "move cursors", &error);
                planner.unflushed(&moves);
                self.due_ms = ctx.clock.monotonic_ms() + FLUSH_MS;
            }
        }
    }

    /// Moves all cursors that can be moved until `deadline`, before the shards are given up.
    pub async fn close(&mut self, ctx: &Context, owned: &mut Owned, deadline: u64) {
        if self.flushing.is_some() {
            let flushed = self.next().await;
            self.done(ctx, &mut owned.planner, flushed);
        }
        while ctx.clock.monotonic_ms() < deadline {
            let moves = owned.planner.take_dirty(ctx.clock.now(), FLUSH_ITEMS_MAX);
            if moves.is_empty() {
                break;
            }
            if let Err(error) = ctx.store.advance(owned.fences.clone(), moves).await {
                tracing::warn!(%error, "cannot move cursors; the next owner finds what exists already");
                break;
            }
        }
    }
}
