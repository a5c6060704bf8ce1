//! The taking of a batch of pops: what each reviewer gets, in the order in which they came, and what has to be written of it.

use std::collections::{BTreeSet, HashMap};

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId};
use docket_core::log::Action;
use docket_core::review::{REVIEWS_MAX, ReviewState, Strategy};
use docket_store::table::log::NewEntry;
use docket_store::table::record::{Move, record};
use docket_store::table::review::{self, Review};
use docket_store::table::review_content::ReviewContent;
use docket_store::table::review_pick::{self, Picked, Wanted};
use docket_store::table::reviewer::{self, Standing};
use docket_store::{Result, Tx};
use serde_json::json;

use super::Reviewed;
use super::pop_batch::PopCall;

/// Which reviews a call wants, and in which order.
pub(super) fn queue(owner: &Reviewed, call: &PopCall) -> (CollectionKey, Strategy) {
    let strategy = call.pop.strategy.unwrap_or(owner.policy.strategy);
    (owner.collection.key, strategy)
}

/// The first pending reviews, picked for several calls together.
struct Pool {
    wanted: Wanted,
    picked: Vec<Picked>,
}

impl Pool {
    /// Whether there are no more of them.
    const fn is_all(&self) -> bool {
        (self.picked.len() as u64) < self.wanted.limit
    }

    /// The first so many that the reviewer has not passed over and nobody has taken; none where there may be others outside the pool, or
    /// it was not picked for this reviewer, so that what they have passed over is not known.
    fn first(&self, who: &str, wanted: usize, is_free: impl Fn(&Review) -> bool) -> Option<Vec<Picked>> {
        if !self.wanted.reviewers.iter().any(|reviewer| reviewer == who) {
            return None;
        }
        let theirs = |picked: &&Picked| {
            is_free(&picked.review) && !picked.skipped_by.iter().any(|skipped| skipped == who)
        };
        let found: Vec<Picked> = self.picked.iter().filter(theirs).take(wanted).cloned().collect();
        (self.is_all() || found.len() == wanted).then_some(found)
    }
}

/// What the calls of a batch have taken, and has to be written.
pub(super) struct Round {
    now: Timestamp,
    standings: HashMap<String, Standing>,
    /// What was picked for all the calls that want reviews of a collection in the same order.
    pools: HashMap<(CollectionKey, Strategy), Pool>,
    /// What is known of the items of what was taken.
    contents: HashMap<ItemId, ReviewContent>,
    unwritten: Vec<Review>,
    log: Vec<NewEntry>,
    moves: Vec<Move>,
}

impl Round {
    pub(super) fn new(standings: HashMap<String, Standing>, now: Timestamp) -> Self {
        Self {
            now,
            standings,
            pools: HashMap::new(),
            contents: HashMap::new(),
            unwritten: Vec::new(),
            log: Vec::new(),
            moves: Vec::new(),
        }
    }

    pub(super) fn standing(&self, reviewer: &str) -> Standing {
        self.standings.get(reviewer).copied().unwrap_or_default()
    }

    pub(super) async fn look_again(&mut self, tx: &mut Tx, reviewers: &[String]) -> Result<()> {
        self.standings.extend(reviewer::standings(tx, reviewers).await?);
        Ok(())
    }

    /// Picks what the calls may want, once for all that want the same.
    pub(super) async fn pick(&mut self, tx: &mut Tx, calls: &[(&Reviewed, &PopCall)]) -> Result<()> {
        let mut wants: HashMap<(CollectionKey, Strategy), (BTreeSet<String>, u64)> = HashMap::new();
        for (owner, call) in calls {
            let standing = self.standing(call.reviewer());
            // Whoever takes what was assigned to them first may need none of these; they pick alone what they lack.
            if standing.unopened == 0 {
                let want = wants.entry(queue(owner, call)).or_default();
                want.0.insert(call.reviewer().to_owned());
                want.1 += standing.room().min(u64::from(call.pop.limit));
            }
        }
        for ((collection, strategy), (reviewers, limit)) in wants {
            let pool = self.pools.get(&(collection, strategy));
            if pool.map_or(0, |pool| pool.wanted.limit) < limit {
                let wanted = Wanted {
                    collection,
                    strategy,
                    reviewers: reviewers.into_iter().collect(),
                    limit,
                };
                let picked = review_pick::pick(tx, &wanted).await?;
                self.picked(wanted, picked);
            }
        }
        Ok(())
    }

    /// Notes what was picked.
    pub(super) fn picked(&mut self, wanted: Wanted, picked: Vec<Picked>) {
        self.pools
            .insert((wanted.collection, wanted.strategy), Pool { wanted, picked });
    }

    /// What is known of the items of what was taken.
    pub(super) fn contents(&mut self) -> HashMap<ItemId, ReviewContent> {
        std::mem::take(&mut self.contents)
    }

    /// Leaves out what an earlier call of the batch has taken.
    fn is_free(&self, review: &Review) -> bool {
        !self.unwritten.iter().any(|taken| taken.id == review.id)
    }

    /// Takes what was assigned to the reviewer, and then what is pending, as far as they have room.
    pub(super) async fn take(
        &mut self,
        tx: &mut Tx,
        owner: &Reviewed,
        call: &PopCall,
    ) -> Result<Vec<Review>> {
        let ((key, strategy), who) = (queue(owner, call), call.reviewer());
        let limit = call.pop.limit as usize;
        let (lease_ms, now) = (owner.policy.lease_ms(), self.now);
        let mut standing = self.standing(who);
        let mut taken = Vec::new();
        if standing.unopened > 0 {
            taken = review::assigned(tx, key, who, now, REVIEWS_MAX as u64).await?;
            taken.retain(|review| self.is_free(review));
            taken.sort_by_key(|review| review.place(strategy));
            taken.truncate(limit);
            taken
                .iter_mut()
                .for_each(|review| review.hand.open(now, lease_ms));
        }
        let opened = taken.len();
        let wanted = standing.room().min((limit - opened) as u64);
        if wanted > 0 {
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            let pool = self.pools.get(&(key, strategy));
            let picked = match pool.and_then(|pool| pool.first(who, wanted, |review| self.is_free(review))) {
                Some(picked) => picked,
                None => self.pick_more(tx, (key, strategy), who, wanted).await?,
            };
            for mut picked in picked {
                picked.review.hand.take(who, now, lease_ms, true);
                self.contents
                    .extend(picked.content.map(|content| (content.id, content)));
                taken.push(picked.review);
            }
        }
        let picked = taken.len() - opened;
        standing.in_hand += picked as u64;
        standing.unopened = standing.unopened.saturating_sub(opened as u64);
        self.standings.insert(who.to_owned(), standing);
        self.note(owner, call, &taken, picked);
        Ok(taken)
    }

    /// Picks for one reviewer alone, where what was picked for all does not do.
    async fn pick_more(
        &self,
        tx: &mut Tx,
        (collection, strategy): (CollectionKey, Strategy),
        who: &str,
        wanted: usize,
    ) -> Result<Vec<Picked>> {
        // What the calls before have taken still counts as pending: this transaction has not written it yet.
        let before = self
            .unwritten
            .iter()
            .filter(|review| review.collection() == collection);
        let alone = Wanted {
            collection,
            strategy,
            reviewers: vec![who.to_owned()],
            limit: (wanted + before.count()) as u64,
        };
        let picked = review_pick::pick(tx, &alone).await?.into_iter();
        let free = picked.filter(|picked| self.is_free(&picked.review));
        Ok(free.take(wanted).collect())
    }

    /// Notes what has to be written; the last `picked` were pending.
    fn note(&mut self, owner: &Reviewed, call: &PopCall, taken: &[Review], picked: usize) {
        let actor = call.who.actor().as_str();
        self.log.extend(taken.iter().map(|review| {
            let until = review.hand.until.map(Timestamp::ms);
            let details = json!({ "leaseToken": review.hand.token.0, "leaseExpiresAtMs": until });
            owner.entry(Action::ReviewPopped, actor, review, details)
        }));
        let moved = owner.moved(Some(ReviewState::Pending), ReviewState::InReview);
        self.moves.extend(std::iter::repeat_n(moved, picked));
        self.unwritten.extend_from_slice(taken);
    }

    pub(super) async fn write(&mut self, tx: &mut Tx) -> Result<()> {
        self.pools.clear();
        review::put(tx, &std::mem::take(&mut self.unwritten)).await?;
        let (log, moves) = (std::mem::take(&mut self.log), std::mem::take(&mut self.moves));
        record(tx, &log, &moves, self.now).await
    }
}
