//! Collections.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, LaneKey, PipelineKey};
use docket_core::tenant::UploadLimit;

use crate::error::Result;
use crate::params;
use crate::postgres::Query;
use crate::table::tenant::upload_limit;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

/// What is read of every collection, its tenant and that one's tier.
macro_rules! columns {
    () => {
        "c.collection_key, c.id, c.tenant_id, c.pipeline_key, c.lane_key, c.to_review, c.settings,
         case when t.uploads_per_hour = -1 then null else coalesce(t.uploads_per_hour, r.uploads_per_hour) end,
         c.review_policy, exists (select 1 from pause p where p.pipeline_key = 0 or p.collection_key = c.collection_key)"
    };
}

crate::statements! {
    GET = selecting "collection_get" columns "
from collection c join tenant t on t.id = c.tenant_id join tier r on r.name = t.tier where c.id = $1";
    GET_MANY = selecting_postgres "collections_get" columns "
from collection c join tenant t on t.id = c.tenant_id join tier r on r.name = t.tier where c.id = any ($1::text[])";
    BY_KEY = selecting "collection_by_key" columns "
from collection c join tenant t on t.id = c.tenant_id join tier r on r.name = t.tier where c.collection_key = $1";
    BY_KEYS = selecting_postgres "collections_by_key" columns "
from collection c join tenant t on t.id = c.tenant_id join tier r on r.name = t.tier
where c.collection_key = any ($1::bigint[])";
    OF_TENANT = selecting "collections_of_tenant" columns "
from collection c join tenant t on t.id = c.tenant_id join tier r on r.name = t.tier
where c.tenant_id = $1 and c.id > $2 order by c.tenant_id, c.id limit $3";
    ALL = selecting "collections_all" columns "
from collection c join tenant t on t.id = c.tenant_id join tier r on r.name = t.tier
where c.id > $1 order by c.id limit $2";
    INSERT = portable "collection_insert" "
insert into collection (collection_key, id, tenant_id, pipeline_key, lane_key, to_review, settings, created_at_ms, updated_at_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $8)";
    UPDATE = portable "collection_update" "
update collection set pipeline_key = $2, lane_key = $3, to_review = $4, settings = $5, updated_at_ms = $6, review_policy = $7
where collection_key = $1";
}

/// A collection.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Collection {
    pub key: CollectionKey,
    pub id: String,
    pub tenant_id: String,
    pub pipeline: Option<PipelineKey>,
    pub lane: Option<LaneKey>,
    pub to_review: bool,
    pub settings: String,
    /// Its tenant's.
    pub uploads: UploadLimit,
    /// Rises when the order of its reviews changes.
    pub review_policy: i64,
    /// Whether its reviews are not to be given out now.
    pub is_paused: bool,
}

fn read(mut row: Row) -> Result<Collection> {
    Ok(Collection {
        key: row.collection(0)?,
        id: row.text(1)?,
        tenant_id: row.text(2)?,
        pipeline: row.opt_pipeline(3)?,
        lane: row.opt_lane(4)?,
        to_review: row.bool(5)?,
        settings: row.text(6)?,
        uploads: upload_limit(row.opt_int(7)?),
        review_policy: row.int(8)?,
        is_paused: row.bool(9)?,
    })
}

pub(super) fn read_all(rows: Vec<Row>) -> Result<Vec<Collection>> {
    rows.into_iter().map(read).collect()
}

/// Asks for the collections of these ids.
pub(super) fn with_ids(ids: Vec<String>) -> Query {
    let ids = Value::Texts(ids.into_iter().map(Some).collect());
    (&GET_MANY, vec![ids])
}

/// Asks for the collections of these keys.
pub(super) fn with_keys(keys: &[CollectionKey]) -> Query {
    let keys = Value::Ints(keys.iter().map(|key| Some(i64::from(key.0))).collect());
    (&BY_KEYS, vec![keys])
}

/// The collections of these ids, in any order; unknown ids are left out.
pub async fn get_many(tx: &mut Tx, ids: Vec<String>) -> Result<Vec<Collection>> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let (statement, params) = with_ids(ids);
        return read_all(tx.rows(statement, &params).await?);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(get(tx, &id).await?);
    }
    Ok(found)
}

/// A collection.
pub async fn get(tx: &mut Tx, id: &str) -> Result<Option<Collection>> {
    tx.row_opt(&GET, params![id]).await?.map(read).transpose()
}

/// Collections after this one, by id: of a tenant, or of all.
pub async fn list(tx: &mut Tx, tenant_id: Option<&str>, after: &str, limit: u64) -> Result<Vec<Collection>> {
    let rows = match tenant_id {
        Some(tenant_id) => tx.rows(&OF_TENANT, params![tenant_id, after, limit]).await?,
        None => tx.rows(&ALL, params![after, limit]).await?,
    };
    rows.into_iter().map(read).collect()
}

/// The collection of this key.
pub async fn by_key(tx: &mut Tx, key: CollectionKey) -> Result<Option<Collection>> {
    tx.row_opt(&BY_KEY, params![key]).await?.map(read).transpose()
}

/// Writes a new collection.
pub async fn insert(tx: &mut Tx, collection: &Collection, now: Timestamp) -> Result<()> {
    let c = collection;
    let params = params![
        c.key,
        &c.id,
        &c.tenant_id,
        c.pipeline,
        c.lane,
        c.to_review,
        &c.settings,
        now
    ];
    tx.execute_one(&INSERT, params).await
}

/// Changes a collection; its tenant stays.
pub async fn update(tx: &mut Tx, collection: &Collection, now: Timestamp) -> Result<()> {
    let c = collection;
    tx.execute_one(
        &UPDATE,
        params![
            c.key,
            c.pipeline,
            c.lane,
            c.to_review,
            &c.settings,
            now,
            c.review_policy
        ],
    )
    .await
}
