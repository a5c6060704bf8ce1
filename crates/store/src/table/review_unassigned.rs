//! Collections that assign, in which reviews may wait for somebody to become free; and which of those reviews are next.
//!
//! No waiting review is forgotten: whoever leaves one waiting writes its collection's row in the same transaction, which locks the row,
//! and whoever deletes the row has locked it before they look whether one waits. What enters in the very moment in which its collection
//! begins to assign has read that it does not, and writes nothing: so the row of a collection that was changed is kept for some minutes.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ReviewId};
use docket_core::review::Strategy;

use super::review::{self, Review, columns};
use crate::error::Result;
use crate::params;
use crate::tx::{Driver, Tx};
use crate::value::Value;

/// How many collections are looked at sooner when somebody becomes free; the others wait until they are due.
const WOKEN_MAX: u64 = 1_000;
/// For so long after a change of a collection there may be transactions that have read it as it was before; they end sooner.
const CHANGED_MS: i64 = 180_000;
/// How many waiting reviews a look goes through to find some that may be given.
const SCAN_MAX: u64 = 5_000;

crate::statements! {
    MARK = portable "unassigned_mark" "
insert into review_unassigned (collection_key, tenant_id, due_at_ms) values ($1, $2, $3)
on conflict (collection_key) do update set due_at_ms =
  case when review_unassigned.due_at_ms < excluded.due_at_ms then review_unassigned.due_at_ms else excluded.due_at_ms end";
    WAKE = portable "unassigned_wake" "
update review_unassigned set due_at_ms = $2
where due_at_ms > $2 and collection_key in (
  select u.collection_key from review_unassigned u
  where u.due_at_ms > $2 and (cast($1 as text) is null or u.tenant_id = $1) order by u.due_at_ms limit $3
  for no key update skip locked)";
    NEXT_DUE = portable "unassigned_next_due" "select min(due_at_ms) from review_unassigned";
    DUE = portable "unassigned_due" "
select collection_key from review_unassigned where due_at_ms <= $1
order by due_at_ms, collection_key limit 1 for no key update skip locked";
    TAKE = portable "unassigned_take" "update review_unassigned set due_at_ms = $2 where collection_key = $1";
    REST = portable "unassigned_rest" "
update review_unassigned set due_at_ms = $2 where collection_key = $1 and due_at_ms >= $3";
    LOCK = portable "unassigned_lock" "
select collection_key from review_unassigned where collection_key = $1 for update";
    MAY_WAIT = portable "unassigned_may_wait" "
select exists (select 1 from review r where r.collection_key = $1 and r.state = 0)
    or exists (select 1 from collection c
               where c.collection_key = $1 and c.updated_at_ms > c.created_at_ms and c.updated_at_ms > $2)";
    DELETE = portable "unassigned_delete" "delete from review_unassigned where collection_key = $1";
    FIFO_POSTGRES = postgres "unassigned_fifo" "
select x.id from (
  select r.collection_key, r.id, r.token, r.given_back_by, r.entered from review r
  where r.collection_key = $1 and r.state = 0 order by r.collection_key, r.entered limit $4) x
where x.token = 0 or cardinality($2::text[]) > case when x.given_back_by = any ($2::text[]) then 1 else 0 end +
  (select count(*) from review_skip s where s.collection_key = x.collection_key and s.review_id = x.id
     and s.reviewer = any ($2::text[]) and s.reviewer is distinct from x.given_back_by)
order by x.entered limit $3";
    PRIORITY_POSTGRES = postgres "unassigned_priority" "
select x.id from (
  select r.collection_key, r.id, r.token, r.given_back_by, r.order_key, r.entered from review r
  where r.collection_key = $1 and r.state = 0 order by r.collection_key, r.order_key, r.entered limit $4) x
where x.token = 0 or cardinality($2::text[]) > case when x.given_back_by = any ($2::text[]) then 1 else 0 end +
  (select count(*) from review_skip s where s.collection_key = x.collection_key and s.review_id = x.id
     and s.reviewer = any ($2::text[]) and s.reviewer is distinct from x.given_back_by)
order by x.order_key, x.entered limit $3";
    DEADLINE_POSTGRES = postgres "unassigned_deadline" "
select x.id from (
  select r.collection_key, r.id, r.token, r.given_back_by, r.deadline_ms, r.entered from review r
  where r.collection_key = $1 and r.state = 0 order by r.collection_key, r.deadline_ms, r.entered limit $4) x
where x.token = 0 or cardinality($2::text[]) > case when x.given_back_by = any ($2::text[]) then 1 else 0 end +
  (select count(*) from review_skip s where s.collection_key = x.collection_key and s.review_id = x.id
     and s.reviewer = any ($2::text[]) and s.reviewer is distinct from x.given_back_by)
order by x.deadline_ms, x.entered limit $3";
    FIFO_SQLITE = sqlite "unassigned_fifo" "
select x.id from (
  select r.collection_key, r.id, r.token, r.given_back_by, r.entered from review r
  where r.collection_key = $1 and r.state = 0 order by r.collection_key, r.entered limit $4) x
where x.token = 0
   or json_array_length($2) > coalesce(x.given_back_by in (select value from json_each($2)), 0) +
     (select count(*) from review_skip s where s.collection_key = x.collection_key and s.review_id = x.id
        and s.reviewer in (select value from json_each($2)) and s.reviewer is not x.given_back_by)
order by x.entered limit $3";
    PRIORITY_SQLITE = sqlite "unassigned_priority" "
select x.id from (
  select r.collection_key, r.id, r.token, r.given_back_by, r.order_key, r.entered from review r
  where r.collection_key = $1 and r.state = 0 order by r.collection_key, r.order_key, r.entered limit $4) x
where x.token = 0
   or json_array_length($2) > coalesce(x.given_back_by in (select value from json_each($2)), 0) +
     (select count(*) from review_skip s where s.collection_key = x.collection_key and s.review_id = x.id
        and s.reviewer in (select value from json_each($2)) and s.reviewer is not x.given_back_by)
order by x.order_key, x.entered limit $3";
    DEADLINE_SQLITE = sqlite "unassigned_deadline" "
select x.id from (
  select r.collection_key, r.id, r.token, r.given_back_by, r.deadline_ms, r.entered from review r
  where r.collection_key = $1 and r.state = 0 order by r.collection_key, r.deadline_ms, r.entered limit $4) x
where x.token = 0
   or json_array_length($2) > coalesce(x.given_back_by in (select value from json_each($2)), 0) +
     (select count(*) from review_skip s where s.collection_key = x.collection_key and s.review_id = x.id
        and s.reviewer in (select value from json_each($2)) and s.reviewer is not x.given_back_by)
order by x.deadline_ms, x.entered limit $3";
    LOCK_PENDING = selecting_postgres "unassigned_lock_pending" columns "
from review r where r.collection_key = $1 and r.id = any ($2::uuid[]) and r.state = 0
order by r.collection_key, r.id for no key update skip locked";
    SET_GIVEN_BACK_BY = portable "unassigned_set_given_back_by" "
update review set given_back_by = $3 where collection_key = $1 and id = $2";
    GIVEN_BACK_BY = portable "unassigned_given_back_by" "
select given_back_by from review where collection_key = $1 and id = $2";
}

/// Notes that a review of a collection may wait for somebody, and that it is looked at by `due_at`. The note is locked until the end of
/// the transaction.
pub async fn mark(tx: &mut Tx, key: CollectionKey, tenant_id: &str, due_at: Timestamp) -> Result<()> {
    tx.execute_one(&MARK, params![key, tenant_id, due_at]).await
}

/// Somebody may have become free who reviews for this tenant, or for any: its collections are due.
pub async fn wake(tx: &mut Tx, tenant_id: Option<&str>, now: Timestamp) -> Result<()> {
    tx.execute(&WAKE, params![tenant_id, now, WOKEN_MAX])
        .await
        .map(drop)
}

/// When the next collection is due.
pub async fn next_due(tx: &mut Tx) -> Result<Option<Timestamp>> {
    tx.row(&NEXT_DUE, &[]).await?.opt_time(0)
}

/// A collection that is due. Until `due_at` nobody else looks at it.
pub async fn take_due(tx: &mut Tx, now: Timestamp, due_at: Timestamp) -> Result<Option<CollectionKey>> {
    let Some(mut row) = tx.row_opt(&DUE, params![now]).await? else {
        return Ok(None);
    };
    let key = row.collection(0)?;
    tx.execute_one(&TAKE, params![key, due_at]).await?;
    Ok(Some(key))
}

/// Locks a collection's note; whether there is one. Statements after it see all that was left waiting by those who had it before.
pub async fn lock(tx: &mut Tx, key: CollectionKey) -> Result<bool> {
    Ok(tx.row_opt(&LOCK, params![key]).await?.is_some())
}

/// Whether any review of a collection is pending, or may be about to enter as the collection was before it was changed.
pub async fn may_wait(tx: &mut Tx, key: CollectionKey, now: Timestamp) -> Result<bool> {
    let params = params![key, now.plus_ms(-CHANGED_MS)];
    tx.row(&MAY_WAIT, params).await?.bool(0)
}

/// Notes when a collection is looked at next, unless somebody wanted it before `taken_until`, the end of the look that is over. The caller
/// has locked its note.
pub async fn rest(tx: &mut Tx, key: CollectionKey, due_at: Timestamp, taken_until: Timestamp) -> Result<()> {
    tx.execute(&REST, params![key, due_at, taken_until])
        .await
        .map(drop)
}

/// Nothing waits in a collection. The caller has locked its note.
pub async fn delete(tx: &mut Tx, key: CollectionKey) -> Result<()> {
    tx.execute_one(&DELETE, params![key]).await
}

/// The first pending reviews that one of these reviewers may be given, who has neither passed it over nor given it back: among the first
/// 5,000. Those who may not have one are counted, by its key, and not looked for: the planner would read all that was ever passed over.
pub async fn first(
    tx: &mut Tx,
    key: CollectionKey,
    strategy: Strategy,
    reviewers: Vec<String>,
    limit: u64,
) -> Result<Vec<ReviewId>> {
    let is_postgres = matches!(tx.driver, Driver::Postgres(_));
    let statement = match (strategy, is_postgres) {
        (Strategy::Fifo, true) => &FIFO_POSTGRES,
        (Strategy::Fifo, false) => &FIFO_SQLITE,
        (Strategy::Priority, true) => &PRIORITY_POSTGRES,
        (Strategy::Priority, false) => &PRIORITY_SQLITE,
        (Strategy::Deadline, true) => &DEADLINE_POSTGRES,
        (Strategy::Deadline, false) => &DEADLINE_SQLITE,
    };
    let reviewers = Value::Texts(reviewers.into_iter().map(Some).collect());
    let rows = tx
        .rows(statement, params![key, reviewers, limit, SCAN_MAX])
        .await?;
    rows.into_iter().map(|mut row| row.review(0)).collect()
}

/// Locks those of a collection's reviews that are pending; what somebody else has locked is left out.
pub async fn lock_pending(tx: &mut Tx, key: CollectionKey, ids: &[ReviewId]) -> Result<Vec<Review>> {
    if let Driver::Sqlite(_) = tx.driver {
        return review::lock(tx, ids).await;
    }
    let ids = Value::Uuids(ids.iter().map(|id| id.uuid()).collect());
    let rows = tx.rows(&LOCK_PENDING, params![key, ids]).await?;
    rows.into_iter().map(Review::read).collect()
}

/// Notes who gave a review back that waits.
pub async fn set_given_back_by(tx: &mut Tx, id: ReviewId, reviewer: Option<&str>) -> Result<()> {
    let params = params![id.collection(), id, reviewer];
    tx.execute_one(&SET_GIVEN_BACK_BY, params).await
}

/// Who gave a waiting review back.
pub async fn given_back_by(tx: &mut Tx, id: ReviewId) -> Result<Option<String>> {
    let row = tx.row_opt(&GIVEN_BACK_BY, params![id.collection(), id]).await?;
    row.map_or(Ok(None), |mut row| row.opt_text(0))
}
