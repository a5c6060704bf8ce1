//! Withdraw: what follows from a decision goes with it when the decision is taken back (rule V17). Nothing of it was tried yet, so nothing is
//! left behind but the log.

use docket_core::id::ItemId;
use docket_core::log::Action;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::{delivery, delivery_find, log, notification};
use docket_store::{Result, Tx};
use serde_json::json;

use super::tenant_of;

/// Takes back the notification that a decision on this version of an item made, within the transaction that undoes the decision. Refused where
/// a message is on its way.
pub(crate) async fn cancel_in(
    tx: &mut Tx,
    owner: &str,
    item: ItemId,
    version: i64,
    actor: &str,
    now: Timestamp,
) -> Result<()> {
    let subject = item.to_string();
    // The subject first, as those do who make notifications.
    notification::highest(tx, owner, &subject).await?;
    let found = notification::of_version(tx, owner, &subject, version).await?;
    let Some(found) = found.filter(|found| found.item == Some(item)) else {
        return Ok(());
    };
    let deliveries = delivery_find::lock_of_notification(tx, found.id).await?;
    let was_tried = deliveries.iter().any(|delivery| delivery.course.attempts > 0);
    if was_tried || found.expired_as.is_some() {
        let problem = "people are being told of this decision already; it stands".to_owned();
        return Err(Refusal::Conflict { problem }.into());
    }
    for delivery in &deliveries {
        delivery::delete(tx, delivery.id).await?;
    }
    notification::withdraw(tx, &found).await?;
    let details =
        json!({ "notificationId": found.id, "reviewVersion": version, "recipients": deliveries.len() });
    let mut entry = NewEntry::new(Action::NotificationWithdrawn, actor).with(&details);
    (entry.tenant_id, entry.item) = (tenant_of(owner), Some(item));
    log::append(tx, &entry, now).await
}
