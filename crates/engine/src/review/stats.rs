//! How a queue stands (rules V15 and V16): counted as it changes, so that asking costs the same however long the queue is.

use std::collections::BTreeMap;

use docket_core::clock::Timestamp;
use docket_core::name::CollectionId;
use docket_core::review::ReviewState;
use docket_core::scope::Watching;
use docket_core::{Refusal, Refused};
use docket_store::table::collection::{self, Collection};
use docket_store::table::review_list::{self, OVERDUE_MAX};
use docket_store::table::{counter, reviewer};
use docket_store::{Result, Tx};

use super::Reviewed;
use crate::engine::Engine;

/// The most collections told of at once.
const COLLECTIONS_MAX: u64 = 200;
/// The most reviewers told of.
const REVIEWERS_MAX: u64 = 1_000;
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// How a collection's queue stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewStats {
    /// The collection.
    pub collection_id: String,
    /// Whose it is.
    pub tenant_id: String,
    /// How many reviews are in each state.
    pub counts: BTreeMap<ReviewState, u64>,
    /// When the one that waits longest was made.
    pub oldest_pending: Option<Timestamp>,
    /// How many of those that wait or are in hands are past their deadline.
    pub overdue: u64,
    /// Whether there are more overdue ones than were counted.
    pub more_overdue: bool,
    /// Whether nothing is given out.
    pub is_paused: bool,
    /// The moment of all this.
    pub at: Timestamp,
}

impl ReviewStats {
    /// How many are in this state.
    pub fn count(&self, state: ReviewState) -> u64 {
        self.counts.get(&state).copied().unwrap_or(0)
    }
}

/// What a reviewer has to do, and has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Who.
    pub reviewer: String,
    /// For people.
    pub name: String,
    /// Whether reviews may be assigned to them.
    pub available: bool,
    /// How many they may hold; none for any number.
    pub capacity: Option<u64>,
    /// How many they hold.
    pub in_review: u64,
    /// How many they have decided since midnight, UTC.
    pub decided_today: u64,
    /// For how long they looked at each of those, on the average.
    pub mean_ms: Option<i64>,
}

impl Engine {
    /// How a collection's queue stands.
    pub async fn review_stats(&self, who: &Watching, id: &CollectionId) -> Result<ReviewStats> {
        let params = (who.clone(), id.clone(), self.kernel.clock.now());
        self.kernel
            .store
            .read("review_stats", params, |tx, (who, id, now)| {
                Box::pin(async move {
                    let found = visible(who, id, collection::get(tx, id.as_str()).await?)?;
                    stats(tx, &found, *now).await
                })
            })
            .await
    }

    /// How the queues stand of the collections after this one, by id, 200 at the most.
    pub async fn review_stats_all(
        &self,
        who: &Watching,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<ReviewStats>> {
        let after = after.unwrap_or_default().to_owned();
        let params = (
            who.clone(),
            after,
            limit.clamp(1, COLLECTIONS_MAX),
            self.kernel.clock.now(),
        );
        self.kernel
            .store
            .read("review_stats_all", params, |tx, (who, after, limit, now)| {
                Box::pin(async move {
                    let mut all = Vec::new();
                    for found in collection::list(tx, who.tenant(), after, *limit).await? {
                        all.push(stats(tx, &found, *now).await?);
                    }
                    Ok(all)
                })
            })
            .await
    }

    /// What waits for people in the whole deployment.
    pub async fn review_depth(&self) -> Result<review_list::ReviewDepth> {
        let now = self.kernel.clock.now();
        self.kernel
            .store
            .read("review_depth", now, |tx, now| {
                Box::pin(review_list::depth(tx, *now))
            })
            .await
    }

    /// What each reviewer of a collection holds and has decided today, by id: those on its roster, or who may review for its tenant,
    /// and whoever else has a part in it.
    pub async fn review_workload(&self, who: &Watching, id: &CollectionId) -> Result<Vec<Workload>> {
        let params = (who.clone(), id.clone(), self.kernel.clock.now());
        self.kernel
            .store
            .read("review_workload", params, |tx, (who, id, now)| {
                Box::pin(async move {
                    let found = visible(who, id, collection::get(tx, id.as_str()).await?)?;
                    workload(tx, Reviewed::of(found)?, *now).await
                })
            })
            .await
    }
}

fn visible(who: &Watching, id: &CollectionId, found: Option<Collection>) -> Refused<Collection> {
    let own = found.filter(|found| who.reaches(&found.tenant_id));
    own.ok_or_else(|| Refusal::not_found("collection", id))
}

async fn stats(tx: &mut Tx, found: &Collection, now: Timestamp) -> Result<ReviewStats> {
    let counts = counter::read_reviews(tx, found.key).await?.into_iter();
    let overdue = review_list::overdue(tx, found.key, now).await?;
    Ok(ReviewStats {
        collection_id: found.id.clone(),
        tenant_id: found.tenant_id.clone(),
        counts: counts
            .map(|(state, n)| (state, u64::try_from(n).unwrap_or(0)))
            .collect(),
        oldest_pending: review_list::oldest(tx, found.key).await?,
        overdue,
        more_overdue: overdue == OVERDUE_MAX,
        is_paused: found.is_paused,
        at: now,
    })
}

async fn workload(tx: &mut Tx, owner: Reviewed, now: Timestamp) -> Result<Vec<Workload>> {
    let known = match &owner.policy.roster {
        Some(roster) => {
            let ids: Vec<_> = roster.iter().map(ToString::to_string).collect();
            reviewer::of_roster(tx, &ids).await?
        }
        None => reviewer::of_tenant(tx, &owner.collection.tenant_id).await?,
    };
    let mut all: BTreeMap<String, Workload> = BTreeMap::new();
    let roster = owner.policy.roster.iter().flatten().map(ToString::to_string);
    for id in roster {
        all.insert(id.clone(), undescribed(id));
    }
    for known in known {
        let row = Workload {
            name: known.name,
            available: known.available,
            capacity: known.capacity,
            ..undescribed(known.id.clone())
        };
        all.insert(known.id, row);
    }
    let key = owner.collection.key;
    for (id, n) in review_list::in_hand(tx, key, REVIEWERS_MAX).await? {
        all.entry(id.clone()).or_insert_with(|| undescribed(id)).in_review = n;
    }
    let midnight = Timestamp::from_ms(now.ms() - now.ms().rem_euclid(DAY_MS));
    for (id, n, active_ms) in review_list::decided_since(tx, key, midnight, REVIEWERS_MAX).await? {
        let row = all.entry(id.clone()).or_insert_with(|| undescribed(id));
        row.decided_today = n;
        row.mean_ms = i64::try_from(n).ok().filter(|n| *n > 0).map(|n| active_ms / n);
    }
    Ok(all.into_values().collect())
}

/// A reviewer of whom nobody has said anything: there, and without a limit.
fn undescribed(id: String) -> Workload {
    Workload {
        name: id.clone(),
        reviewer: id,
        available: true,
        capacity: None,
        in_review: 0,
        decided_today: 0,
        mean_ms: None,
    }
}
