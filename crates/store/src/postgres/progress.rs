//! What attempts tell about themselves: progress, checkpoints, logs. How it is read is in `reads`.

use super::rows::{Columns, storable};
use super::sheet::{Ids, column};
use campanile_model::execution::{LogLine, Progress};
use campanile_model::ids::ExecutionId;
use campanile_model::limits;
use campanile_pg::{Done, Tx, Uuid};
use futures_util::try_join;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What the attempts of a batch tell.
#[derive(Default)]
pub(super) struct Told<'b> {
    /// By execution, and under which fence.
    progress: BTreeMap<ExecutionId, (u64, Progress)>,
    /// How many lines executions have.
    lines: HashMap<ExecutionId, i64>,
    logs: Vec<Logged<'b>>,
}

struct Logged<'b> {
    execution: ExecutionId,
    seq: i64,
    fence: u64,
    line: &'b LogLine,
}

impl<'b> Told<'b> {
    /// Reads how many lines executions have that will log.
    pub(super) async fn load(tx: &Tx<'_>, logging: impl IntoIterator<Item = ExecutionId>) -> Done<Told<'b>> {
        let mut told = Told::default();
        let Some(ids) = Ids::of(logging) else { return Ok(told) };
        for row in tx.query(include_str!("sql/logs/last.sql"), &[&ids.all, &ids.first, &ids.last]).await? {
            let mut columns = Columns::of(&row);
            told.lines.insert(columns.execution_id()?, columns.next()?);
        }
        Ok(told)
    }

    /// Keeps what an attempt told; what it left out stays as it was.
    pub(super) fn put(&mut self, execution: ExecutionId, fence: u64, progress: &Progress) {
        let (_, kept) = self.progress.entry(execution).or_insert_with(|| (fence, Progress::default()));
        kept.at = progress.at;
        kept.fraction = progress.fraction.or(kept.fraction);
        if progress.message.is_some() {
            kept.message.clone_from(&progress.message);
        }
        if progress.checkpoint.is_some() {
            kept.checkpoint.clone_from(&progress.checkpoint);
        }
    }

    /// Appends to the log of an execution, as far as there is room.
    pub(super) fn log(&mut self, execution: ExecutionId, fence: u64, lines: &'b [LogLine]) {
        if lines.is_empty() {
            return;
        }
        let there = self.lines.entry(execution).or_default();
        for (line, seq) in lines.iter().zip(*there + 1..=limits::LOG_LINES_MAX as i64) {
            *there = seq;
            self.logs.push(Logged { execution, seq, fence, line });
        }
    }

    /// Writes what was told.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Done<()> {
        try_join!(self.write_progress(tx), self.write_logs(tx))?;
        Ok(())
    }

    async fn write_progress(&self, tx: &Tx<'_>) -> Done<()> {
        if self.progress.is_empty() {
            return Ok(());
        }
        let told: Vec<(&ExecutionId, &(u64, Progress))> = self.progress.iter().collect();
        tx.execute(
            include_str!("sql/progress/put.sql"),
            &[
                &column(&told, |(id, _)| Uuid::from(**id)),
                &column(&told, |(_, (fence, _))| *fence as i64),
                &column(&told, |(_, (_, progress))| progress.fraction),
                &column(&told, |(_, (_, progress))| progress.message.as_deref().map(storable)),
                &column(&told, |(_, (_, progress))| progress.checkpoint.as_deref().map(storable)),
                &column(&told, |(_, (_, progress))| progress.at.millis()),
            ],
        )
        .await?;
        Ok(())
    }

    async fn write_logs(&self, tx: &Tx<'_>) -> Done<()> {
        let logs = &self.logs;
        if logs.is_empty() {
            return Ok(());
        }
        tx.execute(
            include_str!("sql/logs/insert.sql"),
            &[
                &column(logs, |logged| Uuid::from(logged.execution)),
                &column(logs, |logged| logged.seq),
                &column(logs, |logged| logged.fence as i64),
                &column(logs, |logged| logged.line.at.millis()),
                &column(logs, |logged| storable(&logged.line.level)),
                &column(logs, |logged| storable(&logged.line.message)),
            ],
        )
        .await?;
        Ok(())
    }
}

/// The checkpoints that the next attempts of these executions are given.
pub(super) async fn checkpoints(
    tx: &Tx<'_>,
    executions: impl IntoIterator<Item = ExecutionId>,
) -> Done<HashMap<ExecutionId, Arc<str>>> {
    let Some(ids) = Ids::of(executions) else { return Ok(HashMap::new()) };
    let rows = tx.query(include_str!("sql/progress/get_checkpoints.sql"), &[&ids.all, &ids.first, &ids.last]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.execution_id()?, Arc::from(columns.text()?)))
    };
    rows.iter().map(read).collect()
}
