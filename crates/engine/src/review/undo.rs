//! Undo: a reviewer takes the own decision back, for a short while (rule V17). Fields, locks and status are as before, in the same
//! hands, and the log keeps both.

use docket_core::id::ReviewId;
use docket_core::item::ItemStatus;
use docket_core::log::Action;
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::counter::Counted;
use docket_store::table::record::{Move, record};
use docket_store::table::review::{self, Review};
use docket_store::table::{item, job};
use docket_store::{Error, Result, Tx};
use serde_json::json;

use super::decision::Recorded;
use super::rekey::rekey_one;
use super::{Collections, Reviewed, check_ids, lock_visible, not_there};
use crate::engine::Engine;
use crate::notification::withdraw::cancel_in;

/// A review that is back in its reviewer's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Undone {
    pub id: ReviewId,
    pub token: docket_core::lease::LeaseToken,
    pub lease_expires_at: Option<Timestamp>,
}

impl Engine {
    /// Takes decisions back, each by itself.
    pub async fn review_undo(&self, who: &Reviewing, ids: Vec<ReviewId>) -> Result<Vec<Refused<Undone>>> {
        check_ids("queueIds", &ids)?;
        let params = (who.clone(), ids, self.kernel.clock.now());
        let results = self
            .kernel
            .store
            .run_hot("review_undo", params, |tx, p| {
                Box::pin(undo_all(tx, &p.0, &p.1, p.2))
            })
            .await?;
        for undone in results.iter().flatten() {
            if let Some(until) = undone.lease_expires_at {
                self.kernel.lease_ends(until);
            }
        }
        Ok(results)
    }
}

async fn undo_all(
    tx: &mut Tx,
    who: &Reviewing,
    ids: &[ReviewId],
    now: Timestamp,
) -> Result<Vec<Refused<Undone>>> {
    let mut collections = Collections::default();
    let mut found = lock_visible(tx, who, ids, &mut collections).await?;
    let mut results = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(review) = found.remove(id) else {
            results.push(Err(not_there(id)));
            continue;
        };
        let owner = collections.of(tx, &review).await?;
        match undo(tx, who, owner, review, now).await {
            Ok(undone) => results.push(Ok(undone)),
            Err(Error::Refused(refusal)) => results.push(Err(refusal)),
            Err(error) => return Err(error),
        }
    }
    Ok(results)
}

async fn undo(
    tx: &mut Tx,
    who: &Reviewing,
    owner: &Reviewed,
    mut review: Review,
    now: Timestamp,
) -> Result<Undone> {
    check_undo(who, owner, &review, now)?;
    let decided = review.hand.state;
    let status = ItemStatus::reviewed(true, Some(decided));
    let found = item::get(tx, review.item)
        .await?
        .ok_or_else(|| not_there(&review.id))?;
    if found.version != review.item_version
        || found.status != status
        || processed_since(tx, &found, &review).await?
    {
        let problem = "the item was processed again or replaced since; the decision stands".to_owned();
        return Err(Refusal::Conflict { problem }.into());
    }
    let actor = who.actor().as_str();
    // Before anything is written: this may be refused.
    let tenant_id = &owner.collection.tenant_id;
    cancel_in(tx, tenant_id, review.item, review.item_version, actor, now).await?;
    let mut log = Vec::new();
    for change in Recorded::of(&review).unwrap_or_default().corrections.iter().rev() {
        log.push(change.take_back(tx, owner, &review, actor).await?);
    }
    review.hand.undo(now, owner.policy.lease_ms());
    review.decision = None;
    rekey_one(tx, owner, &mut review).await?;
    let details = json!({ "outcome": decided.as_str(), "leaseToken": review.hand.token.0 });
    log.push(owner.entry(Action::ReviewUndone, actor, &review, details));
    let moves = [
        owner.moved(Some(decided), review.hand.state),
        Move {
            collection: owner.collection.key,
            from: Some(Counted::Item(status)),
            to: Some(Counted::Item(ItemStatus::InReview)),
        },
    ];
    review::put(tx, std::slice::from_ref(&review)).await?;
    record(tx, &log, &moves, now).await?;
    Ok(Undone {
        id: review.id,
        token: review.hand.token,
        lease_expires_at: review.hand.until,
    })
}

/// Whether a run has ended since the decision.
async fn processed_since(tx: &mut Tx, item: &item::Item, review: &Review) -> Result<bool> {
    let Some((lane, seq)) = item.job else {
        return Ok(false);
    };
    let finished_at = job::get(tx, lane, seq).await?.and_then(|job| job.finished_at);
    Ok(finished_at > review.hand.decided_at)
}

fn check_undo(who: &Reviewing, owner: &Reviewed, review: &Review, now: Timestamp) -> Refused<()> {
    let conflict = |problem: String| Err(Refusal::Conflict { problem });
    let Some(decided_at) = review.hand.decided_at.filter(|_| review.hand.state.is_decided()) else {
        return conflict(format!(
            "this review is {}; there is no decision to take back",
            review.hand.state
        ));
    };
    if review.hand.decided_by.as_deref() != Some(who.reviewer().as_str()) {
        return conflict("only who decided can take the decision back".to_owned());
    }
    if now.since(decided_at) > owner.policy.undo_ms() {
        let seconds = owner.policy.undo_seconds;
        return conflict(format!(
            "a decision can be taken back for {seconds} seconds; that is over"
        ));
    }
    Ok(())
}
