//! Assignment (rule V14): a review goes to the available reviewer with the fewest in hand, ties in turn. Exact under concurrency: who
//! assigns among some reviewers has locked them. What finds nobody waits, and is looked at again by the
//! [assigner](crate::background).

use std::collections::{BTreeMap, HashSet};

use docket_core::Timestamp;
use docket_core::id::ReviewId;
use docket_core::log::Action;
use docket_core::review::ReviewState;
use docket_store::table::record::record;
use docket_store::table::review::{self, Review};
use docket_store::table::review_unassigned;
use docket_store::table::reviewer::{self, Reviewer};
use docket_store::{Result, Tx};
use serde_json::json;

use super::Reviewed;

/// How long what found nobody waits until it is looked whether somebody is free.
pub(crate) const LOOK_AFTER_MS: i64 = 1_000;

/// Who is not to get a review, besides those who have passed it over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Except<'a> {
    /// It is new.
    Nobody,
    /// They just had it.
    Reviewer(&'a str),
    /// It waits, and whoever gave it back does not want it.
    WhoGaveItBack,
}

/// Gives new reviews, which the caller has locked, to reviewers; whether all of them found somebody.
pub(crate) async fn assign_new(
    tx: &mut Tx,
    owner: &Reviewed,
    reviews: Vec<Review>,
    now: Timestamp,
) -> Result<bool> {
    let left = assign(tx, owner, reviews, Except::Nobody, now).await?;
    Ok(left.is_empty())
}

/// Gives a review, which the caller has locked and put back, to another than who had it. Where there is nobody it waits; whether it may
/// then come back to them, the caller knows.
pub(crate) async fn hand_over(
    tx: &mut Tx,
    owner: &Reviewed,
    review: Review,
    from: &str,
    may_return: bool,
    now: Timestamp,
) -> Result<()> {
    let left = assign(tx, owner, vec![review], Except::Reviewer(from), now).await?;
    for id in left {
        review_unassigned::set_given_back_by(tx, id, (!may_return).then_some(from)).await?;
    }
    Ok(())
}

/// Gives reviews to reviewers, and notes that some wait where they did not all find somebody. Returns those.
async fn assign(
    tx: &mut Tx,
    owner: &Reviewed,
    reviews: Vec<Review>,
    except: Except<'_>,
    now: Timestamp,
) -> Result<Vec<ReviewId>> {
    let mut team = Team::lock(tx, owner, now).await?;
    let left = team.give(tx, owner, reviews, except, now).await?;
    if !left.is_empty() {
        let (key, tenant_id) = (owner.collection.key, &owner.collection.tenant_id);
        review_unassigned::mark(tx, key, tenant_id, now.plus_ms(LOOK_AFTER_MS)).await?;
    }
    Ok(left)
}

/// Somebody who may get a review.
struct Candidate {
    reviewer: Reviewer,
    in_hand: u64,
    has_changed: bool,
}

impl Candidate {
    /// How many more they may hold.
    fn room(&self) -> u64 {
        self.reviewer
            .capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(self.in_hand))
    }
}

/// Those who may get reviews of a collection, locked, with what they hold.
pub(crate) struct Team(Vec<Candidate>);

impl Team {
    /// Locks those who are there.
    pub(crate) async fn lock(tx: &mut Tx, owner: &Reviewed, now: Timestamp) -> Result<Self> {
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
        let candidates = there.into_iter().map(|reviewer| Candidate {
            in_hand: in_hand.get(&reviewer.id).copied().unwrap_or(0),
            reviewer,
            has_changed: false,
        });
        Ok(Self(candidates.collect()))
    }

    /// Whether nobody is there.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives those without a capacity this one, for as long as the team is locked.
    pub(crate) fn bound(&mut self, most: u64) {
        for candidate in &mut self.0 {
            candidate.reviewer.capacity.get_or_insert(most);
        }
    }

    /// How many reviews they may be given together.
    pub(crate) fn room(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |room, candidate| room.saturating_add(candidate.room()))
    }

    /// Those who may be given one.
    pub(crate) fn free(&self) -> Vec<String> {
        let free = self.0.iter().filter(|candidate| candidate.room() > 0);
        free.map(|candidate| candidate.reviewer.id.clone()).collect()
    }

    /// Gives pending reviews, which the caller has locked, the most urgent first. Returns those that found nobody.
    pub(crate) async fn give(
        &mut self,
        tx: &mut Tx,
        owner: &Reviewed,
        mut reviews: Vec<Review>,
        except: Except<'_>,
        now: Timestamp,
    ) -> Result<Vec<ReviewId>> {
        reviews.sort_by_key(|review| review.place(owner.policy.strategy));
        let (mut left, mut taken, mut log, mut moves) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for mut review in reviews {
            let unwilling = match self.0.is_empty() {
                true => HashSet::new(),
                false => unwilling(tx, &review, except).await?,
            };
            let Some(to) = self.next(&unwilling) else {
                left.push(review.id);
                continue;
            };
            review.hand.take(&to, now, owner.policy.lease_ms(), false);
            log.push(owner.entry(Action::ReviewAssigned, "docket", &review, json!({ "to": to })));
            moves.push(owner.moved(Some(ReviewState::Pending), ReviewState::InReview));
            taken.push(review);
        }
        for candidate in self.0.iter_mut().filter(|candidate| candidate.has_changed) {
            reviewer::set_turn(tx, &candidate.reviewer.id, candidate.reviewer.turn).await?;
            candidate.has_changed = false;
        }
        review::put(tx, &taken).await?;
        record(tx, &log, &moves, now).await?;
        Ok(left)
    }

    /// Whose turn it is, who has one more in hand from then on.
    fn next(&mut self, unwilling: &HashSet<String>) -> Option<String> {
        let latest = self.0.iter().map(|candidate| candidate.reviewer.turn).max()?;
        let next = self
            .0
            .iter_mut()
            .filter(|candidate| candidate.room() > 0)
            .filter(|candidate| !unwilling.contains(&candidate.reviewer.id))
            .min_by_key(|candidate| (candidate.in_hand, candidate.reviewer.turn))?;
        next.reviewer.turn = latest + 1;
        next.in_hand += 1;
        next.has_changed = true;
        Some(next.reviewer.id.clone())
    }
}

/// Who is not to get a review.
async fn unwilling(tx: &mut Tx, review: &Review, except: Except<'_>) -> Result<HashSet<String>> {
    // One that nobody ever held was neither passed over nor given back.
    if review.hand.token.0 == 0 {
        return Ok(HashSet::new());
    }
    let mut unwilling: HashSet<String> = review::skipped_by(tx, review.id).await?.into_iter().collect();
    match except {
        Except::Nobody => {}
        Except::Reviewer(who) => drop(unwilling.insert(who.to_owned())),
        Except::WhoGaveItBack => unwilling.extend(review_unassigned::given_back_by(tx, review.id).await?),
    }
    Ok(unwilling)
}
