//! Tenants.

use axum::extract::State;
use docket_core::name::TenantId;
use docket_core::tenant::TenantSettings;
use docket_engine::TenantView;
use docket_wire::Page;
use docket_wire::page::PageQuery;
use docket_wire::schema;
use docket_wire::tenant as wire;

use crate::caller::Admin;
use crate::error::ApiResult;
use crate::extract::{Json, PathParam, Query};
use crate::openapi::Missing;
use crate::page;
use crate::state::AppState;

fn show(tenant: TenantView) -> wire::Tenant {
    wire::Tenant {
        id: tenant.id,
        tier: tenant.tier,
        uploads_per_hour: tenant.uploads.into(),
        concurrent_jobs: tenant.concurrent_jobs,
    }
}

/// Make or change a tenant.
///
/// What is left out is the tier's; its lanes follow at once.
#[utoipa::path(
    put, path = "/api/v1/tenants/{tenantId}", tag = "Administration",
    params(("tenantId" = schema::Name, Path, description = "The tenant.")), request_body = wire::TenantPut,
    responses((status = 200, description = "The tenant, with the limits that apply to it.", body = wire::Tenant))
)]
pub(crate) async fn tenant_put(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<TenantId>,
    Json(body): Json<wire::TenantPut>,
) -> ApiResult<Json<wire::Tenant>> {
    let (who, engine) = (admin.operator(), state.engine());
    let settings = TenantSettings {
        id: id.clone(),
        tier: body.tier,
        uploads: body.uploads_per_hour.map(Into::into),
        concurrent_jobs: body.concurrent_jobs,
    };
    engine.tenant_put(&who, settings).await?;
    Ok(Json(show(engine.tenant(&who, &id).await?)))
}

/// A tenant, with the limits that apply to it.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenantId}", tag = "Administration",
    params(("tenantId" = schema::Name, Path, description = "The tenant.")),
    responses((status = 200, description = "The tenant.", body = wire::Tenant), Missing)
)]
pub(crate) async fn tenant(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<TenantId>,
) -> ApiResult<Json<wire::Tenant>> {
    Ok(Json(show(state.engine().tenant(&admin.operator(), &id).await?)))
}

/// List the tenants, by id.
#[utoipa::path(
    get, path = "/api/v1/tenants", tag = "Administration", params(PageQuery),
    responses((status = 200, description = "A page of tenants.", body = Page<wire::Tenant>))
)]
pub(crate) async fn tenants(
    State(state): State<AppState>,
    admin: Admin,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<wire::Tenant>>> {
    let (after, limit) = page::read(&query)?;
    let found = state.engine().tenants(&admin.operator(), after, limit).await?;
    Ok(Json(page::write(found.items, found.next, show)))
}
