//! Doorbells: one connection of our own that listens, and rings here what others ring there.
//!
//! A doorbell may be missed, while the connection is lost for example; so whoever waits for one also looks by itself
//! now and then, and every new connection rings all bells once.

use crate::target::Target;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

/// Shortest and longest wait before the next try to connect.
const WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(1_000));

/// Listens until it is dropped.
pub struct Listener {
    bells: HashMap<String, Arc<Notify>>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens to the installation's channels of these names.
    pub fn start(target: &Target, names: &[&str]) -> Self {
        let bells: HashMap<String, Arc<Notify>> =
            names.iter().map(|name| (target.channel(name), Arc::new(Notify::new()))).collect();
        let task = tokio::spawn(run(target.clone(), bells.clone()));
        let bells = names.iter().map(|name| ((*name).to_owned(), bells[&target.channel(name)].clone())).collect();
        Self { bells, task }
    }

    /// The bell of a channel: `notify_one` is called per ring, so that one that nobody waited for is not lost.
    pub fn bell(&self, name: &str) -> Arc<Notify> {
        self.bells.get(name).cloned().unwrap_or_default()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(target: Target, bells: HashMap<String, Arc<Notify>>) {
    let mut wait = WAIT.0;
    loop {
        match listen(&target, &bells).await {
            Ok(()) => wait = WAIT.0,
            Err(error) => tracing::debug!(%error, "cannot listen for doorbells; trying again"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT.1);
    }
}

/// Listens until the connection is lost.
async fn listen(target: &Target, bells: &HashMap<String, Arc<Notify>>) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = target.connect().await?;
    let wanted: Vec<String> = bells.keys().map(|channel| format!("LISTEN {channel}")).collect();
    let wanted = wanted.join("; ");
    let mut asked = std::pin::pin!(client.batch_execute(&wanted));
    let mut listening = false;
    loop {
        tokio::select! {
            message = std::future::poll_fn(|context| connection.poll_message(context)) => match message {
                None => return Ok(()),
                Some(Err(error)) => return if listening { Ok(()) } else { Err(error) },
                Some(Ok(AsyncMessage::Notification(ring))) => {
                    if let Some(bell) = bells.get(ring.channel()) {
                        bell.notify_one();
                    }
                }
                Some(Ok(_)) => {}
            },
            done = &mut asked, if !listening => {
                done?;
                listening = true;
                bells.values().for_each(|bell| bell.notify_one());
            }
        }
    }
}
