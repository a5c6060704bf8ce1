//! The queue from above: lists, counts, and who does how much.

use std::fmt;
use std::str::FromStr;

use axum::extract::State;
use docket_core::id::ReviewId;
use docket_core::name::CollectionId;
use docket_engine::{ReviewFilter, ReviewPlace};
use docket_wire::Page;
use docket_wire::review as wire;
use docket_wire::schema;

use super::show;
use crate::caller::{As, Overseeing};
use crate::error::ApiResult;
use crate::extract::{Json, PathParam, Query};
use crate::openapi::Missing;
use crate::page;
use crate::state::AppState;

/// A place in the queue, as a cursor says it.
struct Cursor(ReviewPlace);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReviewPlace {
            collection,
            walk,
            after: (key, entered),
        } = &self.0;
        write!(f, "{walk}:{key}:{entered}:{collection}")
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(4, ':');
        let mut part = || parts.next().ok_or(());
        let walk = part()?.parse().map_err(|_| ())?;
        let key = part()?.parse().map_err(|_| ())?;
        let entered = part()?.parse().map_err(|_| ())?;
        Ok(Self(ReviewPlace {
            collection: part()?.to_owned(),
            walk,
            after: (key, entered),
        }))
    }
}

/// List reviews: what waits, in its order, then what is in hands, then what a lead has to look at.
///
/// A page may be short, even empty, where few reviews match; `nextCursor` tells whether to go on.
#[utoipa::path(
    get, path = "/api/v1/review-queue", tag = "Review", params(wire::ReviewsQuery),
    responses((status = 200, description = "A page of reviews.", body = Page<wire::Entry>), Missing)
)]
pub(crate) async fn reviews(
    State(state): State<AppState>,
    caller: As<Overseeing>,
    Query(query): Query<wire::ReviewsQuery>,
) -> ApiResult<Json<Page<wire::Entry>>> {
    let from: Option<Cursor> = page::place_of(query.cursor.as_deref())?;
    let limit = page::limit(query.limit)?;
    let filter = ReviewFilter {
        collection: query.collection_id.map(CollectionId::new).transpose()?,
        state: query.status,
        assigned_to: query.assigned_to,
        band: query.band,
        overdue: query.overdue,
        sort: query.sort.map(Into::into),
    };
    let found = state
        .engine()
        .reviews(&caller.watching(), filter, from.map(|cursor| cursor.0), limit)
        .await?;
    let viewer = caller.reviewer();
    let show = |entry| show::entry(entry, viewer.as_ref());
    let items: ApiResult<Vec<_>> = found.entries.into_iter().map(show).collect();
    Ok(Json(page::write(items?, found.next.map(Cursor), |entry| entry)))
}

/// A review.
#[utoipa::path(
    get, path = "/api/v1/review-queue/{queueId}", tag = "Review",
    params(("queueId" = schema::Id, Path, description = "The review.")),
    responses((status = 200, description = "The review.", body = wire::Entry), Missing)
)]
pub(crate) async fn review(
    State(state): State<AppState>,
    caller: As<Overseeing>,
    PathParam(id): PathParam<ReviewId>,
) -> ApiResult<Json<wire::Entry>> {
    let entry = state.engine().review(&caller.watching(), id).await?;
    show::entry(entry, caller.reviewer().as_ref()).map(Json)
}

/// Why a review stands where it stands: the four parts of its priority, and where it is.
#[utoipa::path(
    get, path = "/api/v1/review-queue/{queueId}/explain", tag = "Review",
    params(("queueId" = schema::Id, Path, description = "The review.")),
    responses((status = 200, description = "The reasons.", body = wire::Explanation), Missing)
)]
pub(crate) async fn review_explain(
    State(state): State<AppState>,
    caller: As<Overseeing>,
    PathParam(id): PathParam<ReviewId>,
) -> ApiResult<Json<wire::Explanation>> {
    let explained = state.engine().review_explain(&caller.watching(), id).await?;
    Ok(Json(show::explanation(explained)))
}

/// How a collection's queue stands.
#[utoipa::path(
    get, path = "/api/v1/review-queue/stats", tag = "Review", params(wire::QueueQuery),
    responses((status = 200, description = "Its counts.", body = wire::Stats), Missing)
)]
pub(crate) async fn review_stats(
    State(state): State<AppState>,
    caller: As<Overseeing>,
    Query(query): Query<wire::QueueQuery>,
) -> ApiResult<Json<wire::Stats>> {
    let collection = CollectionId::new(query.collection_id)?;
    let stats = state
        .engine()
        .review_stats(&caller.watching(), &collection)
        .await?;
    Ok(Json(show::stats(&stats)))
}

/// What the reviewers of a collection hold, and what they have decided today.
#[utoipa::path(
    get, path = "/api/v1/review-queue/reviewer-workload", tag = "Review", params(wire::QueueQuery),
    responses((status = 200, description = "The reviewers, by id.", body = wire::Workload), Missing)
)]
pub(crate) async fn review_workload(
    State(state): State<AppState>,
    caller: As<Overseeing>,
    Query(query): Query<wire::QueueQuery>,
) -> ApiResult<Json<wire::Workload>> {
    let collection = CollectionId::new(query.collection_id)?;
    let found = state
        .engine()
        .review_workload(&caller.watching(), &collection)
        .await?;
    Ok(Json(wire::Workload {
        reviewers: found.into_iter().map(show::workload).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        let place = ReviewPlace {
            collection: "a:b".to_owned(),
            walk: 2,
            after: (-5, 7),
        };
        let text = Cursor(place.clone()).to_string();
        assert_eq!(text.parse::<Cursor>().map(|cursor| cursor.0), Ok(place));
        for text in ["", "1:2:3", "x:1:2:c", "1:2:y:c"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}
