//! Reviewers. Admins say who they are; leads, whether they are there and how much they may hold, and hand on what those hold who are
//! not; reviewers, whether they are there themselves.

use axum::extract::State;
use docket_core::name::{ReviewerId, TenantId};
use docket_engine as engine;
use docket_wire::Page;
use docket_wire::page::PageQuery;
use docket_wire::reviewer as wire;
use docket_wire::schema;

use crate::caller::{Admin, As, Leading, Roles as _, Staffing};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Json, PathParam, Query};
use crate::openapi::{Conflicts, Missing};
use crate::page;
use crate::state::AppState;

fn show(reviewer: engine::Reviewer) -> wire::Reviewer {
    wire::Reviewer {
        id: reviewer.id,
        name: reviewer.name,
        tenant_id: reviewer.tenant_id,
        available: reviewer.available,
        capacity: reviewer.capacity,
    }
}

/// Make or change a reviewer.
///
/// Whoever may review can do so without being described here; assignment goes by what is said here.
#[utoipa::path(
    put, path = "/api/v1/reviewers/{reviewerId}", tag = "Administration",
    params(("reviewerId" = schema::Name, Path, description = "Who: the subject of their key or JWT.")),
    request_body = wire::ReviewerPut,
    responses((status = 200, description = "The reviewer.", body = wire::Reviewer), Missing)
)]
pub(crate) async fn reviewer_put(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<ReviewerId>,
    Json(body): Json<wire::ReviewerPut>,
) -> ApiResult<Json<wire::Reviewer>> {
    let settings = engine::ReviewerSettings {
        id,
        name: body.name,
        tenant: body.tenant_id.map(TenantId::new).transpose()?,
        available: body.available,
        capacity: body.capacity.map(Into::into),
    };
    let put = state.engine().reviewer_put(&admin.operator(), settings).await?;
    Ok(Json(show(put)))
}

/// A reviewer.
#[utoipa::path(
    get, path = "/api/v1/reviewers/{reviewerId}", tag = "Administration",
    params(("reviewerId" = schema::Name, Path, description = "Who.")),
    responses((status = 200, description = "The reviewer.", body = wire::Reviewer), Missing)
)]
pub(crate) async fn reviewer(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<ReviewerId>,
) -> ApiResult<Json<wire::Reviewer>> {
    let found = state.engine().reviewer(&admin.operator(), &id).await?;
    Ok(Json(show(found)))
}

/// List reviewers, by id.
#[utoipa::path(
    get, path = "/api/v1/reviewers", tag = "Administration", params(PageQuery),
    responses((status = 200, description = "A page of reviewers.", body = Page<wire::Reviewer>))
)]
pub(crate) async fn reviewers(
    State(state): State<AppState>,
    admin: Admin,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<wire::Reviewer>>> {
    let (after, limit) = page::read(&query)?;
    let after = after.unwrap_or_default();
    let mut found = state
        .engine()
        .reviewers(&admin.operator(), &after, limit + 1)
        .await?;
    let is_more = found.len() as u64 > limit;
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = found.last().filter(|_| is_more).map(|last| last.id.clone());
    Ok(Json(page::write(found, next, show)))
}

/// Say whether a reviewer is there.
///
/// Nothing is assigned to one who is not; what they hold stays theirs until it is handed on. A lead says it of the reviewers of their
/// tenant, a reviewer of themselves.
#[utoipa::path(
    put, path = "/api/v1/reviewers/{reviewerId}/availability", tag = "Review",
    params(("reviewerId" = schema::Name, Path, description = "Who.")),
    request_body = wire::ReviewerAvailability,
    responses((status = 200, description = "The reviewer.", body = wire::Reviewer), Missing, Conflicts)
)]
pub(crate) async fn reviewer_availability(
    State(state): State<AppState>,
    caller: As<Staffing>,
    PathParam(id): PathParam<ReviewerId>,
    Json(body): Json<wire::ReviewerAvailability>,
) -> ApiResult<Json<wire::Reviewer>> {
    let who = caller.reviewing()?;
    if !who.is_lead() && *who.reviewer() != id {
        return Err(ApiError::Role {
            has: caller.caller().role(),
            needs: Leading::ROLES,
        });
    }
    let put = state
        .engine()
        .reviewer_availability(&who, &id, body.available)
        .await?;
    Ok(Json(show(put)))
}

/// Say how many reviews a reviewer may hold.
///
/// A lead says it of the reviewers of their tenant.
#[utoipa::path(
    put, path = "/api/v1/reviewers/{reviewerId}/capacity", tag = "Review",
    params(("reviewerId" = schema::Name, Path, description = "Who.")),
    request_body = wire::ReviewerCapacity,
    responses((status = 200, description = "The reviewer.", body = wire::Reviewer), Missing, Conflicts)
)]
pub(crate) async fn reviewer_capacity(
    State(state): State<AppState>,
    caller: As<Leading>,
    PathParam(id): PathParam<ReviewerId>,
    Json(body): Json<wire::ReviewerCapacity>,
) -> ApiResult<Json<wire::Reviewer>> {
    let who = caller.reviewing()?;
    let capacity = body.capacity.map(Into::into);
    let put = state.engine().reviewer_capacity(&who, &id, capacity).await?;
    Ok(Json(show(put)))
}

/// Hand on everything that a reviewer holds who is not there.
///
/// To others where the collection assigns its reviews, back into the queue where reviewers take them.
#[utoipa::path(
    post, path = "/api/v1/reviewers/{reviewerId}/hand-on", tag = "Review",
    params(("reviewerId" = schema::Name, Path, description = "Who is not there.")),
    responses((status = 200, description = "How many reviews were handed on.", body = wire::HandedOn))
)]
pub(crate) async fn review_hand_on(
    State(state): State<AppState>,
    caller: As<Leading>,
    PathParam(from): PathParam<ReviewerId>,
) -> ApiResult<Json<wire::HandedOn>> {
    let who = caller.reviewing()?;
    let mut handed_on = 0;
    // The engine hands on a bounded piece at a time.
    loop {
        match state.engine().review_hand_on(&who, &from).await? {
            0 => return Ok(Json(wire::HandedOn { handed_on })),
            handed => handed_on += handed,
        }
    }
}
