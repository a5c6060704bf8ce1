//! Looking at notifications and deliveries.

use docket_core::Refusal;
use docket_core::id::{DeliveryId, NotificationId};
use docket_core::notification::{DeliveryState, NotificationStatus, status_of_whole};
use docket_core::scope::Notifying;
use docket_store::table::delivery::Delivery;
use docket_store::table::delivery_attempt::{self, DeliveryAttempt};
use docket_store::table::delivery_find;
use docket_store::table::notification::{self, Notification};
use docket_store::{Result, Tx};

use crate::admin::listing::ListPage;
use crate::engine::Engine;

/// The most tries of a delivery that are told.
const ATTEMPTS_SHOWN: u64 = 100;

/// A notification with what has become of it.
#[derive(Clone, Debug)]
pub struct NotificationView {
    /// The notification.
    pub notification: Notification,
    /// Derived from its deliveries, while they are there.
    pub status: NotificationStatus,
}

/// A delivery with what was tried.
#[derive(Clone, Debug)]
pub struct DeliveryView {
    /// The delivery.
    pub delivery: Delivery,
    /// Its last tries, newest first.
    pub attempts: Vec<DeliveryAttempt>,
}

/// Which deliveries are wanted.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// In this state.
    pub state: Option<DeliveryState>,
    /// By this channel.
    pub channel: Option<String>,
}

/// The status of a whole notification.
pub(crate) fn status_of(deliveries: &[Delivery]) -> NotificationStatus {
    let required = deliveries.iter().filter(|delivery| delivery.required);
    status_of_whole(required.map(|delivery| {
        let course = &delivery.course;
        (course.state, course.is_told(), course.attempts > 0)
    }))
}

/// A notification with its status.
pub(crate) async fn viewed(tx: &mut Tx, notification: Notification) -> Result<NotificationView> {
    let deliveries = delivery_find::of_notification(tx, notification.id).await?;
    let notification = match deliveries.is_empty() {
        // They may have expired since it was read.
        true => notification::get(tx, notification.id)
            .await?
            .unwrap_or(notification),
        false => notification,
    };
    Ok(NotificationView {
        status: notification.expired_as.unwrap_or_else(|| status_of(&deliveries)),
        notification,
    })
}

async fn with_attempts(tx: &mut Tx, delivery: Delivery) -> Result<DeliveryView> {
    Ok(DeliveryView {
        attempts: delivery_attempt::of(tx, delivery.id, ATTEMPTS_SHOWN).await?,
        delivery,
    })
}

pub(crate) fn no_delivery(id: DeliveryId) -> Refusal {
    Refusal::not_found("delivery", &id)
}

impl Engine {
    /// A notification.
    pub async fn notification(&self, who: &Notifying, id: NotificationId) -> Result<NotificationView> {
        let store = &self.kernel.store;
        let params = (who.clone(), id);
        let read = store.read("notification", params, |tx, p| {
            Box::pin(async move { viewed_by(tx, &p.0, p.1).await })
        });
        read.await
    }

    /// A notification's deliveries, in the order in which its recipients were named.
    pub async fn notification_deliveries(
        &self,
        who: &Notifying,
        id: NotificationId,
    ) -> Result<Vec<DeliveryView>> {
        let params = (who.clone(), id);
        let read = self
            .kernel
            .store
            .read("notification_deliveries", params, |tx, p| {
                Box::pin(async move {
                    found(tx, &p.0, p.1).await?;
                    let mut views = Vec::new();
                    for delivery in delivery_find::of_notification(tx, p.1).await? {
                        views.push(with_attempts(tx, delivery).await?);
                    }
                    Ok(views)
                })
            });
        read.await
    }

    /// Notifications before this one, newest first.
    pub async fn notifications(
        &self,
        who: &Notifying,
        changelist_id: Option<String>,
        before: NotificationId,
        limit: u64,
    ) -> Result<ListPage<NotificationView, NotificationId>> {
        let params = (who.clone(), changelist_id, before, limit);
        let read = self.kernel.store.read("notifications", params, |tx, p| {
            Box::pin(async move {
                let (who, subject) = (p.0.sees(), p.1.as_deref());
                let mut views = Vec::new();
                for found in notification::list(tx, who, p.2, subject, p.3 + 1).await? {
                    views.push(viewed(tx, found).await?);
                }
                Ok(views)
            })
        });
        Ok(ListPage::of(read.await?, limit, |view| view.notification.id))
    }

    /// A delivery.
    pub async fn delivery(&self, who: &Notifying, id: DeliveryId) -> Result<DeliveryView> {
        let params = (who.clone(), id);
        let read = self.kernel.store.read("delivery", params, |tx, p| {
            Box::pin(async move {
                let found = delivery_find::get(tx, p.1).await?;
                let found = found.filter(|delivery| p.0.reaches(&delivery.owner));
                with_attempts(tx, found.ok_or_else(|| no_delivery(p.1))?).await
            })
        });
        read.await
    }

    /// Deliveries before this one, newest first.
    pub async fn deliveries(
        &self,
        who: &Notifying,
        filter: DeliveryFilter,
        before: DeliveryId,
        limit: u64,
    ) -> Result<ListPage<DeliveryView, DeliveryId>> {
        let params = (who.clone(), filter, before, limit);
        let read = self.kernel.store.read("deliveries", params, |tx, p| {
            Box::pin(async move {
                let (who, filter) = (p.0.sees(), &p.1);
                let channel = filter.channel.as_deref();
                let mut views = Vec::new();
                for found in delivery_find::list(tx, who, p.2, filter.state, channel, p.3 + 1).await? {
                    views.push(with_attempts(tx, found).await?);
                }
                Ok(views)
            })
        });
        Ok(ListPage::of(read.await?, limit, |view| view.delivery.id))
    }

    /// How many deliveries are in each state in which a provider or a person has to say, and how many are due and since when.
    pub async fn outbox_depth(&self) -> Result<OutboxDepth> {
        let now = self.kernel.clock.now();
        let read = self.kernel.store.read("outbox_depth", now, |tx, now| {
            Box::pin(async move {
                let (due, oldest_due) = delivery_find::waiting(tx, *now).await?;
                Ok(OutboxDepth {
                    unsure: delivery_find::unsure(tx).await?,
                    due,
                    oldest_due,
                })
            })
        });
        read.await
    }
}

/// How much waits in the outbox.
#[derive(Clone, Debug)]
pub struct OutboxDepth {
    /// Deliveries by the states in which a provider or a person has to say, up to a bound each.
    pub unsure: Vec<(DeliveryState, u64)>,
    /// Deliveries that are due now, up to a bound.
    pub due: u64,
    /// Since when the oldest of them is.
    pub oldest_due: Option<docket_core::Timestamp>,
}

async fn found(tx: &mut Tx, who: &Notifying, id: NotificationId) -> Result<Notification> {
    let found = notification::get(tx, id).await?;
    found
        .filter(|found| who.reaches(&found.owner))
        .ok_or_else(|| Refusal::not_found("notification", &id).into())
}

async fn viewed_by(tx: &mut Tx, who: &Notifying, id: NotificationId) -> Result<NotificationView> {
    let found = found(tx, who, id).await?;
    viewed(tx, found).await
}
