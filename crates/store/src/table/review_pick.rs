//! Picking: the first pending reviews of a collection, in the order of a strategy, for those who pop together; with what they will see of
//! them, so that nobody has to ask again.

use docket_core::id::CollectionKey;
use docket_core::review::Strategy;

use super::review::{Review, columns};
use super::review_content::{self, ReviewContent, content_columns};
use crate::error::{Error, Result};
use crate::postgres::Query;
use crate::tx::Tx;
use crate::value::{Row, Value};

/// Where the columns that follow a review's begin: the content's, whether people have corrected it, and who has passed over it.
const CONTENT: usize = 25;
const IS_CORRECTED: usize = CONTENT + review_content::COLUMNS;
const SKIPPED_BY: usize = IS_CORRECTED + 1;

/// What is picked, up to its order.
macro_rules! picked {
    (postgres) => {
        concat!(
            columns!(),
            ", ",
            content_columns!(),
            // Not `exists`, for which the planner may read all corrections there are.
            ", coalesce((select true from correction c
                         where c.collection_key = r.collection_key and c.item_id = r.item_id limit 1), false), s.reviewers
from review r
left join item i on i.collection_key = r.collection_key and i.id = r.item_id
left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
cross join lateral (
  select count(*) as n, json_agg(k.reviewer)::text as reviewers from review_skip k
  where k.collection_key = r.collection_key and k.review_id = r.id and k.reviewer = any ($2::text[])) s
where r.collection_key = $1 and r.state = 0 and s.n < cardinality($2::text[])"
        )
    };
    (sqlite) => {
        concat!(
            columns!(),
            ", ",
            content_columns!(),
            ", exists (select 1 from correction c where c.collection_key = r.collection_key and c.item_id = r.item_id),
  (select json_group_array(k.reviewer) from review_skip k
   where k.collection_key = r.collection_key and k.review_id = r.id and k.reviewer in (select value from json_each($2)))
from review r
left join item i on i.collection_key = r.collection_key and i.id = r.item_id
left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
where r.collection_key = $1 and r.state = 0
  and (select count(*) from review_skip k
       where k.collection_key = r.collection_key and k.review_id = r.id
         and k.reviewer in (select value from json_each($2))) < json_array_length($2)"
        )
    };
}

crate::statements! {
    PICK_FIFO = selecting_each "review_pick_fifo" picked
        "order by r.collection_key, r.entered limit $3 for no key update of r skip locked";
    PICK_PRIORITY = selecting_each "review_pick_priority" picked
        "order by r.collection_key, r.order_key, r.entered limit $3 for no key update of r skip locked";
    PICK_DEADLINE = selecting_each "review_pick_deadline" picked
        "order by r.collection_key, r.deadline_ms, r.entered limit $3 for no key update of r skip locked";
}

/// Which reviews some reviewers want.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of which collection.
    pub collection: CollectionKey,
    /// In which order.
    pub strategy: Strategy,
    /// For whom.
    pub reviewers: Vec<String>,
    /// How many at the most.
    pub limit: u64,
}

/// A pending review that was picked for some reviewers.
#[derive(Clone, Debug)]
pub struct Picked {
    /// The review, locked.
    pub review: Review,
    /// What they will see of its item; none where people have corrected it, which has to be looked up.
    pub content: Option<ReviewContent>,
    /// Which of those reviewers have passed over it.
    pub skipped_by: Vec<String>,
}

/// The first pending reviews that not all of these reviewers have passed over, locked; those that somebody else has locked are left out.
pub async fn pick(tx: &mut Tx, wanted: &Wanted) -> Result<Vec<Picked>> {
    let (statement, params) = picking(wanted);
    read_all(tx.rows(statement, &params).await?)
}

pub(super) fn picking(wanted: &Wanted) -> Query {
    let statement = match wanted.strategy {
        Strategy::Fifo => &PICK_FIFO,
        Strategy::Priority => &PICK_PRIORITY,
        Strategy::Deadline => &PICK_DEADLINE,
    };
    let reviewers = Value::Texts(wanted.reviewers.iter().cloned().map(Some).collect());
    (
        statement,
        vec![wanted.collection.into(), reviewers, wanted.limit.into()],
    )
}

pub(super) fn read_all(rows: Vec<Row>) -> Result<Vec<Picked>> {
    rows.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<Picked> {
    let skipped_by = match row.opt_text(SKIPPED_BY)? {
        None => Vec::new(),
        Some(names) => serde_json::from_str(&names).map_err(|source| Error::Json {
            what: "the reviewers who passed over a review",
            source,
        })?,
    };
    let content = match row.bool(IS_CORRECTED)? {
        true => None,
        false => review_content::read_at(&mut row, CONTENT)?,
    };
    Ok(Picked {
        review: Review::read(row)?,
        content,
        skipped_by,
    })
}
