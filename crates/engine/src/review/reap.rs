//! Reap: reviews whose lease ran out go back, and on to somebody else where they are assigned (rule V13).

use std::collections::{BTreeMap, BTreeSet};

use docket_core::id::CollectionKey;
use docket_core::log::Action;
use docket_core::review::ReviewState;
use docket_core::{Refusal, Timestamp};
use docket_store::table::record::record;
use docket_store::table::review::{self, Review};
use docket_store::{Result, Tx};
use serde_json::json;

use super::assign::hand_over;
use super::{Collections, Reviewed};
use crate::engine::Engine;

/// How many reviews one transaction puts back.
const BATCH: u64 = 500;

/// What was reaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapedReviews {
    /// Reviews that went back to the others.
    pub requeued: u64,
    /// Reviews that came back too often, for a lead to look at.
    pub failed: u64,
}

impl Engine {
    /// Puts back all reviews whose lease has run out. With `older_than_ms`, also those whose holder gave no sign of life for that long.
    pub async fn review_reap(&self, older_than_ms: Option<i64>) -> Result<ReapedReviews> {
        if older_than_ms.is_some_and(|ms| ms < 0) {
            return Err(Refusal::invalid("olderThanSeconds", "must not be negative").into());
        }
        // Fixed at the beginning: whoever takes a review while this runs is not reaped by it.
        let silent_since = older_than_ms.map(|ms| self.kernel.clock.now().plus_ms(-ms));
        let (reaped, _) = self.review_reap_rounds(silent_since, usize::MAX).await?;
        Ok(reaped)
    }

    /// The same in so many transactions at the most; whether more is due. What becomes due meanwhile is left for the next time, so that
    /// this comes to an end.
    pub(crate) async fn review_reap_rounds(
        &self,
        silent_since: Option<Timestamp>,
        rounds: usize,
    ) -> Result<(ReapedReviews, bool)> {
        let due_by = self.kernel.clock.now();
        let mut total = ReapedReviews::default();
        for _ in 0..rounds {
            let params = (silent_since, due_by, self.kernel.clock.now());
            let (reaped, found, pending) = self
                .kernel
                .store
                .run_hot("review_reap", params, |tx, p| {
                    Box::pin(reap_batch(tx, p.0, p.1, p.2))
                })
                .await?;
            self.kernel.hint_reviews(pending);
            total.requeued += reaped.requeued;
            total.failed += reaped.failed;
            if found < BATCH {
                return Ok((total, false));
            }
        }
        Ok((total, true))
    }
}

async fn reap_batch(
    tx: &mut Tx,
    silent_since: Option<Timestamp>,
    due_by: Timestamp,
    now: Timestamp,
) -> Result<(ReapedReviews, u64, BTreeSet<CollectionKey>)> {
    let mut stale = review::due(tx, due_by, BATCH).await?;
    if let Some(moment) = silent_since {
        let known: BTreeSet<_> = stale.iter().map(|review| review.id).collect();
        let silent = review::silent_since(tx, moment, BATCH).await?;
        stale.extend(silent.into_iter().filter(|review| !known.contains(&review.id)));
    }
    let found = stale.len() as u64;
    let mut by_collection: BTreeMap<CollectionKey, Vec<Review>> = BTreeMap::new();
    for review in stale {
        by_collection.entry(review.collection()).or_default().push(review);
    }
    let (mut total, mut pending) = (ReapedReviews::default(), BTreeSet::new());
    let mut collections = Collections::default();
    for (key, stale) in by_collection {
        let Some(owner) = collections.get(tx, key).await? else {
            continue;
        };
        let reaped = put_back(tx, owner, stale, "docket", now).await?;
        total.requeued += reaped.requeued;
        total.failed += reaped.failed;
        pending.insert(key);
    }
    Ok((total, found, pending))
}

/// Takes reviews, which the caller has locked, out of the hands of those who let their leases run out.
pub(super) async fn put_back(
    tx: &mut Tx,
    owner: &Reviewed,
    mut stale: Vec<Review>,
    actor: &str,
    now: Timestamp,
) -> Result<ReapedReviews> {
    // Where they are assigned, the most urgent finds somebody first.
    stale.sort_by_key(|review| review.place(owner.policy.strategy));
    let (mut log, mut moves, mut reaped) = (Vec::new(), Vec::new(), ReapedReviews::default());
    let mut holders = Vec::with_capacity(stale.len());
    for review in &mut stale {
        let holder = review.hand.assigned_to.clone();
        review.hand.run_out(&owner.policy);
        let state = review.hand.state;
        match state {
            ReviewState::Failed => reaped.failed += 1,
            _ => reaped.requeued += 1,
        }
        let details =
            json!({ "from": holder, "retryCount": review.hand.retry_count, "status": state.as_str() });
        log.push(owner.entry(Action::ReviewReaped, actor, review, details));
        moves.push(owner.moved(Some(ReviewState::InReview), state));
        holders.push(holder);
    }
    review::put(tx, &stale).await?;
    record(tx, &log, &moves, now).await?;
    if owner.assigns() {
        for (review, holder) in stale.into_iter().zip(holders) {
            // What was in hands was in somebody's.
            if review.hand.state == ReviewState::Pending
                && let Some(holder) = holder
            {
                hand_over(tx, owner, review, &holder, false, now).await?;
            }
        }
    }
    Ok(reaped)
}
