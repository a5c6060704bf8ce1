//! Collections. Admins set them up; those who act for a tenant see its own.

use axum::extract::State;
use docket_core::Refusal;
use docket_core::item::JSON_MAX;
use docket_core::name::{CollectionId, PipelineName, TenantId};
use docket_core::review::ReviewPolicy;
use docket_core::scope::Operator;
use docket_engine::{CollectionSettings, CollectionView};
use docket_wire::Page;
use docket_wire::collection as wire;
use docket_wire::schema;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::caller::{Admin, As, Reach, Seeing};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Json, PathParam, Query};
use crate::openapi::{Conflicts, Missing};
use crate::page;
use crate::state::AppState;

fn show(view: CollectionView) -> ApiResult<wire::Collection> {
    let mut settings = view.settings;
    // A collection may have been set up past this server, with no more settings than it needs.
    let mut part = |name: &str| settings.get_mut(name).map(serde_json::Value::take);
    let (review, notify) = (part("review"), part("notify"));
    let broken = |error: serde_json::Error| {
        tracing::error!(%error, collection = view.id, "a collection's settings cannot be read");
        ApiError::Internal
    };
    let mut review: wire::ReviewPolicy = match review {
        Some(review) => serde_json::from_value(review).map_err(broken)?,
        None => wire::ReviewPolicy::default(),
    };
    review.enabled = view.review;
    Ok(wire::Collection {
        id: view.id.clone(),
        tenant_id: view.tenant_id,
        pipeline: view.pipeline,
        review,
        notify: notify.and_then(|notify| serde_json::from_value(notify).ok()),
    })
}

fn check_review(review: wire::ReviewPolicy) -> Result<(), Refusal> {
    ReviewPolicy::try_from(review)
        .and_then(|policy| policy.check())
        .map_err(|refusal| refusal.under("review"))
}

/// Make or change a collection.
///
/// Items submitted from then on follow what it says.
#[utoipa::path(
    put, path = "/api/v1/collections/{collectionId}", tag = "Administration",
    params(("collectionId" = schema::Name, Path, description = "The collection.")), request_body = wire::CollectionPut,
    responses((status = 200, description = "The collection.", body = wire::Collection), Missing, Conflicts)
)]
pub(crate) async fn collection_put(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<CollectionId>,
    Json(body): Json<wire::CollectionPut>,
) -> ApiResult<Json<wire::Collection>> {
    check_review(body.review.clone())?;
    let settings = json!({ "review": body.review, "notify": body.notify });
    docket_core::content::check_json("review", &settings, JSON_MAX)?;
    let settings = CollectionSettings {
        id: id.clone(),
        tenant: TenantId::new(body.tenant_id)?,
        pipeline: body.pipeline.map(PipelineName::new).transpose()?,
        review: body.review.enabled,
        settings,
    };
    let (who, engine) = (admin.operator(), state.engine());
    engine.collection_put(&who, settings).await?;
    show(engine.collection(&who, &id).await?).map(Json)
}

/// A collection.
#[utoipa::path(
    get, path = "/api/v1/collections/{collectionId}", tag = "Administration",
    params(("collectionId" = schema::Name, Path, description = "The collection.")),
    responses((status = 200, description = "The collection.", body = wire::Collection), Missing)
)]
pub(crate) async fn collection(
    State(state): State<AppState>,
    caller: As<Seeing>,
    PathParam(id): PathParam<CollectionId>,
) -> ApiResult<Json<wire::Collection>> {
    let (who, own) = reach(&caller);
    let view = state.engine().collection(&who, &id).await?;
    if own.is_some_and(|own| own.as_str() != view.tenant_id) {
        return Err(Refusal::not_found("collection", &id).into());
    }
    show(view).map(Json)
}

fn reach(caller: &As<Seeing>) -> (Operator, Option<TenantId>) {
    match caller.reach() {
        Reach::Deployment(operator) => (operator, None),
        Reach::Tenant(scope) => (Operator { actor: scope.actor }, Some(scope.tenant)),
    }
}

/// Which collections.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CollectionsQuery {
    /// Of this tenant; those who act for a tenant see its own without saying so.
    #[param(value_type = Option<schema::Name>)]
    tenant_id: Option<String>,
    /// At most so many entries; 50 where nothing is said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[param(max_length = 512)]
    cursor: Option<String>,
}

/// List collections, by id.
#[utoipa::path(
    get, path = "/api/v1/collections", tag = "Administration", params(CollectionsQuery),
    responses((status = 200, description = "A page of collections.", body = Page<wire::Collection>), Missing)
)]
pub(crate) async fn collections(
    State(state): State<AppState>,
    caller: As<Seeing>,
    Query(query): Query<CollectionsQuery>,
) -> ApiResult<Json<Page<wire::Collection>>> {
    let (after, limit) = (page::place(query.cursor.as_deref())?, page::limit(query.limit)?);
    let named = query.tenant_id.map(TenantId::new).transpose()?;
    let (who, own) = reach(&caller);
    if let (Some(own), Some(named)) = (&own, &named)
        && own != named
    {
        return Err(Refusal::not_found("tenant", named).into());
    }
    let found = state
        .engine()
        .collections(&who, own.or(named), after, limit)
        .await?;
    let items: ApiResult<Vec<_>> = found.items.into_iter().map(show).collect();
    Ok(Json(page::write(items?, found.next, |collection| collection)))
}
