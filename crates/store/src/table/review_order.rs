//! The order of a collection's open reviews, when the policy changes by which it is computed.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ReviewId};

use super::review::{Review, columns};
use crate::error::Result;
use crate::params;
use crate::tx::{Driver, Tx};
use crate::value::Value;

crate::statements! {
    BEGIN = portable "rekey_begin" "
insert into review_rekey (collection_key, policy, after_id, passes_left, due_at_ms, rekeyed) values ($1, $2, null, $3, $4, 0)
on conflict (collection_key) do update set policy = excluded.policy, after_id = null, passes_left = excluded.passes_left,
  due_at_ms = excluded.due_at_ms, rekeyed = 0";
    DUE = portable "rekey_due" "
select collection_key, policy, after_id, passes_left, rekeyed from review_rekey where due_at_ms <= $1
order by due_at_ms limit 1 for no key update skip locked";
    NEXT_DUE = portable "rekey_next_due" "select min(due_at_ms) from review_rekey";
    ADVANCE = portable "rekey_advance" "
update review_rekey set after_id = $2, passes_left = $3, due_at_ms = $4, rekeyed = $5 where collection_key = $1";
    END = portable "rekey_end" "delete from review_rekey where collection_key = $1";
    STALE = selecting "rekey_stale" columns "
from review r where r.collection_key = $1 and r.id > $2 and r.policy <> $3 and r.state in (0, 1, 5)
order by r.collection_key, r.id limit $4 for no key update";
    SET_KEYS = sqlite "rekey_set" "
update review set order_key = $3, deadline_ms = $4, policy = $5 where collection_key = $1 and id = $2";
    SET_KEYS_MANY = postgres "rekey_set_many" "
update review r set order_key = n.order_key, deadline_ms = n.deadline_ms, policy = $5
from unnest($2::uuid[], $3::bigint[], $4::bigint[]) as n (id, order_key, deadline_ms)
where r.collection_key = $1 and r.id = n.id";
}

/// A collection whose reviews still follow an earlier policy.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Rekey {
    pub collection: CollectionKey,
    /// The policy that they are to follow.
    pub policy: i64,
    /// How far it has come.
    pub after: Option<ReviewId>,
    /// How often all of them are still looked at: somebody may have begun a review by the old policy a moment ago.
    pub passes_left: i64,
    /// How many were changed.
    pub rekeyed: u64,
}

/// Notes that the order of a collection has to be computed anew.
pub async fn begin(
    tx: &mut Tx,
    collection: CollectionKey,
    policy: i64,
    passes: i64,
    now: Timestamp,
) -> Result<()> {
    tx.execute_one(&BEGIN, params![collection, policy, passes, now])
        .await
}

/// A collection that is due, locked.
pub async fn due(tx: &mut Tx, now: Timestamp) -> Result<Option<Rekey>> {
    let Some(mut row) = tx.row_opt(&DUE, params![now]).await? else {
        return Ok(None);
    };
    Ok(Some(Rekey {
        collection: row.collection(0)?,
        policy: row.int(1)?,
        after: row.opt_review(2)?,
        passes_left: row.int(3)?,
        rekeyed: row.count(4)?,
    }))
}

/// When the next is due.
pub async fn next_due(tx: &mut Tx) -> Result<Option<Timestamp>> {
    tx.row(&NEXT_DUE, &[]).await?.opt_time(0)
}

/// Notes how far it has come, and when it goes on.
pub async fn advance(tx: &mut Tx, rekey: &Rekey, due_at: Timestamp) -> Result<()> {
    let params = params![
        rekey.collection,
        rekey.after,
        rekey.passes_left,
        due_at,
        rekey.rekeyed
    ];
    tx.execute_one(&ADVANCE, params).await
}

/// All is done.
pub async fn end(tx: &mut Tx, collection: CollectionKey) -> Result<()> {
    tx.execute_one(&END, params![collection]).await
}

/// Open reviews after this one that follow another policy, by id; locked.
pub async fn stale(tx: &mut Tx, rekey: &Rekey, limit: u64) -> Result<Vec<Review>> {
    let after = rekey.after.unwrap_or_else(ReviewId::first);
    let params = params![rekey.collection, after, rekey.policy, limit];
    let rows = tx.rows(&STALE, params).await?;
    rows.into_iter().map(Review::read).collect()
}

/// Writes the keys and deadlines of reviews, which follow this policy from now on.
pub async fn set_keys(tx: &mut Tx, collection: CollectionKey, policy: i64, changed: &[Review]) -> Result<()> {
    if let Driver::Postgres(_) = tx.driver {
        let ints = |of: fn(&Review) -> i64| Value::Ints(changed.iter().map(|r| Some(of(r))).collect());
        let params = params![
            collection,
            Value::Uuids(changed.iter().map(|review| review.id.uuid()).collect()),
            ints(|review| review.order_key),
            ints(|review| review.inputs.deadline.ms()),
            policy,
        ];
        return tx.execute(&SET_KEYS_MANY, params).await.map(drop);
    }
    for review in changed {
        let params = params![
            collection,
            review.id,
            review.order_key,
            review.inputs.deadline,
            policy
        ];
        tx.execute_one(&SET_KEYS, params).await?;
    }
    Ok(())
}
