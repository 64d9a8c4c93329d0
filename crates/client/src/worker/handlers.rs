//! Handlers by name, with their types taken off: JSON in, JSON out.

use super::ctx::Ctx;
use super::limits::cut_result;
use super::outcome::{Failure, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// What a handler returned: a result, or why there is none.
pub(super) type Returned = Result<Option<Value>, Outcome>;
/// A handler at work.
pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Returned> + Send>>;
/// A handler without its types.
pub(super) type Handler = Arc<dyn Fn(Ctx) -> HandlerFuture + Send + Sync>;

/// All handlers of a worker.
#[derive(Default)]
pub(super) struct Handlers {
    named: BTreeMap<String, Handler>,
    any: Option<Handler>,
}

impl Handlers {
    /// Adds one for jobs that ask for this name.
    pub(super) fn add(&mut self, name: String, handler: Handler) {
        self.named.insert(name, handler);
    }

    /// Sets the one for all other jobs.
    pub(super) fn add_any(&mut self, handler: Handler) {
        self.any = Some(handler);
    }

    /// The one for this name.
    pub(super) fn find(&self, name: &str) -> Option<Handler> {
        self.named.get(name).or(self.any.as_ref()).cloned()
    }

    /// What to ask a server for: names, or nothing where any will do.
    pub(super) fn names(&self) -> Vec<String> {
        match self.any {
            Some(_) => Vec::new(),
            None => self.named.keys().cloned().collect(),
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.any.is_none()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("named", &self.named.keys()).field("any", &self.any.is_some()).finish()
    }
}

/// Takes the types off. All of it happens when the future is polled, so that a panic anywhere is the attempt's.
pub(super) fn erase<P, R, F, Fut>(handler: F) -> Handler
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(P, Ctx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Outcome>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |ctx: Ctx| {
        let handler = handler.clone();
        Box::pin(async move {
            let payload = serde_json::from_str(ctx.execution().payload.get()).map_err(unreadable)?;
            let id = ctx.execution_id().to_owned();
            let result = handler(payload, ctx).await?;
            match serde_json::to_value(result) {
                Ok(Value::Null) => Ok(None),
                Ok(result) => Ok(Some(cut_result(result))),
                Err(error) => {
                    // The work is done; only the word about it is lost.
                    tracing::warn!(execution = %id, %error, "a handler's result is not JSON; it is not kept");
                    Ok(None)
                }
            }
        })
    })
}

fn unreadable(error: serde_json::Error) -> Outcome {
    Outcome::Permanent(Failure::new("payload_invalid", format!("the payload does not fit the handler: {error}")))
}

#[cfg(test)]
mod tests {
    use super::super::running::Registry;
    use super::super::running::tests::claimed;
    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    #[derive(serde::Deserialize)]
    struct Numbered {
        n: u32,
    }

    fn ctx() -> Ctx {
        Ctx::new(Registry::default().insert(claimed("e", 1)))
    }

    #[tokio::test]
    async fn payloads_and_results_have_types() {
        let doubled = erase(|p: Numbered, _| async move { Ok(p.n * 2) });
        assert_eq!(doubled(ctx()).await, Ok(Some(json!(2))));
        let raw = erase(|p: Box<RawValue>, _| async move { Ok(p.get().to_owned()) });
        assert_eq!(raw(ctx()).await, Ok(Some(json!(r#"{"n":1}"#))));
        let nothing = erase(|_: Value, _| async { Ok(()) });
        assert_eq!(nothing(ctx()).await, Ok(None));
    }

    #[tokio::test]
    async fn an_unreadable_payload_is_a_permanent_failure() {
        let texts = erase(|_: String, _| async { Ok(()) });
        let Err(Outcome::Permanent(failure)) = texts(ctx()).await else { panic!("not permanent") };
        assert_eq!(failure.kind, "payload_invalid");
        assert!(failure.message.contains("expected a string"), "{}", failure.message);
    }

    #[test]
    fn names_are_asked_for_unless_any_will_do() {
        let mut handlers = Handlers::default();
        assert!(handlers.is_empty());
        handlers.add("b".into(), erase(|_: Value, _| async { Ok(()) }));
        handlers.add("a".into(), erase(|_: Value, _| async { Ok(()) }));
        assert_eq!(handlers.names(), ["a", "b"]);
        assert!(handlers.find("a").is_some() && handlers.find("c").is_none());
        handlers.add_any(erase(|_: Value, _| async { Ok(()) }));
        assert!(handlers.names().is_empty() && handlers.find("c").is_some());
    }
}
