//! Expire: forgets the words and the deliveries of notifications that came to their end long ago. What is left of each, a row without any
//! of its words, answers for its key and its version as before (rules N1 and N3); the log stays.
//!
//! **Invariant:** nothing is forgotten of which a delivery waits for its time, for a provider or for a person.

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::notification::end_of_whole;
use docket_store::table::log::NewEntry;
use docket_store::table::record::record;
use docket_store::table::retention::{self, KeptNotification};
use docket_store::table::{delivery::Delivery, delivery_find};
use docket_store::{Result, Tx};
use serde_json::json;

use super::take::DISPATCHER;
use super::tenant_of;
use super::view::status_of;

/// What one transaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Notifications that were forgotten.
    pub(crate) notifications: u64,
    /// Deliveries that were looked at for it.
    pub(crate) looked_at: u64,
}

/// Forgets what came to its end no later than `until`, of so many notifications at most, and no further one once so many deliveries were
/// looked at.
pub(crate) async fn expire(tx: &mut Tx, until: Timestamp, limit: u64, now: Timestamp) -> Result<Expired> {
    let mut kept = retention::kept_notifications(tx, until, limit).await?;
    // In the order in which deliveries are locked elsewhere.
    kept.sort_by_key(|kept| kept.id);
    let (mut expired, mut log) = (Expired::default(), Vec::new());
    for kept in &kept {
        if expired.looked_at >= limit {
            break;
        }
        let deliveries = delivery_find::lock_of_notification(tx, kept.id).await?;
        expired.looked_at += deliveries.len() as u64;
        match end_of_whole(deliveries.iter().map(|delivery| &delivery.course)) {
            Some(end) if end <= until => {
                log.push(expired_entry(kept, &deliveries));
                retention::expire_notification(tx, kept.id, status_of(&deliveries)).await?;
                expired.notifications += 1;
            }
            // It is looked at again when its time is over, or, while it has not ended, when it would be if it ended now.
            end => retention::keep_notification(tx, kept.id, end.unwrap_or(now)).await?,
        }
    }
    record(tx, &log, &[], now).await?;
    Ok(expired)
}

fn expired_entry(kept: &KeptNotification, deliveries: &[Delivery]) -> NewEntry {
    let details = json!({
        "notificationId": kept.id, "changelistId": kept.changelist_id, "reviewVersion": kept.review_version,
        "status": status_of(deliveries).as_str(), "recipients": deliveries.len(),
    });
    let mut entry = NewEntry::new(Action::NotificationExpired, DISPATCHER).with(&details);
    (entry.tenant_id, entry.item) = (tenant_of(&kept.owner), kept.item);
    entry
}
