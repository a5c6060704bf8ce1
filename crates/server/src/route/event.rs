//! The log as it happens, as server-sent events (rule L4).
//!
//! Each client is read for by a task of its own, with two messages between them. One that does not read stops its own task, which then
//! holds a batch of the log and no more, bounded by bytes; after a while it is cut off, comes back with `Last-Event-ID` and misses
//! nothing. A stream also ends after a quarter of an hour, so
//! that credentials are looked at again, and when the server stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use docket_core::Refusal;
use docket_core::id::ItemId;
use docket_core::name::CollectionId;
use docket_core::scope::Scope;
use docket_engine::{Error, Follower, LogFilter, LogPosition};
use docket_wire::item::Position;
use docket_wire::schema;
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::log::{item_id, narrowed};
use super::view;
use crate::caller::{As, Reach, Seeing};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Query, one_header};
use crate::layer::Streamed;
use crate::openapi::Missing;
use crate::state::AppState;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Messages between the log and a client.
const BUFFER: usize = 2;
/// Entries are put together to messages of about so many bytes; a single entry may be larger.
const MESSAGE_BYTES: usize = 16 << 10;
/// A sign of life for proxies in between.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often the place of a watched item is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After this time a client has to come back, and its credentials are looked at again.
const STREAM_MAX: Duration = Duration::from_secs(15 * 60);
/// How long to rest when the log cannot be read.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What to follow.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Of this tenant, for those who act for the whole deployment; those who act for a tenant see its own.
    #[param(value_type = Option<schema::Name>)]
    tenant_id: Option<String>,
    /// Items of this collection.
    #[param(value_type = Option<schema::Name>)]
    collection_id: Option<String>,
    /// This item; its place in its lane is told too.
    #[param(value_type = Option<schema::Id>)]
    item_id: Option<String>,
}

/// Follow the log.
///
/// Each event has the entry's `id`, its action as `event` and the entry as `data`. With `Last-Event-ID` it
/// goes on after that entry; otherwise it begins now, or, while a transaction is open, where that one began.
/// Whoever watches an item also gets `event: position` when its place changes. The server ends a stream now and then; a client comes back by itself and misses
/// nothing.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "Log", operation_id = "follow",
    params(
        EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last entry that was seen.", pattern = r"^(\d{1,18}-\d{1,18})?$")
    ),
    responses((status = 200, description = "The events.", body = String, content_type = "text/event-stream"), Missing)
)]
pub(crate) async fn events(
    State(state): State<AppState>,
    caller: As<Seeing>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let after = one_header(&headers, &LAST_EVENT_ID)?.filter(|id| !id.is_empty());
    let after: Option<LogPosition> = after.map(str::parse).transpose().map_err(|_| bad_id())?;
    let item = item_id(query.item_id.as_deref())?;
    let filter = LogFilter {
        item,
        collection: query.collection_id.map(CollectionId::new).transpose()?,
        ..LogFilter::default()
    };
    let watched = match item {
        None => None,
        Some(item) => {
            let scope = caller.scope_of_item(&state, item).await?;
            // Another's item is not there to be watched.
            state.engine().jobs(&scope, item).await?;
            Some((scope, item))
        }
    };
    let follower = match narrowed(&caller, query.tenant_id)? {
        (Reach::Tenant(scope), _) => state.engine().follow(&scope, filter, after).await,
        (Reach::Deployment(operator), tenant) => {
            state.engine().follow_all(&operator, tenant, filter, after).await
        }
    };
    let follower = follower.map_err(|error| match error {
        Error::Refused(Refusal::Invalid { path, .. }) if path == "after" => bad_id(),
        other => other.into(),
    })?;
    let (sender, receiver) = mpsc::channel(BUFFER);
    let stream = EventStream {
        state: state.clone(),
        sender,
        watched,
        shown: None,
    };
    tokio::spawn(stream.run(follower));
    let messages = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
        let message = receiver.recv().await?;
        Some((Ok::<_, Infallible>(message), receiver))
    });
    let mut response = Body::from_stream(messages).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies pass each event on at once.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response.extensions_mut().insert(Streamed);
    Ok(response)
}

fn bad_id() -> ApiError {
    let problem = "is no place of this log; leave it out to begin now";
    ApiError::malformed("Last-Event-ID", problem)
}

struct EventStream {
    state: AppState,
    sender: mpsc::Sender<Bytes>,
    /// The item whose place is told.
    watched: Option<(Scope, ItemId)>,
    /// The place that was told last.
    shown: Option<Position>,
}

/// The client has gone, or does not read.
struct Gone;

impl EventStream {
    async fn run(mut self, mut follower: Follower) {
        let state = self.state.clone();
        let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
        let mut look = tokio::time::interval(LOOK_EVERY);
        keep_alive.reset();
        let mut over = std::pin::pin!(tokio::time::sleep(STREAM_MAX));
        // An id without data is remembered by the client: it can come back to here even if nothing happens until then.
        let begin = format!("retry: 1000\nid: {}\n\n", follower.position());
        let mut going = self.send(begin).await;
        while going.is_ok() {
            going = tokio::select! {
                entries = follower.next() => match entries {
                    Ok(entries) => self.tell(entries).await,
                    Err(error) => {
                        tracing::warn!(error = &error as &dyn std::error::Error, "the log cannot be followed");
                        tokio::time::sleep(AFTER_FAILURE).await;
                        Ok(())
                    }
                },
                _ = look.tick(), if self.watched.is_some() => self.tell_place().await,
                _ = keep_alive.tick() => self.send(format!(": still here\nid: {}\n\n", follower.position())).await,
                () = self.sender.closed() => Err(Gone),
                () = state.stopping() => Err(Gone),
                () = &mut over => Err(Gone),
            };
        }
    }

    async fn send(&self, message: String) -> Result<(), Gone> {
        let sent = self.sender.send(message.into());
        match tokio::time::timeout(self.state.config().idle_timeout, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    async fn tell(&self, entries: Vec<Arc<docket_engine::Entry>>) -> Result<(), Gone> {
        let mut message = String::new();
        for entry in entries {
            let shown = view::log_entry(&entry);
            let data = serde_json::to_string(&shown).map_err(|_| Gone)?;
            let event = format!("id: {}\nevent: {}\ndata: {data}\n\n", shown.id, shown.action);
            message.push_str(&event);
            if message.len() >= MESSAGE_BYTES {
                self.send(std::mem::take(&mut message)).await?;
            }
        }
        match message.is_empty() {
            true => Ok(()),
            false => self.send(message).await,
        }
    }

    /// Tells the item's place when it has changed; what does not wait has none.
    async fn tell_place(&mut self) -> Result<(), Gone> {
        let Some((scope, item)) = &self.watched else {
            return Ok(());
        };
        let place = self.state.engine().position(scope, *item).await;
        let place: Option<Position> = place.ok().map(Into::into);
        if place == self.shown {
            return Ok(());
        }
        self.shown.clone_from(&place);
        let Some(place) = place else { return Ok(()) };
        let data = serde_json::to_string(&place).map_err(|_| Gone)?;
        self.send(format!("event: position\ndata: {data}\n\n")).await
    }
}
