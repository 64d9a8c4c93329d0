//! The OpenAPI document, and the API reference as a page: rendered once, at start, from the same document.
//!
//! The page needs no script and nothing from elsewhere: one document and one stylesheet.

mod page;

use crate::App;
use crate::request::{Answer, Head, json_text};
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use std::sync::{Arc, LazyLock};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| super::openapi().to_json().unwrap_or_default());

const CSS: &str = include_str!("docs/api.css");
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'self'";

/// This document
#[utoipa::path(get, path = "/openapi.json", tag = "Server", operation_id = "getOpenApi",
    responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn openapi_json(head: Head) -> Answer {
    head.params(&[])?;
    Ok(json_text(StatusCode::OK, DOCUMENT.clone()))
}

/// The pages for people.
pub(super) fn pages(document: utoipa::openapi::OpenApi) -> Router<App> {
    let page: Arc<str> = page::render(&serde_json::to_value(document).unwrap_or_default()).into();
    let html = move || {
        let page = page.clone();
        async move { asset("text/html; charset=utf-8", page.to_string()) }
    };
    Router::new()
        .route("/", get(async || Redirect::temporary("/docs/api")))
        .route("/docs/api", get(html))
        .route("/docs/api.css", get(async || asset("text/css; charset=utf-8", CSS.to_owned())))
}

fn asset(media_type: &'static str, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}
