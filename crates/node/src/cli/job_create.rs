//! `campanile job create`: one job from flags or a file, or many from a file.

use super::Globals;
use super::exit::{Code, Failure};
use super::job::{describe, print_job};
use super::job_spec::{self, Spec, raw};
use super::output::{Output, clean};
use campanile_client::wire::{Batch, json};
use campanile_client::{Client, WriteOptions};
use campanile_model::limits;
use serde_json::Value;
use serde_json::value::RawValue;

/// A new job.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile job create report --cron '0 3 * * *' --tz Europe/Berlin --webhook https://example.com/r
  campanile job create -f job.json          one object, or an array of them")]
pub struct Args {
    /// The name of the job
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    #[command(flatten)]
    spec: Spec,
    /// Read the whole job from a file (JSON; `-` is stdin); an array makes many
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    /// Only check, and show what would be
    #[arg(long)]
    dry_run: bool,
}

/// Creates.
pub async fn run(args: Args, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let options = WriteOptions { dry_run: args.dry_run, ..globals.write() };
    let body = match &args.file {
        Some(path) => {
            args.spec.refuse_beside_file()?;
            let text = job_spec::read_file(path)?;
            let checked = json::check(text.as_bytes(), limits::JSON_DEPTH_MAX);
            let text = checked.map_err(|malformed| not_json(path, malformed))?.trim();
            if let Some(jobs) = json::elements(text) {
                return create_many(&client, jobs, &options, out).await;
            }
            match &args.name {
                Some(name) => json::merge_patch(text, &format!("{{\"name\":{}}}", json::string(name))),
                None => text.to_owned(),
            }
        }
        None => {
            let mut members = args.spec.create()?;
            members.name(args.name.as_deref().unwrap_or_default());
            members.into_json()
        }
    };
    let body = raw(body)?;
    let created = client.create_job(&body, &options).await;
    let job = created.map_err(|error| Failure::refused(error, &read(&body)))?;
    out.chat(&describe(&job, if args.dry_run { "would create" } else { "created" }));
    print_job(&job, out)
}

/// Many jobs, as many per request as the server takes. Each is judged alone.
async fn create_many(client: &Client, jobs: Vec<&str>, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    if options.dry_run {
        return Err(Failure::usage("--dry-run works on one job at a time"));
    }
    let total = jobs.len();
    let bar = out.progress(Some(total as u64), "creating");
    let mut all = Batch { results: Vec::with_capacity(total), created: 0, failed: 0 };
    for (part, chunk) in jobs.chunks(limits::BATCH_JOBS_MAX).enumerate() {
        let bodies: Vec<Box<RawValue>> = chunk.iter().map(|job| raw((*job).to_owned())).collect::<Result<_, _>>()?;
        let key = options.idempotency_key.as_ref().map(|key| format!("{key}-{part}"));
        let answer = client.create_jobs(&bodies, &WriteOptions { idempotency_key: key, ..options.clone() }).await?;
        all.created += answer.created;
        all.failed += answer.failed;
        all.results.extend(answer.results);
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    for (i, result) in all.results.iter().enumerate() {
        if let Some(problem) = &result.problem {
            out.chat(&format!("item {i}: {}", clean(&problem.summary())));
        }
    }
    let names = || all.results.iter().filter_map(|result| Some(result.job.as_ref()?.name.clone())).collect();
    out.print(&all, names, |_| format!("{} created, {} refused", all.created, all.failed))?;
    match (all.created, all.failed) {
        (_, 0) => Ok(()),
        (0, failed) => Err(Failure::new(Code::Failed, format!("all {failed} jobs were refused"))),
        (created, failed) => {
            Err(Failure::new(Code::Partial, format!("{failed} of {} jobs were refused", created + failed)))
        }
    }
}

fn not_json(path: &str, malformed: json::Malformed) -> Failure {
    let why = match malformed {
        json::Malformed::NotUtf8 => "it is not UTF-8".into(),
        json::Malformed::NotJson(why) => why,
        json::Malformed::TooDeep => format!("it is nested deeper than {}", limits::JSON_DEPTH_MAX),
    };
    Failure::usage(format!("{path} is not JSON: {why}"))
}

/// A body as a value, to point at what is wrong with it.
pub fn read(body: &RawValue) -> Value {
    serde_json::from_str(body.get()).unwrap_or_default()
}
