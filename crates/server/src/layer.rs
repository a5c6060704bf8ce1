//! Around every request: its id, its span, its time, its bounds; and what is the same in every answer.
//!
//! One layer does it all, so that the order cannot be wrong: a panic is caught inside the span, a problem is written with the
//! request's id, and what is observed is what was sent.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use docket_wire::{Code, Problem};
use futures_util::FutureExt as _;
use tracing::Instrument as _;

use crate::error::{ApiError, Said};
use crate::room::Holding;
use crate::state::AppState;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 128;

/// What was answered.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// The route as it is declared (`/api/v1/items/{itemId}`); none where nothing matched. A bounded set, fit for a label.
    pub route: Option<&'a str>,
    /// The answer's status.
    pub status: StatusCode,
    /// From the head of the request to the head of the answer.
    pub latency: Duration,
}

/// Marks an answer that goes on for as long as it takes: it is neither compressed nor bound in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed;

/// How long this route may take to be answered; the usual time where nothing is said.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// The usual time.
    Usual,
    /// As long as it takes: its own handler bounds it.
    Own,
}

fn bound_of(route: Option<&str>) -> Bound {
    match route {
        // Uploads and downloads are bound by how long they stand still, claims and pops by their wait, insights by how much they look at.
        Some(route)
            if route.ends_with("/documents")
                || route.ends_with("/content")
                || route.ends_with("/jobs/claim")
                || route.ends_with("/review-queue/pop")
                || route.ends_with("/export")
                || route.ends_with("/events")
                || route.contains("/insights/") =>
        {
            Bound::Own
        }
        _ => Bound::Usual,
    }
}

/// The layer.
pub(crate) async fn around(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let begun = begin();
    let id = request_id(&request, &state);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    if let Ok(value) = HeaderValue::from_str(&id) {
        request.headers_mut().insert(REQUEST_ID, value);
    }
    let span = tracing::info_span!("request", id = %id, %method, route = route.unwrap_or("none"));
    let head = method == Method::HEAD;
    let holding = Holding::default();
    if let Bound::Usual = bound_of(route) {
        request.extensions_mut().insert(holding.clone());
    }
    let answer = async {
        let run = AssertUnwindSafe(next.run(request)).catch_unwind();
        let answered = match bound_of(route) {
            Bound::Own => run.await,
            Bound::Usual => match tokio::time::timeout(state.config().call_timeout, run).await {
                Ok(answered) => answered,
                Err(_) => Ok(ApiError::Unavailable("the call took too long").into_response()),
            },
        };
        drop(holding);
        let response = answered.unwrap_or_else(|panic| {
            tracing::error!(panic = panic_text(panic.as_ref()), "a handler panicked");
            ApiError::Internal.into_response()
        });
        let response = finish(response, &id, head);
        let (status, latency) = (response.status(), begun.elapsed());
        tracing::debug!(
            status = status.as_u16(),
            latency_us = latency.as_micros(),
            "answered"
        );
        if let Some(observe) = &state.config().observe {
            observe(&Observed {
                method: &method,
                route,
                status,
                latency,
            });
        }
        response
    };
    answer.instrument(span).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures how long an answer takes; nothing is decided by it"
)]
fn begin() -> std::time::Instant {
    std::time::Instant::now()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}

/// The id that the caller gave, where it is fit for a log and a header; a new one otherwise.
fn request_id(request: &Request, state: &AppState) -> String {
    let given = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    let fit = |id: &&str| {
        !id.is_empty()
            && id.len() <= REQUEST_ID_MAX
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.:/+=".contains(&b))
    };
    given.filter(fit).map_or_else(
        || {
            let random = state.random();
            format!("{:016x}{:016x}", random.next_u64(), random.next_u64())
        },
        str::to_owned,
    )
}

/// What is the same in every answer; and problems get their bodies.
fn finish(response: Response, id: &str, head: bool) -> Response {
    let (mut parts, mut body) = response.into_parts();
    let said = parts.extensions.remove::<Said>().map(|said| said.0);
    let failed = parts.status.is_client_error() || parts.status.is_server_error();
    if let Some(mut problem) = said.or_else(|| failed.then(|| plain_problem(parts.status))) {
        problem.request_id = Some(id.to_owned());
        let text = serde_json::to_vec(&problem).unwrap_or_default();
        parts.headers.remove(header::CONTENT_LENGTH);
        let kind = HeaderValue::from_static("application/problem+json");
        parts.headers.insert(header::CONTENT_TYPE, kind);
        body = if head { Body::empty() } else { Body::from(text) };
    }
    secure(&mut parts.headers);
    if let Ok(value) = HeaderValue::from_str(id) {
        parts.headers.insert(REQUEST_ID, value);
    }
    Response::from_parts(parts, body)
}

/// An error that did not come from a handler: axum's own.
fn plain_problem(status: StatusCode) -> Problem {
    let code = match status.as_u16() {
        401 => Code::Unauthorized,
        403 => Code::Forbidden,
        404 => Code::NotFound,
        405 => Code::MethodNotAllowed,
        408 => Code::RequestTimeout,
        413 => Code::PayloadTooLarge,
        415 => Code::UnsupportedMediaType,
        429 => Code::RateLimited,
        503 => Code::Unavailable,
        400..=499 => Code::ValidationFailed,
        _ => Code::Internal,
    };
    Problem::new(code, status.as_u16(), code.title())
}

/// Answers are data: nothing in them runs, is framed, sniffed or kept by caches, unless a handler says so.
fn secure(headers: &mut HeaderMap) {
    let defaults = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in defaults {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Whether an answer may be compressed: not one that goes on for as long as it takes.
pub(crate) fn compressible(
    _: StatusCode,
    _: axum::http::Version,
    _: &HeaderMap,
    extensions: &axum::http::Extensions,
) -> bool {
    extensions.get::<Streamed>().is_none()
}
