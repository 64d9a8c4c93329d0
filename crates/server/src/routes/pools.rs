//! Pools: capacity that jobs name, with what is in it.

use super::workers::takes_from;
use crate::App;
use crate::convert::Reader;
use crate::problem::Refusal;
use crate::request::{Answer, Head, NoBody, SmallBody, faultless, json};
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use campanile_client::wire::input::{Faults, PoolInput};
use campanile_client::wire::{FieldProblem, Page, Pool, PoolSpec, Problem};
use campanile_engine::workers::WorkerStatus;
use campanile_model::capacity::{Capacity, Count, Scope};
use campanile_model::job::{POOL_LONG, POOL_SHORT};
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::queue::PoolDepth;
use campanile_model::{Timestamp, limits};
use http::StatusCode;
use std::collections::BTreeSet;

/// List pools
///
/// By name: `short` and `long` always, and all others that have limits, executions that are not over, or workers.
#[utoipa::path(get, path = "/v1/pools", tag = "Pools", operation_id = "listPools",
    responses((status = 200, description = "The pools", body = Page<Pool>)))]
pub(super) async fn list_pools(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    let facts = Facts::read(&app).await?;
    let data = facts.names().into_iter().map(|name| facts.pool(name)).collect();
    Ok(json(StatusCode::OK, &Page { data, has_more: false, next_cursor: None }))
}

/// Get a pool
#[utoipa::path(get, path = "/v1/pools/{pool}", tag = "Pools", operation_id = "getPool",
    params(("pool" = String, Path, description = "Name")),
    responses(
        (status = 200, description = "The pool", body = Pool),
        (status = 404, description = "Nobody has heard of it", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get_pool(State(app): State<App>, head: Head, Path(pool): Path<String>) -> Answer {
    head.params(&[])?;
    let facts = Facts::read(&app).await?;
    match facts.names().contains(pool.as_str()) {
        true => Ok(json(StatusCode::OK, &facts.pool(&pool))),
        false => Err(no_pool(&pool)),
    }
}

/// Set the limits of a pool
///
/// All of them; a pool needs no limits to be used. They hold when the answer comes.
#[utoipa::path(put, path = "/v1/pools/{pool}", tag = "Pools", operation_id = "putPool", request_body = PoolSpec,
    params(("pool" = String, Path, description = "Name")),
    responses(
        (status = 200, description = "The pool", body = Pool),
        (status = 409, description = "There are too many pools and targets with limits", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn put_pool(State(app): State<App>, head: Head, Path(pool): Path<String>, body: SmallBody) -> Answer {
    head.params(&[])?;
    check_name(&pool)?;
    let mut faults = Faults::default();
    let input = PoolInput::read(body.text(), &mut faults);
    let mut read = Reader::new(&input.pointers, &mut faults);
    let slots = read.within("/slots", "slots_invalid", input.slots, 1..=u64::from(u32::MAX));
    let slots = faultless(slots, faults)?.map(|slots| slots as u32);
    let old = limits_of(&app, &pool).await?;
    let paused = input.paused.unwrap_or(old.paused);
    put(&app, Capacity { slots, paused, ..old }).await
}

/// Forget the limits of a pool
///
/// What is in it goes on.
#[utoipa::path(delete, path = "/v1/pools/{pool}", tag = "Pools", operation_id = "deletePool",
    params(("pool" = String, Path, description = "Name")),
    responses(
        (status = 204, description = "Forgotten"),
        (status = 404, description = "It has none", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn delete_pool(State(app): State<App>, head: Head, Path(pool): Path<String>) -> Answer {
    head.params(&[])?;
    match app.engine.delete_capacity(app.tenant(), Scope::Pool, &pool).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(no_pool(&pool)),
    }
}

/// Pause a pool
///
/// Nothing of it starts until it is resumed. What runs goes on.
#[utoipa::path(post, path = "/v1/pools/{pool}/pause", tag = "Pools", operation_id = "pausePool",
    params(("pool" = String, Path, description = "Name")),
    responses((status = 200, description = "The pool", body = Pool)))]
pub(super) async fn pause_pool(State(app): State<App>, head: Head, Path(pool): Path<String>, _: NoBody) -> Answer {
    head.params(&[])?;
    check_name(&pool)?;
    let old = limits_of(&app, &pool).await?;
    put(&app, Capacity { paused: true, ..old }).await
}

/// Resume a pool
#[utoipa::path(post, path = "/v1/pools/{pool}/resume", tag = "Pools", operation_id = "resumePool",
    params(("pool" = String, Path, description = "Name")),
    responses((status = 200, description = "The pool", body = Pool)))]
pub(super) async fn resume_pool(State(app): State<App>, head: Head, Path(pool): Path<String>, _: NoBody) -> Answer {
    head.params(&[])?;
    check_name(&pool)?;
    let old = limits_of(&app, &pool).await?;
    put(&app, Capacity { paused: false, ..old }).await
}

/// The limits of a pool as they are, to be changed now.
async fn limits_of(app: &App, name: &str) -> Result<Capacity, Refusal> {
    let known = app.engine.capacities(app.tenant(), Scope::Pool).await?.into_iter().find(|known| known.name == name);
    let updated_at = app.engine.now();
    Ok(match known {
        Some(known) => Capacity { updated_at, ..known },
        None => Capacity {
            tenant: app.tenant(),
            scope: Scope::Pool,
            name: name.to_owned(),
            slots: None,
            per_second_milli: None,
            paused: false,
            updated_at,
        },
    })
}

async fn put(app: &App, capacity: Capacity) -> Answer {
    let name = capacity.name.clone();
    app.engine.put_capacity(capacity).await?;
    Ok(json(StatusCode::OK, &Facts::read(app).await?.pool(&name)))
}

/// The rule for pools of jobs: a pool of another name could not be used.
fn check_name(name: &str) -> Result<(), Refusal> {
    let fits = (1..=limits::NAME_BYTES_MAX).contains(&name.len()) && name.trim() == name;
    if fits && !name.contains(|c: char| c.is_control() || c == '/' || c == ':') {
        return Ok(());
    }
    let message = format!(
        "a pool's name has 1 to {} bytes, no blank at either end, and none of `/`, `:` or control characters",
        limits::NAME_BYTES_MAX
    );
    Err(Refusal::invalid(vec![FieldProblem::new("", "pool_invalid", message)]))
}

fn no_pool(name: &str) -> Refusal {
    let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    Refusal::new(StatusCode::NOT_FOUND, "pool_not_found", format!("nothing is known of a pool `{shown}`"))
}

/// Everything that is known about pools.
struct Facts {
    capacities: Vec<Capacity>,
    counts: Vec<Count>,
    depths: Vec<PoolDepth>,
    workers: Vec<WorkerStatus>,
    now: Timestamp,
}

impl Facts {
    async fn read(app: &App) -> Result<Self, Refusal> {
        Ok(Self {
            capacities: app.engine.capacities(app.tenant(), Scope::Pool).await?,
            counts: app.reads.counts(Some(app.tenant())).await?,
            depths: app.engine.queue_depths().await?,
            workers: app.engine.workers(),
            now: app.engine.now(),
        })
    }

    fn names(&self) -> BTreeSet<&str> {
        let open = self.counts.iter().filter(|count| !count.state.is_final() && count.executions > 0);
        let mut names = BTreeSet::from([POOL_SHORT, POOL_LONG]);
        names.extend(self.capacities.iter().map(|capacity| capacity.name.as_str()));
        names.extend(open.map(|count| &*count.pool));
        names.extend(self.depths.iter().map(|depth| &*depth.pool));
        names.extend(self.workers.iter().flat_map(|worker| worker.pools.iter().map(|pool| &**pool)));
        names
    }

    fn pool(&self, name: &str) -> Pool {
        let capacity = self.capacities.iter().find(|capacity| capacity.name == name);
        let count = |state: ExecutionState| {
            let mine = self.counts.iter().filter(|count| &*count.pool == name && count.state == state);
            mine.map(|count| count.executions).sum()
        };
        let depths = || self.depths.iter().filter(|depth| &*depth.pool == name);
        let oldest = depths().filter_map(|depth| depth.oldest_queued_at).min();
        Pool {
            name: name.to_owned(),
            slots: capacity.and_then(|capacity| capacity.slots),
            paused: capacity.is_some_and(|capacity| capacity.paused),
            waiting: count(ExecutionState::Pending),
            running: count(ExecutionState::Running),
            retrying: count(ExecutionState::Retrying),
            held: count(ExecutionState::Held),
            blocked: count(ExecutionState::Held) + count(ExecutionState::Blocked),
            queued: depths().map(|depth| depth.waiting as u64).sum(),
            oldest_waiting_at: oldest.map(|at| at.to_string()),
            oldest_waiting_ms: oldest.map(|at| self.now.ms_since(at)),
            workers: self.workers.iter().filter(|worker| takes_from(worker, name, self.now)).count() as u64,
            updated_at: capacity.map(|capacity| capacity.updated_at.to_string()),
        }
    }
}
