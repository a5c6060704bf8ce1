//! Notifications: whom to tell of which version of what, and what became of it.

use docket_core::id::{DeliveryId, ItemId, NotificationId};
use docket_core::notification::{DeliveryState, NotificationStatus};
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// `POST /api/v1/notifications`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationCreate {
    /// The caller's own key: the same again returns the notification first made.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ShortText))]
    pub idempotency_key: String,
    /// What it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ShortText))]
    pub changelist_id: String,
    /// Which version of it; each later one has to be higher.
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 0, maximum = 4_611_686_018_427_387_903_i64)
    )]
    pub review_version: i64,
    /// Who has to be told: `email:a@example.com`, `webhook:https://…`, `file:name`.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Recipient>, min_items = 1, max_items = 1_000))]
    pub recipients: Vec<String>,
    /// Who is told too; the notification succeeds without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Recipient>, max_items = 999))]
    pub optional_recipients: Vec<String>,
    /// One line.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Subject))]
    pub subject: String,
    /// Plain text.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::MessageBody))]
    pub body: String,
    /// For which tenant; those who act for one need not say so, and the others may leave it out for a notification of the deployment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub tenant_id: Option<String>,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: NotificationId,
    /// Whose it is; none for the deployment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// What has become of it.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::NotificationStatus))]
    pub status: NotificationStatus,
    /// What it is about.
    pub changelist_id: String,
    /// Which version of it.
    pub review_version: i64,
    /// The caller's key.
    pub idempotency_key: String,
    /// The item whose review it follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Id>))]
    pub item_id: Option<ItemId>,
    /// One line; empty where it has expired.
    pub subject: String,
    /// Plain text; empty where it has expired.
    pub body: String,
    /// Who made it.
    pub actor: String,
    /// When.
    pub created_at: Time,
    /// Its words and its deliveries are kept no longer: it came to its end longer ago than finished things are kept.
    #[serde(default)]
    pub expired: bool,
}

/// The answer to `POST /api/v1/notifications`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NotificationCreated {
    /// The notification: the new one, or the one that was there.
    #[serde(flatten)]
    pub notification: Notification,
    /// The key was used before.
    #[serde(default)]
    pub duplicate: bool,
    /// And something else was asked for then.
    #[serde(default)]
    pub request_differs: bool,
    /// This version was told already: nothing was done.
    #[serde(default)]
    pub noop: bool,
}

/// A try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    /// Its number among the delivery's holds.
    pub number: i64,
    /// `send`, or `lookup` where the provider was asked.
    pub kind: String,
    /// What came of it: `accepted`, `not_sent`, `transient`, `permanent`, `unknown`; `found`, `absent`.
    pub outcome: String,
    /// What the provider said.
    pub words: String,
    /// The token that was sent, or asked for.
    pub token: String,
    /// When it began.
    pub began_at: Time,
    /// When it ended; none where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
}

/// A delivery: one recipient's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: DeliveryId,
    /// The notification that it is of.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub of: NotificationId,
    /// Whom it tells.
    pub recipient: String,
    /// Whether the notification succeeds only with it.
    pub required: bool,
    /// Where it stands.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::DeliveryStatus))]
    pub status: DeliveryState,
    /// The token that it is sent with.
    pub token: String,
    /// The provider's id of the message; null until it has taken it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub notification_id: Option<String>,
    /// When the recipient was first told: the provider took it. A resend does not change that.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub notified_at: Option<Time>,
    /// When it is tried next; null where nothing happens by itself.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_attempt_at: Option<Time>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its last hundred tries, newest first.
    pub attempts: Vec<DeliveryAttempt>,
    /// When it was made.
    pub created_at: Time,
}

/// The answer to `GET /api/v1/notifications/{notificationId}/deliveries`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Deliveries {
    /// In the order in which the recipients were named.
    pub items: Vec<Delivery>,
}

/// `POST /api/v1/deliveries/{deliveryId}/resend`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryResend {
    /// Makes the new token. The same nonce again sends nothing.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub nonce: String,
}
