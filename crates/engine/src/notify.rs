//! Step 13, notify: what the outbox holds goes to its endpoints, until they take it.
//!
//! Events were written with the state changes that they tell of; here they are sent, at least once, in the order in which
//! they are due. An endpoint knows a repetition by its id. What fails is tried again with growing waits, and given up after
//! a day or so; the log stays, and anybody can have it sent again. An endpoint that hangs has a few sends under way and no
//! more, and holds nobody else up.

pub mod endpoints;

use crate::bells::Bells;
use crate::calls::{self, stopped};
use crate::context::Context;
use campanile_model::fault::{self, Point};
use campanile_model::notify::{Delivery, DeliveryState, Endpoint, Tried};
use campanile_model::store::DeliveryWrite;
use campanile_model::{EndpointId, Timestamp, limits};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::watch;

/// How long the loop sleeps where there is nothing to do; the pulse rings when there is.
const IDLE_MS: u64 = 10_000;
/// Deliveries read at once.
const BATCH: usize = 64;
/// Sends under way at the same time, and to one endpoint.
const SENDS_MAX: usize = 64;
const SENDS_PER_ENDPOINT_MAX: usize = 8;
/// The first wait, which doubles, and the longest.
const WAIT_MS: (u64, u64) = (1_000, 6 * 3_600_000);

/// Runs until told to stop.
pub async fn run(ctx: Context, bells: Arc<Bells>, mut stop: watch::Receiver<bool>) {
    let mut sends = Sends::default();
    loop {
        let more = ctx.duty.is_keeper() && sends.start(&ctx).await;
        let wait_ms = if more { 0 } else { IDLE_MS };
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            Some((endpoint, tried)) = sends.under_way.next(), if !sends.under_way.is_empty() => {
                sends.ended(&ctx, endpoint, tried).await;
            }
            () = bells.deliveries.notified() => {}
            () = ctx.clock.sleep_ms(wait_ms) => {}
        }
    }
}

#[derive(Default)]
struct Sends {
    under_way: FuturesUnordered<BoxFuture<'static, (EndpointId, Tried)>>,
    per_endpoint: HashMap<EndpointId, usize>,
    /// So that what is under way is not read and sent a second time.
    seqs: HashSet<u64>,
}

impl Sends {
    /// Starts to send what is due and has room; says whether there may be more.
    async fn start(&mut self, ctx: &Context) -> bool {
        let room = SENDS_MAX - self.under_way.len();
        if room == 0 {
            return false;
        }
        let busy = self.per_endpoint.iter().filter(|(_, count)| **count >= SENDS_PER_ENDPOINT_MAX);
        let busy: Vec<EndpointId> = busy.map(|(endpoint, _)| *endpoint).collect();
        let due = match ctx.store.load_deliveries(ctx.clock.now(), &busy, BATCH).await {
            Ok(due) => due,
            Err(error) => {
                calls::failed(ctx, "read the outbox", &error);
                return false;
            }
        };
        let mut started = 0;
        for (delivery, endpoint) in due {
            let count = self.per_endpoint.entry(endpoint.id).or_default();
            if *count < SENDS_PER_ENDPOINT_MAX && started < room && self.seqs.insert(delivery.seq) {
                *count += 1;
                started += 1;
                self.under_way.push(Box::pin(send(ctx.clone(), delivery, endpoint)));
            }
        }
        started == room
    }

    async fn ended(&mut self, ctx: &Context, endpoint: EndpointId, tried: Tried) {
        let seq = tried.seq;
        match tried.state {
            DeliveryState::Delivered => ctx.metrics.delivered.add(1),
            DeliveryState::Failed => ctx.metrics.undelivered.add(1),
            DeliveryState::Waiting => {}
        }
        if let Err(error) = ctx.store.put_deliveries(vec![DeliveryWrite::Tried(tried)]).await {
            // It is sent again, under the same id.
            calls::failed(ctx, "note what was delivered", &error);
        }
        self.seqs.remove(&seq);
        if let Some(count) = self.per_endpoint.get_mut(&endpoint) {
            *count -= 1;
            if *count == 0 {
                self.per_endpoint.remove(&endpoint);
            }
        }
    }
}

async fn send(ctx: Context, delivery: Delivery, endpoint: Endpoint) -> (EndpointId, Tried) {
    fault::reach(Point("event.send.before"));
    let answer = ctx.sender.send(&endpoint.url, &event_id(delivery.seq), envelope(&delivery)).await;
    fault::reach(Point("event.send.after"));
    (endpoint.id, settle(&delivery, answer, ctx.clock.now(), ctx.random.next()))
}

/// What a try means. 2xx is taken; 410 is an endpoint that wants no more; everything else is tried again.
fn settle(delivery: &Delivery, answer: Result<u16, String>, now: Timestamp, seed: u64) -> Tried {
    let tries = delivery.tries + 1;
    let (status, error) = match answer {
        Ok(status) if (200..300).contains(&status) => (Some(status), None),
        Ok(status) => (Some(status), Some(format!("the endpoint answered {status}"))),
        Err(error) => (None, Some(error)),
    };
    let state = match &error {
        None => DeliveryState::Delivered,
        Some(_) if status == Some(410) || tries >= limits::DELIVERY_TRIES_MAX => DeliveryState::Failed,
        Some(_) => DeliveryState::Waiting,
    };
    let wait_ms = (WAIT_MS.0 << (tries - 1).min(30)).min(WAIT_MS.1);
    let jittered_ms = wait_ms / 2 + seed % (wait_ms / 2 + 1);
    Tried { seq: delivery.seq, state, next_at: now.saturating_add_ms(jittered_ms as i64), status, error }
}

/// The id of an event towards its endpoint; the same for every try.
pub fn event_id(seq: u64) -> String {
    format!("evt_{seq}")
}

pub fn envelope(delivery: &Delivery) -> String {
    let subject = delivery.execution.map_or_else(|| delivery.job.to_string(), |execution| execution.to_string());
    // Everything but the data is made of our own words and ids, which need no escaping; the data is JSON text.
    format!(
        r#"{{"specversion":"1.0","id":"{}","source":"/tenants/{}","type":"dev.campanile.execution.{}.v1","subject":"{subject}","time":"{}","datacontenttype":"application/json","data":{}}}"#,
        event_id(delivery.seq),
        delivery.tenant.0,
        delivery.kind.as_str(),
        delivery.at,
        delivery.data,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::notify::EventKind;
    use campanile_model::{EndpointId, JobId, TenantId};

    fn delivery(tries: u32) -> Delivery {
        Delivery {
            seq: 7,
            tenant: TenantId::DEFAULT,
            endpoint: EndpointId::from_bytes([1; 16]),
            kind: EventKind::Dead,
            job: JobId::from_bytes([2; 16]),
            execution: None,
            at: Timestamp::from_millis(0),
            data: r#"{"a":1}"#.into(),
            state: DeliveryState::Waiting,
            tries,
            next_at: Timestamp::from_millis(0),
            status: None,
            error: None,
        }
    }

    #[test]
    fn only_a_2xx_is_taken_and_only_410_is_final() {
        let settle = |tries, answer| settle(&delivery(tries), answer, Timestamp::from_millis(0), 0);
        assert_eq!(settle(0, Ok(204)).state, DeliveryState::Delivered);
        assert_eq!(settle(0, Ok(302)).state, DeliveryState::Waiting);
        assert_eq!(settle(0, Ok(410)).state, DeliveryState::Failed);
        assert_eq!(settle(0, Err("refused".into())).state, DeliveryState::Waiting);
        assert_eq!(settle(limits::DELIVERY_TRIES_MAX - 1, Ok(500)).state, DeliveryState::Failed);
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let wait = |tries| settle(&delivery(tries), Ok(500), Timestamp::from_millis(0), u64::MAX).next_at.millis();
        assert!(wait(0) <= 1_000 && wait(0) >= 500);
        assert!(wait(5) > wait(3));
        assert!(wait(u32::MAX - 1) <= WAIT_MS.1 as i64);
    }

    #[test]
    fn envelopes_are_cloud_events() {
        let text = envelope(&delivery(0));
        for part in [
            r#""specversion":"1.0""#,
            r#""id":"evt_7""#,
            r#""type":"dev.campanile.execution.dead.v1""#,
            r#""time":"1970-01-01T00:00:00Z""#,
            r#""data":{"a":1}"#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
