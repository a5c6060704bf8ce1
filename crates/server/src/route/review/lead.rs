//! Reviews, for those who lead reviewers: who has what, and what may be changed.

use axum::extract::State;
use axum::http::StatusCode;
use docket_core::id::{ItemId, ReviewId};
use docket_core::name::ReviewerId;
use docket_engine as engine;
use docket_wire::review as wire;
use docket_wire::schema;

use super::show;
use crate::caller::{As, Leading};
use crate::error::ApiResult;
use crate::extract::{FieldName, Json, PathParam, PathParams};
use crate::openapi::{Conflicts, Missing};
use crate::state::AppState;

/// Put a review into somebody's hands.
///
/// Held, pending or given up: the token of who held it is dead from then on.
#[utoipa::path(
    post, path = "/api/v1/review-queue/{queueId}/reassign", tag = "Review",
    params(("queueId" = schema::Id, Path, description = "The review.")), request_body = wire::Reassign,
    responses((status = 200, description = "The review, in other hands.", body = wire::Entry), Missing, Conflicts)
)]
pub(crate) async fn review_reassign(
    State(state): State<AppState>,
    caller: As<Leading>,
    PathParam(id): PathParam<ReviewId>,
    Json(body): Json<wire::Reassign>,
) -> ApiResult<Json<wire::Entry>> {
    let to = ReviewerId::new(body.to).map_err(|refusal| match refusal {
        docket_core::Refusal::Invalid { problem, .. } => docket_core::Refusal::invalid("to", problem),
        other => other,
    })?;
    let who = caller.reviewing()?;
    let reassign = engine::Reassign {
        id,
        to,
        reason: body.reason,
    };
    let entry = state.engine().review_reassign(&who, reassign).await?;
    show::entry(entry, Some(who.reviewer())).map(Json)
}

/// Let machines change a field again that a person had corrected.
///
/// Its value stays until a machine next says what it reads there.
#[utoipa::path(
    post, path = "/api/v1/items/{itemId}/fields/{field}/unlock", tag = "Review",
    params(
        ("itemId" = schema::Id, Path, description = "The item."),
        ("field" = schema::FieldName, Path, description = "The field.")
    ),
    responses((status = 204, description = "It is not locked."), Missing)
)]
pub(crate) async fn field_unlock(
    State(state): State<AppState>,
    caller: As<Leading>,
    PathParams(item, FieldName(field)): PathParams<ItemId, FieldName>,
) -> ApiResult<StatusCode> {
    let scope = caller.scope_of_item(&state, item).await?;
    state.engine().field_unlock(&scope, item, &field).await?;
    Ok(StatusCode::NO_CONTENT)
}
