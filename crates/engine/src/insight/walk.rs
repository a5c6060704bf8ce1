//! Going over decided reviews, collection by collection, in pieces.

use std::collections::VecDeque;

use docket_core::id::CollectionKey;
use docket_core::insight::Period;
use docket_core::scope::Scope;
use docket_store::Result;
use docket_store::table::decided::{self, DecidedPlace, DecidedReview, Detail};

use super::{InsightQuery, LookedAt};
use crate::engine::Engine;
use crate::view::item::collection_of_tenant;

/// How many reviews one call looks at. What streams has no such end.
pub(super) const LOOK_AT_MAX: u64 = 1_000_000;
/// How many reviews are read at once where only little is read of each, and where all is: a decision with its fields may be long.
const PLAIN_PIECE: u64 = 2_000;
const WHOLE_PIECE: u64 = 500;
/// How many collections of a tenant one call looks at.
const COLLECTIONS_MAX: usize = 10_000;
/// How many collections are read at once.
const COLLECTIONS_PIECE: u64 = 500;

/// A collection that is looked at.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) key: CollectionKey,
    pub(super) id: String,
}

/// A walk under way.
#[derive(Debug)]
pub(super) struct Walk {
    engine: Engine,
    period: Period,
    detail: Detail,
    places: VecDeque<Place>,
    at: DecidedPlace,
    looked_at: u64,
    left: u64,
    is_capped: bool,
}

impl Walk {
    /// Begins to look at what is asked about, at no more than so many reviews.
    pub(super) async fn begin(
        engine: &Engine,
        scope: &Scope,
        query: &InsightQuery,
        detail: Detail,
        most: u64,
    ) -> Result<Self> {
        let period = Period::of(query.since, query.until, engine.kernel.clock.now())?;
        let (places, is_capped) = places(engine, scope, query).await?;
        Ok(Self {
            engine: engine.clone(),
            period,
            detail,
            places,
            at: DecidedPlace::before(&period),
            looked_at: 0,
            left: most,
            is_capped,
        })
    }

    /// The collections that are still to be looked at, the present one first.
    pub(super) const fn places(&self) -> &VecDeque<Place> {
        &self.places
    }

    /// The next reviews, of one collection; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<(Place, Vec<DecidedReview>)>> {
        while let Some(place) = self.places.front().cloned() {
            if self.left == 0 {
                self.look_for_more(&place).await?;
                continue;
            }
            let wanted = self.left.min(match self.detail {
                Detail::Plain => PLAIN_PIECE,
                Detail::Whole => WHOLE_PIECE,
            });
            let reviews = self.read(&place, wanted).await?;
            let found = reviews.len() as u64;
            self.looked_at += found;
            self.left -= found;
            if let Some(last) = reviews.last() {
                self.at = DecidedPlace::of(last);
            }
            if found < wanted {
                self.leave();
            }
            if found > 0 {
                return Ok(Some((place, reviews)));
            }
        }
        Ok(None)
    }

    /// What has been looked at.
    pub(super) const fn looked_at(&self) -> LookedAt {
        LookedAt {
            period: self.period,
            reviews: self.looked_at,
            is_capped: self.is_capped,
        }
    }

    /// The present collection is done with.
    fn leave(&mut self) {
        self.places.pop_front();
        self.at = DecidedPlace::before(&self.period);
    }

    /// Nothing more may be looked at; finds out whether there is anything.
    async fn look_for_more(&mut self, place: &Place) -> Result<()> {
        match self.read(place, 1).await?.is_empty() {
            true => self.leave(),
            false => {
                self.is_capped = true;
                self.places.clear();
            }
        }
        Ok(())
    }

    async fn read(&self, place: &Place, limit: u64) -> Result<Vec<DecidedReview>> {
        let params = (place.key, self.at, self.period.until, self.detail, limit);
        let store = &self.engine.kernel.store;
        let read = store.read("insight_decided", params, |tx, p| {
            Box::pin(decided::after(tx, p.0, p.1, p.2, p.3, p.4))
        });
        read.await
    }
}

/// The collections that are asked about, and whether there are more than can be looked at.
async fn places(engine: &Engine, scope: &Scope, query: &InsightQuery) -> Result<(VecDeque<Place>, bool)> {
    let store = &engine.kernel.store;
    if let Some(id) = &query.collection {
        let params = (scope.clone(), id.clone());
        let read = store.read("insight_collection", params, |tx, p| {
            Box::pin(collection_of_tenant(tx, &p.0, &p.1))
        });
        let (key, id) = (read.await?, id.as_str().to_owned());
        return Ok((VecDeque::from([Place { key, id }]), false));
    }
    let mut places = VecDeque::new();
    loop {
        let after = places.back().map(|place: &Place| place.id.clone());
        let params = (scope.tenant.clone(), after.unwrap_or_default());
        let read = store.read("insight_collections", params, |tx, p| {
            Box::pin(decided::collections(tx, p.0.as_str(), &p.1, COLLECTIONS_PIECE))
        });
        let found = read.await?;
        let is_last = (found.len() as u64) < COLLECTIONS_PIECE;
        places.extend(found.into_iter().map(|(key, id)| Place { key, id }));
        let is_full = places.len() >= COLLECTIONS_MAX;
        if is_last || is_full {
            return Ok((places, is_full && !is_last));
        }
    }
}
