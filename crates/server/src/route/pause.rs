//! Pauses.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use docket_core::id::PauseId;
use docket_core::name::{CollectionId, PipelineName, TenantId};
use docket_engine::{PauseTarget, PauseView};
use docket_wire::Page;
use docket_wire::page::PageQuery;
use docket_wire::pause as wire;
use docket_wire::schema;

use crate::caller::Admin;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Json, PathParam, Query};
use crate::idempotency::{IdempotencyKey, marked};
use crate::openapi::{IdempotencyHeader, Missing};
use crate::page;
use crate::route::notification::channel_named;
use crate::state::AppState;

fn show(view: PauseView) -> wire::Pause {
    wire::Pause {
        id: view.id,
        scope: match view.scope.as_str() {
            "pipeline" => wire::PauseScope::Pipeline,
            "lane" => wire::PauseScope::Lane,
            "collection" => wire::PauseScope::Collection,
            "channel" => wire::PauseScope::Channel,
            _ => wire::PauseScope::All,
        },
        pipeline: view.pipeline,
        tenant_id: view.tenant_id,
        collection_id: view.collection_id,
        channel: view.channel,
        reason: view.reason,
        actor: view.actor,
        at: view.at.into(),
    }
}

fn target(body: &wire::PauseSet) -> ApiResult<PauseTarget> {
    let superfluous = |path: &str| {
        let problem = "is not needed for what is to be paused; leave it out";
        Err(ApiError::malformed(path, problem))
    };
    let named = |path: &'static str, name: &Option<String>| {
        let problem = "is needed to say what is to be paused";
        name.clone().ok_or_else(|| ApiError::malformed(path, problem))
    };
    match body.scope {
        wire::PauseScope::All if body.id.is_some() => superfluous("id"),
        wire::PauseScope::All
        | wire::PauseScope::Pipeline
        | wire::PauseScope::Collection
        | wire::PauseScope::Channel
            if body.tenant_id.is_some() =>
        {
            superfluous("tenantId")
        }
        wire::PauseScope::All => Ok(PauseTarget::All),
        wire::PauseScope::Pipeline => Ok(PauseTarget::Pipeline(PipelineName::new(named("id", &body.id)?)?)),
        wire::PauseScope::Lane => Ok(PauseTarget::Lane(
            TenantId::new(named("tenantId", &body.tenant_id)?)?,
            PipelineName::new(named("id", &body.id)?)?,
        )),
        wire::PauseScope::Collection => {
            let id = CollectionId::new(named("id", &body.id)?)?;
            Ok(PauseTarget::Collection(id))
        }
        wire::PauseScope::Channel => {
            let kind = channel_named("id", &named("id", &body.id)?)?;
            Ok(PauseTarget::Channel(kind))
        }
    }
}

/// Pause everything, a pipeline, a lane, the reviews of a collection, or the sends of a channel.
///
/// Nothing of what it covers is started or given out; what runs goes on. Several pauses of the same thing hold until each
/// is lifted.
#[utoipa::path(
    post, path = "/api/v1/pauses", tag = "Administration", params(IdempotencyHeader), request_body = wire::PauseSet,
    responses((status = 201, description = "The pause.", body = wire::Pause), Missing)
)]
pub(crate) async fn pause(
    State(state): State<AppState>,
    admin: Admin,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<wire::PauseSet>,
) -> ApiResult<Response> {
    let (who, engine) = (admin.operator(), state.engine());
    let once = engine.pause_once(&who, target(&body)?, &body.reason, key).await?;
    // Should it be lifted again by now, the answer is that it is not there.
    let answer = Json(show(engine.pause_view(&who, once.answer).await?));
    Ok(marked(
        once.replayed,
        once.request_differs,
        (StatusCode::CREATED, answer),
    ))
}

/// List the pauses there are, oldest first.
#[utoipa::path(
    get, path = "/api/v1/pauses", tag = "Administration", params(PageQuery),
    responses((status = 200, description = "A page of pauses.", body = Page<wire::Pause>))
)]
pub(crate) async fn pauses(
    State(state): State<AppState>,
    admin: Admin,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<wire::Pause>>> {
    let after = page::place_of(query.cursor.as_deref())?;
    let found = state
        .engine()
        .pauses_page(&admin.operator(), after, page::limit(query.limit)?)
        .await?;
    Ok(Json(page::write(found.items, found.next, show)))
}

/// Lift a pause.
#[utoipa::path(
    delete, path = "/api/v1/pauses/{pauseId}", tag = "Administration",
    params(("pauseId" = schema::Id, Path, description = "The pause.")),
    responses((status = 204, description = "It is lifted."), Missing)
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<PauseId>,
) -> ApiResult<StatusCode> {
    state.engine().resume(&admin.operator(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}
