//! Pop: a reviewer takes the most urgent reviews (rules V5 and V8), and waits for them if they like.

use std::time::Duration;

use docket_core::log::Action;
use docket_core::name::CollectionId;
use docket_core::review::{REVIEWS_MAX, ReviewState, Strategy};
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Timestamp};
use docket_store::table::record::record;
use docket_store::table::review::{self, Left, Review};
use docket_store::table::reviewer::{self, Standing};
use docket_store::table::{collection, counter};
use docket_store::{Result, Tx};
use serde_json::json;

use super::entry::{ReviewEntry, entries_of};
use super::reap::put_back;
use super::{Collections, Reviewed};
use crate::engine::Engine;
use crate::wait::Awaited;

/// The longest wait for a review.
const WAIT_MAX_MS: u64 = 60_000;
/// How many silent holders one pop looks at.
const SILENT_MAX: u64 = 500;
/// How often it is looked again while others are taking what is pending at that very moment, and after how long.
const CONTENDED_MAX: usize = 50;
const CONTENDED_WAIT: Duration = Duration::from_millis(1);

/// A reviewer's wish for reviews.
#[derive(Clone, Debug)]
pub struct Pop {
    /// Of which collection.
    pub collection: CollectionId,
    /// How many at the most.
    pub limit: u32,
    /// In which order; none for the collection's.
    pub strategy: Option<Strategy>,
    /// Reviews whose holders were silent for so long are put back first.
    pub lock_timeout_ms: Option<i64>,
    /// How long to wait while there are none.
    pub wait_ms: u64,
}

/// What a reviewer got.
#[derive(Clone, Debug)]
pub struct Popped {
    /// The reviews, the most urgent first.
    pub entries: Vec<ReviewEntry>,
    /// Why there are none.
    pub empty: Option<Empty>,
}

/// Why there is nothing to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Empty {
    /// In a word.
    pub reason: EmptyReason,
    /// How many are pending in the collection.
    pub pending: u64,
    /// How many are in hands.
    pub in_review: u64,
    /// When the next lease ends.
    pub next_lease_ends_at: Option<Timestamp>,
    /// For people.
    pub detail: String,
}

/// Why there is nothing to give, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmptyReason {
    /// None left.
    None,
    /// All in other hands.
    AllAssigned,
    /// Paused by an operator.
    Paused,
    /// None that this reviewer may take.
    NotPermitted,
}

impl EmptyReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::AllAssigned, Self::Paused, Self::NotPermitted];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AllAssigned => "all_assigned",
            Self::Paused => "paused",
            Self::NotPermitted => "not_permitted",
        }
    }
}

#[derive(Clone)]
struct Ask {
    who: Reviewing,
    pop: Pop,
    now: Timestamp,
}

/// What became of one look.
struct Look {
    popped: Popped,
    collection: docket_core::id::CollectionKey,
    /// Others are taking what is pending: worth another look at once.
    contended: bool,
    /// Reviews were put back, and this reviewer did not take them all.
    left: bool,
    /// Waiting would not help: it is the reviewer, not the queue.
    is_final: bool,
}

impl Engine {
    /// Gives a reviewer reviews. With a wait, the call lasts until there are some, the time is over, or `stop` resolves.
    pub async fn review_pop(
        &self,
        who: &Reviewing,
        pop: Pop,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Popped> {
        if pop.limit == 0 || pop.limit as usize > REVIEWS_MAX {
            return Err(Refusal::invalid("limit", format!("must be from 1 to {REVIEWS_MAX}")).into());
        }
        if pop.wait_ms > WAIT_MAX_MS {
            return Err(Refusal::invalid("waitSeconds", "must be from 0 to 60").into());
        }
        if pop.lock_timeout_ms.is_some_and(|ms| ms < 0) {
            return Err(Refusal::invalid("lockTimeoutSeconds", "must not be negative").into());
        }
        let mut over = std::pin::pin!(tokio::time::sleep(Duration::from_millis(pop.wait_ms)));
        let mut stop = std::pin::pin!(stop);
        let mut bell = None;
        loop {
            let look = self.pop_now(who, &pop).await?;
            let may_come = look.popped.empty.is_some() && !look.is_final;
            let (popped, key) = (look.popped, look.collection);
            let Some(known) = &bell else {
                if !may_come || pop.wait_ms == 0 {
                    return Ok(popped);
                }
                // Looked once more after the bell is known: what came in between would ring for nobody.
                bell = Some(self.kernel.waiters.bell(Awaited::Review(key)));
                continue;
            };
            let bell = std::sync::Arc::clone(known);
            if !may_come {
                // There may be more: wake the next who waits.
                bell.notify_one();
                return Ok(popped);
            }
            tokio::select! {
                () = bell.notified() => {}
                () = &mut over => return Ok(popped),
                () = &mut stop => return Ok(popped),
                () = self.kernel.waiters.dismissed() => return Ok(popped),
            }
        }
    }

    async fn pop_now(&self, who: &Reviewing, pop: &Pop) -> Result<Look> {
        let mut round = 0;
        loop {
            let ask = Ask {
                who: who.clone(),
                pop: pop.clone(),
                now: self.kernel.clock.now(),
            };
            let look = self
                .kernel
                .store
                .run_hot("review_pop", ask, |tx, ask| Box::pin(look(tx, ask)))
                .await?;
            if look.left {
                self.kernel.hint_reviews([look.collection]);
            }
            for entry in &look.popped.entries {
                if let Some(until) = entry.review.hand.until {
                    self.kernel.lease_ends(until);
                }
            }
            round += 1;
            if look.contended && round < CONTENDED_MAX {
                tokio::time::sleep(CONTENDED_WAIT).await;
                continue;
            }
            crate::meter::popped(&look.popped);
            return Ok(look);
        }
    }
}

async fn look(tx: &mut Tx, ask: &Ask) -> Result<Look> {
    let found = collection::get(tx, ask.pop.collection.as_str()).await?;
    let found = found.filter(|found| ask.who.reaches(&found.tenant_id));
    let owner = Reviewed::of(found.ok_or_else(|| Refusal::not_found("collection", &ask.pop.collection))?)?;
    let key = owner.collection.key;
    let nothing = async |tx: &mut Tx, reason, detail: &str| -> Result<Look> {
        let left = review::left(tx, key, ask.who.reviewer().as_str()).await?;
        Ok(Look {
            popped: Popped {
                entries: Vec::new(),
                empty: Some(empty(tx, &owner, left, reason, detail.to_owned()).await?),
            },
            collection: key,
            contended: false,
            left: false,
            is_final: reason == EmptyReason::NotPermitted,
        })
    };
    if owner.collection.is_paused {
        return nothing(tx, EmptyReason::Paused, "reviews of this collection are paused").await;
    }
    if !owner.policy.admits(ask.who.reviewer()) {
        let detail = "you are not on this collection's roster";
        return nothing(tx, EmptyReason::NotPermitted, detail).await;
    }
    let mut left = false;
    if let Some(timeout_ms) = ask.pop.lock_timeout_ms {
        left = return_silent(tx, &owner, ask.now, ask.now.plus_ms(-timeout_ms)).await?;
    }
    let who = ask.who.reviewer().as_str();
    let mut standing = reviewer::standing(tx, who).await?;
    let mut taken = take(tx, &owner, ask, standing).await?;
    if taken.is_empty() && return_silent(tx, &owner, ask.now, Timestamp::from_ms(i64::MIN)).await? {
        left = true;
        // What went back may have been theirs, or have come to them.
        standing = reviewer::standing(tx, who).await?;
        taken = take(tx, &owner, ask, standing).await?;
    }
    if taken.is_empty() {
        return nothing_left(tx, &owner, ask, standing, left).await;
    }
    let mut collections = Collections::knowing(owner);
    let entries = entries_of(tx, taken, &mut collections, ask.now).await?;
    Ok(Look {
        popped: Popped { entries, empty: None },
        collection: key,
        contended: false,
        left,
        is_final: true,
    })
}

/// Puts back what has run out in the collection, or was not heard of since `moment`; whether there was something.
async fn return_silent(tx: &mut Tx, owner: &Reviewed, now: Timestamp, moment: Timestamp) -> Result<bool> {
    let silent = review::silent_of(tx, owner.collection.key, now, moment, SILENT_MAX).await?;
    if silent.is_empty() {
        return Ok(false);
    }
    put_back(tx, owner, silent, "docket", now).await?;
    Ok(true)
}

/// Takes what was assigned to the reviewer, and then what is pending, as far as they have room.
async fn take(tx: &mut Tx, owner: &Reviewed, ask: &Ask, standing: Standing) -> Result<Vec<Review>> {
    let (key, who) = (owner.collection.key, ask.who.reviewer().as_str());
    let strategy = ask.pop.strategy.unwrap_or(owner.policy.strategy);
    let limit = u64::from(ask.pop.limit);
    let (lease_ms, now) = (owner.policy.lease_ms(), ask.now);
    let mut taken = Vec::new();
    if standing.unopened > 0 {
        taken = review::assigned(tx, key, who, now, REVIEWS_MAX as u64).await?;
        taken.sort_by_key(|review| review.place(strategy));
        taken.truncate(ask.pop.limit as usize);
        taken
            .iter_mut()
            .for_each(|review| review.hand.open(now, lease_ms));
    }
    let room = standing
        .capacity
        .map_or(u64::MAX, |capacity| capacity.saturating_sub(standing.in_hand));
    let wanted = (limit - taken.len() as u64).min(room);
    let opened = taken.len();
    if wanted > 0 {
        let mut picked = review::pick(tx, key, strategy, who, wanted).await?;
        picked
            .iter_mut()
            .for_each(|review| review.hand.take(who, now, lease_ms, true));
        taken.extend(picked);
    }
    let log: Vec<_> = taken
        .iter()
        .map(|review| {
            let until = review.hand.until.map(Timestamp::ms);
            let details = json!({ "leaseToken": review.hand.token.0, "leaseExpiresAtMs": until });
            owner.entry(Action::ReviewPopped, ask.who.actor().as_str(), review, details)
        })
        .collect();
    let moves = vec![owner.moved(Some(ReviewState::Pending), ReviewState::InReview); taken.len() - opened];
    review::put(tx, &taken).await?;
    record(tx, &log, &moves, now).await?;
    Ok(taken)
}

async fn nothing_left(
    tx: &mut Tx,
    owner: &Reviewed,
    ask: &Ask,
    standing: Standing,
    were_put_back: bool,
) -> Result<Look> {
    let is_full = standing
        .capacity
        .is_some_and(|capacity| standing.in_hand >= capacity);
    let left = review::left(tx, owner.collection.key, ask.who.reviewer().as_str()).await?;
    let (reason, detail) = if is_full {
        let detail = "you hold as many reviews as you may; decide or give some back";
        (EmptyReason::NotPermitted, detail.to_owned())
    } else if left.any_for_reviewer {
        let detail = "others are taking what is left at this very moment";
        (EmptyReason::AllAssigned, detail.to_owned())
    } else if left.any {
        let detail = "you have passed over all that is left";
        (EmptyReason::NotPermitted, detail.to_owned())
    } else if left.in_review > 0 {
        let detail = format!("all that is left is in hands: {}", left.in_review);
        (EmptyReason::AllAssigned, detail)
    } else {
        (EmptyReason::None, "nothing is left to review".to_owned())
    };
    Ok(Look {
        popped: Popped {
            entries: Vec::new(),
            empty: Some(empty(tx, owner, left, reason, detail).await?),
        },
        collection: owner.collection.key,
        contended: left.any_for_reviewer && !is_full,
        left: were_put_back,
        is_final: is_full,
    })
}

async fn empty(
    tx: &mut Tx,
    owner: &Reviewed,
    left: Left,
    reason: EmptyReason,
    detail: String,
) -> Result<Empty> {
    let counts = counter::read_reviews(tx, owner.collection.key).await?;
    let pending = counts.get(&ReviewState::Pending).copied().filter(|_| left.any);
    Ok(Empty {
        reason,
        pending: u64::try_from(pending.unwrap_or(0)).unwrap_or(0),
        in_review: left.in_review,
        next_lease_ends_at: left.next_lease_ends_at,
        detail,
    })
}
