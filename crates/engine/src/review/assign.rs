//! Assignment (rule V14): a review goes to the available reviewer with the fewest in hand, ties in turn. Exact under concurrency: who
//! assigns among some reviewers has locked them.

use std::collections::{BTreeMap, HashSet};

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::review::ReviewState;
use docket_store::table::record::record;
use docket_store::table::review::{self, Review};
use docket_store::table::reviewer::{self, Reviewer};
use docket_store::{Result, Tx};
use serde_json::json;

use super::Reviewed;

/// Somebody who may get a review.
struct Candidate {
    reviewer: Reviewer,
    in_hand: u64,
    has_changed: bool,
}

impl Candidate {
    fn has_room(&self) -> bool {
        self.reviewer
            .capacity
            .is_none_or(|capacity| self.in_hand < capacity)
    }
}

/// Gives pending reviews, which the caller has locked, to reviewers, but not to `except` and not to those who have passed them over.
/// Returns how many found somebody.
pub(crate) async fn assign(
    tx: &mut Tx,
    owner: &Reviewed,
    mut reviews: Vec<Review>,
    except: Option<&str>,
    now: Timestamp,
) -> Result<usize> {
    let mut candidates = candidates(tx, owner, now).await?;
    if candidates.is_empty() {
        return Ok(0);
    }
    reviews.sort_by_key(|review| review.place(owner.policy.strategy));
    let mut turn = candidates
        .iter()
        .map(|candidate| candidate.reviewer.turn)
        .max()
        .unwrap_or(0);
    let (mut taken, mut log, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    for mut review in reviews {
        let passed: HashSet<String> = match review.hand.token.0 {
            0 => HashSet::new(),
            _ => review::skipped_by(tx, review.id).await?.into_iter().collect(),
        };
        let next = candidates
            .iter_mut()
            .filter(|candidate| candidate.has_room())
            .filter(|candidate| Some(candidate.reviewer.id.as_str()) != except)
            .filter(|candidate| !passed.contains(&candidate.reviewer.id))
            .min_by_key(|candidate| (candidate.in_hand, candidate.reviewer.turn));
        let Some(next) = next else { continue };
        turn += 1;
        next.reviewer.turn = turn;
        next.in_hand += 1;
        next.has_changed = true;
        let to = next.reviewer.id.clone();
        review.hand.take(&to, now, owner.policy.lease_ms(), false);
        log.push(owner.entry(Action::ReviewAssigned, "docket", &review, json!({ "to": to })));
        moves.push(owner.moved(Some(ReviewState::Pending), ReviewState::InReview));
        taken.push(review);
    }
    for candidate in candidates.iter().filter(|candidate| candidate.has_changed) {
        reviewer::set_turn(tx, &candidate.reviewer.id, candidate.reviewer.turn).await?;
    }
    review::put(tx, &taken).await?;
    record(tx, &log, &moves, now).await?;
    Ok(taken.len())
}

/// Those who may get reviews of the collection, locked, with what they hold.
async fn candidates(tx: &mut Tx, owner: &Reviewed, now: Timestamp) -> Result<Vec<Candidate>> {
    let tenant_id = owner.collection.tenant_id.as_str();
    let locked = match &owner.policy.roster {
        Some(roster) => {
            let roster: Vec<String> = roster.iter().map(ToString::to_string).collect();
            let locked = reviewer::lock_roster(tx, &roster).await?;
            if locked.len() == roster.len() {
                locked
            } else {
                reviewer::seed(tx, &roster, now).await?;
                reviewer::lock_roster(tx, &roster).await?
            }
        }
        None => reviewer::lock_of_tenant(tx, tenant_id).await?,
    };
    let own = |reviewer: &Reviewer| {
        reviewer
            .tenant_id
            .as_deref()
            .is_none_or(|tenant| tenant == tenant_id)
    };
    let there: Vec<Reviewer> = locked
        .into_iter()
        .filter(|reviewer| reviewer.available && own(reviewer))
        .collect();
    let ids: Vec<String> = there.iter().map(|reviewer| reviewer.id.clone()).collect();
    let in_hand: BTreeMap<String, u64> = reviewer::in_hand_of(tx, &ids).await?.into_iter().collect();
    Ok(there
        .into_iter()
        .map(|reviewer| Candidate {
            in_hand: in_hand.get(&reviewer.id).copied().unwrap_or(0),
            reviewer,
            has_changed: false,
        })
        .collect())
}
