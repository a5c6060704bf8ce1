//! Claim one: a reviewer takes a certain review, or keeps the one they have (rule V6).

use docket_core::id::ReviewId;
use docket_core::log::Action;
use docket_core::review::ReviewState;
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Timestamp};
use docket_store::table::record::record;
use docket_store::table::review;
use docket_store::{Result, Tx};
use serde_json::json;

use super::entry::{ReviewEntry, entries_of};
use super::{Collections, lock_visible, not_there};
use crate::engine::Engine;

impl Engine {
    /// Puts a review into a reviewer's hands. Their own is renewed; another's is refused, with who has it and until when. Where the lease
    /// has run out, whoever had it, this is a new hold.
    pub async fn review_claim(&self, who: &Reviewing, id: ReviewId) -> Result<ReviewEntry> {
        let params = (who.clone(), id, self.kernel.clock.now());
        let entry = self
            .kernel
            .store
            .run_hot("review_claim", params, |tx, p| {
                Box::pin(claim(tx, &p.0, p.1, p.2))
            })
            .await?;
        if let Some(until) = entry.review.hand.until {
            self.kernel.lease_ends(until);
        }
        Ok(entry)
    }
}

async fn claim(tx: &mut Tx, who: &Reviewing, id: ReviewId, now: Timestamp) -> Result<ReviewEntry> {
    let mut collections = Collections::default();
    let mut found = lock_visible(tx, who, &[id], &mut collections).await?;
    let mut review = found.remove(&id).ok_or_else(|| not_there(&id))?;
    let owner = collections.of(tx, &review).await?.clone();
    let (before, lease_ms) = (review.hand.state, owner.policy.lease_ms());
    if owner.collection.is_paused {
        let what = format!("collection '{}'", owner.collection.id);
        return Err(Refusal::Paused { what }.into());
    }
    if !owner.policy.admits(who.reviewer()) && !who.is_lead() {
        let problem = "you are not on the roster of this review's collection".to_owned();
        return Err(Refusal::Conflict { problem }.into());
    }
    if review.hand.check_held(who.reviewer(), None, now).is_ok() {
        review.hand.open(now, lease_ms);
    } else {
        if before == ReviewState::InReview {
            if let Some(lease_expires_at) = review.hand.until.filter(|until| *until > now) {
                let assigned_to = review.hand.assigned_to.clone().unwrap_or_default();
                return Err(Refusal::AlreadyClaimed {
                    assigned_to,
                    lease_expires_at,
                }
                .into());
            }
            review.hand.run_out(&owner.policy);
        }
        match review.hand.state {
            ReviewState::Pending => {}
            ReviewState::Failed if who.is_lead() => {}
            ReviewState::Failed => {
                let problem = "this review came back too often; a lead has to look at it".to_owned();
                return Err(Refusal::Conflict { problem }.into());
            }
            state => return Err(Refusal::AlreadyDecided { state }.into()),
        }
        review.hand.take(who.reviewer().as_str(), now, lease_ms, true);
    }
    let until = review.hand.until.map(Timestamp::ms);
    let details = json!({ "leaseToken": review.hand.token.0, "leaseExpiresAtMs": until });
    let log = owner.entry(Action::ReviewClaimed, who.actor().as_str(), &review, details);
    let moved = owner.moved(Some(before), ReviewState::InReview);
    review::put(tx, std::slice::from_ref(&review)).await?;
    record(tx, &[log], &[moved], now).await?;
    let mut entries = entries_of(tx, vec![review], &mut collections, now).await?;
    entries.pop().ok_or_else(|| not_there(&id).into())
}
