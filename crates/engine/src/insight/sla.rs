//! Deadlines: how many were kept, and how many of those that wait will be missed at the present pace.

use std::collections::BTreeMap;

use docket_core::insight::{Forecast, Kept, PACE_MAX_HOURS, Pace, forecast};
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::decided::{self, Detail};
use docket_store::table::reviewer;
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
    /// Whether more wait than were looked at; the forecast is about the first ones then.
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
            let kept = kept.remove(&place.id).unwrap_or_default();
            let of = self.sla_of(place, kept, pace_hours, &mut left).await?;
            collections.extend(Some(of).filter(|of| query.collection.is_some() || !of.is_empty()));
        }
        Ok(SlaInsight {
            looked_at: walk.looked_at(),
            collections,
        })
    }

    async fn sla_of(&self, place: Place, kept: Kept, hours: u32, left: &mut u64) -> Result<SlaOfCollection> {
        let (store, now) = (&self.kernel.store, self.kernel.clock.now());
        let most = left.saturating_add(1);
        let params = (place.key, now, hours, most);
        let read = store.read("insight_pace", params, |tx, p| {
            Box::pin(present(tx, p.0, p.1, p.2, p.3))
        });
        let (pace, in_review, mut deadlines) = read.await?;
        let mut at = (Timestamp::from_ms(i64::MIN), i64::MIN);
        while (deadlines.len() as u64) < most {
            let limit = WAITING_PIECE.min(most - deadlines.len() as u64);
            let params = (place.key, at, limit);
            let read = store.read("insight_pending", params, |tx, p| {
                Box::pin(decided::pending_deadlines(tx, p.0, p.1, p.2))
            });
            let found = read.await?;
            deadlines.extend(found.iter().map(|(deadline, _)| *deadline));
            match found.last() {
                Some(last) if found.len() as u64 == limit => at = *last,
                _ => break,
            }
        }
        let is_capped = deadlines.len() as u64 > *left;
        deadlines.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= deadlines.len() as u64;
        Ok(SlaOfCollection {
            collection_id: place.id,
            kept,
            pace,
            forecast: forecast(deadlines, pace, now),
            in_review,
            is_capped,
        })
    }
}

/// How fast a collection's reviews are decided, how many are in hands, and the deadlines of those that nobody has looked at yet.
async fn present(
    tx: &mut Tx,
    collection: docket_core::id::CollectionKey,
    now: Timestamp,
    hours: u32,
    most: u64,
) -> Result<(Pace, u64, Vec<Timestamp>)> {
    let after = now.plus_ms(-i64::from(hours) * HOUR_MS);
    let decided = decided::count(tx, collection, after, now, PACE_MAX).await?;
    let (in_review, _) = reviewer::held(tx, collection).await?;
    let unopened = decided::unopened_deadlines(tx, collection, most).await?;
    Ok((Pace { decided, hours }, in_review, unopened))
}
