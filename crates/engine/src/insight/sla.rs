//! Deadlines: how many were kept, and how many of those that wait will be missed at the present pace.

use std::collections::BTreeMap;

use docket_core::id::CollectionKey;
use docket_core::insight::{Forecast, Kept, PACE_MAX_HOURS, Pace, forecast};
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::decided::{self, Detail};
use docket_store::{Result, Tx};

use super::walk::{LOOK_AT_MAX, Place, Walk};
use super::{InsightQuery, LookedAt};
use crate::engine::Engine;

/// How many reviews that wait one call looks at.
const WAITING_MAX: u64 = 200_000;
/// How many of them are read at once.
const WAITING_PIECE: u64 = 5_000;
/// How many decisions are counted for a pace; whoever is faster is fast enough.
const PACE_MAX: u64 = 1_000_000;
const HOUR_MS: i64 = 3_600_000;

/// How it stands with the deadlines of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlaOfCollection {
    /// The collection.
    pub collection_id: String,
    /// The deadlines of what was decided in the period.
    pub kept: Kept,
    /// How fast reviews are decided at present.
    pub pace: Pace,
    /// What will become of those that wait: pending ones, and those assigned to somebody who has not looked at them yet.
    pub forecast: Forecast,
    /// How many are in somebody's hands, looked at or not.
    pub in_review: u64,
    /// Whether more wait than were looked at, which the forecast is about.
    pub is_capped: bool,
}

impl SlaOfCollection {
    /// Whether there is nothing to tell.
    fn is_empty(&self) -> bool {
        self.kept == Kept::default()
            && self.forecast == Forecast::default()
            && self.in_review == 0
            && !self.is_capped
    }
}

/// How it stands with deadlines.
#[derive(Clone, Debug)]
pub struct SlaInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Each collection of which there is anything to tell, by id.
    pub collections: Vec<SlaOfCollection>,
}

impl Engine {
    /// How many deadlines were kept, and how many of those that wait will be missed at the pace of the last hours.
    pub async fn insight_sla(
        &self,
        scope: &Scope,
        query: &InsightQuery,
        pace_hours: u32,
    ) -> Result<SlaInsight> {
        if pace_hours == 0 || pace_hours > PACE_MAX_HOURS {
            let problem = format!("must be from 1 to {PACE_MAX_HOURS}");
            return Err(Refusal::invalid("paceHours", problem).into());
        }
        let now = self.kernel.clock.now();
        let mut walk = Walk::begin(self, scope, query, Detail::Plain, LOOK_AT_MAX).await?;
        let places: Vec<Place> = walk.places().iter().cloned().collect();
        let mut kept: BTreeMap<String, Kept> = BTreeMap::new();
        while let Some((place, reviews)) = walk.next().await? {
            let kept = kept.entry(place.id).or_default();
            reviews
                .iter()
                .for_each(|review| kept.add(review.decided_at, review.deadline));
        }
        let (mut collections, mut left) = (Vec::new(), WAITING_MAX);
        for place in places {
            let present = self.present(&place, pace_hours, left, now).await?;
            left -= present.deadlines.len() as u64;
            let of = SlaOfCollection {
                kept: kept.remove(&place.id).unwrap_or_default(),
                collection_id: place.id,
                pace: present.pace,
                forecast: forecast(present.deadlines, present.pace, now),
                in_review: present.in_review,
                is_capped: present.is_capped,
            };
            collections.extend(Some(of).filter(|of| query.collection.is_some() || !of.is_empty()));
        }
        Ok(SlaInsight {
            looked_at: walk.looked_at(),
            collections,
        })
    }

    /// How it stands with a collection at present; at no more than so many deadlines is looked.
    async fn present(&self, place: &Place, hours: u32, most: u64, now: Timestamp) -> Result<Present> {
        let store = &self.kernel.store;
        // One more tells whether there are more.
        let wanted = most.saturating_add(1);
        let params = (place.key, hours, wanted, now);
        let read = store.read("insight_present", params, |tx, p| {
            Box::pin(present(tx, p.0, p.1, p.2, p.3))
        });
        let mut present = read.await?;
        let mut at = (Timestamp::from_ms(i64::MIN), i64::MIN);
        while (present.deadlines.len() as u64) < wanted {
            let limit = WAITING_PIECE.min(wanted - present.deadlines.len() as u64);
            let params = (place.key, at, limit);
            let read = store.read("insight_pending", params, |tx, p| {
                Box::pin(decided::pending_deadlines(tx, p.0, p.1, p.2))
            });
            let found = read.await?;
            present
                .deadlines
                .extend(found.iter().map(|(deadline, _)| *deadline));
            match found.last() {
                Some(last) if found.len() as u64 == limit => at = *last,
                _ => break,
            }
        }
        present.is_capped = present.deadlines.len() as u64 > most;
        present.deadlines.sort_unstable();
        present
            .deadlines
            .truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(present)
    }
}

/// How it stands with a collection at present.
struct Present {
    pace: Pace,
    in_review: u64,
    /// Of those that wait.
    deadlines: Vec<Timestamp>,
    is_capped: bool,
}

/// How fast a collection's reviews are decided, how many are in hands, and the deadlines of those that nobody has looked at yet.
async fn present(
    tx: &mut Tx,
    collection: CollectionKey,
    hours: u32,
    most: u64,
    now: Timestamp,
) -> Result<Present> {
    let after = now.plus_ms(-i64::from(hours) * HOUR_MS);
    let decided = decided::count(tx, collection, after, now, PACE_MAX).await?;
    Ok(Present {
        pace: Pace { decided, hours },
        in_review: decided::in_review(tx, collection).await?,
        deadlines: decided::unopened_deadlines(tx, collection, most).await?,
        is_capped: false,
    })
}
