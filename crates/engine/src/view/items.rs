//! Lists of items, newest first: of a collection, or of all collections of a tenant.
//!
//! Ids rise with time, so the list of a tenant is the merge of its collections' lists by id. What a page costs is bounded: by the
//! rows it looks at, and by the number of collections it merges. Deliberately absent: an order other than by age.

use std::collections::{BTreeMap, VecDeque};

use docket_core::Refusal;
use docket_core::id::{CollectionKey, ItemId};
use docket_core::item::ItemStatus;
use docket_core::name::{CollectionId, TEXT_MAX, check_text};
use docket_core::scope::Scope;
use docket_store::table::item::{self, Item};
use docket_store::{Result, Tx};

use super::item::collection_of_tenant;
use crate::engine::Engine;

/// The most entries of a page.
const PAGE_MAX: u64 = 200;
/// How many rows one page looks at before it is given out as it is.
const SCAN_MAX: usize = 5_000;
/// How many collections are merged.
const COLLECTIONS_MAX: u64 = 1_000;
/// How many rows of one collection are read at once where several are merged.
const PIECE: u64 = 20;

/// Which items to list.
#[derive(Clone, Debug)]
pub struct ItemFilter {
    /// Of this collection; of all of the tenant's where nothing is said.
    pub collection: Option<CollectionId>,
    /// In this state.
    pub status: Option<ItemStatus>,
    /// With this externalId.
    pub external_id: Option<String>,
    /// Older than this one.
    pub before: Option<ItemId>,
    /// At most so many, up to 200.
    pub limit: u64,
}

/// A page of items, newest first.
#[derive(Clone, Debug)]
pub struct ItemPage {
    /// The items.
    pub items: Vec<Item>,
    /// Where the next page begins; none at the end.
    pub next: Option<ItemId>,
}

impl Engine {
    /// Items, newest first. A page may be short, even empty, where few items match; `next` tells whether to go on.
    pub async fn items(&self, scope: &Scope, filter: ItemFilter) -> Result<ItemPage> {
        if filter.limit == 0 || filter.limit > PAGE_MAX {
            return Err(Refusal::invalid("limit", format!("must be from 1 to {PAGE_MAX}")).into());
        }
        if let Some(external_id) = &filter.external_id {
            check_text("externalId", external_id, TEXT_MAX)?;
        }
        let params = (scope.clone(), filter);
        self.kernel
            .store
            .read("items", params, |tx, p| Box::pin(items(tx, &p.0, &p.1)))
            .await
    }
}

async fn items(tx: &mut Tx, scope: &Scope, filter: &ItemFilter) -> Result<ItemPage> {
    let before = filter.before.unwrap_or_else(ItemId::last);
    let heads = match &filter.collection {
        Some(id) => vec![(collection_of_tenant(tx, scope, id).await?, before)],
        None => heads(tx, scope, before).await?,
    };
    let mut source = match &filter.external_id {
        Some(external_id) => Source::one_each(tx, &heads, external_id, before).await?,
        None => Source::merged(heads, before),
    };
    let mut page = ItemPage {
        items: Vec::new(),
        next: None,
    };
    let mut scanned = 0;
    while let Some(row) = source.next(tx).await? {
        scanned += 1;
        let id = row.id;
        if filter.status.is_none_or(|status| status == row.status) {
            page.items.push(row);
        }
        if page.items.len() as u64 == filter.limit || scanned == SCAN_MAX {
            page.next = Some(id);
            break;
        }
    }
    Ok(page)
}

/// The tenant's collections that have items before this one, each with the newest of those.
async fn heads(tx: &mut Tx, scope: &Scope, before: ItemId) -> Result<Vec<(CollectionKey, ItemId)>> {
    let found = item::heads(tx, scope.tenant.as_str(), before, COLLECTIONS_MAX + 1).await?;
    if found.len() as u64 > COLLECTIONS_MAX {
        let problem = format!("is needed: the tenant has more than {COLLECTIONS_MAX} collections with items");
        return Err(Refusal::invalid("collectionId", problem).into());
    }
    Ok(found)
}

/// Items by falling id, read as they are needed.
struct Source {
    /// What has been read and not given out, by the id of its first; the highest comes next.
    ready: BTreeMap<ItemId, Piece>,
    /// How many rows are read at once.
    piece: u64,
}

struct Piece {
    collection: CollectionKey,
    rows: VecDeque<Item>,
    /// Where the rest begins; none where there is no more.
    rest: Option<ItemId>,
}

impl Source {
    /// All items of these collections before this one.
    fn merged(heads: Vec<(CollectionKey, ItemId)>, before: ItemId) -> Self {
        let piece = if heads.len() == 1 { PAGE_MAX } else { PIECE };
        let unread = |(collection, head)| {
            let piece = Piece {
                collection,
                rows: VecDeque::new(),
                rest: Some(before),
            };
            (head, piece)
        };
        Self {
            ready: heads.into_iter().map(unread).collect(),
            piece,
        }
    }

    /// The one item of each of these collections that has this externalId, where it comes before this one.
    async fn one_each(
        tx: &mut Tx,
        heads: &[(CollectionKey, ItemId)],
        external_id: &str,
        before: ItemId,
    ) -> Result<Self> {
        let wanted: Vec<_> = heads
            .iter()
            .map(|(collection, _)| (*collection, external_id.to_owned()))
            .collect();
        let found = item::by_external(tx, &wanted).await?;
        let mut ready = BTreeMap::new();
        for ((collection, _), known) in found {
            if known.id < before
                && let Some(row) = item::get(tx, known.id).await?
            {
                let piece = Piece {
                    collection,
                    rows: VecDeque::from([row]),
                    rest: None,
                };
                ready.insert(known.id, piece);
            }
        }
        Ok(Self { ready, piece: 0 })
    }

    async fn next(&mut self, tx: &mut Tx) -> Result<Option<Item>> {
        loop {
            let Some((_, mut piece)) = self.ready.pop_last() else {
                return Ok(None);
            };
            if let (true, Some(rest)) = (piece.rows.is_empty(), piece.rest) {
                piece.rows = item::list(tx, piece.collection, rest, self.piece).await?.into();
                let full = piece.rows.len() as u64 == self.piece;
                piece.rest = piece.rows.back().map(|row| row.id).filter(|_| full);
                // Only now its place is known; another collection may come first.
                if let Some(first) = piece.rows.front() {
                    self.ready.insert(first.id, piece);
                }
                continue;
            }
            let Some(row) = piece.rows.pop_front() else {
                continue;
            };
            // What is yet to be read comes after the last that was; that is its place until it is read.
            let place = piece.rows.front().map(|next| next.id).or(piece.rest);
            if let Some(place) = place {
                self.ready.insert(place, piece);
            }
            return Ok(Some(row));
        }
    }
}
