//! Pops that come together, in one transaction: what they need is read once for all of them, and what they take is written once.

use std::collections::HashMap;
use std::sync::Arc;

use docket_core::id::ReviewId;
use docket_core::log::Action;
use docket_core::review::{REVIEWS_MAX, ReviewState};
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::record::{Move, record};
use docket_store::table::review::{self, Review};
use docket_store::table::reviewer::{self, Standing};
use docket_store::table::{collection, counter};
use docket_store::{Result, Tx};
use serde_json::json;

use super::entry::{ReviewEntry, entries_of};
use super::pop::{Empty, EmptyReason, Look, Pop, Popped};
use super::reap::put_back;
use super::{Collections, Reviewed};
use crate::engine::Kernel;

/// How many silent holders one pop looks at.
const SILENT_MAX: u64 = 500;

/// One reviewer's pop.
#[derive(Clone, Debug)]
pub(crate) struct PopCall {
    pub(crate) who: Reviewing,
    pub(crate) pop: Pop,
}

impl PopCall {
    fn reviewer(&self) -> &str {
        self.who.reviewer().as_str()
    }
}

/// Runs a batch of calls in one transaction.
pub(crate) async fn pop_calls(kernel: &Arc<Kernel>, calls: Vec<PopCall>) -> Result<Vec<Refused<Look>>> {
    let params = (calls, kernel.clock.now());
    let looks = kernel
        .store
        .run_batch("review_pop", params, |tx, p| Box::pin(pop_batch(tx, &p.0, p.1)));
    looks.await
}

/// How far a call got.
struct Turn<'a> {
    call: &'a PopCall,
    owner: Reviewed,
    /// Why it gets nothing, whatever there is.
    closed: Option<(EmptyReason, &'static str)>,
    taken: Vec<Review>,
    /// Reviews were put back for it, and others may want them.
    left: bool,
}

async fn pop_batch(tx: &mut Tx, calls: &[PopCall], now: Timestamp) -> Result<Vec<Refused<Look>>> {
    let mut turns = admit(tx, calls).await?;
    // All that goes back does so before anything is taken, so that no call puts back what another has just taken.
    for turn in open(&mut turns) {
        if let Some(timeout_ms) = turn.call.pop.lock_timeout_ms {
            turn.left = return_silent(tx, &turn.owner, now, now.plus_ms(-timeout_ms)).await?;
        }
    }
    let mut round = Round::begin(tx, open(&mut turns), now).await?;
    for turn in open(&mut turns) {
        turn.taken = round.take(tx, &turn.owner, turn.call).await?;
    }
    round.write(tx).await?;
    for turn in open(&mut turns).filter(|turn| turn.taken.is_empty()) {
        if return_silent(tx, &turn.owner, now, Timestamp::from_ms(i64::MIN)).await? {
            turn.left = true;
            // What went back may have been theirs, or have come to them.
            round.look_again(tx, turn.call.reviewer()).await?;
            turn.taken = round.take(tx, &turn.owner, turn.call).await?;
            round.write(tx).await?;
        }
    }
    let mut entries = seen(tx, &turns, now).await?;
    let mut looks = Vec::with_capacity(turns.len());
    for turn in turns {
        looks.push(match turn {
            Err(refusal) => Err(refusal),
            Ok(turn) => Ok(look(tx, &turn, round.standing(turn.call.reviewer()), &mut entries).await?),
        });
    }
    Ok(looks)
}

/// The calls that may take something.
fn open<'a, 'b>(turns: &'a mut [Refused<Turn<'b>>]) -> impl Iterator<Item = &'a mut Turn<'b>> {
    turns.iter_mut().flatten().filter(|turn| turn.closed.is_none())
}

/// Whether each call may take anything, of which collection.
async fn admit<'a>(tx: &mut Tx, calls: &'a [PopCall]) -> Result<Vec<Refused<Turn<'a>>>> {
    let mut known: HashMap<&str, Option<Reviewed>> = HashMap::new();
    let mut turns = Vec::with_capacity(calls.len());
    for call in calls {
        let id = call.pop.collection.as_str();
        if !known.contains_key(id) {
            let found = collection::get(tx, id).await?;
            known.insert(id, found.map(Reviewed::of).transpose()?);
        }
        let found = known.get(id).cloned().flatten();
        let found = found.filter(|owner| call.who.reaches(&owner.collection.tenant_id));
        turns.push(match found {
            None => Err(Refusal::not_found("collection", &call.pop.collection)),
            Some(owner) => Ok(Turn {
                closed: closed(&owner, call),
                call,
                owner,
                taken: Vec::new(),
                left: false,
            }),
        });
    }
    Ok(turns)
}

fn closed(owner: &Reviewed, call: &PopCall) -> Option<(EmptyReason, &'static str)> {
    if owner.collection.is_paused {
        return Some((EmptyReason::Paused, "reviews of this collection are paused"));
    }
    let is_admitted = owner.policy.admits(call.who.reviewer());
    (!is_admitted).then_some((
        EmptyReason::NotPermitted,
        "you are not on this collection's roster",
    ))
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

/// What the calls of a batch have taken, and has to be written.
struct Round {
    now: Timestamp,
    standings: HashMap<String, Standing>,
    unwritten: Vec<Review>,
    log: Vec<NewEntry>,
    moves: Vec<Move>,
}

impl Round {
    async fn begin<'a, 'b: 'a>(
        tx: &mut Tx,
        turns: impl Iterator<Item = &'a mut Turn<'b>>,
        now: Timestamp,
    ) -> Result<Self> {
        let mut reviewers: Vec<String> = turns.map(|turn| turn.call.reviewer().to_owned()).collect();
        reviewers.sort_unstable();
        reviewers.dedup();
        Ok(Self {
            now,
            standings: reviewer::standings(tx, &reviewers).await?,
            unwritten: Vec::new(),
            log: Vec::new(),
            moves: Vec::new(),
        })
    }

    fn standing(&self, reviewer: &str) -> Standing {
        self.standings.get(reviewer).copied().unwrap_or_default()
    }

    async fn look_again(&mut self, tx: &mut Tx, reviewer: &str) -> Result<()> {
        self.standings
            .extend(reviewer::standings(tx, &[reviewer.to_owned()]).await?);
        Ok(())
    }

    /// Leaves out what an earlier call of the batch has taken.
    fn is_free(&self, review: &Review) -> bool {
        !self.unwritten.iter().any(|taken| taken.id == review.id)
    }

    /// Takes what was assigned to the reviewer, and then what is pending, as far as they have room.
    async fn take(&mut self, tx: &mut Tx, owner: &Reviewed, call: &PopCall) -> Result<Vec<Review>> {
        let (key, who) = (owner.collection.key, call.reviewer());
        let strategy = call.pop.strategy.unwrap_or(owner.policy.strategy);
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
            // What the calls before have taken still counts as pending: this transaction has not written it yet.
            let before = self.unwritten.iter().filter(|review| review.collection() == key);
            let before = before.count() as u64;
            let mut picked = review::pick(tx, key, strategy, who, wanted + before).await?;
            picked.retain(|review| self.is_free(review));
            picked.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
            picked
                .iter_mut()
                .for_each(|review| review.hand.take(who, now, lease_ms, true));
            taken.extend(picked);
        }
        let picked = taken.len() - opened;
        standing.in_hand += picked as u64;
        standing.unopened = standing.unopened.saturating_sub(opened as u64);
        self.standings.insert(who.to_owned(), standing);
        self.note(owner, call, &taken, picked);
        Ok(taken)
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

    async fn write(&mut self, tx: &mut Tx) -> Result<()> {
        review::put(tx, &std::mem::take(&mut self.unwritten)).await?;
        let (log, moves) = (std::mem::take(&mut self.log), std::mem::take(&mut self.moves));
        record(tx, &log, &moves, self.now).await
    }
}

/// What was taken, as the reviewers see it.
async fn seen(
    tx: &mut Tx,
    turns: &[Refused<Turn<'_>>],
    now: Timestamp,
) -> Result<HashMap<ReviewId, ReviewEntry>> {
    let owners = turns.iter().flatten().map(|turn| turn.owner.clone());
    let mut collections = Collections::knowing(owners);
    let taken = turns.iter().flatten().flat_map(|turn| turn.taken.iter().cloned());
    let entries = entries_of(tx, taken.collect(), &mut collections, now).await?;
    Ok(entries
        .into_iter()
        .map(|entry| (entry.review.id, entry))
        .collect())
}

/// What a call is answered.
async fn look(
    tx: &mut Tx,
    turn: &Turn<'_>,
    standing: Standing,
    entries: &mut HashMap<ReviewId, ReviewEntry>,
) -> Result<Look> {
    let mut look = Look {
        popped: Popped {
            entries: Vec::new(),
            empty: None,
        },
        collection: turn.owner.collection.key,
        contended: false,
        left: turn.left,
        is_final: true,
    };
    if !turn.taken.is_empty() {
        let own = turn.taken.iter();
        look.popped.entries = own.filter_map(|review| entries.remove(&review.id)).collect();
        return Ok(look);
    }
    let left = review::left(tx, look.collection, turn.call.reviewer()).await?;
    let is_full = standing.room() == 0;
    let (reason, detail) = match turn.closed {
        Some((reason, detail)) => (reason, detail.to_owned()),
        None => why_empty(&left, is_full),
    };
    let counts = counter::read_reviews(tx, look.collection).await?;
    let pending = counts.get(&ReviewState::Pending).copied().filter(|_| left.any);
    (look.is_final, look.contended) = match turn.closed {
        Some((reason, _)) => (reason == EmptyReason::NotPermitted, false),
        None => (is_full, left.any_for_reviewer && !is_full),
    };
    look.popped.empty = Some(Empty {
        reason,
        pending: u64::try_from(pending.unwrap_or(0)).unwrap_or(0),
        in_review: left.in_review,
        next_lease_ends_at: left.next_lease_ends_at,
        detail,
    });
    Ok(look)
}

fn why_empty(left: &review::Left, is_full: bool) -> (EmptyReason, String) {
    if is_full {
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
    }
}
