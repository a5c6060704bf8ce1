//! Reviews: entering, picking, locking and writing back. In whose hands one is changes by reading it locked, turning its
//! [`Hand`], and putting it back.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, ReviewId};
use docket_core::lease::LeaseToken;
use docket_core::priority::Inputs;
use docket_core::review::{Hand, ReviewState, Strategy};

use crate::error::Result;
use crate::params;
use crate::postgres::Query;
use crate::statement::Statement;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

/// What is read of every review.
macro_rules! columns {
    () => {
        "r.collection_key, r.id, r.item_id, r.item_version, r.state, r.token, r.retry_count, r.assigned_to, r.assigned_at_ms,
         r.opened_at_ms, r.until_ms, r.lease_ms, r.decided_by, r.decided_at_ms, r.active_ms, r.order_key, r.deadline_ms,
         r.deadline_given, r.confidence, r.line_item_count, r.total_amount, r.facts, r.decision, r.created_at_ms, r.entered"
    };
}
pub(crate) use columns;

crate::statements! {
    ENTER = sqlite "review_enter" "
insert into review (collection_key, id, item_id, item_version, order_key, deadline_ms, deadline_given, policy, confidence,
                    line_item_count, total_amount, facts, created_at_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict (collection_key, item_id, item_version) do update set
  state = 0, order_key = excluded.order_key, deadline_ms = excluded.deadline_ms, deadline_given = excluded.deadline_given,
  policy = excluded.policy, confidence = excluded.confidence, line_item_count = excluded.line_item_count,
  total_amount = excluded.total_amount, facts = excluded.facts, retry_count = 0, created_at_ms = excluded.created_at_ms,
  given_back_by = null,
  entered = (select max(entered) + 1 from review)
where review.state = 6
returning id, item_id";
    ENTER_MANY = postgres "review_enter_many" "
insert into review (collection_key, id, item_id, item_version, order_key, deadline_ms, deadline_given, policy, confidence,
                    line_item_count, total_amount, facts, created_at_ms)
select n.*, $13::bigint
from unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bool[], $8::bigint[],
            $9::float8[], $10::bigint[], $11::float8[], $12::text[]) n
on conflict (collection_key, item_id, item_version) do update set
  state = 0, order_key = excluded.order_key, deadline_ms = excluded.deadline_ms, deadline_given = excluded.deadline_given,
  policy = excluded.policy, confidence = excluded.confidence, line_item_count = excluded.line_item_count,
  total_amount = excluded.total_amount, facts = excluded.facts, retry_count = 0, created_at_ms = excluded.created_at_ms,
  given_back_by = null,
  entered = default
where review.state = 6
returning id, item_id";
    GET = selecting "review_get" columns "
from review r where r.collection_key = $1 and r.id = $2";
    OF_ITEM = selecting "review_of_item" columns "
from review r where r.collection_key = $1 and r.item_id = $2 and r.item_version = $3";
    LOCK_OF_ITEM = selecting "review_lock_of_item" columns "
from review r where r.collection_key = $1 and r.item_id = $2 and r.item_version = $3 for no key update";
    LOCK = selecting "review_lock" columns "
from review r where r.collection_key = $1 and r.id = $2 for no key update";
    LOCK_MANY = selecting_postgres "review_lock_many" columns "
from review r
where (r.collection_key, r.id) in (select k, i from unnest($1::bigint[], $2::uuid[]) as w (k, i))
order by r.collection_key, r.id for no key update of r";
    ASSIGNED = selecting "review_assigned" columns "
from review r
where r.assigned_to = $2 and r.collection_key = $1 and r.state = 1 and r.opened_at_ms is null and r.until_ms > $3
order by r.assigned_to, r.collection_key limit $4 for no key update skip locked";
    DUE = selecting "review_due" columns "
from review r where r.state = 1 and r.until_ms <= $1 order by r.until_ms limit $2 for no key update skip locked";
    SILENT = selecting "review_silent" columns "
from review r where r.state = 1 and r.until_ms - r.lease_ms <= $1
order by r.until_ms limit $2 for no key update skip locked";
    SILENT_OF = selecting "review_silent_of" columns "
from review r where r.collection_key = $1 and r.state = 1 and (r.until_ms <= $2 or r.until_ms - r.lease_ms <= $3)
order by r.collection_key, r.until_ms limit $4 for no key update skip locked";
    HELD_BY = selecting "review_held_by" columns "
from review r where r.assigned_to = $1 and r.state = 1 and (cast($3 as text) is null or exists (
  select 1 from collection c where c.collection_key = r.collection_key and c.tenant_id = $3))
order by r.assigned_to, r.collection_key limit $2 for no key update skip locked";
    NEXT_DUE = portable "review_next_due" "select min(until_ms) from review where state = 1";
    PUT = sqlite "review_put" "
update review set state = $3, token = $4, retry_count = $5, assigned_to = $6, assigned_at_ms = $7, opened_at_ms = $8,
  until_ms = $9, lease_ms = $10, decided_by = $11, decided_at_ms = $12, active_ms = $13, decision = $14
where collection_key = $1 and id = $2";
    // Divides by nought, and so fails, where one of them is not there: nobody looks at its answer.
    PUT_MANY = postgres "review_put_many" "
with put as (
update review r set state = n.state, token = n.token, retry_count = n.retry_count, assigned_to = n.assigned_to,
  assigned_at_ms = n.assigned_at_ms, opened_at_ms = n.opened_at_ms, until_ms = n.until_ms, lease_ms = n.lease_ms,
  decided_by = n.decided_by, decided_at_ms = n.decided_at_ms, active_ms = n.active_ms, decision = n.decision
from unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::text[])
  as n (collection_key, id, state, token, retry_count, assigned_to, assigned_at_ms, opened_at_ms, until_ms, lease_ms,
        decided_by, decided_at_ms, active_ms, decision)
where r.collection_key = n.collection_key and r.id = n.id returning 1)
select 1 / (count(*) = cardinality($2::uuid[]))::int from put";
    SKIP = portable "review_skip" "
insert into review_skip (collection_key, review_id, reviewer) values ($1, $2, $3) on conflict do nothing";
    SKIPPED_BY = portable "review_skipped_by" "
select reviewer from review_skip where collection_key = $1 and review_id = $2 limit 1000";
    LEFT = portable "review_left" "
select exists (select 1 from review r where r.collection_key = $1 and r.state = 0),
       exists (select 1 from review r where r.collection_key = $1 and r.state = 0
                 and not exists (select 1 from review_skip s
                                 where s.collection_key = r.collection_key and s.review_id = r.id and s.reviewer = $2)),
       (select count(*) from review where collection_key = $1 and state = 1),
       (select min(until_ms) from review where collection_key = $1 and state = 1)";
    DELETE_SKIPS = portable "review_delete_skips" "
delete from review_skip where collection_key = $1 and review_id in (
  select id from review where collection_key = $1 and item_id = $2)";
    DELETE = portable "review_delete" "
delete from review where collection_key = $1 and item_id = $2 returning state";
}

/// A review.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Review {
    pub id: ReviewId,
    pub item: ItemId,
    pub item_version: i64,
    pub hand: Hand,
    pub order_key: i64,
    pub inputs: Inputs,
    pub deadline_given: bool,
    /// The machine's fields as they were when the review began, as JSON text.
    pub facts: Option<String>,
    /// The reason and the corrections of a decision, as JSON text.
    pub decision: Option<String>,
    pub created_at: Timestamp,
    /// Its place in the order of arrival.
    pub entered: i64,
}

impl Review {
    /// The collection that it belongs to.
    pub fn collection(&self) -> CollectionKey {
        self.id.collection()
    }

    /// What the strategy orders by, and what decides between equals.
    pub const fn place(&self, strategy: Strategy) -> (i64, i64) {
        let key = match strategy {
            Strategy::Fifo => 0,
            Strategy::Priority => self.order_key,
            Strategy::Deadline => self.inputs.deadline.ms(),
        };
        (key, self.entered)
    }

    pub(crate) fn read(mut row: Row) -> Result<Self> {
        let state = ReviewState::from_code(row.int(4)?).ok_or_else(|| row.inconsistent(4))?;
        let hand = Hand {
            state,
            token: LeaseToken(row.int(5)?),
            retry_count: u32::try_from(row.int(6)?).map_err(|_| row.inconsistent(6))?,
            assigned_to: row.opt_text(7)?,
            assigned_at: row.opt_time(8)?,
            opened_at: row.opt_time(9)?,
            until: row.opt_time(10)?,
            lease_ms: row.opt_int(11)?,
            decided_by: row.opt_text(12)?,
            decided_at: row.opt_time(13)?,
            active_ms: row.opt_int(14)?,
        };
        let inputs = Inputs {
            deadline: row.time(16)?,
            confidence: row.opt_real(18)?,
            line_item_count: row.opt_int(19)?,
            total_amount: row.opt_real(20)?,
        };
        Ok(Self {
            id: row.review(1)?,
            item: row.item(2)?,
            item_version: row.int(3)?,
            hand,
            order_key: row.int(15)?,
            inputs,
            deadline_given: row.bool(17)?,
            facts: row.opt_text(21)?,
            decision: row.opt_text(22)?,
            created_at: row.time(23)?,
            entered: row.int(24)?,
        })
    }
}

/// A review that begins.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct NewReview {
    pub id: ReviewId,
    pub item: ItemId,
    pub item_version: i64,
    pub order_key: i64,
    pub inputs: Inputs,
    pub deadline_given: bool,
    /// The version of the collection's policy that gave the key.
    pub policy: i64,
    pub facts: Option<String>,
}

async fn reviews(tx: &mut Tx, statement: &'static Statement, params: &[Value]) -> Result<Vec<Review>> {
    read_all(tx.rows(statement, params).await?)
}

pub(super) fn read_all(rows: Vec<Row>) -> Result<Vec<Review>> {
    rows.into_iter().map(Review::read).collect()
}

/// Writes those of the reviews whose item and version has none yet, in this order; one that was cancelled begins anew, under its old id and
/// behind all others. Gives the reviews that begin, by item.
pub async fn enter(tx: &mut Tx, new: &[NewReview], now: Timestamp) -> Result<Vec<(ReviewId, ItemId)>> {
    let rows = if let Driver::Postgres(_) = tx.driver {
        // In the order given, which is the order of arrival. Nobody waits in a circle: whoever enters several reviews at once has made
        // their items or holds their jobs, and whoever enters a known one enters it alone.
        let ints = |of: fn(&NewReview) -> Option<i64>| Value::Ints(new.iter().map(of).collect());
        let reals = |of: fn(&NewReview) -> Option<f64>| Value::Reals(new.iter().map(of).collect());
        let params = params![
            ints(|n| Some(i64::from(n.id.collection().0))),
            Value::Uuids(new.iter().map(|n| n.id.uuid()).collect()),
            Value::Uuids(new.iter().map(|n| n.item.uuid()).collect()),
            ints(|n| Some(n.item_version)),
            ints(|n| Some(n.order_key)),
            ints(|n| Some(n.inputs.deadline.ms())),
            Value::Bools(new.iter().map(|n| n.deadline_given).collect()),
            ints(|n| Some(n.policy)),
            reals(|n| n.inputs.confidence),
            ints(|n| n.inputs.line_item_count),
            reals(|n| n.inputs.total_amount),
            Value::Texts(new.iter().map(|n| n.facts.clone()).collect()),
            now,
        ];
        tx.rows(&ENTER_MANY, params).await?
    } else {
        let mut rows = Vec::new();
        for n in new {
            let params = params![
                n.id.collection(),
                n.id,
                n.item,
                n.item_version,
                n.order_key,
                n.inputs.deadline,
                n.deadline_given,
                n.policy,
                n.inputs.confidence,
                n.inputs.line_item_count,
                n.inputs.total_amount,
                n.facts.as_ref(),
                now,
            ];
            rows.extend(tx.row_opt(&ENTER, params).await?);
        }
        rows
    };
    rows.into_iter()
        .map(|mut row| Ok((row.review(0)?, row.item(1)?)))
        .collect()
}

/// A review.
pub async fn get(tx: &mut Tx, id: ReviewId) -> Result<Option<Review>> {
    Ok(reviews(tx, &GET, params![id.collection(), id]).await?.pop())
}

/// The review of an item's version.
pub async fn of_item(tx: &mut Tx, item: ItemId, version: i64) -> Result<Option<Review>> {
    Ok(reviews(tx, &OF_ITEM, params![item.collection(), item, version])
        .await?
        .pop())
}

/// The review of an item's version, locked.
pub async fn lock_of_item(tx: &mut Tx, item: ItemId, version: i64) -> Result<Option<Review>> {
    Ok(
        reviews(tx, &LOCK_OF_ITEM, params![item.collection(), item, version])
            .await?
            .pop(),
    )
}

/// Asks for these reviews, and locks them.
pub(super) fn locking(ids: &[ReviewId]) -> Query {
    let keys = ids.iter().map(|id| Some(i64::from(id.collection().0)));
    let uuids = ids.iter().map(|id| id.uuid());
    (
        &LOCK_MANY,
        vec![Value::Ints(keys.collect()), Value::Uuids(uuids.collect())],
    )
}

/// These reviews as far as they are there, locked; in any order.
pub async fn lock(tx: &mut Tx, ids: &[ReviewId]) -> Result<Vec<Review>> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let (statement, params) = locking(ids);
        return read_all(tx.rows(statement, &params).await?);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(reviews(tx, &LOCK, params![id.collection(), *id]).await?);
    }
    Ok(found)
}

/// Reviews that were assigned to this reviewer, who has not looked at them yet; locked.
pub async fn assigned(
    tx: &mut Tx,
    collection: CollectionKey,
    reviewer: &str,
    now: Timestamp,
    limit: u64,
) -> Result<Vec<Review>> {
    reviews(tx, &ASSIGNED, params![collection, reviewer, now, limit]).await
}

/// Reviews whose lease has run out, locked; those that somebody else has locked are left out.
pub async fn due(tx: &mut Tx, now: Timestamp, limit: u64) -> Result<Vec<Review>> {
    reviews(tx, &DUE, params![now, limit]).await
}

/// Reviews whose holder gave no sign of life since `moment`, likewise.
pub async fn silent_since(tx: &mut Tx, moment: Timestamp, limit: u64) -> Result<Vec<Review>> {
    reviews(tx, &SILENT, params![moment, limit]).await
}

/// Reviews of a collection whose lease has run out, or whose holder gave no sign of life since `moment`.
pub async fn silent_of(
    tx: &mut Tx,
    collection: CollectionKey,
    now: Timestamp,
    moment: Timestamp,
    limit: u64,
) -> Result<Vec<Review>> {
    reviews(tx, &SILENT_OF, params![collection, now, moment, limit]).await
}

/// What a reviewer holds, of a tenant or of all, locked.
pub async fn held_by(
    tx: &mut Tx,
    reviewer: &str,
    tenant_id: Option<&str>,
    limit: u64,
) -> Result<Vec<Review>> {
    reviews(tx, &HELD_BY, params![reviewer, limit, tenant_id]).await
}

/// When the next lease ends.
pub async fn next_due(tx: &mut Tx) -> Result<Option<Timestamp>> {
    tx.row(&NEXT_DUE, &[]).await?.opt_time(0)
}

/// Writes back in whose hands reviews are, and what was decided. The caller has locked them.
pub async fn put(tx: &mut Tx, changed: &[Review]) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    if let Driver::Postgres(tx) = &mut tx.driver {
        let texts = |of: fn(&Review) -> Option<&String>| {
            Value::Texts(changed.iter().map(|review| of(review).cloned()).collect())
        };
        let ints = |of: fn(&Review) -> Option<i64>| Value::Ints(changed.iter().map(of).collect());
        let params = params![
            ints(|review| Some(i64::from(review.collection().0))),
            Value::Uuids(changed.iter().map(|review| review.id.uuid()).collect()),
            ints(|review| Some(review.hand.state.code())),
            ints(|review| Some(review.hand.token.0)),
            ints(|review| Some(i64::from(review.hand.retry_count))),
            texts(|review| review.hand.assigned_to.as_ref()),
            ints(|review| review.hand.assigned_at.map(Timestamp::ms)),
            ints(|review| review.hand.opened_at.map(Timestamp::ms)),
            ints(|review| review.hand.until.map(Timestamp::ms)),
            ints(|review| review.hand.lease_ms),
            texts(|review| review.hand.decided_by.as_ref()),
            ints(|review| review.hand.decided_at.map(Timestamp::ms)),
            ints(|review| review.hand.active_ms),
            texts(|review| review.decision.as_ref()),
        ];
        tx.execute_later((&PUT_MANY, params.to_vec()));
        return Ok(());
    }
    for review in changed {
        let hand = &review.hand;
        let params = params![
            review.collection(),
            review.id,
            hand.state.code(),
            hand.token.0,
            hand.retry_count,
            hand.assigned_to.as_ref(),
            hand.assigned_at,
            hand.opened_at,
            hand.until,
            hand.lease_ms,
            hand.decided_by.as_ref(),
            hand.decided_at,
            hand.active_ms,
            review.decision.as_ref(),
        ];
        tx.execute_one(&PUT, params).await?;
    }
    Ok(())
}

/// Notes that a review is not to be offered to a reviewer again.
pub async fn skip(tx: &mut Tx, id: ReviewId, reviewer: &str) -> Result<()> {
    tx.execute(&SKIP, params![id.collection(), id, reviewer])
        .await
        .map(drop)
}

/// What is left in a collection for a reviewer, whoever has it locked; all of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// Whether anything is pending.
    pub any: bool,
    /// Whether any of that was not passed over by the reviewer.
    pub any_for_reviewer: bool,
    /// How many are in hands.
    pub in_review: u64,
    /// When the next of their leases ends.
    pub next_lease_ends_at: Option<Timestamp>,
}

/// What is left for a reviewer.
pub async fn left(tx: &mut Tx, collection: CollectionKey, reviewer: &str) -> Result<Left> {
    let mut row = tx.row(&LEFT, params![collection, reviewer]).await?;
    Ok(Left {
        any: row.bool(0)?,
        any_for_reviewer: row.bool(1)?,
        in_review: row.count(2)?,
        next_lease_ends_at: row.opt_time(3)?,
    })
}

/// Those who have passed over a review.
pub async fn skipped_by(tx: &mut Tx, id: ReviewId) -> Result<Vec<String>> {
    let rows = tx.rows(&SKIPPED_BY, params![id.collection(), id]).await?;
    rows.into_iter().map(|mut row| row.text(0)).collect()
}

/// Deletes all reviews of an item; the states they had.
pub async fn delete_of_item(tx: &mut Tx, item: ItemId) -> Result<Vec<ReviewState>> {
    let key = params![item.collection(), item];
    tx.execute(&DELETE_SKIPS, key).await?;
    let rows = tx.rows(&DELETE, key).await?;
    rows.into_iter()
        .map(|mut row| ReviewState::from_code(row.int(0)?).ok_or_else(|| row.inconsistent(0)))
        .collect()
}
