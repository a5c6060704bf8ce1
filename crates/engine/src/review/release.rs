//! Release: a reviewer gives reviews back; as a skip, not to be offered them again (rule V12).

use std::collections::BTreeSet;

use docket_core::id::{CollectionKey, ReviewId};
use docket_core::log::Action;
use docket_core::review::{ReviewState, check_reason};
use docket_core::scope::Reviewing;
use docket_core::{Refused, Timestamp};
use docket_store::table::record::record;
use docket_store::table::review;
use docket_store::{Result, Tx};
use serde_json::json;

use super::assign::hand_over;
use super::{Collections, check_ids, lock_visible, not_there};
use crate::engine::Engine;

/// What a reviewer gives back.
#[derive(Clone, Debug)]
pub struct ReviewRelease {
    /// The reviews.
    pub ids: Vec<ReviewId>,
    /// Whether they are not to be offered to the same reviewer again.
    pub skip: bool,
    /// Why.
    pub reason: Option<String>,
}

impl Engine {
    /// Puts reviews back that a reviewer holds.
    pub async fn review_release(&self, who: &Reviewing, release: ReviewRelease) -> Result<Vec<Refused<()>>> {
        check_ids("queueIds", &release.ids)?;
        release.reason.as_deref().map_or(Ok(()), check_reason)?;
        let params = (who.clone(), release, self.kernel.clock.now());
        let (results, pending) = self
            .kernel
            .store
            .run_hot("review_release", params, |tx, p| {
                Box::pin(release_all(tx, &p.0, &p.1, p.2))
            })
            .await?;
        self.kernel.hint_reviews(pending);
        Ok(results)
    }
}

async fn release_all(
    tx: &mut Tx,
    who: &Reviewing,
    release: &ReviewRelease,
    now: Timestamp,
) -> Result<(Vec<Refused<()>>, BTreeSet<CollectionKey>)> {
    let mut collections = Collections::default();
    let mut found = lock_visible(tx, who, &release.ids, &mut collections).await?;
    let (mut results, mut pending) = (Vec::with_capacity(release.ids.len()), BTreeSet::new());
    let (mut back, mut log, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    let reviewer = who.reviewer().as_str();
    for id in &release.ids {
        let Some(mut review) = found.remove(id) else {
            results.push(Err(not_there(id)));
            continue;
        };
        if let Err(lost) = review.hand.check_held(who.reviewer(), None, now) {
            results.push(Err(lost));
            continue;
        }
        review.hand.put_back();
        let action = match release.skip {
            true => Action::ReviewSkipped,
            false => Action::ReviewReleased,
        };
        if release.skip {
            review::skip(tx, review.id, reviewer).await?;
        }
        let owner = collections.of(tx, &review).await?;
        let details = json!({ "reason": release.reason });
        log.push(owner.entry(action, who.actor().as_str(), &review, details));
        moves.push(owner.moved(Some(ReviewState::InReview), ReviewState::Pending));
        pending.insert(review.collection());
        back.push(review);
        results.push(Ok(()));
    }
    review::put(tx, &back).await?;
    record(tx, &log, &moves, now).await?;
    for review in back {
        let owner = collections.of(tx, &review).await?;
        if owner.assigns() {
            hand_over(tx, owner, review, reviewer, false, now).await?;
        }
    }
    Ok((results, pending))
}
