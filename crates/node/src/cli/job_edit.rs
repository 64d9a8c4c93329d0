//! `campanile job edit`: by flags, by a merge patch from a file, or in an editor.

use super::Globals;
use super::exit::{Code, Failure};
use super::job::{describe, key, print_job};
use super::job_create::read;
use super::job_spec::{self, Spec, raw};
use super::output::Output;
use campanile_client::wire::json;
use campanile_client::{Client, WriteOptions};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use tokio::process::Command;

/// A change of a job.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile job edit invoices --cron '0 4 * * *' --max-attempts 5
  campanile job edit invoices               opens $EDITOR
  echo '{\"ends_at\": null}' | campanile job edit invoices -f -")]
pub struct Args {
    /// The job: its name or id
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    spec: Spec,
    /// Give it another name
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    /// Read a JSON merge patch from a file (`-` is stdin); null removes a field
    #[arg(short, long, value_name = "FILE", conflicts_with = "rename")]
    file: Option<String>,
    /// Only if the job is in this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u32>,
    /// Only check, and show what would be
    #[arg(long)]
    dry_run: bool,
}

/// What the server keeps itself; shown to nobody who edits.
const NOT_EDITABLE: [&str; 15] = [
    "id",
    "job_id",
    "tenant",
    "status",
    "target",
    "paused_until",
    "version",
    "next_fire_at",
    "next_run_at",
    "next_fires",
    "fires_left",
    "created_at",
    "updated_at",
    "effective_at",
    "ended_at",
];

/// Changes.
pub async fn run(args: Args, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let options = WriteOptions { if_match: args.if_version, dry_run: args.dry_run, ..globals.write() };
    let patch = match &args.file {
        Some(path) => {
            args.spec.refuse_beside_file()?;
            job_spec::read_file(path)?
        }
        None => {
            let mut members = args.spec.patch()?;
            if let Some(name) = &args.rename {
                members.name(name);
            }
            if members.is_empty() {
                return in_editor(&client, &args.job, options, out).await;
            }
            members.into_json()
        }
    };
    let body = raw(patch)?;
    let patched = client.patch_job(&key(&args.job), &body, &options).await;
    let job = patched.map_err(|error| Failure::refused(error, &read(&body)))?;
    out.chat(&describe(&job, if args.dry_run { "would change" } else { "changed" }));
    print_job(&job, out)
}

async fn in_editor(client: &Client, name: &str, mut options: WriteOptions, out: &Output) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage("what should change? nothing was said")
            .hint("such as --every 5m; `campanile job edit --help` lists all; on a terminal an editor opens"));
    }
    let job = client.get_job(&key(name)).await?;
    // Whoever saves an hour later must not undo what somebody else did meanwhile.
    options.if_match = options.if_match.or(Some(job.version));
    let before = editable(&serde_json::to_string(&job).unwrap_or_default());
    let failed = |error: std::io::Error| Failure::new(Code::Failed, format!("cannot open an editor: {error}"));
    let file = tempfile::Builder::new().prefix("campanile-").suffix(".json").tempfile().map_err(failed)?;
    std::fs::write(file.path(), &before).map_err(failed)?;
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|e| !e.trim().is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".into());
    super::EDITING.store(true, Ordering::Relaxed);
    let mut command = Command::new("sh");
    let status = command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path()).status().await;
    super::EDITING.store(false, Ordering::Relaxed);
    if !status.map_err(failed)?.success() {
        return Err(Failure::new(Code::Failed, format!("`{editor}` failed; nothing was changed")));
    }
    let after = std::fs::read_to_string(file.path()).map_err(failed)?;
    if after == before {
        out.chat("nothing was changed");
        return Ok(());
    }
    let keep = |failure: Failure| match file.keep() {
        Ok((_, path)) => failure.hint(format!("your text is kept in {}", path.display())),
        Err(_) => failure,
    };
    let body = match raw(after) {
        Ok(body) => body,
        Err(failure) => return Err(keep(failure)),
    };
    match client.replace_job(&job.id, &body, &options).await {
        Ok(job) => {
            out.chat(&describe(&job, if options.dry_run { "would change" } else { "changed" }));
            print_job(&job, out)
        }
        Err(error) => Err(keep(Failure::refused(error, &read(&body)))),
    }
}

/// A job without what cannot be changed, one member per line.
fn editable(job: &str) -> String {
    let members = json::members(job).unwrap_or_default();
    let kept = members.into_iter().filter(|(name, _)| !NOT_EDITABLE.contains(&name.as_str()));
    let lines: Vec<String> = kept.map(|(name, value)| format!("  {}: {value}", json::string(&name))).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}
