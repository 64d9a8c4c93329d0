//! The part of `doctor` that looks at the work: who waits for whom, what fails, what was not told.

use super::{Level, Report};
use crate::cli::exit::Failure;
use crate::cli::output::rough;
use crate::clock;
use campanile_client::wire::{DeadGroup, Delivery, Directive, Execution, Pool, Target, WebhookEndpoint, WorkerStatus};
use campanile_client::{Client, Error, ExecutionFilter};
use campanile_model::Timestamp;
use std::collections::BTreeMap;

/// What has been due for less than this has not waited for a worker yet.
const DUE_MS: u64 = 5_000;
/// Executions and deliveries that are looked at: enough to see what is wrong.
const LOOK_MAX: u32 = 500;
/// Findings of one kind that are told one by one; of the rest only the number.
const TOLD_MAX: usize = 5;

impl Report {
    /// Looks at workers, pools, dead letters, targets and notifications.
    pub(super) async fn work(&mut self, client: &Client) {
        let now = clock::now();
        match tokio::try_join!(client.list_workers(), waiting(client, now)) {
            Ok((workers, waiting)) => self.handlers(&waiting, &workers.data, now),
            Err(error) => self.cannot("workers", error),
        }
        match client.list_pools().await {
            Ok(pools) => self.pools(&pools.data),
            Err(error) => self.cannot("pools", error),
        }
        match client.list_dead_groups(Some(LOOK_MAX)).await {
            Ok(groups) => self.dead(&groups.data),
            Err(error) => self.cannot("dead", error),
        }
        match client.list_targets().await {
            Ok(targets) => self.targets(&targets.data),
            Err(error) => self.cannot("targets", error),
        }
        match deliveries(client).await {
            Ok(found) => self.notifications(&found),
            Err(error) => self.cannot("notifications", error),
        }
    }

    pub(super) fn cannot(&mut self, name: &'static str, error: Error) {
        let message = format!("{name}: cannot look: {}", Failure::from(error).message());
        self.add(Level::Warn, name, message, Some("use the same release on both sides"));
    }

    /// Handlers with executions that are due, and no worker that takes them.
    fn handlers(&mut self, waiting: &[Execution], workers: &[WorkerStatus], now: Timestamp) {
        let mut lonely: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
        for execution in waiting {
            let Some(handler) = execution.handler.as_deref() else { continue };
            let due = execution.next_attempt_at.as_ref().unwrap_or(&execution.fire_at).parse::<Timestamp>();
            let age_ms = due.map_or(0, |due| now.ms_since(due));
            if age_ms >= DUE_MS && !workers.iter().any(|worker| takes(worker, &execution.pool, handler)) {
                let (count, oldest) = lonely.entry((execution.pool.as_str(), handler)).or_default();
                (*count, *oldest) = (*count + 1, (*oldest).max(age_ms));
            }
        }
        for (&(pool, handler), &(count, oldest)) in lonely.iter().take(TOLD_MAX) {
            let message = format!(
                "no worker for handler {handler} in pool {pool}: {count} executions wait, the oldest for {}",
                rough(oldest)
            );
            let fix = format!("start one: campanile worker run --pool {pool} --handler {handler} -- PROGRAM");
            self.add(Level::Warn, "workers", message, Some(&fix));
        }
        self.and_more("workers", lonely.len(), "handlers without a worker", "campanile worker ls");
        if lonely.is_empty() {
            let present = workers.iter().filter(|worker| worker.present).count();
            self.add(Level::Ok, "workers", format!("{present} workers; nothing that is due waits for one"), None);
        }
    }

    fn pools(&mut self, pools: &[Pool]) {
        let stuck: Vec<&Pool> = pools.iter().filter(|p| p.paused && p.waiting + p.retrying + p.queued > 0).collect();
        for pool in stuck.iter().take(TOLD_MAX) {
            let message =
                format!("pool {} is paused, and {} executions wait in it", pool.name, pool.waiting + pool.retrying);
            self.add(Level::Warn, "pools", message, Some(&format!("campanile pool resume {}", pool.name)));
        }
        self.and_more("pools", stuck.len(), "paused pools with work", "campanile pool ls");
        if stuck.is_empty() {
            self.add(Level::Ok, "pools", format!("{} pools; no work waits in a paused one", pools.len()), None);
        }
    }

    fn dead(&mut self, groups: &[DeadGroup]) {
        let count: u64 = groups.iter().map(|group| group.count).sum();
        let Some(largest) = groups.iter().max_by_key(|group| group.count) else {
            self.add(Level::Ok, "dead", "nothing is dead", None);
            return;
        };
        let message = format!(
            "{count} dead executions in {} groups, {} of them {} at {}",
            groups.len(),
            largest.count,
            largest.kind,
            if largest.target.is_empty() { "nobody" } else { &largest.target }
        );
        let fix = format!("campanile dead groups; then campanile dead replay --fingerprint {}", largest.fingerprint);
        self.add(Level::Warn, "dead", message, Some(&fix));
    }

    fn targets(&mut self, targets: &[Target]) {
        let open: Vec<&Target> = targets.iter().filter(|target| target.circuit_open).collect();
        for target in open.iter().take(TOLD_MAX) {
            let message = format!(
                "{} keeps failing: one probe at a time is sent, {} executions are in its line",
                target.name, target.waiting
            );
            let fix = "mend it; its errors: campanile exec ls --state retrying,dead; its state: campanile target ls";
            self.add(Level::Warn, "targets", message, Some(fix));
        }
        self.and_more("targets", open.len(), "targets that keep failing", "campanile target ls");
        if open.is_empty() {
            self.add(Level::Ok, "targets", "no target keeps failing", None);
        }
    }

    fn notifications(&mut self, found: &[(WebhookEndpoint, Vec<Delivery>)]) {
        let mut fine = true;
        for (endpoint, deliveries) in found {
            let undelivered = |delivery: &&Delivery| {
                delivery.state == "FAILED" || (delivery.state == "WAITING" && (delivery.tries > 0 || endpoint.paused))
            };
            let count = deliveries.iter().filter(undelivered).count();
            let Some(newest) = deliveries.iter().find(undelivered) else { continue };
            fine = false;
            let why = match &newest.error {
                _ if endpoint.paused => "it is paused".to_owned(),
                Some(error) => error.clone(),
                None => newest.status.map_or("no answer".into(), |status| format!("HTTP {status}")),
            };
            let message = format!("{count} notifications did not get to {}: {why}", endpoint.url);
            let fix = match endpoint.paused {
                true => format!("campanile notify resume {}", endpoint.id),
                false => format!("campanile notify deliveries {}", endpoint.id),
            };
            self.add(Level::Warn, "notifications", message, Some(&fix));
        }
        if fine {
            let message = format!("{} endpoints; every notification got there or is on its way", found.len());
            self.add(Level::Ok, "notifications", message, None);
        }
    }

    fn and_more(&mut self, name: &'static str, count: usize, what: &str, fix: &str) {
        if count > TOLD_MAX {
            self.add(Level::Warn, name, format!("{} more {what}", count - TOLD_MAX), Some(fix));
        }
    }
}

/// Whether a worker would take an execution.
fn takes(worker: &WorkerStatus, pool: &str, handler: &str) -> bool {
    let takes = |names: &[String], name: &str| names.is_empty() || names.iter().any(|known| known == name);
    worker.present
        && worker.directive == Directive::Run
        && takes(&worker.pools, pool)
        && takes(&worker.handlers, handler)
}

/// Executions that wait although they were due.
async fn waiting(client: &Client, now: Timestamp) -> Result<Vec<Execution>, Error> {
    let filter = ExecutionFilter {
        state: Some("PENDING,RETRYING".into()),
        scheduled_before: Some(now.to_string()),
        limit: Some(LOOK_MAX),
        ..ExecutionFilter::default()
    };
    Ok(client.list_executions(&filter).await?.data)
}

/// The newest deliveries to each endpoint.
async fn deliveries(client: &Client) -> Result<Vec<(WebhookEndpoint, Vec<Delivery>)>, Error> {
    let mut found = Vec::new();
    for endpoint in client.list_endpoints().await?.data {
        let deliveries = client.list_deliveries(&endpoint.id, Some(LOOK_MAX), None).await?.data;
        found.push((endpoint, deliveries));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Report {
        Report { checks: Vec::new() }
    }

    fn execution(pool: &str, handler: &str, due: &str) -> Execution {
        let fields = json!({
            "id": "exe_x", "execution_id": "exe_x", "job_id": "job_x", "job_name": "x", "job_version": 1,
            "fire_at": due, "scheduled_at": due, "fired_at": due, "kind": "SCHEDULE", "state": "PENDING",
            "status": "PENDING", "is_final": false, "attempt": 0, "fence_token": 0, "priority": "NORMAL",
            "pool": pool, "action": "WORKER", "handler": handler,
        });
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_handler_without_a_worker_is_named_with_a_fix() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let waiting = [
            execution("sms", "send_sms", "2026-11-16T11:58:00Z"),
            execution("sms", "send_sms", "2026-11-16T11:59:00Z"),
            execution("short", "mail", "2026-11-16T11:58:00Z"),
            execution("new", "fresh", "2026-11-16T11:59:59Z"),
        ];
        let worker = |handler: &str, directive| WorkerStatus {
            handlers: vec![handler.into()],
            present: true,
            directive,
            ..WorkerStatus::default()
        };
        let mut found = report();
        found.handlers(&waiting, &[worker("mail", Directive::Run), worker("send_sms", Directive::Quiet)], now);
        let [check] = found.checks.as_slice() else { panic!("one finding") };
        assert_eq!(check.level, Level::Warn);
        assert!(
            check.message.contains("send_sms in pool sms: 2 executions wait, the oldest for 2m00s"),
            "{}",
            check.message
        );
        assert!(check.fix.as_ref().unwrap().contains("campanile worker run --pool sms --handler send_sms"));
        let mut fine = report();
        fine.handlers(&waiting, &[WorkerStatus { present: true, ..WorkerStatus::default() }], now);
        assert_eq!(fine.checks[0].level, Level::Ok);
    }

    #[test]
    fn paused_pools_open_circuits_and_dead_letters_are_told_of() {
        let mut found = report();
        found.pools(&[
            Pool { name: "idle".into(), paused: true, ..Pool::default() },
            Pool { name: "stuck".into(), paused: true, waiting: 3, ..Pool::default() },
        ]);
        found.targets(&[Target { name: "https://x".into(), circuit_open: true, ..Target::default() }]);
        found.dead(&[]);
        let levels: Vec<Level> = found.checks.iter().map(|check| check.level).collect();
        assert_eq!(levels, [Level::Warn, Level::Warn, Level::Ok]);
        assert_eq!(found.checks[0].fix.as_deref(), Some("campanile pool resume stuck"));
    }
}
