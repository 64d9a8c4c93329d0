//! What an execution costs: processor time of node and database, bytes written, and how much one write carries.

use super::lab::Lab;
use super::machine;
use super::report::Report;
use campanile_engine::metrics::{Batches, Metrics};

/// What has been spent so far.
struct Spent {
    node_ms: u64,
    database_ms: u64,
    written_bytes: u64,
    transactions: u64,
    statements: u64,
    /// Writes and rows of fire, claim and complete.
    batches: [(u64, u64); 3],
}

/// What a run spends, from its start to its end.
pub struct Meter<'a> {
    lab: &'a Lab,
    metrics: &'a Metrics,
    before: Spent,
}

/// What one execution cost.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    pub node_us: f64,
    pub database_us: f64,
    pub written_bytes: f64,
    transactions: f64,
    statements: f64,
    /// Rows in one write of fire, claim and complete.
    rows: [f64; 3],
    shared: bool,
}

impl<'a> Meter<'a> {
    pub async fn start(lab: &'a Lab, metrics: &'a Metrics) -> Result<Self, String> {
        Ok(Self { lab, metrics, before: spent(lab, metrics).await? })
    }

    /// What was spent since the start, per execution.
    pub async fn stop(self, executions: usize) -> Result<Cost, String> {
        let (before, after) = (self.before, spent(self.lab, self.metrics).await?);
        let per = |before: u64, after: u64| after.saturating_sub(before) as f64 / executions.max(1) as f64;
        let rows = |verb: usize| {
            let (writes, rows) = (after.batches[verb].0 - before.batches[verb].0, after.batches[verb].1);
            (rows - before.batches[verb].1) as f64 / writes.max(1) as f64
        };
        Ok(Cost {
            node_us: per(before.node_ms, after.node_ms) * 1e3,
            database_us: per(before.database_ms, after.database_ms) * 1e3,
            written_bytes: per(before.written_bytes, after.written_bytes),
            transactions: per(before.transactions, after.transactions),
            statements: per(before.statements, after.statements),
            rows: [rows(0), rows(1), rows(2)],
            shared: self.lab.is_shared(),
        })
    }
}

async fn spent(lab: &Lab, metrics: &Metrics) -> Result<Spent, String> {
    let counted = |batches: &Batches| (batches.writes.get(), batches.rows.get());
    let shared = lab.is_shared();
    Ok(Spent {
        node_ms: machine::cpu_ms(),
        database_ms: if shared { machine::cpu_ms_of("postgres") } else { 0 },
        written_bytes: if shared { lab.log_bytes().await? } else { machine::written_bytes() },
        transactions: lab.transactions().await?,
        statements: campanile_pg::statements(),
        batches: [counted(&metrics.fires), counted(&metrics.claims), counted(&metrics.completions)],
    })
}

impl Cost {
    /// The cost in the middle of several, by the node's processor time.
    pub fn median(mut costs: Vec<Cost>) -> Cost {
        costs.sort_by(|a, b| a.node_us.total_cmp(&b.node_us));
        costs.swap_remove(costs.len() / 2)
    }

    /// Adds the figures to a report. `node` says whose processor time it is.
    pub fn report(&self, report: &mut Report, node: &str) {
        report.row(format!("processor time of {node}"), self.node_us, "us/exec", None);
        report.figure("node_us", self.node_us);
        let written = if self.shared {
            report.row("processor time of the database", self.database_us, "us/exec", None);
            report.row("transactions", self.transactions, "per exec", None);
            report.row("statements", self.statements, "per exec", None);
            "log of the database (WAL)"
        } else {
            "written to disk, log and file"
        };
        report.row(written, self.written_bytes, "B/exec", None);
        report.figure("db_us", self.database_us);
        report.figure("wal_bytes", self.written_bytes);
        for (verb, rows) in ["fires", "claims", "completions"].into_iter().zip(self.rows) {
            // A verb that was not called: instant actions have no claims of their own.
            if rows > 0.0 {
                report.row(format!("{verb} per write"), rows, "rows", None);
            }
        }
    }
}
