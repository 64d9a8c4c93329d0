//! Whose copy the target is, and how far it is: rows in the target's `meta`, written with what they are about.
//!
//! `copy` holds the identity of the source and whether the copy is done, `copy/<table>` how many rows of a table are
//! there.

use super::tables::{TABLES, Table};
use crate::sqlite::source::Source;
use campanile_model::error::{Error, Kind, Result};
use campanile_pg::{Done, Pool, Tx};
use xxhash_rust::xxh3::xxh3_64;

const MARK: &str = "copy";
/// Tables that a new schema has rows in.
const NEVER_EMPTY: [&str; 2] = ["tenants", "counters"];

/// Which source, and in which state of its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// The installation; empty where nothing tells it apart yet.
    pub(super) installation: String,
    /// Changes with every write that a server does.
    generation: u64,
    /// Who owned which shard. A server that starts changes that.
    shards: u64,
}

impl Identity {
    pub(super) fn of(source: &Source) -> Result<Self> {
        let shards = source.text("SELECT shard, epoch, owner FROM shards ORDER BY shard")?;
        let counters = source.text("SELECT name, value FROM counters ORDER BY name")?;
        let counts = match source.columns("counts")?.as_slice() {
            // An older release's, which nobody can have copied.
            [] => String::new(),
            _ => source.text("SELECT tenant, pool, state, n FROM counts ORDER BY tenant, pool, state")?,
        };
        Ok(Self {
            installation: source.installation.clone().unwrap_or_default(),
            generation: xxh3_64(format!("{shards}\n{counters}\n{counts}").as_bytes()),
            shards: xxh3_64(shards.as_bytes()),
        })
    }

    /// The value of the mark.
    fn text(&self, state: &str) -> String {
        format!("{} {:016x} {:016x} {state}", self.installation, self.generation, self.shards)
    }
}

/// A mark that was found.
struct Mark {
    installation: String,
    generation: u64,
    shards: u64,
    is_done: bool,
}

impl Mark {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let installation = parts.next()?.to_owned();
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (generation, shards) = (number()?, number()?);
        Some(Self { installation, generation, shards, is_done: parts.next()? == "done" })
    }
}

/// What the target is to a source.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Nothing is in it.
    Fresh,
    /// A copy of it was begun.
    Begun,
    /// A copy of it is there.
    Done,
    /// A copy is there of what it was before, and nobody has used it.
    Old,
}

/// Judges the target and, unless that refuses, marks it: from here on it is a copy of this source.
pub(super) async fn begin(pool: &Pool, identity: &Identity) -> Result<Standing> {
    let what = (identity.clone(), pool.target().lock_class("copy"), pool.target().location().to_string());
    pool.write(&what, |tx, (identity, lock, location)| {
        Box::pin(async move {
            // Of two that begin at once, the second one finds the first one's mark.
            tx.query("SELECT pg_advisory_xact_lock($1, 0)", &[lock]).await?;
            let standing = judge(tx, identity, location).await?;
            if matches!(standing, Standing::Fresh | Standing::Old) {
                // A new schema has few rows, and emptying a table costs a file for each of its indexes.
                let filled = |table: &&Table| standing == Standing::Old || NEVER_EMPTY.contains(&table.name);
                let verb = if standing == Standing::Old { "TRUNCATE" } else { "DELETE FROM" };
                for table in TABLES.iter().filter(filled) {
                    tx.batch(&format!("{verb} \"{}\"", table.name)).await?;
                }
                tx.execute(include_str!("sql/forget_rows.sql"), &[]).await?;
                put(tx, MARK, &identity.text("copying")).await?;
            }
            Ok(standing)
        })
    })
    .await
}

/// Says what [`begin`] would find. Writes nothing.
pub(super) async fn foresee(pool: &Pool, identity: &Identity) -> Result<&'static str> {
    let meta = format!("\"{}\".meta", pool.target().schema());
    let found = pool.query("SELECT to_regclass($1) IS NOT NULL", &[&meta]).await?;
    if !found.first().is_some_and(|row| row.get(0)) {
        return Ok("the tables are made, and everything is copied");
    }
    let what = (identity.clone(), pool.target().location().to_string());
    let standing = pool.write(&what, |tx, (identity, location)| Box::pin(judge(tx, identity, location))).await?;
    Ok(match standing {
        Standing::Fresh => "everything is copied",
        Standing::Begun => "a copy was begun: what is missing is copied",
        Standing::Done => "the copy is there: it is compared",
        Standing::Old => "a copy is there of what it was before: it is emptied, and everything is copied",
    })
}

async fn judge(tx: &Tx<'_>, identity: &Identity, location: &str) -> Done<Standing> {
    let refuse = |why: &str| {
        let message = format!("{location} {why}; nothing was changed");
        Err(Error::new(Kind::Conflict, message).into())
    };
    let Some(row) = tx.query_opt(include_str!("sql/get_fact.sql"), &[&MARK]).await? else {
        for table in TABLES.iter().filter(|table| !NEVER_EMPTY.contains(&table.name)) {
            let found = tx.query_opt(&format!("SELECT 1 FROM \"{}\" LIMIT 1", table.name), &[]).await?;
            if found.is_some() {
                return refuse("holds an installation of its own");
            }
        }
        return Ok(Standing::Fresh);
    };
    let Some(mark) = Mark::parse(row.get(0)) else { return refuse("is marked as a copy in a way that we do not know") };
    if mark.installation != identity.installation {
        return refuse("holds the copy of another installation");
    }
    let shards = shards(tx).await?;
    if shards.is_some_and(|shards| shards != mark.shards) {
        return refuse("was copied before, and a server has used it since");
    }
    Ok(match (mark.generation == identity.generation && mark.shards == identity.shards, mark.is_done) {
        (false, _) => Standing::Old,
        (true, false) => Standing::Begun,
        (true, true) => Standing::Done,
    })
}

/// The target's shards as [`Identity`] has the source's; none where there are none.
async fn shards(tx: &Tx<'_>) -> Done<Option<u64>> {
    let rows = tx.query(include_str!("sql/shards.sql"), &[]).await?;
    let text = |row: &campanile_pg::tokio_postgres::Row| {
        let (shard, epoch, owner): (i64, i64, &str) = (row.get(0), row.get(1), row.get(2));
        format!("{shard} {epoch} {owner:?} \n")
    };
    let text: String = rows.iter().map(text).collect();
    Ok((!rows.is_empty()).then(|| xxh3_64(text.as_bytes())))
}

/// How many rows of a table are there.
pub(super) async fn rows_done(pool: &Pool, table: &Table) -> Result<u64> {
    let found = pool.query(include_str!("sql/get_fact.sql"), &[&rows_key(table)]).await?;
    Ok(found.first().and_then(|row| row.get::<_, &str>(0).parse().ok()).unwrap_or(0))
}

/// Notes how many rows of a table are there, in the transaction that wrote them.
pub(super) async fn note_rows(tx: &Tx<'_>, table: &Table, rows: u64) -> Done<()> {
    put(tx, &rows_key(table), &rows.to_string()).await
}

pub(super) async fn end(tx: &Tx<'_>, identity: &Identity) -> Done<()> {
    tx.execute(include_str!("sql/forget_rows.sql"), &[]).await?;
    put(tx, MARK, &identity.text("done")).await
}

/// Refuses a target whose copy is not done: a server would take a part for the whole.
pub async fn refuse_unfinished(pool: &Pool) -> Result<()> {
    let found = pool.query(include_str!("sql/get_fact.sql"), &[&MARK]).await?;
    let Some(mark) = found.first().and_then(|row| Mark::parse(row.get(0))) else { return Ok(()) };
    if mark.is_done {
        return Ok(());
    }
    let message = format!(
        "{} is being copied from an embedded installation, and not done; run `campanile migrate` to its end",
        pool.target().location()
    );
    Err(Error::new(Kind::Conflict, message))
}

fn rows_key(table: &Table) -> String {
    format!("{MARK}/{}", table.name)
}

async fn put(tx: &Tx<'_>, key: &str, value: &str) -> Done<()> {
    tx.execute(include_str!("sql/put_facts.sql"), &[&vec![key], &vec![value]]).await?;
    Ok(())
}
