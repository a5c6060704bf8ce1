//! What a reviewer sees of an item, and what orders its review.

use docket_core::Timestamp;
use docket_core::id::{ItemId, LaneKey, Seq};

use crate::error::Result;
use crate::params;
use crate::postgres::Query;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

/// What is read of an item and of its latest job.
macro_rules! content_columns {
    () => {
        "i.id, i.version, i.external_id, i.is_file, i.media_type, i.filename, i.payload, i.fields, i.display_payload,
         j.item_version, j.fields, j.display_payload, j.prior_lane_key, i.lane_key, i.job_seq"
    };
}
pub(crate) use content_columns;

/// How many that are.
pub(super) const COLUMNS: usize = 15;

crate::statements! {
    INPUTS = portable "review_inputs" "
select i.id, i.version, i.confidence, i.fields, i.line_item_count, i.total_amount, i.deadline_ms
from item i where i.collection_key = $1 and i.id = $2";
    INPUTS_MANY = postgres "review_inputs_many" "
select i.id, i.version, i.confidence, i.fields, i.line_item_count, i.total_amount, i.deadline_ms
from unnest($1::bigint[], $2::uuid[]) as q (collection_key, id)
cross join lateral (select * from item i where i.collection_key = q.collection_key and i.id = q.id limit 1) i";
    CONTENT = selecting "review_content" content_columns "
from item i left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
where i.collection_key = $1 and i.id = $2";
    CONTENT_MANY = selecting_postgres "review_content_many" content_columns "
from unnest($1::bigint[], $2::uuid[]) as q (collection_key, id)
cross join lateral (select * from item i where i.collection_key = q.collection_key and i.id = q.id limit 1) i
left join lateral (select * from job j where j.lane_key = i.lane_key and j.seq = i.job_seq limit 1) j on true";
}

/// What orders the review of an item.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct ReviewInputs {
    pub id: ItemId,
    pub version: i64,
    pub confidence: Option<f64>,
    /// As JSON text.
    pub fields: Option<String>,
    pub line_item_count: Option<i64>,
    pub total_amount: Option<f64>,
    pub deadline: Option<Timestamp>,
}

/// What a reviewer sees of an item, before people's corrections are laid over it. JSON is text.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct ReviewContent {
    pub id: ItemId,
    pub external_id: Option<String>,
    pub is_file: bool,
    pub media_type: Option<String>,
    pub filename: Option<String>,
    /// What the machine says a reviewer should see, or the item itself.
    pub display_payload: Option<String>,
    pub fields: Option<String>,
    /// The latest job, where it left the fields as they were: an earlier one may have handed some in.
    pub look_further: Option<(LaneKey, Seq)>,
}

/// What orders the reviews of these items.
pub async fn inputs(tx: &mut Tx, items: &[ItemId]) -> Result<Vec<ReviewInputs>> {
    let rows = rows(tx, &INPUTS, &INPUTS_MANY, items).await?;
    rows.into_iter()
        .map(|mut row| {
            Ok(ReviewInputs {
                id: row.item(0)?,
                version: row.int(1)?,
                confidence: row.opt_real(2)?,
                fields: row.opt_text(3)?,
                line_item_count: row.opt_int(4)?,
                total_amount: row.opt_real(5)?,
                deadline: row.opt_time(6)?,
            })
        })
        .collect()
}

/// What a reviewer sees of these items, in any order.
pub async fn contents(tx: &mut Tx, items: &[ItemId]) -> Result<Vec<ReviewContent>> {
    read_all(rows(tx, &CONTENT, &CONTENT_MANY, items).await?)
}

/// Asks for what a reviewer sees of these items.
pub(super) fn with_items(items: &[ItemId]) -> Query {
    (&CONTENT_MANY, keys_of(items))
}

pub(super) fn read_all(rows: Vec<Row>) -> Result<Vec<ReviewContent>> {
    let contents = rows.into_iter().map(|mut row| read_at(&mut row, 0));
    contents.filter_map(Result::transpose).collect()
}

fn keys_of(items: &[ItemId]) -> Vec<Value> {
    let keys = items.iter().map(|item| Some(i64::from(item.collection().0)));
    let ids = items.iter().map(|item| item.uuid());
    vec![Value::Ints(keys.collect()), Value::Uuids(ids.collect())]
}

/// What is seen of an item, from the columns that begin here; none where it is gone.
pub(super) fn read_at(row: &mut Row, at: usize) -> Result<Option<ReviewContent>> {
    let Some(version) = row.opt_int(at + 1)? else {
        return Ok(None);
    };
    let is_of_job = row.opt_int(at + 9)? == Some(version);
    let (payload, own_fields) = (row.opt_text(at + 6)?, row.opt_text(at + 7)?);
    let own_display = row.opt_text(at + 8)?;
    let (said, shown) = (row.opt_text(at + 10)?, row.opt_text(at + 11)?);
    let has_prior = row.opt_lane(at + 12)?.is_some();
    let latest = row.opt_lane(at + 13)?.zip(row.opt_seq(at + 14)?);
    let look_further = is_of_job && has_prior && (said.is_none() || shown.is_none());
    let of_job = |text: Option<String>| text.filter(|_| is_of_job);
    Ok(Some(ReviewContent {
        id: row.item(at)?,
        external_id: row.opt_text(at + 2)?,
        is_file: row.bool(at + 3)?,
        media_type: row.opt_text(at + 4)?,
        filename: row.opt_text(at + 5)?,
        display_payload: of_job(shown).or(own_display).or(payload),
        fields: of_job(said).or(own_fields),
        look_further: latest.filter(|_| look_further),
    }))
}

async fn rows(
    tx: &mut Tx,
    one: &'static crate::statement::Statement,
    many: &'static crate::statement::Statement,
    items: &[ItemId],
) -> Result<Vec<Row>> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        return tx.rows(many, &keys_of(items)).await;
    }
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        found.extend(tx.row_opt(one, params![item.collection(), *item]).await?);
    }
    Ok(found)
}
