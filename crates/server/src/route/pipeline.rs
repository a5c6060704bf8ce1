//! Pipelines.

use axum::extract::State;
use docket_core::name::PipelineName;
use docket_engine::PipelineView;
use docket_wire::Page;
use docket_wire::page::PageQuery;
use docket_wire::pipeline as wire;
use docket_wire::schema;

use crate::caller::Admin;
use crate::error::ApiResult;
use crate::extract::{Json, PathParam, Query};
use crate::openapi::Missing;
use crate::page;
use crate::state::AppState;

fn show(view: &PipelineView) -> wire::Pipeline {
    wire::Pipeline::new(view.name.clone(), view.version, &view.definition)
}

/// Make a pipeline, or give it a new version.
///
/// Attempts under way end by the version they began with; saying the same again makes no new one.
#[utoipa::path(
    put, path = "/api/v1/pipelines/{name}", tag = "Administration",
    params(("name" = schema::Name, Path, description = "The pipeline.")), request_body = wire::PipelinePut,
    responses((status = 200, description = "The pipeline, in its present version.", body = wire::Pipeline))
)]
pub(crate) async fn pipeline_put(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(name): PathParam<PipelineName>,
    Json(body): Json<wire::PipelinePut>,
) -> ApiResult<Json<wire::Pipeline>> {
    let definition = docket_core::pipeline::Pipeline::try_from(body)?;
    let version = state
        .engine()
        .pipeline_put(&admin.operator(), name.clone(), definition.clone())
        .await?;
    Ok(Json(wire::Pipeline::new(name.as_str(), version, &definition)))
}

/// A pipeline, in its present version.
#[utoipa::path(
    get, path = "/api/v1/pipelines/{name}", tag = "Administration",
    params(("name" = schema::Name, Path, description = "The pipeline.")),
    responses((status = 200, description = "The pipeline.", body = wire::Pipeline), Missing)
)]
pub(crate) async fn pipeline(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(name): PathParam<PipelineName>,
) -> ApiResult<Json<wire::Pipeline>> {
    let view = state.engine().pipeline_view(&admin.operator(), &name).await?;
    Ok(Json(show(&view)))
}

/// List the pipelines, by name.
#[utoipa::path(
    get, path = "/api/v1/pipelines", tag = "Administration", params(PageQuery),
    responses((status = 200, description = "A page of pipelines.", body = Page<wire::Pipeline>))
)]
pub(crate) async fn pipelines(
    State(state): State<AppState>,
    admin: Admin,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<wire::Pipeline>>> {
    let (after, limit) = page::read(&query)?;
    let found = state.engine().pipelines(&admin.operator(), after, limit).await?;
    Ok(Json(page::write(found.items, found.next, |view| show(&view))))
}
