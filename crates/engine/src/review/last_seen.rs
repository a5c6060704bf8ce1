//! Collections and reviewers as a pop last saw them: what the next one is likely to want, so that it can be asked for together with the
//! collection itself. A guess and no more: what is taken is decided by how they are now.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use docket_core::id::CollectionKey;
use docket_core::review::Strategy;
use docket_store::table::review_pick::Wanted;
use docket_store::table::reviewer::Standing;

use super::Reviewed;
use super::pop_batch::{PopCall, closed};
use super::pop_round::queue;

/// More collections or reviewers than this are forgotten, and soon known again.
const SEEN_MAX: usize = 1_000;
/// More reviews than this are not locked on a guess.
const GUESSED_MAX: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct LastSeen(Mutex<Seen>);

/// What a pop has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Collections, by their ids.
    pub(super) owners: HashMap<String, Reviewed>,
    /// How it stood with those who popped, before they took anything.
    pub(super) standings: HashMap<String, Standing>,
}

impl Seen {
    /// How many pending reviews a call is likely to take of which queue.
    fn want(&self, call: &PopCall) -> Option<((CollectionKey, Strategy), u64)> {
        let owner = self.owners.get(call.pop.collection.as_str())?;
        if !call.who.reaches(&owner.collection.tenant_id) || closed(owner, call).is_some() {
            return None;
        }
        let standing = self.standings.get(call.reviewer())?;
        // Whoever opens what was assigned to them picks alone what they lack.
        let room = if standing.unopened == 0 {
            standing.room()
        } else {
            0
        };
        let limit = room.min(u64::from(call.pop.limit));
        (limit > 0).then(|| (queue(owner, call), limit))
    }
}

impl LastSeen {
    /// What these calls are likely to want.
    pub(super) fn likely(&self, calls: &[PopCall]) -> Vec<Wanted> {
        // What such a call puts back has to be there before anybody picks.
        if calls.iter().any(|call| call.pop.lock_timeout_ms.is_some()) {
            return Vec::new();
        }
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wants: HashMap<(CollectionKey, Strategy), (BTreeSet<&str>, u64)> = HashMap::new();
        for call in calls {
            if let Some((queue, limit)) = seen.want(call) {
                let want = wants.entry(queue).or_default();
                want.0.insert(call.reviewer());
                want.1 += limit;
            }
        }
        let likely = wants.into_iter().filter(|(_, (_, limit))| *limit <= GUESSED_MAX);
        likely
            .map(|((collection, strategy), (reviewers, limit))| Wanted {
                collection,
                strategy,
                reviewers: reviewers.into_iter().map(str::to_owned).collect(),
                limit,
            })
            .collect()
    }

    /// Notes what a pop has seen.
    pub(super) fn note(&self, newest: Seen) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.owners.len() >= SEEN_MAX || seen.standings.len() >= SEEN_MAX {
            *seen = Seen::default();
        }
        seen.owners.extend(newest.owners);
        seen.standings.extend(newest.standings);
    }
}
