//! The way to dispatch: whoever makes an execution ready, or puts it off, sends it here.

use campanile_model::store::Waiting;
use tokio::sync::mpsc;

/// Where executions that wait are sent.
#[derive(Clone)]
pub struct Dispatcher(mpsc::UnboundedSender<Vec<Waiting>>);

impl Dispatcher {
    /// Hands over executions that wait for their instant. None is held twice, however often it is handed over, so what is held
    /// is bounded by what waits in the store.
    pub fn send(&self, waiting: Vec<Waiting>) {
        if !waiting.is_empty() {
            // The receiver is gone only when the engine stops, and then the store still knows them.
            let _ = self.0.send(waiting);
        }
    }
}

/// The sending and the receiving end.
pub fn channel() -> (Dispatcher, mpsc::UnboundedReceiver<Vec<Waiting>>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Dispatcher(sender), receiver)
}
