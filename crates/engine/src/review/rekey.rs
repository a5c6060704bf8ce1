//! Re-keying: when a collection's weights or SLA change, its open reviews get their new order in the background, piece by piece.

use std::time::Duration;

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::priority::Rule;
use docket_core::review::ReviewPolicy;
use docket_store::table::collection;
use docket_store::table::log::{self, NewEntry};
use docket_store::table::review::Review;
use docket_store::table::review_order::{self, Rekey};
use docket_store::{Result, Tx};
use serde_json::json;

use super::Reviewed;
use crate::engine::Engine;

/// How many reviews one transaction re-keys.
const BATCH: u64 = 1_000;
/// All are looked at twice: a review may have begun by the old policy in a transaction that was open when it changed.
const PASSES: i64 = 2;
/// The second look comes when no such transaction can be open any more.
const SECOND_LOOK_MS: i64 = 60_000;

/// Whether reviews have to be ordered anew when one policy takes another's place.
pub(crate) fn changes_order(before: &ReviewPolicy, after: &ReviewPolicy) -> bool {
    before.rule() != after.rule()
}

/// Notes that a collection's reviews have to be ordered anew.
pub(crate) async fn begin(tx: &mut Tx, owner: &Reviewed, now: Timestamp) -> Result<()> {
    let (key, policy) = (owner.collection.key, owner.collection.review_policy);
    review_order::begin(tx, key, policy, PASSES, now).await
}

impl Engine {
    /// Re-keys a bounded piece; when there is more to do.
    pub async fn rekey_run_once(&self) -> Result<Option<Duration>> {
        let now = self.kernel.clock.now();
        let again = self
            .kernel
            .store
            .run("review_rekey", now, |tx, now| Box::pin(rekey(tx, *now)))
            .await?;
        let wait = again.map(|due| u64::try_from(due.since(self.kernel.clock.now())).unwrap_or(0));
        Ok(wait.map(Duration::from_millis))
    }
}

async fn rekey(tx: &mut Tx, now: Timestamp) -> Result<Option<Timestamp>> {
    let Some(mut rekey) = review_order::due(tx, now).await? else {
        return review_order::next_due(tx).await;
    };
    let Some(found) = collection::by_key(tx, rekey.collection).await? else {
        review_order::end(tx, rekey.collection).await?;
        return Ok(Some(now));
    };
    let owner = Reviewed::of(found)?;
    let rule = owner.policy.rule();
    let mut stale = review_order::stale(tx, &rekey, BATCH).await?;
    stale.iter_mut().for_each(|review| order_anew(review, rule));
    review_order::set_keys(tx, rekey.collection, rekey.policy, &stale).await?;
    rekey.rekeyed += stale.len() as u64;
    rekey.after = stale.last().map(|review| review.id).or(rekey.after);
    let is_pass_over = (stale.len() as u64) < BATCH;
    if !is_pass_over {
        tell(tx, &owner, &rekey, false, now).await?;
        review_order::advance(tx, &rekey, now).await?;
        return Ok(Some(now));
    }
    rekey.passes_left -= 1;
    rekey.after = None;
    if rekey.passes_left > 0 {
        tell(tx, &owner, &rekey, true, now).await?;
        review_order::advance(tx, &rekey, now.plus_ms(SECOND_LOOK_MS)).await?;
    } else {
        review_order::end(tx, rekey.collection).await?;
    }
    review_order::next_due(tx).await
}

fn order_anew(review: &mut Review, rule: Rule) {
    if !review.deadline_given {
        review.inputs.deadline = review.created_at.plus_ms(rule.sla_ms);
    }
    review.order_key = rule.order_key(&review.inputs);
}

/// Orders one review by the present policy: one that was decided while the others were ordered anew, and is open again.
pub(crate) async fn rekey_one(tx: &mut Tx, owner: &Reviewed, review: &mut Review) -> Result<()> {
    order_anew(review, owner.policy.rule());
    let (key, policy) = (owner.collection.key, owner.collection.review_policy);
    review_order::set_keys(tx, key, policy, std::slice::from_ref(review)).await
}

async fn tell(tx: &mut Tx, owner: &Reviewed, rekey: &Rekey, is_done: bool, now: Timestamp) -> Result<()> {
    let details = json!({ "collection": owner.collection.id, "rekeyed": rekey.rekeyed, "done": is_done });
    let mut entry = NewEntry::new(Action::ReviewsRekeyed, "docket").with(&details);
    entry.tenant_id = Some(owner.collection.tenant_id.clone());
    log::append(tx, &entry, now).await
}
