//! The document, for programs and in a browser. The page is one file of our own and asks no other server for anything.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use docket_core::content::Digest;

use crate::openapi::document_text;

const PAGE: &str = include_str!("docs.html");

static DOCUMENT: LazyLock<String> = LazyLock::new(document_text);

/// What the page may do: run its own script, by its digest, and ask this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let digest = |open: &str, close: &str| {
        let inner = PAGE.split_once(open).and_then(|(_, rest)| rest.split_once(close));
        let inner = inner.map_or("", |(inner, _)| inner);
        STANDARD.encode(Digest::of(inner.as_bytes()).bytes())
    };
    let policy = format!(
        "default-src 'none'; connect-src 'self'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        digest("<script>", "</script>"),
        digest("<style>", "</style>")
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

const KEEP: (HeaderName, HeaderValue) = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));

/// The OpenAPI document.
pub(crate) async fn openapi_json() -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([kind, KEEP], DOCUMENT.as_str()).into_response()
}

/// The document in a browser.
pub(crate) async fn docs() -> Response {
    let kind = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let policy = (header::CONTENT_SECURITY_POLICY, POLICY.clone());
    ([kind, policy, KEEP], PAGE).into_response()
}
