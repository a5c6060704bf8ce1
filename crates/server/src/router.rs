//! The routes. Those of the contract are in the OpenAPI document by being routes at all.

use axum::Router;
use axum::extract::{DefaultBodyLimit, OriginalUri};
use axum::middleware;
use axum::routing::get;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate as _, SizeAbove};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::layer;
use crate::openapi;
use crate::route::{
    collection, compat, content, docs, event, export, health, insight, item, job, key, limit, log,
    notification, pause, pipeline, review, reviewer, submit, tenant, upload,
};
use crate::state::AppState;

/// What is smaller is not worth compressing.
const COMPRESSED_FROM: u16 = 1_024;

/// The calls of the contract.
pub(crate) fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(key::key_create, key::keys))
        .routes(routes!(key::key_revoke))
        .routes(routes!(tenant::tenants))
        .routes(routes!(tenant::tenant_put, tenant::tenant))
        .routes(routes!(collection::collections))
        .routes(routes!(collection::collection_put, collection::collection))
        .routes(routes!(pipeline::pipelines))
        .routes(routes!(pipeline::pipeline_put, pipeline::pipeline))
        .routes(routes!(pause::pause, pause::pauses))
        .routes(routes!(pause::resume))
        .routes(routes!(compat::unreviewed))
        .routes(routes!(limit::limits))
        .routes(routes!(submit::submit))
        .routes(routes!(upload::upload))
        .routes(routes!(item::items))
        .routes(routes!(item::item))
        .routes(routes!(item::position))
        .routes(routes!(content::content))
        .routes(routes!(item::jobs))
        .routes(routes!(item::timeline))
        .routes(routes!(item::explain))
        .routes(routes!(item::retry))
        .routes(routes!(item::reprocess))
        .routes(routes!(item::cancel))
        .routes(routes!(job::claim))
        .routes(routes!(job::heartbeat))
        .routes(routes!(job::step))
        .routes(routes!(job::complete))
        .routes(routes!(job::fail))
        .routes(routes!(job::release))
        .routes(routes!(job::reap))
        .merge(reviews())
        .merge(notifications())
        .routes(routes!(log::audit))
        .routes(routes!(export::audit_export))
        .routes(routes!(event::events))
        .routes(routes!(insight::corrections))
        .routes(routes!(insight::reviewers))
        .routes(routes!(insight::calibration))
        .routes(routes!(insight::sla))
        .routes(routes!(insight::training_data))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// Those about what people decide.
fn reviews() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(reviewer::reviewers))
        .routes(routes!(reviewer::reviewer_put, reviewer::reviewer))
        .routes(routes!(reviewer::reviewer_availability))
        .routes(routes!(reviewer::reviewer_capacity))
        .routes(routes!(reviewer::review_hand_on))
        .routes(routes!(review::review_pop))
        .routes(routes!(review::review_commit))
        .routes(routes!(review::review_release))
        .routes(routes!(review::review_heartbeat))
        .routes(routes!(review::review_undo))
        .routes(routes!(review::review_claim))
        .routes(routes!(review::overview::reviews))
        .routes(routes!(review::overview::review_stats))
        .routes(routes!(review::overview::review_workload))
        .routes(routes!(review::overview::review))
        .routes(routes!(review::overview::review_explain))
        .routes(routes!(review::lead::review_reassign))
        .routes(routes!(review::lead::field_unlock))
        .routes(routes!(review::service::review_pop_for))
        .routes(routes!(review::service::review_commit_for))
        .routes(routes!(review::service::review_release_for))
        .routes(routes!(review::service::review_heartbeat_for))
        .routes(routes!(review::service::review_undo_for))
        .routes(routes!(review::service::review_claim_for))
        .routes(routes!(review::service::review_stats_all))
        .routes(routes!(review::service::review_reap))
        .routes(routes!(review::service::review_entries))
}

/// Those about who is told.
fn notifications() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(
            notification::notification_create,
            notification::notifications
        ))
        .routes(routes!(notification::notification))
        .routes(routes!(notification::notification_deliveries))
        .routes(routes!(notification::deliveries))
        .routes(routes!(notification::delivery))
        .routes(routes!(notification::delivery_reconcile))
        .routes(routes!(notification::delivery_resend))
        .routes(routes!(notification::delivery_cancel))
}

/// All routes, with what is around every request. More routes (`/metrics`, a web page) are merged into what is returned; their answers
/// are their own.
pub fn router(state: AppState) -> Router {
    let (api, _) = api().split_for_parts();
    let compressed = SizeAbove::new(COMPRESSED_FROM).and(layer::compressible);
    api.route("/openapi.json", get(docs::openapi_json))
        .route("/docs", get(docs::docs))
        .fallback(async |OriginalUri(uri): OriginalUri| {
            ApiError::NoRoute(uri.path().chars().take(200).collect())
        })
        .method_not_allowed_fallback(async || ApiError::Method)
        // Every reader of a body has its own limit.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(state.clone(), layer::around))
        .layer(CompressionLayer::new().gzip(true).compress_when(compressed))
        .with_state(state)
}
