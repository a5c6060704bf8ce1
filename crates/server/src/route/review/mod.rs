//! Reviews, for reviewers and those who lead them. What a reviewer says is in [`words`], and the same for a service that says it for
//! them ([`service`]).

pub(crate) mod lead;
pub(crate) mod overview;
pub(crate) mod service;
pub(super) mod show;
mod words;

use axum::extract::State;
use axum::response::Response;
use docket_core::id::ReviewId;
use docket_wire::Results;
use docket_wire::review as wire;
use docket_wire::schema;
use serde::Deserialize;

use crate::caller::{As, Deciding};
use crate::entry::Entry;
use crate::error::ApiResult;
use crate::extract::{Json, PathParam};
use crate::openapi::{Conflicts, Missing};
use crate::state::AppState;

/// Take the most urgent reviews.
///
/// With `waitSeconds` the call lasts until there are some or the time is over. None is an answer, not an error: `empty`
/// says why, and `Retry-After` when to ask again.
#[utoipa::path(
    post, path = "/api/v1/review-queue/pop", tag = "Review", request_body = wire::Pop,
    responses(
        (status = 200, description = "The reviews, in the caller's hands from now on.", body = wire::Popped,
            headers(("Retry-After" = u64, description = "Seconds until it is worth another try, where there were none."))),
        Missing
    )
)]
pub(crate) async fn review_pop(
    State(state): State<AppState>,
    caller: As<Deciding>,
    Json(body): Json<wire::Pop>,
) -> ApiResult<Response> {
    words::pop(&state, &caller.reviewing()?, body).await
}

/// Decisions, each of which is read by itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Decisions {
    decisions: Vec<Entry<wire::Decision>>,
}

/// Decide on reviews.
///
/// One that is refused, or that cannot be read, touches no other. Said again, it is answered the same.
#[utoipa::path(
    post, path = "/api/v1/review-queue/commit", tag = "Review", request_body = wire::Commit,
    responses((status = 200, description = "A result for each decision, in order.", body = Results<wire::Decided>))
)]
pub(crate) async fn review_commit(
    State(state): State<AppState>,
    caller: As<Deciding>,
    Json(body): Json<Decisions>,
) -> ApiResult<Json<Results<wire::Decided>>> {
    words::commit(&state, &caller.reviewing()?, body.decisions).await
}

/// Give reviews back.
///
/// As a skip, they are not offered to the same reviewer again.
#[utoipa::path(
    post, path = "/api/v1/review-queue/release", tag = "Review", request_body = wire::Release,
    responses((status = 200, description = "A result for each review, in order.", body = Results<wire::PutBack>))
)]
pub(crate) async fn review_release(
    State(state): State<AppState>,
    caller: As<Deciding>,
    Json(body): Json<wire::Release>,
) -> ApiResult<Json<Results<wire::PutBack>>> {
    words::release(&state, &caller.reviewing()?, body).await
}

/// Keep reviews that are still looked at.
#[utoipa::path(
    post, path = "/api/v1/review-queue/heartbeat", tag = "Review", request_body = wire::Reviews,
    responses((status = 200, description = "The new end of each lease, in order.", body = Results<wire::Kept>))
)]
pub(crate) async fn review_heartbeat(
    State(state): State<AppState>,
    caller: As<Deciding>,
    Json(body): Json<wire::Reviews>,
) -> ApiResult<Json<Results<wire::Kept>>> {
    words::heartbeat(&state, &caller.reviewing()?, body).await
}

/// Take the own decisions back, for a short while.
///
/// Fields, locks and status are as before, in the same hands.
#[utoipa::path(
    post, path = "/api/v1/review-queue/undo", tag = "Review", request_body = wire::Reviews,
    responses((status = 200, description = "A result for each review, in order.", body = Results<wire::TakenBack>))
)]
pub(crate) async fn review_undo(
    State(state): State<AppState>,
    caller: As<Deciding>,
    Json(body): Json<wire::Reviews>,
) -> ApiResult<Json<Results<wire::TakenBack>>> {
    words::undo(&state, &caller.reviewing()?, body).await
}

/// Take a certain review.
///
/// Where somebody else holds it, the answer says who and until when. The holder's own claim renews the lease.
#[utoipa::path(
    post, path = "/api/v1/review-queue/{queueId}/claim", tag = "Review",
    params(("queueId" = schema::Id, Path, description = "The review.")),
    responses((status = 200, description = "The review, in the caller's hands.", body = wire::Entry), Missing, Conflicts)
)]
pub(crate) async fn review_claim(
    State(state): State<AppState>,
    caller: As<Deciding>,
    PathParam(id): PathParam<ReviewId>,
) -> ApiResult<Json<wire::Entry>> {
    words::claim(&state, &caller.reviewing()?, id).await
}
