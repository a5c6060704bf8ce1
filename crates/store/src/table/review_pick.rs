//! Picking: the first pending reviews of a collection, in the order of a strategy, for those who pop together.

use docket_core::id::CollectionKey;
use docket_core::review::Strategy;

use super::review::{Review, columns};
use crate::error::{Error, Result};
use crate::params;
use crate::tx::Tx;
use crate::value::Value;

crate::statements! {
    PICK_FIFO = selecting_split "review_pick_fifo" columns
        ", s.reviewers from review r cross join lateral (
           select count(*) as n, json_agg(k.reviewer)::text as reviewers from review_skip k
           where k.collection_key = r.collection_key and k.review_id = r.id and k.reviewer = any ($2::text[])) s
         where r.collection_key = $1 and r.state = 0 and s.n < cardinality($2::text[])
         order by r.collection_key, r.entered limit $3 for no key update of r skip locked"
        ", (select json_group_array(k.reviewer) from review_skip k
            where k.collection_key = r.collection_key and k.review_id = r.id
              and k.reviewer in (select value from json_each($2)))
         from review r where r.collection_key = $1 and r.state = 0
           and (select count(*) from review_skip k
                where k.collection_key = r.collection_key and k.review_id = r.id
                  and k.reviewer in (select value from json_each($2))) < json_array_length($2)
         order by r.collection_key, r.entered limit $3";
    PICK_PRIORITY = selecting_split "review_pick_priority" columns
        ", s.reviewers from review r cross join lateral (
           select count(*) as n, json_agg(k.reviewer)::text as reviewers from review_skip k
           where k.collection_key = r.collection_key and k.review_id = r.id and k.reviewer = any ($2::text[])) s
         where r.collection_key = $1 and r.state = 0 and s.n < cardinality($2::text[])
         order by r.collection_key, r.order_key, r.entered limit $3 for no key update of r skip locked"
        ", (select json_group_array(k.reviewer) from review_skip k
            where k.collection_key = r.collection_key and k.review_id = r.id
              and k.reviewer in (select value from json_each($2)))
         from review r where r.collection_key = $1 and r.state = 0
           and (select count(*) from review_skip k
                where k.collection_key = r.collection_key and k.review_id = r.id
                  and k.reviewer in (select value from json_each($2))) < json_array_length($2)
         order by r.collection_key, r.order_key, r.entered limit $3";
    PICK_DEADLINE = selecting_split "review_pick_deadline" columns
        ", s.reviewers from review r cross join lateral (
           select count(*) as n, json_agg(k.reviewer)::text as reviewers from review_skip k
           where k.collection_key = r.collection_key and k.review_id = r.id and k.reviewer = any ($2::text[])) s
         where r.collection_key = $1 and r.state = 0 and s.n < cardinality($2::text[])
         order by r.collection_key, r.deadline_ms, r.entered limit $3 for no key update of r skip locked"
        ", (select json_group_array(k.reviewer) from review_skip k
            where k.collection_key = r.collection_key and k.review_id = r.id
              and k.reviewer in (select value from json_each($2)))
         from review r where r.collection_key = $1 and r.state = 0
           and (select count(*) from review_skip k
                where k.collection_key = r.collection_key and k.review_id = r.id
                  and k.reviewer in (select value from json_each($2))) < json_array_length($2)
         order by r.collection_key, r.deadline_ms, r.entered limit $3";
}

/// A pending review that was picked for some reviewers.
#[derive(Clone, Debug)]
pub struct Picked {
    /// The review, locked.
    pub review: Review,
    /// Which of those reviewers have passed over it.
    pub skipped_by: Vec<String>,
}

/// The first pending reviews that not all of these reviewers have passed over, locked; those that somebody else has locked are left out.
pub async fn pick(
    tx: &mut Tx,
    collection: CollectionKey,
    strategy: Strategy,
    reviewers: &[String],
    limit: u64,
) -> Result<Vec<Picked>> {
    let statement = match strategy {
        Strategy::Fifo => &PICK_FIFO,
        Strategy::Priority => &PICK_PRIORITY,
        Strategy::Deadline => &PICK_DEADLINE,
    };
    let reviewers = Value::Texts(reviewers.iter().cloned().map(Some).collect());
    let rows = tx.rows(statement, params![collection, reviewers, limit]).await?;
    rows.into_iter()
        .map(|mut row| {
            let skipped_by = match row.opt_text(25)? {
                None => Vec::new(),
                Some(names) => serde_json::from_str(&names).map_err(|source| Error::Json {
                    what: "the reviewers who passed over a review",
                    source,
                })?,
            };
            Ok(Picked {
                review: Review::read(row)?,
                skipped_by,
            })
        })
        .collect()
}
