//! Reviews, for a service that has authenticated the reviewers whom it speaks for.

use axum::extract::State;
use axum::response::Response;
use docket_core::id::ReviewId;
use docket_core::name::CollectionId;
use docket_engine as engine;
use docket_wire::batch::Is;
use docket_wire::page::PageQuery;
use docket_wire::review as wire;
use docket_wire::schema;
use docket_wire::time::millis;
use docket_wire::{Page, Results};
use serde::Deserialize;

use super::super::{batch, submit};
use super::{show, words};
use crate::caller::{As, Reaping, Speaking};
use crate::entry::Entry;
use crate::error::ApiResult;
use crate::extract::{BatchJson, Json, PathParam, Query};
use crate::openapi::{Conflicts, Missing};
use crate::page;
use crate::state::AppState;

/// Take the most urgent reviews for a reviewer.
///
/// As the reviewer's own call, in all else.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/pop", tag = "Review service", request_body = wire::PopFor,
    responses(
        (status = 200, description = "The reviews, in the reviewer's hands from now on.", body = wire::Popped,
            headers(("Retry-After" = u64, description = "Seconds until it is worth another try, where there were none."))),
        Missing
    )
)]
pub(crate) async fn review_pop_for(
    State(state): State<AppState>,
    caller: As<Speaking>,
    Json(body): Json<wire::PopFor>,
) -> ApiResult<Response> {
    let (reviewer_id, body) = body.split();
    words::pop(&state, &caller.speaking_for(reviewer_id)?, body).await
}

/// A reviewer's decisions, each of which is read by itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DecisionsFor {
    reviewer_id: String,
    decisions: Vec<Entry<wire::Decision>>,
}

/// Decide on reviews for a reviewer.
///
/// As the reviewer's own call, in all else.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/commit", tag = "Review service", request_body = wire::CommitFor,
    responses((status = 200, description = "A result for each decision, in order.", body = Results<wire::Decided>))
)]
pub(crate) async fn review_commit_for(
    State(state): State<AppState>,
    caller: As<Speaking>,
    Json(body): Json<DecisionsFor>,
) -> ApiResult<Json<Results<wire::Decided>>> {
    words::commit(&state, &caller.speaking_for(body.reviewer_id)?, body.decisions).await
}

/// Give reviews back for a reviewer.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/release", tag = "Review service", request_body = wire::ReleaseFor,
    responses((status = 200, description = "A result for each review, in order.", body = Results<wire::PutBack>))
)]
pub(crate) async fn review_release_for(
    State(state): State<AppState>,
    caller: As<Speaking>,
    Json(body): Json<wire::ReleaseFor>,
) -> ApiResult<Json<Results<wire::PutBack>>> {
    let (reviewer_id, body) = body.split();
    words::release(&state, &caller.speaking_for(reviewer_id)?, body).await
}

/// Keep reviews that a reviewer still looks at.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/heartbeat", tag = "Review service", request_body = wire::ReviewsFor,
    responses((status = 200, description = "The new end of each lease, in order.", body = Results<wire::Kept>))
)]
pub(crate) async fn review_heartbeat_for(
    State(state): State<AppState>,
    caller: As<Speaking>,
    Json(body): Json<wire::ReviewsFor>,
) -> ApiResult<Json<Results<wire::Kept>>> {
    let (reviewer_id, body) = body.split();
    words::heartbeat(&state, &caller.speaking_for(reviewer_id)?, body).await
}

/// Take a reviewer's decisions back, for a short while.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/undo", tag = "Review service", request_body = wire::ReviewsFor,
    responses((status = 200, description = "A result for each review, in order.", body = Results<wire::TakenBack>))
)]
pub(crate) async fn review_undo_for(
    State(state): State<AppState>,
    caller: As<Speaking>,
    Json(body): Json<wire::ReviewsFor>,
) -> ApiResult<Json<Results<wire::TakenBack>>> {
    let (reviewer_id, body) = body.split();
    words::undo(&state, &caller.speaking_for(reviewer_id)?, body).await
}

/// Take a certain review for a reviewer.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/{queueId}/claim", tag = "Review service",
    params(("queueId" = schema::Id, Path, description = "The review.")), request_body = wire::ClaimFor,
    responses((status = 200, description = "The review, in the reviewer's hands.", body = wire::Entry), Missing, Conflicts)
)]
pub(crate) async fn review_claim_for(
    State(state): State<AppState>,
    caller: As<Speaking>,
    PathParam(id): PathParam<ReviewId>,
    Json(body): Json<wire::ClaimFor>,
) -> ApiResult<Json<wire::Entry>> {
    words::claim(&state, &caller.speaking_for(body.reviewer_id)?, id).await
}

/// How the queues of all collections stand, by collection.
#[utoipa::path(
    get, path = "/internal/v1/data/review-queue/stats", tag = "Review service", params(PageQuery),
    responses((status = 200, description = "A page of queues.", body = Page<wire::Stats>))
)]
pub(crate) async fn review_stats_all(
    State(state): State<AppState>,
    caller: As<Reaping>,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<wire::Stats>>> {
    let (after, limit) = page::read(&query)?;
    let who = caller.watching();
    let found = state
        .engine()
        .review_stats_all(&who, after.as_deref(), limit)
        .await?;
    // A full page may be the last; the next one is empty then.
    let is_full = found.len() as u64 == limit;
    let next = found
        .last()
        .filter(|_| is_full)
        .map(|last| last.collection_id.clone());
    Ok(Json(page::write(found, next, |found| show::stats(&found))))
}

/// Put back reviews whose leases have run out.
///
/// With `olderThanSeconds`, also those whose holder has given no sign of life for that long.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/reap", tag = "Review service", request_body = wire::ReapReviews,
    responses((status = 200, description = "What was reaped.", body = wire::ReapedReviews))
)]
pub(crate) async fn review_reap(
    State(state): State<AppState>,
    _caller: As<Reaping>,
    Json(body): Json<wire::ReapReviews>,
) -> ApiResult<Json<wire::ReapedReviews>> {
    let path = "olderThanSeconds";
    let older_than_ms = body.older_than_seconds.map(|s| millis(path, s)).transpose()?;
    let reaped = state.engine().review_reap(older_than_ms).await?;
    Ok(Json(wire::ReapedReviews {
        requeued: reaped.requeued,
        failed: reaped.failed,
    }))
}

/// Bring items that were finished elsewhere up for review.
///
/// Brought twice, they change nothing. No limit of uploads applies, and no pipeline processes them.
#[utoipa::path(
    post, path = "/internal/v1/data/review-queue/entries", tag = "Review service", request_body = wire::Entries,
    responses((status = 200, description = "A result for each item, in order.", body = Results<wire::Entered>), Missing)
)]
pub(crate) async fn review_entries(
    State(state): State<AppState>,
    caller: As<Speaking>,
    BatchJson(body): BatchJson<wire::Entries>,
) -> ApiResult<Json<Results<wire::Entered>>> {
    let collection = CollectionId::new(body.collection_id)?;
    let items = body.entries.into_iter().map(submit::read).collect();
    let who = caller.service();
    let answers = state.engine().review_entries(&who, collection, items).await?;
    let show = |entered: engine::EnteredReview| wire::Entered {
        ok: Is,
        item_id: entered.item,
        queue_id: entered.review,
        created: entered.created,
    };
    let results = answers.into_iter().map(|answer| batch::outcome(answer, show));
    Ok(Json(Results {
        results: results.collect(),
    }))
}
