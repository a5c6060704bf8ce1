//! What a tenant may still submit.

use axum::extract::State;
use docket_core::limit::WINDOW_MS;
use docket_wire::limit::Limits;
use docket_wire::schema;
use docket_wire::tenant::UploadLimit;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::caller::{As, Seeing};
use crate::error::{ApiResult, seconds_up};
use crate::extract::{Json, Query};
use crate::openapi::Missing;
use crate::state::AppState;

/// Whose limit.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LimitsQuery {
    /// The tenant; needed by those who act for the whole deployment, and by nobody else.
    #[param(value_type = Option<schema::Name>)]
    tenant_id: Option<String>,
}

/// What is left of the tenant's limit, now.
#[utoipa::path(
    get, path = "/api/v1/limits", tag = "Intake", params(LimitsQuery),
    responses((status = 200, description = "What is left.", body = Limits), Missing)
)]
pub(crate) async fn limits(
    State(state): State<AppState>,
    caller: As<Seeing>,
    Query(query): Query<LimitsQuery>,
) -> ApiResult<Json<Limits>> {
    let scope = caller.scope_of_tenant(query.tenant_id)?;
    let left = state.engine().limits(&scope).await?;
    let number = |n: u64| UploadLimit::PerHour(u32::try_from(n).unwrap_or(u32::MAX));
    let limited = left.limit.is_some();
    Ok(Json(Limits {
        allowed: left.remaining > 0,
        limit: left.limit.map_or(UploadLimit::Unlimited, number),
        remaining: if limited {
            number(left.remaining)
        } else {
            UploadLimit::Unlimited
        },
        window_seconds: seconds_up(WINDOW_MS),
        wait_time_seconds: (left.remaining == 0).then(|| seconds_up(left.wait_ms).max(1)),
    }))
}
