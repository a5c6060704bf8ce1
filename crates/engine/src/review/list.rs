//! The queue as those see it who watch it: page by page, and one review with the parts of its score.
//!
//! A page goes through one collection after the other, and within one through what waits, what is in hands and what failed, or
//! through the one state that is asked for. What it costs is bounded by the rows it looks at.

use docket_core::id::{CollectionKey, ReviewId};
use docket_core::name::CollectionId;
use docket_core::priority::{Band, Rule, SlaLevel};
use docket_core::review::{ReviewState, Strategy};
use docket_core::scope::Watching;
use docket_core::{Refusal, Timestamp};
use docket_store::table::collection;
use docket_store::table::review::{self, Review};
use docket_store::table::review_list::{self, Walk};
use docket_store::{Result, Tx};

use super::entry::{ReviewEntry, entries_of};
use super::{Collections, Reviewed, not_there};
use crate::engine::Engine;

/// The most entries of a page.
const PAGE_MAX: u64 = 200;
/// How many rows one page looks at before it is given out as it is.
const SCAN_MAX: usize = 5_000;
/// Going through a collection counts as much as so many rows, however empty it is.
const COLLECTION_ROWS: usize = 25;
/// How many rows are read at once.
const PIECE: u64 = 200;

/// Which reviews to list.
#[derive(Clone, Debug, Default)]
pub struct ReviewFilter {
    /// Of this collection; of all that are to be seen where nothing is said.
    pub collection: Option<CollectionId>,
    /// In this state; what waits, is in hands or failed where nothing is said.
    pub state: Option<ReviewState>,
    /// In these hands, or decided by them.
    pub assigned_to: Option<String>,
    /// As urgent as this.
    pub band: Option<Band>,
    /// Past the deadline, or not.
    pub overdue: Option<bool>,
    /// The order of what waits; none for the collection's.
    pub sort: Option<Strategy>,
}

/// Where a page of reviews begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewPlace {
    /// The collection.
    pub collection: String,
    /// Which of its walks.
    pub walk: usize,
    /// After which place of that.
    pub after: (i64, i64),
}

/// A page of reviews.
#[derive(Clone, Debug)]
pub struct ReviewPage {
    /// The reviews.
    pub entries: Vec<ReviewEntry>,
    /// Where the next page begins; none at the end.
    pub next: Option<ReviewPlace>,
}

/// Why a review is where it is.
#[derive(Clone, Debug)]
pub struct ReviewExplanation {
    /// The review, with the parts of its score.
    pub entry: ReviewEntry,
    /// How the parts are computed.
    pub rule: Rule,
    /// Each reason as a sentence, the weightiest first; for people.
    pub reasons: Vec<String>,
}

#[derive(Clone)]
struct Ask {
    who: Watching,
    filter: ReviewFilter,
    from: Option<ReviewPlace>,
    limit: u64,
    now: Timestamp,
}

impl Engine {
    /// Reviews in order. A page may be short, even empty, where few match; `next` tells whether to go on.
    pub async fn reviews(
        &self,
        who: &Watching,
        filter: ReviewFilter,
        from: Option<ReviewPlace>,
        limit: u64,
    ) -> Result<ReviewPage> {
        if limit == 0 || limit > PAGE_MAX {
            return Err(Refusal::invalid("limit", format!("must be from 1 to {PAGE_MAX}")).into());
        }
        let ask = Ask {
            who: who.clone(),
            filter,
            from,
            limit,
            now: self.kernel.clock.now(),
        };
        self.kernel
            .store
            .read("reviews", ask, |tx, ask| Box::pin(reviews(tx, ask)))
            .await
    }

    /// One review.
    pub async fn review(&self, who: &Watching, id: ReviewId) -> Result<ReviewEntry> {
        let params = (who.clone(), id, self.kernel.clock.now());
        self.kernel
            .store
            .read("review", params, |tx, p| Box::pin(one(tx, &p.0, p.1, p.2)))
            .await
            .map(|(entry, _)| entry)
    }

    /// Why a review is where it is in the queue, and what its score is made of.
    pub async fn review_explain(&self, who: &Watching, id: ReviewId) -> Result<ReviewExplanation> {
        let params = (who.clone(), id, self.kernel.clock.now());
        let (entry, owner) = self
            .kernel
            .store
            .read("review_explain", params, |tx, p| {
                Box::pin(one(tx, &p.0, p.1, p.2))
            })
            .await?;
        Ok(ReviewExplanation {
            reasons: reasons(&entry, &owner),
            rule: owner.policy.rule(),
            entry,
        })
    }
}

async fn one(tx: &mut Tx, who: &Watching, id: ReviewId, now: Timestamp) -> Result<(ReviewEntry, Reviewed)> {
    let found = review::get(tx, id).await?.ok_or_else(|| not_there(&id))?;
    let mut collections = Collections::default();
    let owner = collections.of(tx, &found).await?.clone();
    if !who.reaches(&owner.collection.tenant_id) {
        return Err(not_there(&id).into());
    }
    let mut entries = entries_of(tx, vec![found], &mut collections, now).await?;
    let entry = entries.pop().ok_or_else(|| not_there(&id))?;
    Ok((entry, owner))
}

/// The walks through a collection that a filter asks for.
fn walks(filter: &ReviewFilter, owner: &Reviewed) -> Vec<Walk> {
    let usual = match filter.overdue {
        // They are all at the beginning of this order.
        Some(true) => Strategy::Deadline,
        _ => owner.policy.strategy,
    };
    let pending = Walk::Pending(filter.sort.unwrap_or(usual));
    match filter.state {
        None if filter.assigned_to.is_some() => vec![Walk::Held, Walk::Failed],
        None => vec![pending, Walk::Held, Walk::Failed],
        Some(ReviewState::Pending) if filter.assigned_to.is_some() => Vec::new(),
        Some(ReviewState::Pending) => vec![pending],
        Some(ReviewState::InReview) => vec![Walk::Held],
        Some(ReviewState::Failed) => vec![Walk::Failed],
        Some(ReviewState::Cancelled) => vec![Walk::Cancelled],
        Some(ReviewState::Approved | ReviewState::Corrected | ReviewState::Rejected) => vec![Walk::Decided],
    }
}

impl ReviewFilter {
    fn takes(&self, review: &Review, owner: &Reviewed, now: Timestamp) -> bool {
        let holder = || {
            review
                .hand
                .decided_by
                .as_ref()
                .or(review.hand.assigned_to.as_ref())
        };
        let left_ms = review.inputs.deadline.since(now);
        self.state.is_none_or(|state| state == review.hand.state)
            && self.assigned_to.as_ref().is_none_or(|who| holder() == Some(who))
            && self
                .overdue
                .is_none_or(|overdue| overdue == (SlaLevel::of(left_ms) == SlaLevel::Overdue))
            && self.band.is_none_or(|band| {
                let score = owner.policy.rule().parts(&review.inputs, now).score();
                band == Band::of(score)
            })
    }
}

/// The collection that comes next: the one named, or the first after this one.
async fn next_collection(tx: &mut Tx, ask: &Ask, after: Option<&str>) -> Result<Option<Reviewed>> {
    let found = match &ask.filter.collection {
        Some(_) if after.is_some() => None,
        Some(id) => {
            let found = collection::get(tx, id.as_str()).await?;
            let own = found.filter(|found| ask.who.reaches(&found.tenant_id));
            Some(own.ok_or_else(|| Refusal::not_found("collection", id))?)
        }
        None => collection::list(tx, ask.who.tenant(), after.unwrap_or_default(), 1)
            .await?
            .pop(),
    };
    found.map(Reviewed::of).transpose()
}

/// The collection in which a page begins.
async fn first_collection(tx: &mut Tx, ask: &Ask) -> Result<Option<Reviewed>> {
    let Some(from) = &ask.from else {
        return next_collection(tx, ask, None).await;
    };
    let found = collection::get(tx, &from.collection).await?;
    let own = found.filter(|found| ask.who.reaches(&found.tenant_id));
    let asked = |id: &CollectionId| id.as_str() == from.collection;
    if own.is_none() || !ask.filter.collection.as_ref().is_none_or(asked) {
        return Err(Refusal::invalid("cursor", "must be the nextCursor of the page before").into());
    }
    own.map(Reviewed::of).transpose()
}

async fn reviews(tx: &mut Tx, ask: &Ask) -> Result<ReviewPage> {
    let mut next = first_collection(tx, ask).await?;
    let mut from = ask.from.clone();
    let mut page = Page::default();
    while let Some(owner) = next {
        let walks = walks(&ask.filter, &owner);
        let (first, mut after) = match from.take() {
            Some(place) => (place.walk, Some(place.after)),
            None => (0, None),
        };
        for (index, walk) in walks.iter().enumerate().skip(first) {
            let start = after.take().unwrap_or_else(|| walk.start());
            if let Some(after) = page.fill(tx, ask, &owner, *walk, start).await? {
                let place = ReviewPlace {
                    collection: owner.collection.id.clone(),
                    walk: index,
                    after,
                };
                return page.shown(tx, ask, Some(place)).await;
            }
        }
        page.scanned += COLLECTION_ROWS;
        next = next_collection(tx, ask, Some(&owner.collection.id)).await?;
        if next.is_some() && page.scanned >= SCAN_MAX {
            // All its walks are behind: the next page begins with the collection after it.
            let place = ReviewPlace {
                collection: owner.collection.id,
                walk: walks.len(),
                after: (0, 0),
            };
            return page.shown(tx, ask, Some(place)).await;
        }
    }
    page.shown(tx, ask, None).await
}

#[derive(Default)]
struct Page {
    found: Vec<Review>,
    scanned: usize,
}

impl Page {
    /// Takes what matches of a walk; the place where it stopped, if it did before the end.
    async fn fill(
        &mut self,
        tx: &mut Tx,
        ask: &Ask,
        owner: &Reviewed,
        walk: Walk,
        start: (i64, i64),
    ) -> Result<Option<(i64, i64)>> {
        let key: CollectionKey = owner.collection.key;
        let mut after = start;
        loop {
            let piece = review_list::walk(tx, key, walk, after, PIECE).await?;
            let is_last = (piece.len() as u64) < PIECE;
            for review in piece {
                after = walk.place(&review);
                self.scanned += 1;
                if ask.filter.takes(&review, owner, ask.now) {
                    self.found.push(review);
                }
                if self.found.len() as u64 == ask.limit || self.scanned >= SCAN_MAX {
                    return Ok(Some(after));
                }
            }
            if is_last {
                return Ok(None);
            }
        }
    }

    async fn shown(self, tx: &mut Tx, ask: &Ask, next: Option<ReviewPlace>) -> Result<ReviewPage> {
        let entries = entries_of(tx, self.found, &mut Collections::default(), ask.now).await?;
        Ok(ReviewPage { entries, next })
    }
}

fn reasons(entry: &ReviewEntry, owner: &Reviewed) -> Vec<String> {
    let (hand, mut reasons) = (&entry.review.hand, Vec::new());
    let holder = hand.assigned_to.as_deref().unwrap_or("somebody");
    match hand.state {
        ReviewState::Pending => {
            if owner.collection.is_paused {
                reasons.push("Reviews of its collection are paused.".to_owned());
            }
            reasons.push(format!(
                "It waits for a reviewer; the collection gives out by {}.",
                owner.policy.strategy.as_str()
            ));
        }
        ReviewState::InReview if hand.opened_at.is_none() => {
            reasons.push(format!("It is assigned to {holder}, who has not looked at it yet."));
        }
        ReviewState::InReview => reasons.push(format!("{holder} is looking at it.")),
        ReviewState::Failed => reasons.push(format!(
            "It came back unfinished {} times, more often than the collection allows: a lead has to look at it.",
            hand.retry_count
        )),
        ReviewState::Cancelled => {
            reasons.push("It is not needed any more: its item was changed or cancelled.".to_owned());
        }
        state => reasons.push(format!("It is {state}, by {holder}.")),
    }
    let parts = &entry.parts;
    reasons.push(format!(
        "Its score is {:.1}: {:.1} for confidence, {:.1} for the deadline, {:.1} for complexity, {:.1} for value.",
        parts.score(),
        parts.confidence,
        parts.deadline,
        parts.complexity,
        parts.value
    ));
    if entry.review.inputs.confidence.is_none() {
        reasons.push("No confidence is known of it, so that part adds nothing.".to_owned());
    }
    if entry.sla == SlaLevel::Overdue && hand.state.is_open() {
        reasons.push("It is overdue; its score goes on growing.".to_owned());
    }
    reasons
}
