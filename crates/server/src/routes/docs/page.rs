//! The API reference as HTML. Everything that comes out of the document is escaped.

use serde_json::Value;
use std::fmt::Write;

/// Operations in the order in which they are shown.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The whole page.
pub(super) fn render(document: &Value) -> String {
    let mut html = String::with_capacity(128 * 1024);
    let version = text(&document["info"]["version"]);
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Campanile API</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/docs/api.css\"></head><body>\
         <nav aria-label=\"Contents\"><a class=\"brand\" href=\"#top\">Campanile <span>API {}</span></a>",
        escape(version)
    );
    contents(&mut html, document);
    html.push_str("</nav><main id=\"top\">");
    introduction(&mut html, document);
    for tag in list(&document["tags"]) {
        let name = text(&tag["name"]);
        let _ = write!(
            html,
            "<section><h2 id=\"{}\">{}</h2><p class=\"lead\">{}</p>",
            slug(name),
            escape(name),
            prose(text(&tag["description"]))
        );
        for (path, method, operation) in operations(document, name) {
            render_operation(&mut html, path, method, operation);
        }
        html.push_str("</section>");
    }
    html.push_str("<section><h2 id=\"schemas\">Objects</h2>");
    for (name, schema) in members(&document["components"]["schemas"]).filter(|(name, _)| !name.contains("Page_")) {
        render_schema(&mut html, name, schema);
    }
    html.push_str("</section></main></body></html>");
    html
}

fn contents(html: &mut String, document: &Value) {
    html.push_str("<a href=\"#conventions\">Conventions</a>");
    for tag in list(&document["tags"]) {
        let name = text(&tag["name"]);
        let _ = write!(html, "<a class=\"group\" href=\"#{}\">{}</a>", slug(name), escape(name));
        for (_, method, operation) in operations(document, name) {
            let _ = write!(
                html,
                "<a class=\"op\" href=\"#{}\"><span>{}</span><b class=\"{method}\">{}</b></a>",
                slug(text(&operation["operationId"])),
                escape(text(&operation["summary"])),
                method.to_uppercase(),
            );
        }
    }
    html.push_str("<a class=\"group\" href=\"#schemas\">Objects</a>");
}

fn introduction(html: &mut String, document: &Value) {
    let _ = write!(
        html,
        "<header><h1>Campanile API</h1><p class=\"lead\">{}</p></header>",
        prose(text(&document["info"]["description"]))
    );
    html.push_str(
        "<section><h2 id=\"conventions\">Conventions</h2><dl class=\"rules\">\
         <dt>Address</dt><dd>Everything is below <code>/v1</code>; <code>/api/v1</code> is the same. \
         The machine-readable document is <a href=\"/openapi.json\">/openapi.json</a> (OpenAPI 3.1).</dd>\
         <dt>Fields</dt><dd>Answers are snake_case, or camelCase with <code>?case=camel</code>. Requests may be either. \
         A field that does not exist is refused, with the nearest name that does. Enums are UPPER_SNAKE in answers and in any \
         case in requests.</dd>\
         <dt>Time</dt><dd>Instants are RFC 3339 in UTC. Durations are numbers in fields that end in <code>_ms</code>, or texts \
         such as <code>\"30s\"</code> and <code>\"1h30m\"</code>.</dd>\
         <dt>Names</dt><dd>Wherever a job's id goes, <code>name:</code> and its name go too: \
         <code>/v1/jobs/name:daily-invoice-gen</code>.</dd>\
         <dt>Once</dt><dd>With an <code>Idempotency-Key</code>, a write happens once however often it is sent; repeats get the \
         first answer and <code>Idempotency-Replayed: true</code>. Keys are kept for 24 hours.</dd>\
         <dt>Versions</dt><dd>A job's version is its <code>ETag</code>, such as <code>\"v7\"</code>. \
         <code>If-Match</code> guards a write (412), <code>If-None-Match</code> saves a read (304).</dd>\
         <dt>Dry runs</dt><dd><code>?dry_run=true</code> on any write checks it and shows what would be, with the next five \
         fires. Nothing is stored.</dd>\
         <dt>Pages</dt><dd><code>?limit=</code> (1 to 500) and <code>?cursor=</code>; the answer has <code>has_more</code>, \
         <code>next_cursor</code> and a <code>Link</code> header. A cursor belongs to its filter.</dd>\
         <dt>Refusals</dt><dd><code>application/problem+json</code> (RFC 9457) with a stable <code>code</code>, every field at \
         fault with a JSON pointer, and the <code>request_id</code> that is also in <code>X-Request-Id</code>.</dd>\
         <dt>Limits</dt><dd>A job's request has at most 512 KiB, its payload 256 KiB, a batch 8 MiB and 1000 jobs, headers \
         16 KiB; JSON is nested at most 128 deep. Bodies are sent without compression.</dd></dl>\
         <h3>A first job</h3><pre><code>curl -X POST http://localhost:8080/v1/jobs \\\n  -H 'content-type: application/json' \\\n  \
         -d '{\"name\": \"hello\", \"schedule\": \"every 10s\", \"action\": {\"type\": \"NOOP\"}}'</code></pre></section>",
    );
}

fn render_operation(html: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        html,
        "<article id=\"{}\"><h3>{}</h3><p class=\"route\"><b class=\"{method}\">{}</b><code>{}</code></p>",
        slug(text(&operation["operationId"])),
        escape(text(&operation["summary"])),
        method.to_uppercase(),
        path_html(path),
    );
    for paragraph in text(&operation["description"]).split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let _ = write!(html, "<p>{}</p>", prose(paragraph));
    }
    parameters(html, operation);
    if let Some((media_type, content)) = members(&operation["requestBody"]["content"]).next() {
        let _ =
            write!(html, "<h4>Body</h4><p>{} <small>{}</small></p>", type_html(&content["schema"]), escape(media_type));
        if let Some(example) = request_example(text(&operation["operationId"])) {
            let _ = write!(html, "<pre><code>{}</code></pre>", escape(example));
        }
    }
    html.push_str("<h4>Answers</h4><table><tbody>");
    for (status, answer) in members(&operation["responses"]) {
        let schema =
            members(&answer["content"]).next().map(|(_, content)| type_html(&content["schema"])).unwrap_or_default();
        let class = if status.starts_with('2') || status.starts_with('3') { "ok" } else { "bad" };
        let _ = write!(
            html,
            "<tr><td><span class=\"status {class}\">{}</span></td><td>{}</td><td>{schema}</td></tr>",
            escape(status),
            prose(text(&answer["description"])),
        );
    }
    html.push_str("</tbody></table></article>");
}

fn parameters(html: &mut String, operation: &Value) {
    let parameters = list(&operation["parameters"]);
    if parameters.is_empty() {
        return;
    }
    html.push_str("<h4>Parameters</h4><table><tbody>");
    for parameter in parameters {
        let required = if parameter["required"] == Value::Bool(true) { " <em>required</em>" } else { "" };
        let _ = write!(
            html,
            "<tr><td><code>{}</code>{required}</td><td class=\"where\">{}</td><td>{}</td></tr>",
            escape(text(&parameter["name"])),
            escape(text(&parameter["in"])),
            prose(text(&parameter["description"])),
        );
    }
    html.push_str("</tbody></table>");
}

fn render_schema(html: &mut String, name: &str, schema: &Value) {
    let _ = write!(html, "<article id=\"schema-{}\"><h3>{}</h3>", slug(name), escape(name));
    for paragraph in text(&schema["description"]).split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let _ = write!(html, "<p>{}</p>", prose(paragraph));
    }
    let required = list(&schema["required"]);
    html.push_str("<table><tbody>");
    let parts = list(&schema["allOf"]);
    let inherited = parts.iter().flat_map(|part| members(&part["properties"]));
    for (field, property) in members(&schema["properties"]).chain(inherited) {
        let is_required = required.iter().any(|name| name.as_str() == Some(field));
        let mark = if is_required { "" } else { " <em>optional</em>" };
        let example = match &property["example"] {
            Value::Null => String::new(),
            example => format!("<br><small>such as <code>{}</code></small>", escape(&example.to_string())),
        };
        let _ = write!(
            html,
            "<tr><td><code>{}</code>{mark}</td><td class=\"where\">{}</td><td>{}{example}</td></tr>",
            escape(field),
            type_html(property),
            prose(description(property)),
        );
    }
    html.push_str("</tbody></table></article>");
}

/// What a field is; where it may be null, the words are with the alternative that is not.
fn description(property: &Value) -> &str {
    let own = text(&property["description"]);
    let alternatives = list(&property["oneOf"]).iter().map(|one| text(&one["description"]));
    std::iter::once(own).chain(alternatives).find(|words| !words.is_empty()).unwrap_or_default()
}

/// A schema in a word or two, with a link where it is an object of ours.
fn type_html(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if let Some(item) = name.strip_prefix("Page_") {
            return format!("page of <a href=\"#schema-{}\">{}</a>", slug(item), escape(item));
        }
        return format!("<a href=\"#schema-{}\">{}</a>", slug(name), escape(name));
    }
    for alternatives in ["oneOf", "anyOf", "allOf"] {
        let kinds: Vec<String> =
            list(&schema[alternatives]).iter().filter(|one| one["type"] != "null").map(type_html).collect();
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
    }
    if schema["type"] == "array" {
        return format!("array of {}", type_html(&schema["items"]));
    }
    match &schema["type"] {
        Value::String(kind) => escape(kind),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().map(text).filter(|kind| *kind != "null").collect();
            escape(&kinds.join(" or "))
        }
        _ => "any JSON".to_owned(),
    }
}

fn request_example(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "createJob" => {
            "{\n  \"name\": \"nightly-report\",\n  \"schedule\": {\"cron\": \"0 2 * * *\", \"timezone\": \"Europe/Berlin\"},\n  \
             \"action\": {\"type\": \"WEBHOOK\", \"url\": \"https://reports.example.com/run\", \"method\": \"POST\"},\n  \
             \"payload\": {\"kind\": \"settlement\"},\n  \
             \"retry_policy\": {\"max_attempts\": 4, \"backoff\": \"EXPONENTIAL_WITH_JITTER\", \"initial_delay\": \"30s\"},\n  \
             \"timeout\": \"10m\",\n  \"priority\": \"HIGH\",\n  \"tags\": [\"reports\"]\n}"
        }
        "createJobs" => {
            "{\"jobs\": [\n  {\"name\": \"a\", \"schedule\": \"@daily\", \"action\": {\"type\": \"NOOP\"}, \"idempotency_key\": \"import-1\"},\n  \
             {\"name\": \"b\", \"schedule\": \"every 90s\", \"action\": {\"type\": \"NOOP\"}}\n]}"
        }
        "patchJob" => "{\"schedule\": {\"cron\": \"30 2 * * *\"}, \"priority\": null}",
        "executeJob" => "{\"name\": \"nightly-report\"}",
        "previewSchedule" | "explainSchedule" => {
            "{\"schedule\": \"30 2 * * *\", \"timezone\": \"America/New_York\", \"from\": \"2027-03-13T00:00:00Z\", \"count\": 3}"
        }
        _ => return None,
    })
}

fn operations<'a>(document: &'a Value, tag: &'a str) -> impl Iterator<Item = (&'a str, &'static str, &'a Value)> {
    members(&document["paths"]).flat_map(move |(path, item)| {
        METHODS.into_iter().filter_map(move |method| {
            let operation = item.get(method)?;
            let has_tag = list(&operation["tags"]).iter().any(|name| name.as_str() == Some(tag));
            has_tag.then_some((path, method, operation))
        })
    })
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn slug(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// A path with its parameters set off.
fn path_html(path: &str) -> String {
    escape(path).replace('{', "<i>{").replace('}', "}</i>")
}

/// Escaped text in which backquotes are code.
fn prose(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    for (i, part) in escape(text).split('`').enumerate() {
        match i % 2 {
            0 => html.push_str(part),
            _ => {
                let _ = write!(html, "<code>{part}</code>");
            }
        }
    }
    html
}

fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_the_document_is_escaped() {
        assert_eq!(prose("a `<b>` & \"c\""), "a <code>&lt;b&gt;</code> &amp; &quot;c&quot;");
        assert_eq!(slug("a b\"<>"), "ab");
    }
}
