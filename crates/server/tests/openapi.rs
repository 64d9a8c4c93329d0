//! The document and the pages made of it.

mod rig;

use http::Method;
use rig::Rig;
use serde_json::Value;

/// Every route that the API promises. Registering a route without its documentation is impossible; this is the other half.
const ROUTES: &[(&str, &str)] = &[
    ("get", "/v1/jobs"),
    ("post", "/v1/jobs"),
    ("post", "/v1/jobs:batch"),
    ("get", "/v1/jobs/{job}"),
    ("put", "/v1/jobs/{job}"),
    ("patch", "/v1/jobs/{job}"),
    ("delete", "/v1/jobs/{job}"),
    ("post", "/v1/jobs/{job}/pause"),
    ("post", "/v1/jobs/{job}/resume"),
    ("post", "/v1/jobs/{job}/run"),
    ("post", "/v1/jobs/{job}/trigger"),
    ("post", "/v1/jobs/execute"),
    ("get", "/v1/jobs/{job}/why"),
    ("post", "/v1/jobs/{job}/fires/cancel"),
    ("post", "/v1/jobs/{job}/backfill"),
    ("get", "/v1/jobs/{job}/executions"),
    ("get", "/v1/jobs/{job}/runs"),
    ("get", "/v1/jobs/{job}/skips"),
    ("get", "/v1/jobs/{job}/versions"),
    ("get", "/v1/jobs/{job}/versions/{version}"),
    ("post", "/v1/jobs/{job}/revert"),
    ("get", "/v1/executions"),
    ("get", "/v1/executions/{execution}"),
    ("get", "/v1/executions/{execution}/attempts"),
    ("get", "/v1/executions/{execution}/logs"),
    ("post", "/v1/executions/{execution}/cancel"),
    ("post", "/v1/executions/{execution}/replay"),
    ("get", "/v1/dead"),
    ("get", "/v1/dead/groups"),
    ("post", "/v1/dead/replay"),
    ("post", "/v1/dead/discard"),
    ("get", "/v1/operations"),
    ("get", "/v1/operations/{operation}"),
    ("post", "/v1/operations/{operation}/cancel"),
    ("get", "/v1/pools"),
    ("get", "/v1/pools/{pool}"),
    ("put", "/v1/pools/{pool}"),
    ("delete", "/v1/pools/{pool}"),
    ("post", "/v1/pools/{pool}/pause"),
    ("post", "/v1/pools/{pool}/resume"),
    ("get", "/v1/targets"),
    ("put", "/v1/targets/{target}"),
    ("delete", "/v1/targets/{target}"),
    ("get", "/v1/workers"),
    ("post", "/v1/workers/{worker}/quiet"),
    ("post", "/v1/workers/{worker}/drain"),
    ("post", "/v1/workers/{worker}/run"),
    ("get", "/v1/webhook-endpoints"),
    ("post", "/v1/webhook-endpoints"),
    ("get", "/v1/webhook-endpoints/{endpoint}"),
    ("put", "/v1/webhook-endpoints/{endpoint}"),
    ("delete", "/v1/webhook-endpoints/{endpoint}"),
    ("post", "/v1/webhook-endpoints/{endpoint}/pause"),
    ("post", "/v1/webhook-endpoints/{endpoint}/resume"),
    ("get", "/v1/webhook-endpoints/{endpoint}/deliveries"),
    ("post", "/v1/webhook-endpoints/{endpoint}/deliveries/{seq}/replay"),
    ("get", "/v1/stats"),
    ("get", "/v1/counts"),
    ("post", "/internal/v1/executions/claim"),
    ("post", "/internal/v1/executions/heartbeat"),
    ("post", "/internal/v1/executions/complete"),
    ("post", "/internal/v1/executions/{execution}/complete"),
    ("post", "/internal/v1/executions/{execution}/release"),
    ("post", "/v1/schedules:preview"),
    ("post", "/v1/schedules:explain"),
    ("get", "/v1/status"),
    ("get", "/v1/cluster"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/openapi.json"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_3_1_and_has_every_route() {
    let rig = Rig::manual().await;
    let answer = rig.get("/openapi.json").await;
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let mut documented = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            documented.push((method.as_str(), path.as_str()));
        }
    }
    let mut promised = ROUTES.to_vec();
    promised.sort_unstable();
    documented.sort_unstable();
    assert_eq!(documented, promised);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_documented_route_answers_under_both_prefixes() {
    let rig = Rig::manual().await;
    for (method, path) in ROUTES {
        for prefix in if path.starts_with("/v1") { &["", "/api"][..] } else { &[""] } {
            let path = format!("{prefix}{}", path.split(['{', '}']).step_by(2).collect::<Vec<_>>().join("x"));
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let (status, code) = rig.ask(method, &path, &[], "").await.refusal();
            assert!(code != "route_not_found" && status != 405, "{path}: {status} {code}");
        }
    }
}

#[test]
fn every_reference_in_the_document_resolves() {
    let document = serde_json::to_value(campanile_server::openapi()).unwrap();
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut references = Vec::new();
    walk(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let mut ids: Vec<&str> = Vec::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            ids.push(operation["operationId"].as_str().unwrap());
            assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{operation}");
            assert!(!operation["tags"].as_array().unwrap().is_empty());
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "operation ids are unique");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_page_shows_every_operation_without_scripts() {
    let rig = Rig::manual().await;
    let root = rig.get("/").await;
    assert_eq!((root.status.as_u16(), root.header("location")), (307, "/docs/api"));
    let page = rig.get("/docs/api").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").contains("default-src 'none'; style-src 'self'"));
    assert!(!page.text.contains("<script") && !page.text.contains("style=") && !page.text.contains("//cdn"));
    let document = serde_json::to_value(campanile_server::openapi()).unwrap();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.text.contains(&format!("<article id=\"{id}\">")), "{id}");
        }
    }
    // Every link within the page has its target.
    for link in page.text.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(page.text.contains(&format!("id=\"{link}\"")), "#{link}");
    }
    assert!(rig.get("/docs/api.css").await.header("content-type").starts_with("text/css"));
}
