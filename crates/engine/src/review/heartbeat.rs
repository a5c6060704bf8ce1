//! Heartbeat: reviewers who still look at their reviews keep them.

use docket_core::id::ReviewId;
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::review;
use docket_store::{Result, Tx};

use super::{Collections, check_ids, lock_visible, not_there};
use crate::engine::Engine;

impl Engine {
    /// Extends the leases of reviews in a reviewer's hands; until when, or why not.
    pub async fn review_heartbeat(
        &self,
        who: &Reviewing,
        ids: Vec<ReviewId>,
    ) -> Result<Vec<Refused<Timestamp>>> {
        check_ids("queueIds", &ids)?;
        let params = (who.clone(), ids, self.kernel.clock.now());
        self.kernel
            .store
            .run_hot("review_heartbeat", params, |tx, p| {
                Box::pin(heartbeat(tx, &p.0, &p.1, p.2))
            })
            .await
    }
}

async fn heartbeat(
    tx: &mut Tx,
    who: &Reviewing,
    ids: &[ReviewId],
    now: Timestamp,
) -> Result<Vec<Refused<Timestamp>>> {
    let mut collections = Collections::default();
    let mut found = lock_visible(tx, who, ids, &mut collections).await?;
    let (mut results, mut renewed) = (Vec::with_capacity(ids.len()), Vec::new());
    for id in ids {
        let Some(mut review) = found.remove(id) else {
            results.push(Err(not_there(id)));
            continue;
        };
        if let Err(lost) = review.hand.check_held(who.reviewer(), None, now) {
            results.push(Err(lost));
            continue;
        }
        let owner = collections.of(tx, &review).await?;
        review.hand.open(now, owner.policy.lease_ms());
        results.push(review.hand.until.ok_or(Refusal::LeaseLost));
        renewed.push(review);
    }
    review::put(tx, &renewed).await?;
    Ok(results)
}
