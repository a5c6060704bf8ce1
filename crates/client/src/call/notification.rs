//! Notifications and their deliveries.

use docket_wire::Page;
use docket_wire::notification::{
    Deliveries, Delivery, DeliveryResend, Notification, NotificationCreate, NotificationCreated,
};

use crate::client::{Call, Client};
use crate::error::Result;

/// Which notifications.
#[derive(Clone, Debug, Default)]
pub struct NotificationFilter {
    /// About this.
    pub changelist_id: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// Which deliveries.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// In this state.
    pub status: Option<String>,
    /// By this channel.
    pub channel: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl Client {
    /// Makes a notification; its own key makes it safe to repeat.
    pub async fn notification_create(&self, new: &NotificationCreate) -> Result<NotificationCreated> {
        let call = self.post(&["api", "v1", "notifications"], new)?;
        self.ask(call.repeatable()).await
    }

    /// A page of notifications, newest first.
    pub async fn notifications(&self, filter: &NotificationFilter) -> Result<Page<Notification>> {
        let call = self
            .get(&["api", "v1", "notifications"])
            .query("changelistId", filter.changelist_id.as_ref())
            .query("limit", filter.limit)
            .query("cursor", filter.cursor.as_ref());
        self.ask(call).await
    }

    /// A notification.
    pub async fn notification(&self, id: &str) -> Result<Notification> {
        self.ask(self.get(&["api", "v1", "notifications", id])).await
    }

    /// A notification's deliveries.
    pub async fn notification_deliveries(&self, id: &str) -> Result<Deliveries> {
        self.ask(self.get(&["api", "v1", "notifications", id, "deliveries"]))
            .await
    }

    /// A page of deliveries, newest first.
    pub async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Page<Delivery>> {
        let call = self
            .get(&["api", "v1", "deliveries"])
            .query("status", filter.status.as_ref())
            .query("channel", filter.channel.as_ref())
            .query("limit", filter.limit)
            .query("cursor", filter.cursor.as_ref());
        self.ask(call).await
    }

    /// Has the provider asked what it knows of a delivery.
    pub async fn delivery_reconcile(&self, id: &str) -> Result<Delivery> {
        self.ask(self.delivery_call(id, "reconcile")).await
    }

    /// Sends a delivery once more; the same nonce again sends nothing.
    pub async fn delivery_resend(&self, id: &str, resend: &DeliveryResend) -> Result<Delivery> {
        let call = self.post(&["api", "v1", "deliveries", id, "resend"], resend)?;
        self.ask(call.repeatable()).await
    }

    /// Gives a delivery up.
    pub async fn delivery_cancel(&self, id: &str) -> Result<Delivery> {
        self.ask(self.delivery_call(id, "cancel")).await
    }

    fn delivery_call(&self, id: &str, what: &str) -> Call {
        self.call(reqwest::Method::POST, &["api", "v1", "deliveries", id, what])
            .repeatable()
    }
}
