//! What is needed of several tables at the same moment: on PostgreSQL it is asked for in one way there and back, which on a busy machine
//! costs more than the queries.

use std::collections::HashMap;

use docket_core::content::Digest;
use docket_core::field::Correction;
use docket_core::id::{CollectionKey, ItemId, ReviewId};

use super::collection::{self, Collection};
use super::correction;
use super::idempotency::{self, Kept};
use super::item::{self, KnownByContent, KnownByExternal};
use super::review::{self, Review};
use super::review_content::{self, ReviewContent};
use super::review_pick::{self, Picked, Wanted};
use super::reviewer::{self, Standing};
use crate::error::Result;
use crate::tx::{Driver, Tx};

/// What submissions that ride together ask.
#[derive(Debug, Default)]
pub struct AskedBySubmits {
    /// The ids of their collections.
    pub collections: Vec<String>,
    /// Their idempotency keys, each with whose it is.
    pub keys: Vec<(String, String)>,
    /// Their externalIds, each with its collection's id.
    pub external: Vec<(String, String)>,
    /// The contents that identify items, each with its collection's id.
    pub content: Vec<(String, Digest)>,
}

/// What submissions that ride together need to know.
#[derive(Debug)]
pub struct KnownToSubmits {
    /// The collections of these ids, as far as they are there.
    pub collections: Vec<Collection>,
    /// What was first answered to their keys.
    pub kept: HashMap<(String, String), Kept>,
    /// The items that they may repeat; none where asking later costs no more.
    pub items: Option<(KnownByExternal, KnownByContent)>,
}

/// What these submissions need to know before anything is locked.
pub async fn known_to_submits(tx: &mut Tx, asked: AskedBySubmits) -> Result<KnownToSubmits> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let asked = [
            Some(collection::with_ids(asked.collections)),
            (!asked.keys.is_empty()).then(|| idempotency::asking(&asked.keys)),
            (!asked.external.is_empty()).then(|| item::asking_external(&asked.external)),
            (!asked.content.is_empty()).then(|| item::asking_content(&asked.content)),
        ];
        let is_asked = asked.each_ref().map(Option::is_some);
        let mut found = tx
            .rows_of(&asked.into_iter().flatten().collect::<Vec<_>>())
            .await?;
        let [collections, kept, external, content] = is_asked.map(|asked| match asked {
            true => found.next().unwrap_or_default(),
            false => Vec::new(),
        });
        return Ok(KnownToSubmits {
            collections: collection::read_all(collections)?,
            kept: idempotency::read_all(kept)?,
            items: Some((item::read_external(external)?, item::read_content(content)?)),
        });
    }
    let mut kept = HashMap::new();
    for (owner, key) in asked.keys {
        if let Some(first) = idempotency::get(tx, &owner, &key).await? {
            kept.insert((owner, key), first);
        }
    }
    Ok(KnownToSubmits {
        collections: collection::get_many(tx, asked.collections).await?,
        kept,
        items: None,
    })
}

/// What pops that ride together need to know.
#[derive(Debug)]
pub struct Known {
    /// The collections of these ids, as far as they are there.
    pub collections: Vec<Collection>,
    /// How it stands with these reviewers.
    pub standings: HashMap<String, Standing>,
    /// What was picked, for each that is likely to be wanted.
    pub picked: Vec<Vec<Picked>>,
}

/// The collections of these ids, how it stands with these reviewers, and what they are likely to want.
pub async fn known_to_pops(
    tx: &mut Tx,
    collections: Vec<String>,
    reviewers: &[String],
    likely: &[Wanted],
) -> Result<Known> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let mut queries = vec![
            collection::with_ids(collections),
            reviewer::asking_standings(reviewers),
        ];
        queries.extend(likely.iter().map(review_pick::picking));
        let mut found = tx.rows_of(&queries).await?;
        return Ok(Known {
            collections: collection::read_all(found.next().unwrap_or_default())?,
            standings: reviewer::read_standings(found.next().unwrap_or_default())?,
            picked: found.map(review_pick::read_all).collect::<Result<_>>()?,
        });
    }
    let mut known = Known {
        collections: collection::get_many(tx, collections).await?,
        standings: reviewer::standings(tx, reviewers).await?,
        picked: Vec::with_capacity(likely.len()),
    };
    for wanted in likely {
        known.picked.push(review_pick::pick(tx, wanted).await?);
    }
    Ok(known)
}

/// These reviews as far as they are there, locked, and their collections.
pub async fn locked_reviews_and_collections(
    tx: &mut Tx,
    ids: &[ReviewId],
) -> Result<(Vec<Review>, Vec<Collection>)> {
    let mut keys: Vec<CollectionKey> = ids.iter().map(|id| id.collection()).collect();
    keys.sort_unstable();
    keys.dedup();
    if let Driver::Postgres(tx) = &mut tx.driver {
        let queries = [review::locking(ids), collection::with_keys(&keys)];
        let mut found = tx.rows_of(&queries).await?;
        return Ok((
            review::read_all(found.next().unwrap_or_default())?,
            collection::read_all(found.next().unwrap_or_default())?,
        ));
    }
    let reviews = review::lock(tx, ids).await?;
    let mut collections = Vec::with_capacity(keys.len());
    for key in keys {
        collections.extend(collection::by_key(tx, key).await?);
    }
    Ok((reviews, collections))
}

/// What a reviewer sees of these items, and the values that people set in them.
pub async fn contents_and_corrections(
    tx: &mut Tx,
    items: &[ItemId],
) -> Result<(Vec<ReviewContent>, Vec<(ItemId, Correction)>)> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let queries = [review_content::with_items(items), correction::with_items(items)];
        let mut found = tx.rows_of(&queries).await?;
        return Ok((
            review_content::read_all(found.next().unwrap_or_default())?,
            correction::read_all(found.next().unwrap_or_default())?,
        ));
    }
    Ok((
        review_content::contents(tx, items).await?,
        correction::of_items(tx, items).await?,
    ))
}
