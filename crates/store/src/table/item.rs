//! Items, outside of the tuned operations.

use docket_core::Timestamp;
use docket_core::content::Digest;
use docket_core::id::{CollectionKey, ItemId, LaneKey, Seq};
use docket_core::item::ItemStatus;
use docket_core::job::JobState;
use docket_core::lane::HoldKind;
use docket_core::review::ReviewState;

use crate::error::Result;
use crate::hot::NewItem;
use crate::params;
use crate::postgres::Query;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

/// What is read of every item, its latest job, and the review of its present version.
macro_rules! columns {
    () => {
        "i.collection_key, i.id, i.version, i.external_id, i.content_hash, i.is_file, i.filename, i.media_type, i.size,
         i.blob_key, i.payload, i.metadata, i.fields, i.display_payload, i.confidence, i.line_item_count, i.total_amount,
         i.deadline_ms, i.to_review, i.submitted_by, i.lane_key, i.job_seq, i.created_at_ms, i.updated_at_ms,
         c.id, c.tenant_id, j.state, h.kind, j.to_review, r.state, r.decided_by, r.decided_at_ms, r.decision,
         h.started_at_ms, j.finished_at_ms"
    };
}

crate::statements! {
    GET = selecting "item_get" columns "
from item i join collection c on c.collection_key = i.collection_key
left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
left join hold h on h.lane_key = i.lane_key and h.seq = i.job_seq
left join review r on r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version
where i.collection_key = $1 and i.id = $2";
    GET_MANY = selecting_postgres "item_get_many" columns "
from unnest($2::uuid[]) as q (id)
cross join lateral (select * from item i where i.collection_key = $1 and i.id = q.id limit 1) i
join collection c on c.collection_key = i.collection_key
left join lateral (select * from job j where j.lane_key = i.lane_key and j.seq = i.job_seq limit 1) j on true
left join lateral (select * from hold h where h.lane_key = i.lane_key and h.seq = i.job_seq limit 1) h on true
left join lateral (select r.state, r.decided_by, r.decided_at_ms, r.decision from review r
                   where r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version
                   limit 1) r on true";
    LIST = selecting "item_list" columns "
from item i join collection c on c.collection_key = i.collection_key
left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
left join hold h on h.lane_key = i.lane_key and h.seq = i.job_seq
left join review r on r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version
where i.collection_key = $1 and i.id < $2 order by i.id desc limit $3";
    HEADS = portable "item_heads" "
select collection_key, head from (
  select c.collection_key, (
    select i.id from item i where i.collection_key = c.collection_key and i.id < $2 order by i.id desc limit 1) as head
  from collection c where c.tenant_id = $1) h
where head is not null limit $3";
    LOCK = portable "item_lock" "
select version from item where collection_key = $1 and id = $2 for no key update";
    BY_EXTERNAL = portable "item_by_external" "
select collection_key, external_id, id, content_hash from item where collection_key = $1 and external_id = $2";
    BY_EXTERNAL_MANY = postgres "item_by_external_many" "
select i.collection_key, i.external_id, i.id, i.content_hash
from unnest($1::bigint[], $2::text[]) as q (collection_key, external_id)
cross join lateral (
  select i.collection_key, i.external_id, i.id, i.content_hash from item i
  where i.collection_key = q.collection_key and i.external_id = q.external_id limit 1) i";
    BY_CONTENT = portable "item_by_content" "
select collection_key, content_key, id, content_hash from item where collection_key = $1 and content_key = $2";
    BY_CONTENT_MANY = postgres "item_by_content_many" "
select i.collection_key, i.content_key, i.id, i.content_hash
from unnest($1::bigint[], $2::bytea[]) as q (collection_key, content_key)
cross join lateral (
  select i.collection_key, i.content_key, i.id, i.content_hash from item i
  where i.collection_key = q.collection_key and i.content_key = q.content_key limit 1) i";
    BY_EXTERNAL_IN = postgres "item_by_external_in" "
select i.collection_key, i.external_id, i.id, i.content_hash
from unnest($1::text[], $2::text[]) as q (collection_id, external_id)
cross join lateral (select c.collection_key from collection c where c.id = q.collection_id limit 1) c
cross join lateral (
  select i.collection_key, i.external_id, i.id, i.content_hash from item i
  where i.collection_key = c.collection_key and i.external_id = q.external_id limit 1) i";
    BY_CONTENT_IN = postgres "item_by_content_in" "
select i.collection_key, i.content_key, i.id, i.content_hash
from unnest($1::text[], $2::bytea[]) as q (collection_id, content_key)
cross join lateral (select c.collection_key from collection c where c.id = q.collection_id limit 1) c
cross join lateral (
  select i.collection_key, i.content_key, i.id, i.content_hash from item i
  where i.collection_key = c.collection_key and i.content_key = q.content_key limit 1) i";
    SET_JOB = portable "item_set_job" "
update item set lane_key = $3, job_seq = $4, updated_at_ms = $5 where collection_key = $1 and id = $2";
    EARLIER_JOBS = portable "item_earlier_jobs" "
select version, lane_key, job_seq from item_version where collection_key = $1 and item_id = $2 and lane_key is not null
order by version desc";
    ARCHIVE = portable "item_archive" "
insert into item_version (collection_key, item_id, version, content_hash, is_file, filename, media_type, size, blob_key,
                          payload, metadata, lane_key, job_seq, superseded_at_ms)
select collection_key, id, version, content_hash, is_file, filename, media_type, size, blob_key, payload, metadata, lane_key,
       job_seq, $3
from item where collection_key = $1 and id = $2";
    NEXT_VERSION = portable "item_next_version" "
update item
set version = version + 1, content_hash = $3, content_key = $4, is_file = $5, filename = $6, media_type = $7, size = $8,
    blob_key = $9, payload = $10, metadata = $11, fields = $12, display_payload = $13, confidence = $14,
    line_item_count = $15, total_amount = $16, deadline_ms = $17, to_review = $18, submitted_by = $19, lane_key = null,
    job_seq = null, updated_at_ms = $20
where collection_key = $1 and id = $2";
}

/// An item with what its job tells of it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Item {
    pub id: ItemId,
    pub version: i64,
    pub external_id: Option<String>,
    pub content_hash: Digest,
    pub is_file: bool,
    pub filename: Option<String>,
    pub media_type: Option<String>,
    pub size: u64,
    pub blob_key: Option<String>,
    pub payload: Option<String>,
    pub metadata: Option<String>,
    pub fields: Option<String>,
    pub display_payload: Option<String>,
    pub confidence: Option<f64>,
    pub line_item_count: Option<i64>,
    pub total_amount: Option<f64>,
    pub deadline: Option<Timestamp>,
    pub to_review: bool,
    pub submitted_by: String,
    /// Its latest job.
    pub job: Option<(LaneKey, Seq)>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub collection_id: String,
    pub tenant_id: String,
    pub status: ItemStatus,
    /// How the review of its present version was decided.
    pub decided: Option<DecidedItem>,
}

/// How the review of an item was decided.
#[derive(Clone, Debug)]
pub struct DecidedItem {
    /// What the review is.
    pub state: ReviewState,
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The reason and the corrections, as JSON text.
    pub decision: Option<String>,
}

fn read(mut row: Row) -> Result<Item> {
    let job = match (row.opt_lane(20)?, row.opt_seq(21)?) {
        (Some(lane), Some(seq)) => Some((lane, seq)),
        _ => None,
    };
    let leased = row.opt_int(27)? == Some(HoldKind::Leased.code());
    let job_status = match row.opt_int(26)? {
        Some(code) => Some(
            JobState::from_code(code)
                .ok_or_else(|| row.inconsistent(26))?
                .status(leased),
        ),
        None => None,
    };
    let review = match row.opt_int(29)? {
        Some(code) => Some(ReviewState::from_code(code).ok_or_else(|| row.inconsistent(29))?),
        None => None,
    };
    let decided = match (review, row.opt_text(30)?, row.opt_time(31)?) {
        (Some(state), Some(by), Some(at)) if state.is_decided() => Some(DecidedItem {
            state,
            by,
            at,
            decision: row.opt_text(32)?,
        }),
        _ => None,
    };
    let item_to_review = row.bool(18)?;
    // Processing and reviewing change an item without writing its row.
    let changes = [
        row.opt_time(33)?,
        row.opt_time(34)?,
        decided.as_ref().map(|decided| decided.at),
    ];
    let updated_at = changes.into_iter().flatten().fold(row.time(23)?, Timestamp::max);
    let to_review = row.opt_bool(28)?.unwrap_or(item_to_review);
    Ok(Item {
        id: row.item(1)?,
        version: row.int(2)?,
        external_id: row.opt_text(3)?,
        content_hash: row.digest(4)?,
        is_file: row.bool(5)?,
        filename: row.opt_text(6)?,
        media_type: row.opt_text(7)?,
        size: row.count(8)?,
        blob_key: row.opt_text(9)?,
        payload: row.opt_text(10)?,
        metadata: row.opt_text(11)?,
        fields: row.opt_text(12)?,
        display_payload: row.opt_text(13)?,
        confidence: row.opt_real(14)?,
        line_item_count: row.opt_int(15)?,
        total_amount: row.opt_real(16)?,
        deadline: row.opt_time(17)?,
        to_review: item_to_review,
        submitted_by: row.text(19)?,
        job,
        created_at: row.time(22)?,
        updated_at,
        collection_id: row.text(24)?,
        tenant_id: row.text(25)?,
        status: ItemStatus::derive(job_status, to_review, review),
        decided,
    })
}

/// An item.
pub async fn get(tx: &mut Tx, id: ItemId) -> Result<Option<Item>> {
    tx.row_opt(&GET, params![id.collection(), id])
        .await?
        .map(read)
        .transpose()
}

/// Those of these items of a collection that are there, in no order.
pub async fn get_many(tx: &mut Tx, collection: CollectionKey, ids: &[ItemId]) -> Result<Vec<Item>> {
    if let Driver::Postgres(_) = tx.driver {
        let ids = Value::Uuids(ids.iter().map(|id| id.uuid()).collect());
        let rows = tx.rows(&GET_MANY, params![collection, ids]).await?;
        return rows.into_iter().map(read).collect();
    }
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        items.extend(get(tx, *id).await?);
    }
    Ok(items)
}

/// Locks an item, so that what is read of it after stays true; whether it is there.
pub async fn lock(tx: &mut Tx, id: ItemId) -> Result<bool> {
    Ok(tx.row_opt(&LOCK, params![id.collection(), id]).await?.is_some())
}

/// Items of a collection before this id, newest first.
pub async fn list(tx: &mut Tx, collection: CollectionKey, before: ItemId, limit: u64) -> Result<Vec<Item>> {
    tx.rows(&LIST, params![collection, before, limit])
        .await?
        .into_iter()
        .map(read)
        .collect()
}

/// The collections of a tenant that have items before this id, each with the newest of those.
pub async fn heads(
    tx: &mut Tx,
    tenant: &str,
    before: ItemId,
    limit: u64,
) -> Result<Vec<(CollectionKey, ItemId)>> {
    let rows = tx.rows(&HEADS, params![tenant, before, limit]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.collection(0)?, row.item(1)?)))
        .collect()
}

/// An item that is there already.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct KnownItem {
    pub id: ItemId,
    pub digest: Digest,
}

/// Items by their externalIds, each in its collection.
pub type KnownByExternal = Vec<((CollectionKey, String), KnownItem)>;
/// Items by the contents that identify them, each in its collection.
pub type KnownByContent = Vec<((CollectionKey, Digest), KnownItem)>;

/// Asks for the items that have these externalIds, by the collections' ids.
pub(super) fn asking_external(wanted: &[(String, String)]) -> Query {
    let (collections, external) = wanted.iter().cloned().map(|(c, id)| (Some(c), Some(id))).unzip();
    (
        &BY_EXTERNAL_IN,
        vec![Value::Texts(collections), Value::Texts(external)],
    )
}

/// Asks for the items that these contents identify, by the collections' ids.
pub(super) fn asking_content(wanted: &[(String, Digest)]) -> Query {
    let bytes = |digest: &Digest| Some(digest.bytes().to_vec());
    let (collections, content) = wanted
        .iter()
        .map(|(c, key)| (Some(c.clone()), bytes(key)))
        .unzip();
    (
        &BY_CONTENT_IN,
        vec![Value::Texts(collections), Value::Blobs(content)],
    )
}

pub(super) fn read_external(rows: Vec<Row>) -> Result<KnownByExternal> {
    rows.into_iter()
        .map(|mut row| Ok(((row.collection(0)?, row.text(1)?), known(&mut row)?)))
        .collect()
}

pub(super) fn read_content(rows: Vec<Row>) -> Result<KnownByContent> {
    rows.into_iter()
        .map(|mut row| Ok(((row.collection(0)?, row.digest(1)?), known(&mut row)?)))
        .collect()
}

fn known(row: &mut Row) -> Result<KnownItem> {
    Ok(KnownItem {
        id: row.item(2)?,
        digest: row.digest(3)?,
    })
}

fn keys_of<T>(wanted: &[(CollectionKey, T)]) -> Value {
    let key = |(collection, _): &(CollectionKey, T)| Some(i64::from(collection.0));
    Value::Ints(wanted.iter().map(key).collect())
}

/// The items that have these externalIds.
pub async fn by_external(tx: &mut Tx, wanted: &[(CollectionKey, String)]) -> Result<KnownByExternal> {
    if let Driver::Postgres(_) = tx.driver {
        let external = Value::Texts(wanted.iter().map(|(_, id)| Some(id.clone())).collect());
        let params = params![keys_of(wanted), external];
        return read_external(tx.rows(&BY_EXTERNAL_MANY, params).await?);
    }
    let mut rows = Vec::new();
    for (collection, id) in wanted {
        rows.extend(tx.row_opt(&BY_EXTERNAL, params![*collection, id]).await?);
    }
    read_external(rows)
}

/// The items that these contents identify.
pub async fn by_content(tx: &mut Tx, wanted: &[(CollectionKey, Digest)]) -> Result<KnownByContent> {
    if let Driver::Postgres(_) = tx.driver {
        let content = wanted.iter().map(|(_, digest)| Some(digest.bytes().to_vec()));
        let content = Value::Blobs(content.collect());
        let params = params![keys_of(wanted), content];
        return read_content(tx.rows(&BY_CONTENT_MANY, params).await?);
    }
    let mut rows = Vec::new();
    for (collection, digest) in wanted {
        rows.extend(tx.row_opt(&BY_CONTENT, params![*collection, *digest]).await?);
    }
    read_content(rows)
}

/// Points an item to its latest job.
pub async fn set_job(tx: &mut Tx, id: ItemId, job: (LaneKey, Seq), now: Timestamp) -> Result<()> {
    tx.execute_one(&SET_JOB, params![id.collection(), id, job.0, job.1, now])
        .await
}

/// The last jobs of an item's earlier versions, each with its version, the latest first.
pub async fn earlier_jobs(tx: &mut Tx, id: ItemId) -> Result<Vec<(i64, (LaneKey, Seq))>> {
    let rows = tx.rows(&EARLIER_JOBS, params![id.collection(), id]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.int(0)?, (row.lane(1)?, row.seq(2)?))))
        .collect()
}

/// Keeps what the item was and makes it what it is now; its next job is yet to come.
pub async fn next_version(tx: &mut Tx, id: ItemId, item: &NewItem, now: Timestamp) -> Result<()> {
    tx.execute_one(&ARCHIVE, params![id.collection(), id, now])
        .await?;
    let params = params![
        id.collection(),
        id,
        item.content_hash,
        item.content_key,
        item.is_file,
        item.filename.as_ref(),
        item.media_type.as_ref(),
        item.size,
        item.blob_key.as_ref(),
        item.payload.as_ref(),
        item.metadata.as_ref(),
        item.fields.as_ref(),
        item.display_payload.as_ref(),
        item.confidence,
        item.line_item_count,
        item.total_amount,
        item.deadline,
        item.to_review,
        &item.submitted_by,
        now,
    ];
    tx.execute_one(&NEXT_VERSION, params).await
}
