//! `campanile notify`: who is told of what, and what was sent.

use super::exit::{Code, Failure};
use super::job::{self, each};
use super::output::{Output, clean};
use super::{Globals, exec, pages};
use crate::clock;
use campanile_client::wire::{Delivery, WebhookEndpoint, WebhookEndpointSpec};
use campanile_client::{Client, WriteOptions};
use campanile_model::EndpointId;
use campanile_model::notify::EventKind;

/// What to do with notifications.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List who is told of what
    #[command(after_help = "Example:\n  campanile notify ls")]
    Ls,
    /// Tell a URL of what happens to jobs
    Add(Add),
    /// Show one of them
    #[command(after_help = "Example:\n  campanile notify get ntf_01J9ZC0000000000000000TEST")]
    Get {
        /// The endpoint
        id: String,
    },
    /// Send nothing for now; what happens is kept
    #[command(after_help = "Example:\n  campanile notify pause ntf_01J9ZC0000000000000000TEST")]
    Pause(Ids),
    /// Send again, what was kept first
    #[command(after_help = "Example:\n  campanile notify resume ntf_01J9ZC0000000000000000TEST")]
    Resume(Ids),
    /// Tell no more, and forget what was not sent yet
    #[command(after_help = "Example:\n  campanile notify rm ntf_01J9ZC0000000000000000TEST")]
    Rm(Ids),
    /// List what was sent or is to be sent, newest first
    #[command(after_help = "Example:\n  campanile notify deliveries ntf_01J9ZC0000000000000000TEST")]
    Deliveries {
        /// The endpoint
        id: String,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Send something again
    #[command(after_help = "Example:\n  campanile notify replay ntf_01J9ZC0000000000000000TEST 17")]
    Replay {
        /// The endpoint
        id: String,
        /// Which, as `campanile notify deliveries` numbers them
        seq: u64,
    },
}

/// A new endpoint.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  campanile notify add https://example.com/alerts --on dead,late,recovered
  campanile notify add https://example.com/billing --on dead --tag team=billing")]
pub struct Add {
    /// Where to: gets CloudEvents by POST, signed as webhooks are
    #[arg(value_name = "URL")]
    to: String,
    /// Of what: succeeded, failed, dead, late, recovered; separated by commas
    #[arg(long = "on", value_name = "EVENTS", required = true, value_delimiter = ',', value_parser = event)]
    events: Vec<String>,
    /// Only of this job: its name or id
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only of jobs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Send nothing until it is resumed
    #[arg(long)]
    paused: bool,
}

/// Some endpoints.
#[derive(clap::Args)]
pub struct Ids {
    /// The endpoints
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

fn event(text: &str) -> Result<String, String> {
    let word = text.trim().to_ascii_lowercase();
    if EventKind::ALL.iter().any(|kind| kind.as_str() == word) {
        return Ok(word);
    }
    let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    Err(format!("one of {}", known.join(", ")))
}

/// Runs a command about notifications.
pub async fn run(command: Command, globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = &globals.client()?;
    let options = &globals.write();
    match command {
        Command::Ls => {
            let endpoints = client.list_endpoints().await?;
            let data: Vec<&WebhookEndpoint> = endpoints.data.iter().collect();
            let ids = || endpoints.data.iter().map(|endpoint| endpoint.id.clone()).collect();
            out.print(&endpoints, ids, |out| rows(&data, out))?;
            if data.is_empty() {
                out.chat("nobody is told; `campanile notify add URL --on dead,late` changes that");
            }
            Ok(())
        }
        Command::Add(args) => add(client, args, options, out).await,
        Command::Get { id } => {
            check_ids([&id])?;
            let endpoint = client.get_endpoint(&id).await?;
            out.print(&endpoint, || vec![endpoint.id.clone()], |out| details(&endpoint, out))
        }
        Command::Pause(args) => change(args, out, async |id| client.pause_endpoint(id, options).await).await,
        Command::Resume(args) => change(args, out, async |id| client.resume_endpoint(id, options).await).await,
        Command::Rm(args) => {
            check_ids(&args.ids)?;
            let many = each(&args.ids, async |id| client.delete_endpoint(id, options).await).await;
            for (id, ()) in &many.done {
                out.chat(&format!("{id} is told no more"));
            }
            many.end()
        }
        Command::Deliveries { id, limit } => {
            check_ids([&id])?;
            let all = pages::collect(limit as usize, out, async |limit, cursor| {
                client.list_deliveries(&id, Some(limit), cursor.as_deref()).await
            });
            let all = all.await?;
            let names = || all.data.iter().map(|delivery| delivery.seq.to_string()).collect();
            out.print(&all, names, |out| delivery_rows(&all.data, out))?;
            pages::tell(&all, "nothing was sent yet", out);
            Ok(())
        }
        Command::Replay { id, seq } => {
            check_ids([&id])?;
            let delivery = client.replay_delivery(&id, seq, options).await?;
            out.chat(&format!("{seq} is sent again; `campanile notify deliveries {id}` shows how it goes"));
            let names = || vec![delivery.seq.to_string()];
            out.print(&delivery, names, |out| delivery_rows(std::slice::from_ref(&delivery), out))
        }
    }
}

/// What is no id cannot name an endpoint.
fn check_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    for id in ids {
        if let Err(error) = id.parse::<EndpointId>() {
            let failure = Failure::new(Code::NotFound, error.to_string());
            return Err(failure.hint("`campanile notify ls` lists the endpoints"));
        }
    }
    Ok(())
}

async fn add(client: &Client, args: Add, options: &WriteOptions, out: &Output) -> Result<(), Failure> {
    let spec = WebhookEndpointSpec {
        url: args.to,
        events: args.events,
        job: args.job.as_deref().map(job::key),
        tag: args.tag,
        paused: args.paused.then_some(true),
    };
    let endpoint = client.create_endpoint(&spec, options).await?;
    let of = match (&args.job, &endpoint.tag) {
        (Some(job), _) => format!("of {job}"),
        (None, Some(tag)) => format!("of jobs tagged {tag}"),
        (None, None) => "of all jobs".into(),
    };
    out.chat(&clean(&format!("{} is told {of}: {}", endpoint.url, endpoint.events.join(", "))));
    out.print(&endpoint, || vec![endpoint.id.clone()], |out| rows(&[&endpoint], out))
}

/// Changes several endpoints, and shows them as they are now.
async fn change(
    args: Ids,
    out: &Output,
    call: impl AsyncFn(&str) -> Result<WebhookEndpoint, campanile_client::Error>,
) -> Result<(), Failure> {
    check_ids(&args.ids)?;
    let many = each(&args.ids, call).await;
    let data: Vec<&WebhookEndpoint> = many.done.iter().map(|(_, endpoint)| endpoint).collect();
    out.several(&data, |endpoint| endpoint.id.clone(), rows)?;
    many.end()
}

fn of(endpoint: &WebhookEndpoint) -> String {
    let tag = endpoint.tag.as_ref().map(|tag| format!("tag {tag}"));
    let parts: Vec<String> = endpoint.job_id.clone().into_iter().chain(tag).collect();
    if parts.is_empty() { "all jobs".into() } else { parts.join(", ") }
}

fn rows(endpoints: &[&WebhookEndpoint], out: &Output) -> String {
    let rows = endpoints.iter().map(|endpoint| {
        let state = if endpoint.paused { "PAUSED" } else { "ACTIVE" };
        vec![endpoint.id.clone(), state.into(), endpoint.events.join(","), of(endpoint), endpoint.url.clone()]
    });
    out.table(&["ID", "STATE", "ON", "OF", "URL"], rows)
}

fn details(endpoint: &WebhookEndpoint, out: &Output) -> String {
    out.pairs(&[
        ("id", endpoint.id.clone()),
        ("url", endpoint.url.clone()),
        ("state", if endpoint.paused { "PAUSED: events are kept".into() } else { "ACTIVE".into() }),
        ("on", endpoint.events.join(", ")),
        ("of", of(endpoint)),
        ("created", endpoint.created_at.clone()),
    ])
}

fn delivery_rows(deliveries: &[Delivery], out: &Output) -> String {
    let now = clock::now();
    let rows = deliveries.iter().map(|delivery| {
        let answer = match (&delivery.status, &delivery.error) {
            (_, Some(error)) => exec::shorten(error),
            (Some(status), None) => format!("HTTP {status}"),
            (None, None) => "-".into(),
        };
        vec![
            delivery.seq.to_string(),
            delivery.event.clone(),
            delivery.execution_id.clone().unwrap_or_else(|| delivery.job_id.clone()),
            out.instant(Some(&delivery.at), now),
            delivery.state.clone(),
            delivery.tries.to_string(),
            out.instant(delivery.next_at.as_deref(), now),
            answer,
        ]
    });
    out.table(&["SEQ", "EVENT", "OF", "AT", "STATE", "TRIES", "NEXT", "ANSWER"], rows)
}
