//! Calls of an older contract, served only where the configuration asks for them, and marked as deprecated.

use axum::extract::{OriginalUri, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use docket_core::item::ItemStatus;
use docket_core::name::CollectionId;
use docket_engine::ItemFilter;
use docket_wire::Page;
use docket_wire::item as wire;
use docket_wire::page::PageQuery;
use docket_wire::schema;

use super::view;
use crate::caller::{As, Seeing};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Json, PathParam, Query};
use crate::openapi::Missing;
use crate::page;
use crate::state::AppState;

/// Since the 16th of November 2026 (RFC 9745).
const DEPRECATION: (HeaderName, HeaderValue) = (
    HeaderName::from_static("deprecation"),
    HeaderValue::from_static("@1794787200"),
);
/// When it may go away (RFC 8594).
const SUNSET: (HeaderName, HeaderValue) = (
    HeaderName::from_static("sunset"),
    HeaderValue::from_static("Tue, 16 Nov 2027 00:00:00 GMT"),
);
/// What to use instead.
const SUCCESSOR: (HeaderName, HeaderValue) = (
    header::LINK,
    HeaderValue::from_static("</api/v1/review-queue>; rel=\"successor-version\""),
);

/// Whether nobody has decided on an item yet, and somebody still may.
const fn is_undecided(status: ItemStatus) -> bool {
    !matches!(
        status,
        ItemStatus::Approved | ItemStatus::Corrected | ItemStatus::Rejected | ItemStatus::Cancelled
    )
}

/// List a collection's items that have no decision yet, newest first.
///
/// Only with `[compat] unreviewed = true`. `GET /api/v1/review-queue` takes its place. A page may be short, even empty;
/// `nextCursor` tells whether to go on.
#[utoipa::path(
    get, path = "/api/v1/collections/{collectionId}/pieces/unreviewed", tag = "Review",
    params(("collectionId" = schema::Name, Path, description = "The collection."), PageQuery),
    responses(
        (status = 200, description = "A page of items.", body = Page<wire::ItemSummary>,
            headers(
                ("Deprecation" = String, description = "Since when it is deprecated."),
                ("Sunset" = String, description = "When it may go away.")
            )),
        Missing
    )
)]
pub(crate) async fn unreviewed(
    State(state): State<AppState>,
    caller: As<Seeing>,
    OriginalUri(uri): OriginalUri,
    PathParam(collection): PathParam<CollectionId>,
    Query(query): Query<PageQuery>,
) -> ApiResult<Response> {
    if !state.config().unreviewed {
        return Err(ApiError::NoRoute(uri.path().chars().take(200).collect()));
    }
    let scope = caller.scope_of_collection(&state, &collection).await?;
    let filter = ItemFilter {
        collection: Some(collection),
        status: None,
        external_id: None,
        before: page::place_of(query.cursor.as_deref())?,
        limit: page::limit(query.limit)?,
    };
    let found = state.engine().items(&scope, filter).await?;
    let undecided = found.items.iter().filter(|item| is_undecided(item.status));
    let items: ApiResult<Vec<_>> = undecided.map(view::summary).collect();
    let page = Json(page::write(items?, found.next, |item| item));
    Ok(([DEPRECATION, SUNSET, SUCCESSOR], page).into_response())
}
