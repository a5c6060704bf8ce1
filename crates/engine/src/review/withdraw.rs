//! Withdraw: a review that is not needed any more, because its item is processed anew, replaced or taken back.

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_store::table::item::Item;
use docket_store::table::record::record;
use docket_store::table::review;
use docket_store::{Result, Tx};
use serde_json::json;

use super::Collections;

/// Cancels the review of an item's present version if it is open; whoever holds it has lost it. The caller has locked the item, and
/// counts the item itself. Whether there was one.
pub(crate) async fn withdraw(
    tx: &mut Tx,
    item: &Item,
    actor: &str,
    why: &str,
    now: Timestamp,
) -> Result<bool> {
    let Some(mut review) = review::lock_of_item(tx, item.id, item.version).await? else {
        return Ok(false);
    };
    let before = review.hand.state;
    if !before.is_open() {
        return Ok(false);
    }
    let mut collections = Collections::default();
    let owner = collections.of(tx, &review).await?;
    let holder = review.hand.assigned_to.clone();
    review.hand.cancel();
    let details = json!({ "reason": why, "from": holder });
    let log = owner.entry(Action::ReviewCancelled, actor, &review, details);
    let moved = owner.moved(Some(before), review.hand.state);
    review::put(tx, &[review]).await?;
    record(tx, &[log], &[moved], now).await?;
    Ok(true)
}
