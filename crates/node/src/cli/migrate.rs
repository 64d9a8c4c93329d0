//! `campanile migrate`: an embedded installation moves to PostgreSQL, with everything that it knows.

use super::backup::{Place, failure};
use super::exit::{Code, Failure};
use super::output::Output;
use crate::backends::{STORE_FILE, postgres_options};
use crate::config::Config;
use crate::{clock, secrets};
use campanile_store::copy::{self, Compared, Doing, Progress};
use serde::Serialize;
use std::path::Path;

/// An embedded installation moves to PostgreSQL.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  campanile migrate --to postgres://campanile@db.example/campanile --data-dir /var/lib/campanile

Stop the server first. The embedded store stays as it is. Interrupted, the command goes on where it
stopped; when everything is there, it compares both sides row by row. If both are the same, it marks
the embedded store, and no server starts on it again: both would fire the same jobs. Start servers
with store.url. To go back instead, --unmark takes the mark away.")]
pub struct Args {
    /// The database to move to [default: store.url of the configuration]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// The schema for our tables [default: campanile]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Let servers start on the embedded store again, and copy nothing
    #[arg(long, conflicts_with_all = ["to", "schema", "dry_run"])]
    unmark: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Planned {
    target: String,
    tables: Vec<PlannedTable>,
}

#[derive(Serialize)]
struct PlannedTable {
    table: &'static str,
    rows: u64,
}

#[derive(Serialize)]
struct Unmarked<'a> {
    database: &'a Path,
    /// Where to and when, if it was.
    moved: Option<String>,
}

#[derive(Serialize)]
struct Report {
    installation: String,
    written: u64,
    verified: bool,
    took_ms: u64,
    tables: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    table: &'static str,
    source_rows: u64,
    target_rows: u64,
    source_checksum: String,
    target_checksum: String,
    same: bool,
    differences: Vec<String>,
}

impl From<Compared> for Row {
    fn from(compared: Compared) -> Self {
        Self {
            table: compared.table,
            source_rows: compared.rows.0,
            target_rows: compared.rows.1,
            source_checksum: format!("{:016x}", compared.checksums.0),
            target_checksum: format!("{:016x}", compared.checksums.1),
            same: compared.is_same(),
            differences: compared.differences,
        }
    }
}

/// Moves it.
pub async fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let url = args.to.map(|url| ("store.url", url));
    let flags = url.into_iter().chain(args.schema.map(|schema| ("store.schema", schema))).collect();
    let config = args.place.configure(flags)?;
    let database = config.data_dir.join(STORE_FILE);
    if args.unmark {
        return unmark(&database, out);
    }
    if config.store.url.is_empty() {
        return Err(Failure::usage("where to? say --to postgres://user@host/database"));
    }
    let options = postgres_options(&config, &format!("migrate:{}", std::process::id()));
    match args.dry_run {
        true => plan(&database, &options, out).await,
        false => migrate(&config, &database, &options, out).await,
    }
}

fn unmark(database: &Path, out: &Output) -> Result<(), Failure> {
    let moved = copy::unmark(database).map_err(failure)?;
    let report = Unmarked { database, moved };
    out.print(
        &report,
        || vec![database.display().to_string()],
        |_| match &report.moved {
            Some(place) => format!("servers start on {} again; it was moved to {place}", database.display()),
            None => format!("{} was not marked as moved", database.display()),
        },
    )?;
    if report.moved.is_some() {
        out.chat("let no server run on that database: both would fire the same jobs");
    }
    Ok(())
}

async fn plan(database: &Path, options: &campanile_store::postgres::Options, out: &Output) -> Result<(), Failure> {
    let planned = copy::plan(database, options).await.map_err(failure)?;
    let tables = planned.tables.into_iter().map(|(table, rows)| PlannedTable { table, rows }).collect();
    let planned = Planned { target: planned.target, tables };
    let names = || planned.tables.iter().map(|table| table.table.to_owned()).collect();
    out.print(&planned, names, |out| {
        let rows = planned.tables.iter().map(|table| vec![table.table.to_owned(), table.rows.to_string()]);
        out.table(&["TABLE", "ROWS"], rows)
    })?;
    out.chat(&format!("nothing was done; without --dry-run, {}", planned.target));
    Ok(())
}

async fn migrate(
    config: &Config,
    database: &Path,
    options: &campanile_store::postgres::Options,
    out: &Output,
) -> Result<(), Failure> {
    let began = clock::now();
    let facts = if database.is_file() { facts(&config.data_dir)? } else { Vec::new() };
    let bar = out.progress(Some(0), "copying");
    let mut current = None;
    let mut told = |Progress { table, doing, done, total }: Progress| {
        let doing = if doing == Doing::Copying { "copying" } else { "comparing" };
        if current != Some((doing, table)) {
            current = Some((doing, table));
            bar.reset();
            bar.set_length(total);
        }
        bar.set_position(done);
        bar.set_message(format!("{doing} {table}, {:.0} rows/s", bar.per_sec()));
    };
    let copied = copy::copy(database, options, &facts, &mut told).await;
    bar.finish_and_clear();
    let copied = copied.map_err(failure)?;
    let report = Report {
        verified: copied.is_same(),
        installation: copied.installation,
        written: copied.written,
        took_ms: clock::now().ms_since(began),
        tables: copied.tables.into_iter().map(Row::from).collect(),
    };
    let names = || report.tables.iter().map(|row| row.table.to_owned()).collect();
    out.print(&report, names, |out| table(&report, out))?;
    let differ: Vec<&Row> = report.tables.iter().filter(|row| !row.same).collect();
    if !differ.is_empty() {
        let message = format!("{} of {} tables differ", differ.len(), report.tables.len());
        let failure = Failure::new(Code::Failed, message)
            .hint("the embedded store is as it was; drop the schema and run this again");
        let lines = differ.iter().flat_map(|row| row.differences.iter().map(|how| format!("{}: {how}", row.table)));
        return Err(lines.fold(failure, Failure::detail));
    }
    out.chat("from now on start servers with store.url; the embedded store is marked, and never again starts one");
    Ok(())
}

fn table(report: &Report, out: &Output) -> String {
    let rows = report.tables.iter().map(|row| {
        let verdict = if row.same { "same" } else { "DIFFERS" };
        let rows = match row.source_rows == row.target_rows {
            true => row.source_rows.to_string(),
            false => format!("{} / {}", row.source_rows, row.target_rows),
        };
        vec![row.table.to_owned(), rows, row.target_checksum.clone(), verdict.to_owned()]
    });
    let table = out.table(&["TABLE", "ROWS", "CHECKSUM", "COMPARED"], rows);
    let verdict = if report.verified { "verified" } else { "NOT verified" };
    let seconds = report.took_ms as f64 / 1_000.0;
    let rate = report.written as f64 / seconds.max(0.001);
    format!("{table}\n\n{verdict}: {} rows written in {seconds:.1}s, {rate:.0} rows/s", report.written)
}

/// What the installation keeps in files, and its successor in the database: webhooks stay signed by the same secret.
fn facts(data_dir: &Path) -> Result<Vec<(&'static str, String)>, Failure> {
    let unusable = |error| Failure::new(Code::Failed, format!("cannot use data directory: {error}"));
    let webhook = secrets::webhook_secret(data_dir).map_err(unusable)?;
    let cursor = secrets::hex(&secrets::cursor_key(data_dir).map_err(unusable)?);
    Ok(vec![("webhook_secret", webhook), ("cursor_key", cursor)])
}
