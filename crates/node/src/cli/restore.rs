//! `campanile restore`: makes a backup the embedded store, while no server is at work.

use super::backup::{Place, WEBHOOK_SECRET, failure, put_secret, secret_beside};
use super::exit::{Code, Failure};
use super::output::{Output, bytes};
use crate::backends::STORE_FILE;
use crate::secrets;
use campanile_store::sqlite::backup::{Restored, restore};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A backup becomes the embedded store.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  campanile restore /backups/campanile-monday.db --data-dir /var/lib/campanile

Stop the server first. What fired between the backup and now is not known any more: jobs go on by
their catch-up policies, and what they did since then they may do again.")]
pub struct Args {
    /// The backup
    file: PathBuf,
    /// Replace the database that is there, and keep it as campanile.db.before-restore
    #[arg(long)]
    force: bool,
    /// Also put back the secret that signs webhooks, from FILE.webhook-secret
    #[arg(long)]
    with_secrets: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Report<'a> {
    database: &'a Path,
    bytes: u64,
    jobs: u64,
    executions: u64,
    schema: u32,
    kept: Option<&'a Path>,
}

/// Puts the backup back.
pub fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let data_dir = args.place.embedded()?;
    let secret = if args.with_secrets { Some(read_secret(&args.file, &data_dir, args.force)?) } else { None };
    let unusable =
        |error| Failure::new(Code::Failed, format!("cannot use data directory {}: {error}", data_dir.display()));
    secrets::create_data_dir(&data_dir).map_err(unusable)?;
    let database = data_dir.join(STORE_FILE);
    if database.exists() && !args.force {
        let message = format!("{} exists already", database.display());
        return Err(
            Failure::new(Code::Conflict, message).hint("say --force to replace it; it is kept beside the new one")
        );
    }
    let bar = out.progress(Some(0), "restoring");
    let restored = restore(&args.file, &database, args.force, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let Restored { summary, kept } = restored.map_err(failure)?;
    if let Some(secret) = secret {
        put_secret(&data_dir.join(WEBHOOK_SECRET), &secret).map_err(unusable)?;
    }
    let report = Report {
        database: &database,
        bytes: summary.bytes,
        jobs: summary.jobs,
        executions: summary.executions,
        schema: summary.schema,
        kept: kept.as_deref(),
    };
    out.print(
        &report,
        || vec![database.display().to_string()],
        |out| {
            let mut pairs = vec![
                ("restored", database.display().to_string()),
                ("size", bytes(summary.bytes)),
                ("jobs", summary.jobs.to_string()),
                ("executions", summary.executions.to_string()),
            ];
            pairs.extend(kept.as_ref().map(|kept| ("before", kept.display().to_string())));
            out.pairs(&pairs)
        },
    )?;
    if !args.with_secrets && !data_dir.join(WEBHOOK_SECRET).exists() {
        out.chat("there is no webhook-secret: the next start makes up a new one, unless you put the old one back");
    }
    Ok(())
}

/// The secret that goes with a backup, if it can take the place of what is there.
fn read_secret(file: &Path, data_dir: &Path, force: bool) -> Result<String, Failure> {
    let (from, to) = (secret_beside(file), data_dir.join(WEBHOOK_SECRET));
    let read = std::fs::read_to_string(&from);
    let secret = read.map_err(|error| Failure::new(Code::NotFound, format!("{}: {error}", from.display())))?;
    match std::fs::read_to_string(&to) {
        Ok(there) if there.trim() != secret.trim() && !force => {
            let message = format!("{} exists already, and is another one", to.display());
            Err(Failure::new(Code::Conflict, message).hint("say --force to replace it"))
        }
        _ => Ok(secret),
    }
}
