//! Reviews as those see them who watch a queue: page by page, counted, and by reviewer. Each is served by an index of the state that
//! is asked for, so that what waits costs nothing when somebody asks for what failed.

use docket_core::Timestamp;
use docket_core::id::CollectionKey;
use docket_core::review::{ReviewState, Strategy};

use super::review::{Review, columns};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;

/// So many overdue reviews are counted one by one; more are not told apart, so that the count costs the same in any queue.
pub const OVERDUE_MAX: u64 = 10_000;

crate::statements! {
    LIST_FIFO = selecting "review_list_fifo" columns "
from review r where r.collection_key = $1 and r.state = 0 and r.entered > $2
order by r.collection_key, r.entered limit $3";
    LIST_PRIORITY = selecting "review_list_priority" columns "
from review r where r.collection_key = $1 and r.state = 0 and (r.order_key, r.entered) > ($2, $3)
order by r.collection_key, r.order_key, r.entered limit $4";
    LIST_DEADLINE = selecting "review_list_deadline" columns "
from review r where r.collection_key = $1 and r.state = 0 and (r.deadline_ms, r.entered) > ($2, $3)
order by r.collection_key, r.deadline_ms, r.entered limit $4";
    LIST_HELD = selecting "review_list_held" columns "
from review r where r.collection_key = $1 and r.state = 1 and (r.until_ms, r.entered) > ($2, $3)
order by r.collection_key, r.until_ms, r.entered limit $4";
    LIST_FAILED = selecting "review_list_failed" columns "
from review r where r.collection_key = $1 and r.state = 5 and r.entered > $2
order by r.collection_key, r.entered limit $3";
    LIST_CANCELLED = selecting "review_list_cancelled" columns "
from review r where r.collection_key = $1 and r.state = 6 and r.entered > $2
order by r.collection_key, r.entered limit $3";
    LIST_DECIDED = selecting "review_list_decided" columns "
from review r where r.collection_key = $1 and r.state in (2, 3, 4) and (r.decided_at_ms, r.entered) < ($2, $3)
order by r.collection_key desc, r.decided_at_ms desc, r.entered desc limit $4";
    OLDEST = portable "review_oldest" "
select created_at_ms from review where collection_key = $1 and state = 0 order by collection_key, entered limit 1";
    OVERDUE = portable "review_overdue" "
select (select count(*) from (
          select 1 from review where collection_key = $1 and state = 0 and deadline_ms < $2 limit $3) x)
     + (select count(*) from (
          select 1 from review where collection_key = $1 and state = 1 and deadline_ms < $2 limit $3) x)";
    IN_HAND_IN = portable "review_in_hand_in" "
select assigned_to, count(*) from review where collection_key = $1 and state = 1 and assigned_to is not null
group by assigned_to limit $2";
    DECIDED_IN = portable "review_decided_in" "
select decided_by, count(*), cast(coalesce(sum(active_ms), 0) as bigint) from review
where collection_key = $1 and state in (2, 3, 4) and decided_at_ms >= $2 and decided_by is not null
group by decided_by limit $3";
    DEPTH_STATES = portable "depth_review_states" "
select status, cast(sum(n) as bigint) from (
  select status, value as n from counter where status like 'review:%'
  union all select to_status, n from delta where to_status like 'review:%'
  union all select from_status, -n from delta where from_status like 'review:%') x
group by status";
    DEPTH_OLDEST = portable "depth_review_oldest" "
select min((select r.created_at_ms from review r where r.collection_key = c.collection_key and r.state = 0
            order by r.collection_key, r.entered limit 1)) from collection c";
    DEPTH_OVERDUE = portable "depth_review_overdue" "
select cast(coalesce(sum(
  (select count(*) from (select 1 from review r
     where r.collection_key = c.collection_key and r.state = 0 and r.deadline_ms < $1 limit $2) x)
  + (select count(*) from (select 1 from review r
     where r.collection_key = c.collection_key and r.state = 1 and r.deadline_ms < $1 limit $2) x)), 0) as bigint)
from collection c";
}

/// Which reviews of a collection a page goes through, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// What waits, in the order of a strategy.
    Pending(Strategy),
    /// What is in hands; the lease that ends next comes first.
    Held,
    /// What a lead has to look at, in the order of arrival.
    Failed,
    /// What is not needed any more, likewise.
    Cancelled,
    /// What is decided, the latest first.
    Decided,
}

impl Walk {
    /// Where a walk begins.
    pub const fn start(self) -> (i64, i64) {
        match self {
            Self::Decided => (i64::MAX, i64::MAX),
            _ => (i64::MIN, i64::MIN),
        }
    }

    /// The place of a review in it.
    pub fn place(self, review: &Review) -> (i64, i64) {
        let ms = |moment: Option<Timestamp>| moment.map_or(0, Timestamp::ms);
        match self {
            Self::Pending(strategy) => review.place(strategy),
            Self::Held => (ms(review.hand.until), review.entered),
            Self::Failed | Self::Cancelled => (0, review.entered),
            Self::Decided => (ms(review.hand.decided_at), review.entered),
        }
    }
}

/// Reviews of a collection after a place.
pub async fn walk(
    tx: &mut Tx,
    collection: CollectionKey,
    walk: Walk,
    (key, entered): (i64, i64),
    limit: u64,
) -> Result<Vec<Review>> {
    let by_arrival = params![collection, entered, limit];
    let by_key = params![collection, key, entered, limit];
    let rows = match walk {
        Walk::Pending(Strategy::Fifo) => tx.rows(&LIST_FIFO, by_arrival).await?,
        Walk::Pending(Strategy::Priority) => tx.rows(&LIST_PRIORITY, by_key).await?,
        Walk::Pending(Strategy::Deadline) => tx.rows(&LIST_DEADLINE, by_key).await?,
        Walk::Held => tx.rows(&LIST_HELD, by_key).await?,
        Walk::Failed => tx.rows(&LIST_FAILED, by_arrival).await?,
        Walk::Cancelled => tx.rows(&LIST_CANCELLED, by_arrival).await?,
        Walk::Decided => tx.rows(&LIST_DECIDED, by_key).await?,
    };
    rows.into_iter().map(Review::read).collect()
}

/// When the review that waits longest in a collection was made.
pub async fn oldest(tx: &mut Tx, collection: CollectionKey) -> Result<Option<Timestamp>> {
    let row = tx.row_opt(&OLDEST, params![collection]).await?;
    row.map(|mut row| row.time(0)).transpose()
}

/// How many reviews of a collection wait or are in hands past their deadline, up to [`OVERDUE_MAX`].
pub async fn overdue(tx: &mut Tx, collection: CollectionKey, now: Timestamp) -> Result<u64> {
    let params = params![collection, now, OVERDUE_MAX];
    Ok(tx.row(&OVERDUE, params).await?.count(0)?.min(OVERDUE_MAX))
}

/// How many reviews of a collection each reviewer holds.
pub async fn in_hand(tx: &mut Tx, collection: CollectionKey, limit: u64) -> Result<Vec<(String, u64)>> {
    let rows = tx.rows(&IN_HAND_IN, params![collection, limit]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.text(0)?, row.count(1)?)))
        .collect()
}

/// How many reviews of a collection each reviewer has decided since a moment, and for how long they looked at them.
pub async fn decided_since(
    tx: &mut Tx,
    collection: CollectionKey,
    since: Timestamp,
    limit: u64,
) -> Result<Vec<(String, u64, i64)>> {
    let rows = tx.rows(&DECIDED_IN, params![collection, since, limit]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.text(0)?, row.count(1)?, row.int(2)?)))
        .collect()
}

/// What waits for people in the whole deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReviewDepth {
    /// Reviews that wait.
    pub pending: u64,
    /// Reviews in hands.
    pub in_review: u64,
    /// Reviews that a lead has to look at.
    pub failed: u64,
    /// Reviews past their deadline; of each collection [`OVERDUE_MAX`] at the most.
    pub overdue: u64,
    /// When the one that waits longest was made.
    pub oldest: Option<Timestamp>,
}

/// What waits for people, over all collections.
pub async fn depth(tx: &mut Tx, now: Timestamp) -> Result<ReviewDepth> {
    let mut depth = ReviewDepth::default();
    for mut row in tx.rows(&DEPTH_STATES, &[]).await? {
        let (word, n) = (row.text(0)?, u64::try_from(row.int(1)?).unwrap_or(0));
        match super::counter::review_state(&word) {
            Some(ReviewState::Pending) => depth.pending = n,
            Some(ReviewState::InReview) => depth.in_review = n,
            Some(ReviewState::Failed) => depth.failed = n,
            _ => {}
        }
    }
    depth.oldest = tx.row(&DEPTH_OLDEST, &[]).await?.opt_time(0)?;
    depth.overdue = tx
        .row(&DEPTH_OVERDUE, params![now, OVERDUE_MAX])
        .await?
        .count(0)?;
    Ok(depth)
}
