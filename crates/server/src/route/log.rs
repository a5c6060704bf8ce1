//! The log, a page at a time.

use axum::extract::State;
use docket_core::id::ItemId;
use docket_core::name::{CollectionId, TenantId};
use docket_engine::{LogFilter, LogOrder, LogQuery};
use docket_wire::Page;
use docket_wire::log::LogEntry;
use docket_wire::{Time, schema};
use serde::Deserialize;
use utoipa::IntoParams;

use super::view;
use crate::caller::{As, Reach, Seeing};
use crate::error::ApiResult;
use crate::extract::{FromParam as _, Json, Query};
use crate::openapi::Missing;
use crate::page;
use crate::state::AppState;

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AuditQuery {
    /// Of this tenant, for those who act for the whole deployment; those who act for a tenant see its own.
    #[param(value_type = Option<schema::Name>)]
    tenant_id: Option<String>,
    /// Of items of this collection.
    #[param(value_type = Option<schema::Name>)]
    collection_id: Option<String>,
    /// Of this item.
    #[param(value_type = Option<schema::Id>)]
    item_id: Option<String>,
    /// By this actor.
    #[param(value_type = Option<schema::ShortText>)]
    actor: Option<String>,
    /// That say this, such as `job.completed`.
    #[param(value_type = Option<schema::ShortText>)]
    action: Option<String>,
    /// From this moment on.
    #[param(value_type = Option<schema::Time>)]
    since: Option<Time>,
    /// Before this moment.
    #[param(value_type = Option<schema::Time>)]
    until: Option<Time>,
    /// At most so many entries; 50 where nothing is said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[param(max_length = 512)]
    cursor: Option<String>,
}

/// The tenant that is meant, seen from who asks: its own for those who act for one, and never another's.
pub(super) fn narrowed(caller: &As<Seeing>, named: Option<String>) -> ApiResult<(Reach, Option<TenantId>)> {
    match caller.reach() {
        Reach::Tenant(_) => Ok((Reach::Tenant(caller.scope_of_tenant(named)?), None)),
        deployment @ Reach::Deployment(_) => Ok((deployment, named.map(TenantId::new).transpose()?)),
    }
}

pub(super) fn item_id(text: Option<&str>) -> ApiResult<Option<ItemId>> {
    Ok(text.map(|text| ItemId::from_param("itemId", text)).transpose()?)
}

/// The log, newest entries first.
///
/// A page may be short, even empty, where few entries match; `nextCursor` tells whether to go on.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "Log", params(AuditQuery), operation_id = "log",
    responses((status = 200, description = "A page of the log.", body = Page<LogEntry>), Missing)
)]
pub(crate) async fn audit(
    State(state): State<AppState>,
    caller: As<Seeing>,
    Query(query): Query<AuditQuery>,
) -> ApiResult<Json<Page<LogEntry>>> {
    let wanted = LogQuery {
        filter: LogFilter {
            item: item_id(query.item_id.as_deref())?,
            collection: query.collection_id.map(CollectionId::new).transpose()?,
            actor: query.actor,
            action: query.action,
            since: query.since.map(Into::into),
            until: query.until.map(Into::into),
        },
        order: LogOrder::NewestFirst,
        after: page::place_of(query.cursor.as_deref())?,
        limit: page::limit(query.limit)?,
    };
    let found = match narrowed(&caller, query.tenant_id)? {
        (Reach::Tenant(scope), _) => state.engine().log(&scope, wanted).await?,
        (Reach::Deployment(operator), tenant) => state.engine().log_of_all(&operator, tenant, wanted).await?,
    };
    Ok(Json(page::write(found.entries, found.next, |entry| {
        view::log_entry(&entry)
    })))
}
