//! API keys.

use axum::extract::State;
use axum::http::StatusCode;
use docket_core::access::Role;
use docket_core::id::KeyId;
use docket_core::name::TenantId;
use docket_engine::NewKey;
use docket_wire::Page;
use docket_wire::key as wire;
use docket_wire::page::PageQuery;
use docket_wire::schema;

use crate::caller::Admin;
use crate::error::ApiResult;
use crate::extract::{Json, PathParam, Query};
use crate::idempotency::IdempotencyKey;
use crate::openapi::{Conflicts, IdempotencyHeader, Missing};
use crate::page;
use crate::state::AppState;

const fn role(role: wire::Role) -> Role {
    match role {
        wire::Role::Producer => Role::Producer,
        wire::Role::Worker => Role::Worker,
        wire::Role::Reviewer => Role::Reviewer,
        wire::Role::Lead => Role::Lead,
        wire::Role::Service => Role::Service,
        wire::Role::Admin => Role::Admin,
    }
}

const fn wire_role(role: Role) -> wire::Role {
    match role {
        Role::Producer => wire::Role::Producer,
        Role::Worker => wire::Role::Worker,
        Role::Reviewer => wire::Role::Reviewer,
        Role::Lead => wire::Role::Lead,
        Role::Service => wire::Role::Service,
        Role::Admin => wire::Role::Admin,
    }
}

/// Make an API key.
///
/// Its secret is shown this once; a repeated call with the same `Idempotency-Key` makes no other and is a
/// conflict, because the secret is not kept.
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "Administration", params(IdempotencyHeader), request_body = wire::KeyCreate,
    responses((status = 201, description = "The key.", body = wire::KeyCreated), Missing, Conflicts)
)]
pub(crate) async fn key_create(
    State(state): State<AppState>,
    admin: Admin,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<wire::KeyCreate>,
) -> ApiResult<(StatusCode, Json<wire::KeyCreated>)> {
    let new = NewKey {
        role: role(body.role),
        tenant: body.tenant_id.map(TenantId::new).transpose()?,
        subject: body.subject,
    };
    let made = state
        .engine()
        .key_create_once(&admin.operator(), new, key)
        .await?;
    let answer = wire::KeyCreated {
        id: made.id.uuid(),
        key: made.key.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// List the API keys, newest first, revoked ones among them.
#[utoipa::path(
    get, path = "/api/v1/keys", tag = "Administration", params(PageQuery),
    responses((status = 200, description = "A page of keys.", body = Page<wire::Key>))
)]
pub(crate) async fn keys(
    State(state): State<AppState>,
    admin: Admin,
    Query(query): Query<PageQuery>,
) -> ApiResult<Json<Page<wire::Key>>> {
    let before: Option<KeyId> = page::place_of(query.cursor.as_deref())?;
    let found = state
        .engine()
        .keys(&admin.operator(), before, page::limit(query.limit)?)
        .await?;
    let show = |key: docket_engine::Key| wire::Key {
        id: key.id.uuid(),
        prefix: key.prefix,
        role: wire_role(key.role),
        tenant_id: key.tenant_id,
        subject: key.subject,
        created_at: key.created_at.into(),
        revoked_at: key.revoked_at.map(Into::into),
    };
    Ok(Json(page::write(found.keys, found.next, show)))
}

/// Revoke an API key, for good.
///
/// One that is revoked stays so.
#[utoipa::path(
    delete, path = "/api/v1/keys/{keyId}", tag = "Administration",
    params(("keyId" = schema::Id, Path, description = "The key.")),
    responses((status = 204, description = "It is revoked."), Missing)
)]
pub(crate) async fn key_revoke(
    State(state): State<AppState>,
    admin: Admin,
    PathParam(id): PathParam<KeyId>,
) -> ApiResult<StatusCode> {
    state.engine().key_revoke(&admin.operator(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}
