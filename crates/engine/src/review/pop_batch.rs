//! Pops that come together, in one transaction: what they need is read once for all of them, and what they take is written once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use docket_core::id::{ItemId, ReviewId};
use docket_core::review::ReviewState;
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::review::{self, Review};
use docket_store::table::review_content::ReviewContent;
use docket_store::table::review_pick::Wanted;
use docket_store::table::reviewer::Standing;
use docket_store::table::{counter, together};
use docket_store::{Backend, Result, Tx};

use super::entry::{ReviewEntry, entries_knowing};
use super::last_seen::Seen;
use super::pop::{Empty, EmptyReason, Look, Pop, Popped};
use super::pop_round::Round;
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
    pub(super) fn reviewer(&self) -> &str {
        self.who.reviewer().as_str()
    }
}

/// Runs a batch of calls in one transaction.
pub(crate) async fn pop_calls(kernel: &Arc<Kernel>, calls: Vec<PopCall>) -> Result<Vec<Refused<Look>>> {
    // Only where it saves a way there and back.
    let likely = match kernel.store.backend() {
        Backend::Postgres => kernel.last_seen.likely(&calls),
        Backend::Sqlite => Vec::new(),
    };
    let params = (calls, likely, kernel.clock.now());
    let (looks, seen) = kernel
        .store
        .run_batch("review_pop", params, |tx, p| {
            Box::pin(pop_batch(tx, &p.0, &p.1, p.2))
        })
        .await?;
    kernel.last_seen.note(seen);
    Ok(looks)
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

/// What each call is answered, and what was seen.
async fn pop_batch(
    tx: &mut Tx,
    calls: &[PopCall],
    likely: &[Wanted],
    now: Timestamp,
) -> Result<(Vec<Refused<Look>>, Seen)> {
    let (mut turns, seen, mut round) = admit(tx, calls, likely, now).await?;
    // All that goes back does so before anything is taken, so that no call puts back what another has just taken.
    for turn in open(&mut turns) {
        if let Some(timeout_ms) = turn.call.pop.lock_timeout_ms {
            turn.left = return_silent(tx, &turn.owner, now, now.plus_ms(-timeout_ms)).await?;
        }
    }
    if open(&mut turns).any(|turn| turn.left) {
        round.look_again(tx, &reviewers(calls)).await?;
    }
    let wanting = turns.iter().flatten().filter(|turn| turn.closed.is_none());
    let wanting: Vec<_> = wanting.map(|turn| (&turn.owner, turn.call)).collect();
    round.pick(tx, &wanting).await?;
    for turn in open(&mut turns) {
        turn.taken = round.take(tx, &turn.owner, turn.call).await?;
    }
    round.write(tx).await?;
    let mut returned = HashSet::new();
    for turn in open(&mut turns).filter(|turn| turn.taken.is_empty()) {
        let key = turn.owner.collection.key;
        if return_silent(tx, &turn.owner, now, Timestamp::from_ms(i64::MIN)).await? {
            turn.left = true;
            returned.insert(key);
            // What went back may have been anybody's, or have come to them.
            round.look_again(tx, &reviewers(calls)).await?;
        }
        if returned.contains(&key) {
            turn.taken = round.take(tx, &turn.owner, turn.call).await?;
            round.write(tx).await?;
        }
    }
    let mut entries = shown(tx, &turns, round.contents(), now).await?;
    let mut looks = Vec::with_capacity(turns.len());
    for turn in turns {
        looks.push(match turn {
            Err(refusal) => Err(refusal),
            Ok(turn) => Ok(look(tx, &turn, round.standing(turn.call.reviewer()), &mut entries).await?),
        });
    }
    Ok((looks, seen))
}

/// The calls that may take something.
fn open<'a, 'b>(turns: &'a mut [Refused<Turn<'b>>]) -> impl Iterator<Item = &'a mut Turn<'b>> {
    turns.iter_mut().flatten().filter(|turn| turn.closed.is_none())
}

/// Who calls, each of them once.
fn reviewers(calls: &[PopCall]) -> Vec<String> {
    let reviewers: BTreeSet<&str> = calls.iter().map(PopCall::reviewer).collect();
    reviewers.into_iter().map(str::to_owned).collect()
}

/// Whether each call may take anything, of which collection; what was seen; and a round for those who call.
async fn admit<'a>(
    tx: &mut Tx,
    calls: &'a [PopCall],
    likely: &[Wanted],
    now: Timestamp,
) -> Result<(Vec<Refused<Turn<'a>>>, Seen, Round)> {
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.pop.collection.as_str()).collect();
    let ids = ids.into_iter().map(str::to_owned).collect();
    let known = together::known_to_pops(tx, ids, &reviewers(calls), likely).await?;
    let mut owners = HashMap::with_capacity(known.collections.len());
    for collection in known.collections {
        owners.insert(collection.id.clone(), Reviewed::of(collection)?);
    }
    let turn = |call: &'a PopCall| {
        let found = owners.get(call.pop.collection.as_str());
        let found = found.filter(|owner| call.who.reaches(&owner.collection.tenant_id));
        let owner = found.ok_or_else(|| Refusal::not_found("collection", &call.pop.collection))?;
        Ok(Turn {
            closed: closed(owner, call),
            call,
            owner: owner.clone(),
            taken: Vec::new(),
            left: false,
        })
    };
    let turns = calls.iter().map(turn).collect();
    let mut round = Round::new(known.standings.clone(), now);
    for (wanted, picked) in likely.iter().zip(known.picked) {
        round.picked(wanted.clone(), picked);
    }
    let standings = known.standings;
    Ok((turns, Seen { owners, standings }, round))
}

/// Why a call gets nothing, whatever there is.
pub(super) fn closed(owner: &Reviewed, call: &PopCall) -> Option<(EmptyReason, &'static str)> {
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

/// What was taken, as the reviewers see it.
async fn shown(
    tx: &mut Tx,
    turns: &[Refused<Turn<'_>>],
    known: HashMap<ItemId, ReviewContent>,
    now: Timestamp,
) -> Result<HashMap<ReviewId, ReviewEntry>> {
    let owners = turns.iter().flatten().map(|turn| turn.owner.clone());
    let mut collections = Collections::knowing(owners);
    let taken = turns.iter().flatten().flat_map(|turn| turn.taken.iter().cloned());
    let entries = entries_knowing(tx, taken.collect(), known, &mut collections, now).await?;
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
