//! What is needed of two tables at the same moment: on PostgreSQL it is asked for in one way there and back, which on a busy machine
//! costs more than the queries.

use std::collections::HashMap;

use docket_core::field::Correction;
use docket_core::id::{CollectionKey, ItemId, ReviewId};

use super::collection::{self, Collection};
use super::correction;
use super::review::{self, Review};
use super::review_content::{self, ReviewContent};
use super::reviewer::{self, Standing};
use crate::error::Result;
use crate::tx::{Driver, Tx};

/// The collections of these ids as far as they are there, and how it stands with these reviewers.
pub async fn collections_and_standings(
    tx: &mut Tx,
    collections: Vec<String>,
    reviewers: &[String],
) -> Result<(Vec<Collection>, HashMap<String, Standing>)> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let (collections, standings) = tx
            .rows_both(
                collection::with_ids(collections),
                reviewer::asking_standings(reviewers),
            )
            .await?;
        return Ok((
            collection::read_all(collections)?,
            reviewer::read_standings(standings)?,
        ));
    }
    Ok((
        collection::get_many(tx, collections).await?,
        reviewer::standings(tx, reviewers).await?,
    ))
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
        let (reviews, collections) = tx
            .rows_both(review::locking(ids), collection::with_keys(&keys))
            .await?;
        return Ok((review::read_all(reviews)?, collection::read_all(collections)?));
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
        let (contents, corrections) = tx
            .rows_both(review_content::with_items(items), correction::with_items(items))
            .await?;
        return Ok((
            review_content::read_all(contents)?,
            correction::read_all(corrections)?,
        ));
    }
    Ok((
        review_content::contents(tx, items).await?,
        correction::of_items(tx, items).await?,
    ))
}
