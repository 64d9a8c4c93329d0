//! Request and response pairs, as the documentation quotes them: `golden/*.json`.
//!
//! Each file is a list of steps that run in order on a fresh server whose clock stands at 2026-11-16T02:00:00Z. Ids are
//! shown as `<job 1>`, `<exe 1>`, `<ntf 1>`, `<req>`, in the order of their appearance, and may be used so in later requests.
//! `UPDATE_GOLDEN=1 cargo test -p campanile-server --test golden` writes the responses anew; read the difference.

mod rig;

use http::Method;
use rig::Rig;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Headers that are part of the contract.
const HEADERS: [&str; 7] = ["content-type", "location", "etag", "link", "allow", "retry-after", "idempotency-replayed"];

/// Kinds of ids that are shown as placeholders.
const KINDS: [&str; 4] = ["job", "exe", "ntf", "req"];

/// Ids seen so far, in the order of their appearance.
#[derive(Default)]
struct Ids(Vec<String>);

impl Ids {
    /// The text with ids as placeholders.
    fn hide(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = KINDS.iter().filter_map(|kind| rest.find(&format!("{kind}_"))).min() {
            let (before, tail) = rest.split_at(at);
            out.push_str(before);
            let is_digit = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
            if tail.len() >= 30 && tail.as_bytes()[4..30].iter().all(is_digit) {
                out.push_str(&self.placeholder(&tail[..30]));
                rest = &tail[30..];
            } else {
                out.push_str(&tail[..4]);
                rest = &tail[4..];
            }
        }
        out + rest
    }

    fn placeholder(&mut self, id: &str) -> String {
        let kind = &id[..3];
        if kind == "req" {
            return "<req>".to_owned();
        }
        if !self.0.iter().any(|known| known == id) {
            self.0.push(id.to_owned());
        }
        let number = self.0.iter().filter(|known| known.starts_with(kind)).position(|known| known == id).unwrap() + 1;
        format!("<{kind} {number}>")
    }

    /// The text with placeholders as ids.
    fn show(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for kind in KINDS {
            for (i, id) in self.0.iter().filter(|id| id.starts_with(kind)).enumerate() {
                text = text.replace(&format!("<{kind} {}>", i + 1), id);
            }
        }
        text
    }
}

async fn run(rig: &Rig, ids: &mut Ids, request: &Value) -> Value {
    let method: Method = request["method"].as_str().unwrap().parse().unwrap();
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        headers.push((name.clone(), value.as_str().unwrap().to_owned()));
    }
    let body = match request.get("body") {
        Some(Value::String(raw)) => raw.clone(),
        Some(body) => {
            headers.push(("content-type".into(), "application/json".into()));
            ids.show(&body.to_string())
        }
        None => String::new(),
    };
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = ids.show(request["path"].as_str().unwrap()).replace(' ', "%20");
    let answer = rig.ask(method, &path, &headers, body).await;
    let mut kept = Map::new();
    for name in HEADERS.into_iter().filter(|name| answer.headers.contains_key(*name)) {
        kept.insert(name.to_owned(), json!(ids.hide(answer.header(name))));
    }
    let text = ids.hide(&answer.text);
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
    json!({"status": answer.status.as_u16(), "headers": kept, "body": body})
}

async fn check(file: &Path) -> Vec<String> {
    let mut steps: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let rig = Rig::manual().await;
    let mut ids = Ids::default();
    let mut wrong = Vec::new();
    for step in &mut steps {
        let response = run(&rig, &mut ids, &step["request"]).await;
        if step["response"] != response {
            wrong.push(format!(
                "{}: {}\nexpected {:#}\ngot {response:#}",
                file.display(),
                step["what"],
                step["response"]
            ));
            step["response"] = response;
        }
    }
    if !wrong.is_empty() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, serde_json::to_string_pretty(&steps).unwrap() + "\n").unwrap();
        return Vec::new();
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_get_their_responses() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    let mut wrong = Vec::new();
    for file in files {
        wrong.extend(check(&file).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
