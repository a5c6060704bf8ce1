//! Collections as a pop last saw them: what the next one is likely to want, so that it can be asked for together with the collection itself.
//! A guess and no more: what is taken is decided by the collection as it is now.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use docket_core::id::CollectionKey;
use docket_core::review::Strategy;
use docket_store::table::review_pick::Wanted;

use super::Reviewed;
use super::pop_batch::{PopCall, closed};
use super::pop_round::queue;

/// More collections than this are forgotten, and soon known again.
const SEEN_MAX: usize = 1_000;
/// More reviews than this are not locked on a guess.
const GUESSED_MAX: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct LastSeen(Mutex<HashMap<String, Arc<Reviewed>>>);

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
            let owner = seen.get(call.pop.collection.as_str());
            let owner = owner.filter(|owner| call.who.reaches(&owner.collection.tenant_id));
            if let Some(owner) = owner.filter(|owner| closed(owner, call).is_none()) {
                let want = wants.entry(queue(owner, call)).or_default();
                want.0.insert(call.reviewer());
                want.1 += u64::from(call.pop.limit);
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

    /// Notes how collections are.
    pub(super) fn note(&self, owners: Vec<Reviewed>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SEEN_MAX {
            seen.clear();
        }
        for owner in owners {
            seen.insert(owner.collection.id.clone(), Arc::new(owner));
        }
    }
}
