//! Notifications, and what becomes of their deliveries.

use axum::extract::State;
use axum::http::StatusCode;
use docket_core::id::{DeliveryId, NotificationId};
use docket_core::name::{TEXT_MAX, check_text};
use docket_core::notify::ChannelKind;
use docket_core::scope::Notifying;
use docket_engine::{CreatedNotification, DeliveryFilter, DeliveryView, NewNotification, NotificationView};
use docket_wire::Page;
use docket_wire::notification as wire;
use docket_wire::schema;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::caller::{As, Notifiers, Reach};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Json, PathParam, Query};
use crate::openapi::{Conflicts, Missing};
use crate::page;
use crate::state::AppState;

fn who(caller: &As<Notifiers>) -> Notifying {
    match caller.reach() {
        Reach::Tenant(scope) => Notifying::of(&scope),
        Reach::Deployment(operator) => Notifying::deployment(&operator),
    }
}

/// The channel of this word.
pub(crate) fn channel_named(path: &str, word: &str) -> ApiResult<ChannelKind> {
    let found = ChannelKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    found.ok_or_else(|| ApiError::malformed(path, "must be email, webhook or file"))
}

fn show(view: NotificationView) -> wire::Notification {
    let known = view.notification;
    wire::Notification {
        id: known.id,
        tenant_id: Some(known.owner).filter(|owner| !owner.is_empty()),
        status: view.status,
        changelist_id: known.changelist_id,
        review_version: known.review_version,
        idempotency_key: known.idempotency_key,
        item_id: known.item,
        subject: known.subject,
        body: known.body,
        actor: known.actor,
        created_at: known.created_at.into(),
        expired: known.expired_as.is_some(),
    }
}

fn show_delivery(view: DeliveryView) -> wire::Delivery {
    let known = view.delivery;
    let notified_at = known.course.told_at();
    let attempts = view.attempts.into_iter().map(|attempt| wire::DeliveryAttempt {
        number: attempt.number,
        kind: attempt.kind,
        outcome: attempt.outcome,
        words: attempt.words,
        token: attempt.token,
        began_at: attempt.began_at.into(),
        ended_at: attempt.ended_at.map(Into::into),
    });
    wire::Delivery {
        id: known.id,
        of: known.notification,
        recipient: known.recipient,
        required: known.required,
        status: known.course.state,
        token: known.token,
        notification_id: known.course.receipt,
        notified_at: notified_at.map(Into::into),
        next_attempt_at: known.course.due.map(Into::into),
        error: known.course.problem,
        attempts: attempts.collect(),
        created_at: known.created_at.into(),
    }
}

/// Tell recipients about one version of one subject.
///
/// The same key again returns the notification first made. The same version again, once it has succeeded, does nothing. Any other version has to
/// be higher than all before.
#[utoipa::path(
    post, path = "/api/v1/notifications", tag = "Notifications", request_body = wire::NotificationCreate,
    responses(
        (status = 201, description = "It is made.", body = wire::NotificationCreated),
        (status = 200, description = "It was there already: `duplicate` or `noop` says why.", body = wire::NotificationCreated),
        Missing, Conflicts
    )
)]
pub(crate) async fn notification_create(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    Json(body): Json<wire::NotificationCreate>,
) -> ApiResult<(StatusCode, Json<wire::NotificationCreated>)> {
    let who = match &body.tenant_id {
        None => who(&caller),
        Some(tenant) => Notifying::of(&caller.scope_of_tenant(Some(tenant.clone()))?),
    };
    let new = NewNotification {
        idempotency_key: body.idempotency_key,
        changelist_id: body.changelist_id,
        review_version: body.review_version,
        recipients: body.recipients,
        optional_recipients: body.optional_recipients,
        subject: body.subject,
        body: body.body,
    };
    let CreatedNotification {
        view,
        duplicate,
        request_differs,
        noop,
    } = state.engine().notification_create(&who, &new).await?;
    let status = match duplicate || noop {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    let created = wire::NotificationCreated {
        notification: show(view),
        duplicate,
        request_differs,
        noop,
    };
    Ok((status, Json(created)))
}

/// Which notifications.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NotificationsQuery {
    /// About this.
    #[param(value_type = Option<schema::ShortText>)]
    changelist_id: Option<String>,
    /// At most so many entries; 50 where nothing is said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[param(max_length = 512)]
    cursor: Option<String>,
}

/// List notifications, newest first.
#[utoipa::path(
    get, path = "/api/v1/notifications", tag = "Notifications", params(NotificationsQuery),
    responses((status = 200, description = "A page of notifications.", body = Page<wire::Notification>))
)]
pub(crate) async fn notifications(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    Query(query): Query<NotificationsQuery>,
) -> ApiResult<Json<Page<wire::Notification>>> {
    if let Some(subject) = &query.changelist_id {
        check_text("changelistId", subject, TEXT_MAX)?;
    }
    let before = page::place_of(query.cursor.as_deref())?.unwrap_or_else(NotificationId::last);
    let limit = page::limit(query.limit)?;
    let found = state
        .engine()
        .notifications(&who(&caller), query.changelist_id, before, limit)
        .await?;
    Ok(Json(page::write(found.items, found.next, show)))
}

/// A notification, and what has become of it.
#[utoipa::path(
    get, path = "/api/v1/notifications/{notificationId}", tag = "Notifications",
    params(("notificationId" = schema::Id, Path, description = "The notification.")),
    responses((status = 200, description = "The notification.", body = wire::Notification), Missing)
)]
pub(crate) async fn notification(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    PathParam(id): PathParam<NotificationId>,
) -> ApiResult<Json<wire::Notification>> {
    let view = state.engine().notification(&who(&caller), id).await?;
    Ok(Json(show(view)))
}

/// A notification's deliveries, with what was tried and what the providers said.
#[utoipa::path(
    get, path = "/api/v1/notifications/{notificationId}/deliveries", tag = "Notifications",
    params(("notificationId" = schema::Id, Path, description = "The notification.")),
    responses((status = 200, description = "Its deliveries.", body = wire::Deliveries), Missing)
)]
pub(crate) async fn notification_deliveries(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    PathParam(id): PathParam<NotificationId>,
) -> ApiResult<Json<wire::Deliveries>> {
    let views = state.engine().notification_deliveries(&who(&caller), id).await?;
    let items = views.into_iter().map(show_delivery).collect();
    Ok(Json(wire::Deliveries { items }))
}

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeliveriesQuery {
    /// In this state.
    #[param(value_type = Option<schema::DeliveryStatus>)]
    status: Option<String>,
    /// By this channel.
    #[param(value_type = Option<schema::ChannelName>)]
    channel: Option<String>,
    /// At most so many entries; 50 where nothing is said.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[param(max_length = 512)]
    cursor: Option<String>,
}

/// List deliveries, newest first.
#[utoipa::path(
    get, path = "/api/v1/deliveries", tag = "Notifications", params(DeliveriesQuery),
    responses((status = 200, description = "A page of deliveries.", body = Page<wire::Delivery>))
)]
pub(crate) async fn deliveries(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    Query(query): Query<DeliveriesQuery>,
) -> ApiResult<Json<Page<wire::Delivery>>> {
    let before = page::place_of(query.cursor.as_deref())?.unwrap_or_else(DeliveryId::last);
    let limit = page::limit(query.limit)?;
    let filter = DeliveryFilter {
        state: query.status.as_deref().map(str::parse).transpose()?,
        channel: match &query.channel {
            Some(word) => Some(channel_named("channel", word)?.to_string()),
            None => None,
        },
    };
    let found = state
        .engine()
        .deliveries(&who(&caller), filter, before, limit)
        .await?;
    Ok(Json(page::write(found.items, found.next, show_delivery)))
}

/// A delivery, with what was tried.
#[utoipa::path(
    get, path = "/api/v1/deliveries/{deliveryId}", tag = "Notifications",
    params(("deliveryId" = schema::Id, Path, description = "The delivery.")),
    responses((status = 200, description = "The delivery.", body = wire::Delivery), Missing)
)]
pub(crate) async fn delivery(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    PathParam(id): PathParam<DeliveryId>,
) -> ApiResult<Json<wire::Delivery>> {
    let view = state.engine().delivery(&who(&caller), id).await?;
    Ok(Json(show_delivery(view)))
}

/// Have the provider asked what it knows of a delivery.
///
/// It is then `reconciling`, until the provider has answered: confirmed, or cleared and sent again, or held for a person.
#[utoipa::path(
    post, path = "/api/v1/deliveries/{deliveryId}/reconcile", tag = "Notifications",
    params(("deliveryId" = schema::Id, Path, description = "The delivery.")),
    responses((status = 200, description = "The delivery.", body = wire::Delivery), Missing, Conflicts)
)]
pub(crate) async fn delivery_reconcile(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    PathParam(id): PathParam<DeliveryId>,
) -> ApiResult<Json<wire::Delivery>> {
    let view = state.engine().delivery_reconcile(&who(&caller), id).await?;
    Ok(Json(show_delivery(view)))
}

/// Send a delivery once more, under another token.
///
/// For what is held, failed, cancelled, or was told and has to be told again. The nonce makes the token; the same nonce again sends nothing.
#[utoipa::path(
    post, path = "/api/v1/deliveries/{deliveryId}/resend", tag = "Notifications",
    params(("deliveryId" = schema::Id, Path, description = "The delivery.")), request_body = wire::DeliveryResend,
    responses((status = 200, description = "The delivery.", body = wire::Delivery), Missing, Conflicts)
)]
pub(crate) async fn delivery_resend(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    PathParam(id): PathParam<DeliveryId>,
    Json(body): Json<wire::DeliveryResend>,
) -> ApiResult<Json<wire::Delivery>> {
    let view = state
        .engine()
        .delivery_resend(&who(&caller), id, &body.nonce)
        .await?;
    Ok(Json(show_delivery(view)))
}

/// Give a delivery up that was not sent yet, or of which nobody knows.
#[utoipa::path(
    post, path = "/api/v1/deliveries/{deliveryId}/cancel", tag = "Notifications",
    params(("deliveryId" = schema::Id, Path, description = "The delivery.")),
    responses((status = 200, description = "The delivery.", body = wire::Delivery), Missing, Conflicts)
)]
pub(crate) async fn delivery_cancel(
    State(state): State<AppState>,
    caller: As<Notifiers>,
    PathParam(id): PathParam<DeliveryId>,
) -> ApiResult<Json<wire::Delivery>> {
    let view = state.engine().delivery_cancel(&who(&caller), id).await?;
    Ok(Json(show_delivery(view)))
}
