//! Whether the process lives, and whether it can serve.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::extract::Json;
use crate::state::AppState;
use axum::response::IntoResponse as _;

/// How long the database may take to answer.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// How the process is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the process is alive.
#[utoipa::path(
    get, path = "/healthz", tag = "Process",
    responses((status = 200, description = "It is alive.", body = Health))
)]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the database is reachable and migrated.
#[utoipa::path(
    get, path = "/readyz", tag = "Process",
    responses(
        (status = 200, description = "It can serve.", body = Health),
        (status = 503, description = "It cannot serve at the moment.", body = docket_wire::Problem,
         content_type = "application/problem+json")
    )
)]
pub(crate) async fn readyz(State(state): State<AppState>) -> Response {
    match ready(&state).await {
        Ok(()) => Json(Health { status: "ok" }).into_response(),
        Err(error) => error.into_response(),
    }
}

/// A server opens its engine, which migrates, before it serves: what answers is migrated.
async fn ready(state: &AppState) -> ApiResult<()> {
    match tokio::time::timeout(READY_WITHIN, state.engine().tiers()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
            Err(ApiError::Unavailable("the database does not answer"))
        }
        Err(_) => Err(ApiError::Unavailable("the database does not answer in time")),
    }
}
