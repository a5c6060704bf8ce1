//! Reassign: a lead puts reviews into other hands (rules V7 and V14).

use std::collections::BTreeSet;

use docket_core::id::{CollectionKey, ReviewId};
use docket_core::log::Action;
use docket_core::name::{ReviewerId, TenantId};
use docket_core::review::{ReviewState, check_reason};
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Timestamp};
use docket_store::table::record::record;
use docket_store::table::review::{self, Review};
use docket_store::table::reviewer;
use docket_store::{Result, Tx};
use serde_json::json;

use super::assign::hand_over;
use super::entry::{ReviewEntry, entries_of};
use super::{Collections, lock_visible, not_there};
use crate::engine::Engine;

/// How many reviews of one reviewer one transaction hands on.
const BATCH: u64 = 500;

/// A lead's word on whose a review is.
#[derive(Clone, Debug)]
pub struct Reassign {
    /// The review.
    pub id: ReviewId,
    /// Who is to have it.
    pub to: ReviewerId,
    /// Why.
    pub reason: Option<String>,
}

impl Engine {
    /// Puts a held, pending or failed review into somebody's hands; the token of who held it is dead from then on.
    pub async fn review_reassign(&self, who: &Reviewing, reassign: Reassign) -> Result<ReviewEntry> {
        reassign.reason.as_deref().map_or(Ok(()), check_reason)?;
        let params = (who.clone(), reassign, self.kernel.clock.now());
        let entry = self
            .kernel
            .store
            .run_hot("review_reassign", params, |tx, p| {
                Box::pin(reassign_one(tx, &p.0, &p.1, p.2))
            })
            .await?;
        if let Some(until) = entry.review.hand.until {
            self.kernel.lease_ends(until);
        }
        Ok(entry)
    }

    /// Takes what a reviewer holds, who is not there any more, out of their hands: to somebody else where the collection assigns, or
    /// back to the others. Only what the asker may see. Returns how many.
    pub async fn review_hand_on(&self, who: &Reviewing, from: &ReviewerId) -> Result<u64> {
        let mut all = 0;
        loop {
            let params = (who.clone(), from.clone(), self.kernel.clock.now());
            let (handed, pending) = self
                .kernel
                .store
                .run_hot("review_hand_on", params, |tx, p| {
                    Box::pin(hand_on(tx, &p.0, &p.1, p.2))
                })
                .await?;
            self.kernel.hint_reviews(pending);
            all += handed;
            if handed < BATCH {
                return Ok(all);
            }
        }
    }
}

async fn reassign_one(tx: &mut Tx, who: &Reviewing, p: &Reassign, now: Timestamp) -> Result<ReviewEntry> {
    let mut collections = Collections::default();
    let mut found = lock_visible(tx, who, &[p.id], &mut collections).await?;
    let mut review = found.remove(&p.id).ok_or_else(|| not_there(&p.id))?;
    let owner = collections.of(tx, &review).await?.clone();
    if !owner.policy.admits(&p.to) {
        let problem = format!(
            "'{}' is not on the roster of collection '{}'",
            p.to, owner.collection.id
        );
        return Err(Refusal::invalid("to", problem).into());
    }
    let (before, holder) = (review.hand.state, review.hand.assigned_to.clone());
    if !before.is_open() {
        return Err(Refusal::AlreadyDecided { state: before }.into());
    }
    review
        .hand
        .take(p.to.as_str(), now, owner.policy.lease_ms(), false);
    let details = json!({ "reason": p.reason, "leaseToken": review.hand.token.0 });
    let mut log = owner.entry(Action::ReviewReassigned, who.actor().as_str(), &review, details);
    log.old = holder.map(|holder| json!(holder).to_string());
    log.new = Some(json!(p.to).to_string());
    let moved = owner.moved(Some(before), ReviewState::InReview);
    review::put(tx, std::slice::from_ref(&review)).await?;
    record(tx, &[log], &[moved], now).await?;
    let mut entries = entries_of(tx, vec![review], &mut collections, now).await?;
    entries.pop().ok_or_else(|| not_there(&p.id).into())
}

async fn hand_on(
    tx: &mut Tx,
    who: &Reviewing,
    from: &ReviewerId,
    now: Timestamp,
) -> Result<(u64, BTreeSet<CollectionKey>)> {
    let mut collections = Collections::default();
    let (mut back, mut log, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    let mut pending = BTreeSet::new();
    let tenant_id = who.tenant().map(TenantId::as_str);
    for mut review in review::held_by(tx, from.as_str(), tenant_id, BATCH).await? {
        let owner = collections.of(tx, &review).await?;
        let place = (review.collection(), review.place(owner.policy.strategy));
        review.hand.put_back();
        let details = json!({ "reason": format!("{from} is not available") });
        log.push(owner.entry(Action::ReviewReleased, who.actor().as_str(), &review, details));
        moves.push(owner.moved(Some(ReviewState::InReview), ReviewState::Pending));
        pending.insert(review.collection());
        back.push((place, review));
    }
    // Where they are assigned, the most urgent finds somebody first.
    back.sort_by_key(|(place, _)| *place);
    let back: Vec<Review> = back.into_iter().map(|(_, review)| review).collect();
    review::put(tx, &back).await?;
    record(tx, &log, &moves, now).await?;
    let handed = back.len() as u64;
    // What nobody else can take waits; for them as well, when they are there again.
    let is_there = reviewer::get(tx, from.as_str())
        .await?
        .is_none_or(|from| from.available);
    for review in back {
        let owner = collections.of(tx, &review).await?;
        if owner.assigns() {
            hand_over(tx, owner, review, from.as_str(), !is_there, now).await?;
        }
    }
    Ok((handed, pending))
}
