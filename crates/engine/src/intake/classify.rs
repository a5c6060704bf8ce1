//! What each entry of a submission is: new, the same again, a next version, or refused. Entries are taken in order, so that one
//! entry may repeat another of the same call.

use std::collections::{HashMap, HashSet};

use docket_core::content::Digest;
use docket_core::id::{CollectionKey, ItemId, Seq};
use docket_core::item::{Known, Repeat, repeat_of_external_id};
use docket_core::limit::Allowance;
use docket_core::{Refusal, Refused};
use docket_store::table::item::{self, KnownByContent, KnownByExternal, KnownItem};
use docket_store::{Result, Tx};

use super::prepare::Prepared;

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    New(ItemId),
    Duplicate(ItemId),
    NextVersion(ItemId),
}

/// What is known of the items that a submission may repeat.
#[derive(Default)]
pub(crate) struct KnownItems {
    external: HashMap<(CollectionKey, String), KnownItem>,
    content: HashMap<(CollectionKey, Digest), KnownItem>,
}

impl From<(KnownByExternal, KnownByContent)> for KnownItems {
    fn from((external, content): (KnownByExternal, KnownByContent)) -> Self {
        Self {
            external: external.into_iter().collect(),
            content: content.into_iter().collect(),
        }
    }
}

impl KnownItems {
    /// Looks up what these entries may repeat.
    pub(crate) async fn look_up(tx: &mut Tx, entries: &[(CollectionKey, &Prepared)]) -> Result<Self> {
        let external: Vec<_> = entries
            .iter()
            .filter_map(|(collection, entry)| Some((*collection, entry.details.external_id.clone()?)))
            .collect();
        let content: Vec<_> = entries
            .iter()
            .filter_map(|(collection, entry)| Some((*collection, entry.content_key?)))
            .collect();
        let mut known = Self::default();
        if !external.is_empty() {
            known.external = item::by_external(tx, &external).await?.into_iter().collect();
        }
        if !content.is_empty() {
            known.content = item::by_content(tx, &content).await?.into_iter().collect();
        }
        Ok(known)
    }

    /// Classifies one entry, which would get this id if it is new, and remembers it for those that follow.
    pub(crate) fn classify(
        &mut self,
        collection: CollectionKey,
        entry: &Prepared,
        id: ItemId,
        allowance: &mut Allowance,
    ) -> Refused<Class> {
        let external = entry.details.external_id.clone().map(|id| (collection, id));
        let content = entry.content_key.map(|key| (collection, key));
        let by_external = external.as_ref().and_then(|key| self.external.get(key)).copied();
        let by_content = content.as_ref().and_then(|key| self.content.get(key)).copied();
        let class = match (by_external, by_content) {
            (Some(known), by_content) => {
                match repeat_of_external_id(Known { digest: known.digest }, &entry.details, entry.digest)? {
                    Repeat::Duplicate => Class::Duplicate(known.id),
                    // Another item has this very content already.
                    Repeat::NextVersion if by_content.is_some_and(|other| other.id != known.id) => {
                        Class::Duplicate(by_content.map_or(known.id, |other| other.id))
                    }
                    Repeat::NextVersion => Class::NextVersion(known.id),
                }
            }
            (None, Some(known)) => Class::Duplicate(known.id),
            (None, None) => Class::New(id),
        };
        if let Class::New(id) | Class::NextVersion(id) = class {
            if allowance.remaining == 0 {
                let limit = allowance.limit.unwrap_or(0);
                return Err(Refusal::RateLimited {
                    limit,
                    wait_ms: allowance.wait_ms,
                });
            }
            allowance.remaining -= 1;
            let known = KnownItem {
                id,
                digest: entry.digest,
            };
            self.external.extend(external.map(|key| (key, known)));
            self.content.extend(content.map(|key| (key, known)));
        }
        Ok(class)
    }
}

/// The new items that were to be written, and those that were.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) wanted: HashSet<ItemId>,
    pub(crate) inserted: HashMap<ItemId, Option<Seq>>,
}

impl Written {
    /// Whether somebody else was faster with this item.
    pub(crate) fn lost(&self, id: &ItemId) -> bool {
        self.wanted.contains(id) && !self.inserted.contains_key(id)
    }
}

/// Whether it takes a place of the limit.
pub(crate) const fn class_counts(class: &Refused<Class>) -> bool {
    matches!(class, Ok(Class::New(_) | Class::NextVersion(_)))
}
