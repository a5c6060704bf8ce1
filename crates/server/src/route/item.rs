//! Items.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use docket_core::id::{ItemId, JobId};
use docket_core::item::ItemStatus;
use docket_core::name::CollectionId;
use docket_engine::{ItemFilter, LogPosition, Once};
use docket_wire::Page;
use docket_wire::item as wire;
use docket_wire::job::Job;
use docket_wire::log::LogEntry;
use docket_wire::page::PageQuery;
use docket_wire::schema;
use serde::Deserialize;
use utoipa::IntoParams;

use super::view;
use crate::caller::{As, Producing, Reach, Seeing};
use crate::error::ApiResult;
use crate::extract::{Json, PathParam, Query};
use crate::idempotency::{IdempotencyKey, marked};
use crate::openapi::{Conflicts, IdempotencyHeader, Missing};
use crate::page;
use crate::state::AppState;

/// Which items.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ItemsQuery {
    /// Of this tenant, for those who act for the whole deployment; they name it or the collection.
    #[param(value_type = Option<schema::Name>)]
    tenant_id: Option<String>,
    /// Of this collection; of all of the tenant's where nothing is said.
    #[param(value_type = Option<schema::Name>)]
    collection_id: Option<String>,
    /// In this state.
    #[param(value_type = Option<schema::ItemStatus>)]
    status: Option<ItemStatus>,
    /// With this externalId.
    #[param(value_type = Option<schema::ShortText>)]
    external_id: Option<String>,
    /// At most so many entries; 50 where nothing is said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[param(max_length = 512)]
    cursor: Option<String>,
}

/// List items, newest first: a tenant's, or those of one of its collections.
///
/// A page may be short, even empty, where few items match; `nextCursor` tells whether to go on.
#[utoipa::path(
    get, path = "/api/v1/items", tag = "Intake", params(ItemsQuery),
    responses((status = 200, description = "A page of items.", body = Page<wire::ItemSummary>), Missing)
)]
pub(crate) async fn items(
    State(state): State<AppState>,
    caller: As<Seeing>,
    Query(query): Query<ItemsQuery>,
) -> ApiResult<Json<Page<wire::ItemSummary>>> {
    let collection = query.collection_id.map(CollectionId::new).transpose()?;
    let before = page::place_of(query.cursor.as_deref())?;
    let limit = page::limit(query.limit)?;
    let scope = match (&collection, &query.tenant_id) {
        (Some(collection), None) => caller.scope_of_collection(&state, collection).await?,
        _ => caller.scope_of_tenant(query.tenant_id)?,
    };
    if let Reach::Deployment(operator) = caller.reach() {
        state.engine().tenant(&operator, &scope.tenant).await?;
    }
    let filter = ItemFilter {
        collection,
        status: query.status,
        external_id: query.external_id,
        before,
        limit,
    };
    let found = state.engine().items(&scope, filter).await?;
    let items: ApiResult<Vec<_>> = found.items.iter().map(view::summary).collect();
    Ok(Json(page::write(items?, found.next, |item| item)))
}

/// An item, with its fields, its latest job and its place.
#[utoipa::path(
    get, path = "/api/v1/items/{itemId}", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item.")),
    responses((status = 200, description = "The item.", body = wire::Item), Missing)
)]
pub(crate) async fn item(
    State(state): State<AppState>,
    caller: As<Seeing>,
    PathParam(id): PathParam<ItemId>,
) -> ApiResult<Json<wire::Item>> {
    let scope = caller.scope_of_item(&state, id).await?;
    view::item(state.engine().item(&scope, id).await?).map(Json)
}

/// Where an item that waits stands in its lane.
#[utoipa::path(
    get, path = "/api/v1/items/{itemId}/position", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item.")),
    responses((status = 200, description = "Its place.", body = wire::Position), Missing, Conflicts)
)]
pub(crate) async fn position(
    State(state): State<AppState>,
    caller: As<Seeing>,
    PathParam(id): PathParam<ItemId>,
) -> ApiResult<Json<wire::Position>> {
    let scope = caller.scope_of_item(&state, id).await?;
    Ok(Json(state.engine().position(&scope, id).await?.into()))
}

/// All runs of an item, latest first.
#[utoipa::path(
    get, path = "/api/v1/items/{itemId}/jobs", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item.")),
    responses((status = 200, description = "Its runs; at most 200, in one page.", body = Page<Job>), Missing)
)]
pub(crate) async fn jobs(
    State(state): State<AppState>,
    caller: As<Seeing>,
    PathParam(id): PathParam<ItemId>,
) -> ApiResult<Json<Page<Job>>> {
    let scope = caller.scope_of_item(&state, id).await?;
    let found = state.engine().jobs(&scope, id).await?;
    Ok(Json(page::write(found, None::<String>, view::job)))
}

/// The log of an item, oldest first.
#[utoipa::path(
    get, path = "/api/v1/items/{itemId}/timeline", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item."), PageQuery),
    responses((status = 200, description = "A page of its log.", body = Page<LogEntry>), Missing)
)]
pub(crate) async fn timeline(
    State(state): State<AppState>,
    caller: As<Seeing>,
    PathParam(id): PathParam<ItemId>,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<LogEntry>>> {
    let after: Option<LogPosition> = page::place_of(query.cursor.as_deref())?;
    let limit = page::limit(query.limit)?;
    let scope = caller.scope_of_item(&state, id).await?;
    let entries = state
        .engine()
        .timeline(&scope, id, after.unwrap_or_default(), limit)
        .await?;
    let full = entries.len() as u64 == limit;
    let next = entries.last().filter(|_| full).map(|entry| entry.position);
    Ok(Json(page::write(entries, next, |entry| view::log_entry(&entry))))
}

/// Why an item is not running.
#[utoipa::path(
    get, path = "/api/v1/items/{itemId}/explain", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item.")),
    responses((status = 200, description = "Why.", body = wire::Explanation), Missing)
)]
pub(crate) async fn explain(
    State(state): State<AppState>,
    caller: As<Seeing>,
    PathParam(id): PathParam<ItemId>,
) -> ApiResult<Json<wire::Explanation>> {
    let scope = caller.scope_of_item(&state, id).await?;
    Ok(Json(view::explanation(state.engine().explain(&scope, id).await?)))
}

/// Try a failed item again: a new job, linked to the old one, which begins at the first step that was not finished.
#[utoipa::path(
    post, path = "/api/v1/items/{itemId}/retry", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item."), IdempotencyHeader),
    responses((status = 201, description = "The new job.", body = wire::Enqueued), Missing, Conflicts)
)]
pub(crate) async fn retry(
    State(state): State<AppState>,
    caller: As<Producing>,
    PathParam(id): PathParam<ItemId>,
    IdempotencyKey(key): IdempotencyKey,
) -> ApiResult<Response> {
    let scope = caller.scope_of_item(&state, id).await?;
    let job = state.engine().retry_once(&scope, id, key).await?;
    Ok(enqueued(id, &job))
}

/// Process an item anew, from the first step.
///
/// What people corrected stays.
#[utoipa::path(
    post, path = "/api/v1/items/{itemId}/reprocess", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item."), IdempotencyHeader),
    responses((status = 201, description = "The new job.", body = wire::Enqueued), Missing, Conflicts)
)]
pub(crate) async fn reprocess(
    State(state): State<AppState>,
    caller: As<Producing>,
    PathParam(id): PathParam<ItemId>,
    IdempotencyKey(key): IdempotencyKey,
) -> ApiResult<Response> {
    let scope = caller.scope_of_item(&state, id).await?;
    let job = state.engine().reprocess_once(&scope, id, key).await?;
    Ok(enqueued(id, &job))
}

/// Take an item back that waits or is being processed; a worker that has it finds its lease lost.
#[utoipa::path(
    post, path = "/api/v1/items/{itemId}/cancel", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item.")),
    responses((status = 200, description = "The item, cancelled.", body = wire::Item), Missing, Conflicts)
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    caller: As<Producing>,
    PathParam(id): PathParam<ItemId>,
) -> ApiResult<Json<wire::Item>> {
    let scope = caller.scope_of_item(&state, id).await?;
    state.engine().cancel(&scope, id).await?;
    view::item(state.engine().item(&scope, id).await?).map(Json)
}

fn enqueued(item_id: ItemId, job: &Once<JobId>) -> Response {
    let answer = wire::Enqueued {
        item_id,
        job_id: job.answer,
    };
    marked(
        job.replayed,
        job.request_differs,
        (StatusCode::CREATED, Json(answer)),
    )
}
