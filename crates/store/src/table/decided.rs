//! Reviews as insights read them: those that were decided, in pieces and in the order of their decisions, and the deadlines of those that
//! wait. Nothing is locked.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, ReviewId};
use docket_core::insight::Period;
use docket_core::review::{Outcome, ReviewState};

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    COLLECTIONS = portable "decided_collections" "
select collection_key, id from collection where tenant_id = $1 and id > $2 order by id limit $3";
    PLAIN = portable "decided_plain" "
select r.id, r.item_id, r.item_version, r.state, r.decided_by, r.decided_at_ms, r.deadline_ms, r.active_ms, r.confidence,
       r.entered, cast(null as text), cast(null as text), cast(null as text)
from review r
where r.collection_key = $1 and r.state in (2, 3, 4) and (r.decided_at_ms, r.entered) > ($2, $3) and r.decided_at_ms < $4
order by r.collection_key, r.decided_at_ms, r.entered limit $5";
    WHOLE = portable "decided_whole" "
select r.id, r.item_id, r.item_version, r.state, r.decided_by, r.decided_at_ms, r.deadline_ms, r.active_ms, r.confidence,
       r.entered, r.facts, r.decision,
       case when r.state = 3 then (select i.external_id from item i where i.collection_key = r.collection_key and i.id = r.item_id) end
from review r
where r.collection_key = $1 and r.state in (2, 3, 4) and (r.decided_at_ms, r.entered) > ($2, $3) and r.decided_at_ms < $4
order by r.collection_key, r.decided_at_ms, r.entered limit $5";
    COUNT = portable "decided_count" "
select count(*) from (
  select 1 from review r
  where r.collection_key = $1 and r.state in (2, 3, 4) and r.decided_at_ms > $2 and r.decided_at_ms <= $3 limit $4) d";
    IN_REVIEW = portable "decided_in_review" "select count(*) from review r where r.collection_key = $1 and r.state = 1";
    PENDING = portable "decided_pending" "
select r.deadline_ms, r.entered from review r
where r.collection_key = $1 and r.state = 0 and (r.deadline_ms, r.entered) > ($2, $3)
order by r.collection_key, r.deadline_ms, r.entered limit $4";
    UNOPENED = portable "decided_unopened" "
select r.deadline_ms from review r
where r.collection_key = $1 and r.state = 1 and r.opened_at_ms is null order by r.collection_key, r.until_ms limit $2";
}

/// A decided review.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct DecidedReview {
    pub id: ReviewId,
    pub item: ItemId,
    pub item_version: i64,
    pub outcome: Outcome,
    pub decided_by: String,
    pub decided_at: Timestamp,
    pub deadline: Timestamp,
    pub active_ms: i64,
    pub confidence: Option<f64>,
    /// Its place in the order of arrival.
    pub entered: i64,
    /// The machine's fields as they were when the review began, as JSON text; where all is read.
    pub facts: Option<String>,
    /// Its reason and corrections, as JSON text; where all is read.
    pub decision: Option<String>,
    /// The item's, where all is read and the item was corrected.
    pub external_id: Option<String>,
}

/// How much of decided reviews is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Who decided what, and when.
    Plain,
    /// The fields and corrections too.
    Whole,
}

/// How far a reader of a collection has come.
#[derive(Clone, Copy, Debug)]
pub struct DecidedPlace {
    at: Timestamp,
    entered: i64,
}

impl DecidedPlace {
    /// Before everything that was decided in the period.
    pub const fn before(period: &Period) -> Self {
        Self {
            at: period.since,
            entered: i64::MIN,
        }
    }

    /// At this review.
    pub const fn of(review: &DecidedReview) -> Self {
        Self {
            at: review.decided_at,
            entered: review.entered,
        }
    }
}

fn read(mut row: Row) -> Result<DecidedReview> {
    let state = ReviewState::from_code(row.int(3)?);
    Ok(DecidedReview {
        id: row.review(0)?,
        item: row.item(1)?,
        item_version: row.int(2)?,
        outcome: state.and_then(Outcome::of).ok_or_else(|| row.inconsistent(3))?,
        decided_by: row.opt_text(4)?.unwrap_or_default(),
        decided_at: row.time(5)?,
        deadline: row.time(6)?,
        active_ms: row.opt_int(7)?.unwrap_or(0),
        confidence: row.opt_real(8)?,
        entered: row.int(9)?,
        facts: row.opt_text(10)?,
        decision: row.opt_text(11)?,
        external_id: row.opt_text(12)?,
    })
}

/// Collections of a tenant whose ids come after this one.
pub async fn collections(
    tx: &mut Tx,
    tenant_id: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<(CollectionKey, String)>> {
    let rows = tx.rows(&COLLECTIONS, params![tenant_id, after, limit]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.collection(0)?, row.text(1)?)))
        .collect()
}

/// Reviews of a collection that were decided after this place and before this moment, in the order of their decisions.
pub async fn after(
    tx: &mut Tx,
    collection: CollectionKey,
    place: DecidedPlace,
    until: Timestamp,
    detail: Detail,
    limit: u64,
) -> Result<Vec<DecidedReview>> {
    let statement = match detail {
        Detail::Plain => &PLAIN,
        Detail::Whole => &WHOLE,
    };
    let params = params![collection, place.at, place.entered, until, limit];
    let rows = tx.rows(statement, params).await?;
    rows.into_iter().map(read).collect()
}

/// How many reviews of a collection were decided after one moment and up to another; no more than `limit` are counted.
pub async fn count(
    tx: &mut Tx,
    collection: CollectionKey,
    after: Timestamp,
    up_to: Timestamp,
    limit: u64,
) -> Result<u64> {
    tx.row(&COUNT, params![collection, after, up_to, limit])
        .await?
        .count(0)
}

/// How many reviews of a collection are in hands.
pub async fn in_review(tx: &mut Tx, collection: CollectionKey) -> Result<u64> {
    tx.row(&IN_REVIEW, params![collection]).await?.count(0)
}

/// The deadlines of pending reviews after this place, the earliest first, with where to go on.
pub async fn pending_deadlines(
    tx: &mut Tx,
    collection: CollectionKey,
    place: (Timestamp, i64),
    limit: u64,
) -> Result<Vec<(Timestamp, i64)>> {
    let rows = tx
        .rows(&PENDING, params![collection, place.0, place.1, limit])
        .await?;
    rows.into_iter()
        .map(|mut row| Ok((row.time(0)?, row.int(1)?)))
        .collect()
}

/// The deadlines of reviews that were assigned to somebody who has not looked at them yet, in any order.
pub async fn unopened_deadlines(
    tx: &mut Tx,
    collection: CollectionKey,
    limit: u64,
) -> Result<Vec<Timestamp>> {
    let rows = tx.rows(&UNOPENED, params![collection, limit]).await?;
    rows.into_iter().map(|mut row| row.time(0)).collect()
}
