//! Reviews: people decide on items, the most urgent first, never two on the same one (rules V1 to V17).
//!
//! Each use case reads the reviews it is about under their locks, turns their [`Hand`](docket_core::review::Hand) by the rules of the
//! core, and writes back what changed together with the log and the counts.

pub(crate) mod assign;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod decision;
pub(crate) mod enter;
pub(crate) mod entries;
pub(crate) mod entry;
pub(crate) mod field;
pub(crate) mod heartbeat;
pub(crate) mod last_seen;
pub(crate) mod list;
pub(crate) mod pop;
pub(crate) mod pop_batch;
mod pop_round;
pub(crate) mod reap;
pub(crate) mod reassign;
pub(crate) mod rekey;
pub(crate) mod release;
pub(crate) mod reviewer;
pub(crate) mod stats;
pub(crate) mod undo;
pub(crate) mod withdraw;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use docket_core::Refusal;
use docket_core::id::{CollectionKey, ReviewId};
use docket_core::notification::NotifyRule;
use docket_core::review::{Assignment, REVIEWS_MAX, ReviewPolicy, ReviewState};
use docket_core::scope::Reviewing;
use docket_store::table::collection::{self, Collection};
use docket_store::table::counter::Counted;
use docket_store::table::log::NewEntry;
use docket_store::table::record::Move;
use docket_store::table::review::{self, Review};
use docket_store::{Error, Result, Tx};
use serde_json::Value;

/// Checks how many reviews a call names, and that it names none twice: where it does, which was named before.
pub(crate) fn check_ids(path: &str, ids: &[ReviewId]) -> Result<(), Refusal> {
    if ids.is_empty() || ids.len() > REVIEWS_MAX {
        let problem = format!("needs from 1 to {REVIEWS_MAX} entries, has {}", ids.len());
        return Err(Refusal::invalid(path, problem));
    }
    let mut seen = HashMap::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        if let Some(first) = seen.insert(id, index) {
            let problem = format!("names the same review as {path}[{first}]");
            return Err(Refusal::invalid(format!("{path}[{index}]"), problem));
        }
    }
    Ok(())
}

/// A collection with its review policy.
#[derive(Clone, Debug)]
pub(crate) struct Reviewed {
    pub(crate) collection: Collection,
    pub(crate) policy: ReviewPolicy,
    /// Who is told of its decisions.
    pub(crate) notify: Option<NotifyRule>,
}

/// What operators said of a collection.
pub(crate) fn settings_of(collection: &Collection) -> Result<Value> {
    serde_json::from_str(&collection.settings).map_err(|source| Error::Json {
        what: "a collection's settings",
        source,
    })
}

impl Reviewed {
    pub(crate) fn of(collection: Collection) -> Result<Self> {
        let settings = settings_of(&collection)?;
        Ok(Self {
            policy: ReviewPolicy::of_settings(&settings)?,
            notify: NotifyRule::of_settings(&settings)?,
            collection,
        })
    }

    /// Whether its reviews are given to reviewers.
    pub(crate) fn assigns(&self) -> bool {
        self.policy.assignment == Assignment::Auto
    }

    /// The change of counts when a review of it goes from one state to another.
    pub(crate) const fn moved(&self, from: Option<ReviewState>, to: ReviewState) -> Move {
        moved(self.collection.key, from, to)
    }

    /// An entry about a review, which its id is added to.
    pub(crate) fn entry(
        &self,
        action: docket_core::log::Action,
        actor: &str,
        review: &Review,
        mut details: Value,
    ) -> NewEntry {
        if let Value::Object(details) = &mut details {
            details.insert("queueId".to_owned(), Value::String(review.id.to_string()));
            details.insert("version".to_owned(), Value::from(review.item_version));
        }
        NewEntry::new(action, actor)
            .of_item(&self.collection.tenant_id, review.item)
            .with(&details)
    }
}

pub(crate) const fn moved(collection: CollectionKey, from: Option<ReviewState>, to: ReviewState) -> Move {
    Move {
        collection,
        from: match from {
            Some(state) => Some(Counted::Review(state)),
            None => None,
        },
        to: Some(Counted::Review(to)),
    }
}

/// Collections by their keys, read once each.
#[derive(Default)]
pub(crate) struct Collections(HashMap<CollectionKey, Option<Reviewed>>);

impl Collections {
    /// These are known already.
    pub(crate) fn knowing(owners: impl IntoIterator<Item = Reviewed>) -> Self {
        let owners = owners.into_iter();
        Self(owners.map(|owner| (owner.collection.key, Some(owner))).collect())
    }

    /// A collection; none where it is not there.
    pub(crate) async fn get(&mut self, tx: &mut Tx, key: CollectionKey) -> Result<Option<&Reviewed>> {
        let known = match self.0.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let found = collection::by_key(tx, key).await?;
                place.insert(found.map(Reviewed::of).transpose()?)
            }
        };
        Ok(known.as_ref())
    }

    /// The collection of a review that is there.
    pub(crate) async fn of(&mut self, tx: &mut Tx, review: &Review) -> Result<&Reviewed> {
        self.get(tx, review.collection())
            .await?
            .ok_or_else(|| Refusal::not_found("review", &review.id).into())
    }
}

/// Locks reviews and leaves out those that are not the asker's to see.
pub(crate) async fn lock_visible(
    tx: &mut Tx,
    who: &Reviewing,
    ids: &[ReviewId],
    collections: &mut Collections,
) -> Result<HashMap<ReviewId, Review>> {
    let mut found = HashMap::with_capacity(ids.len());
    for review in review::lock(tx, ids).await? {
        let owner = collections.get(tx, review.collection()).await?;
        if owner.is_some_and(|owner| who.reaches(&owner.collection.tenant_id)) {
            found.insert(review.id, review);
        }
    }
    Ok(found)
}

/// A review that is not there, or not the asker's to see.
pub(crate) fn not_there(id: &ReviewId) -> Refusal {
    Refusal::not_found("review", id)
}
