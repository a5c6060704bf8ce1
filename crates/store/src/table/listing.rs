//! What operators set up, as it is listed: pages by name, with the names of what they belong to.

use docket_core::Timestamp;
use docket_core::id::PauseId;

use crate::error::Result;
use crate::params;
use crate::table::tenant::{Tenant, upload_limit};
use crate::tx::Tx;

crate::statements! {
    TENANTS = portable "listing_tenants" "
select t.id, t.tier, case when t.uploads_per_hour = -1 then null else coalesce(t.uploads_per_hour, r.uploads_per_hour) end,
       coalesce(t.concurrent_jobs, r.concurrent_jobs), t.intake_next
from tenant t join tier r on r.name = t.tier where t.id > $1 order by t.id limit $2";
    COLLECTION = portable "listing_collection" "
select c.id, c.tenant_id, p.name, c.to_review, c.settings
from collection c left join pipeline p on p.pipeline_key = c.pipeline_key where c.id = $1";
    COLLECTIONS = portable "listing_collections" "
select c.id, c.tenant_id, p.name, c.to_review, c.settings
from collection c left join pipeline p on p.pipeline_key = c.pipeline_key
where c.id > $1 order by c.id limit $2";
    COLLECTIONS_OF_TENANT = portable "listing_collections_of_tenant" "
select c.id, c.tenant_id, p.name, c.to_review, c.settings
from collection c left join pipeline p on p.pipeline_key = c.pipeline_key
where c.tenant_id = $1 and c.id > $2 order by c.id limit $3";
    PIPELINES = portable "listing_pipelines" "
select p.name, p.version, v.definition
from pipeline p join pipeline_version v on v.pipeline_key = p.pipeline_key and v.version = p.version
where p.name > $1 order by p.name limit $2";
    PIPELINE = portable "listing_pipeline" "
select p.name, p.version, v.definition
from pipeline p join pipeline_version v on v.pipeline_key = p.pipeline_key and v.version = p.version
where p.name = $1";
    PAUSES = portable "listing_pauses" "
select u.id, u.scope, coalesce(p.name, q.name), l.tenant_id, u.reason, u.actor, u.at_ms, c.id, u.channel
from pause u left join lane_of l on l.lane_key = u.lane_key
left join pipeline p on p.pipeline_key = u.pipeline_key left join pipeline q on q.pipeline_key = l.pipeline_key
left join collection c on c.collection_key = u.collection_key
where u.id > $1 order by u.id limit $2";
    PAUSE = portable "listing_pause" "
select u.id, u.scope, coalesce(p.name, q.name), l.tenant_id, u.reason, u.actor, u.at_ms, c.id, u.channel
from pause u left join lane_of l on l.lane_key = u.lane_key
left join pipeline p on p.pipeline_key = u.pipeline_key left join pipeline q on q.pipeline_key = l.pipeline_key
left join collection c on c.collection_key = u.collection_key
where u.id = $1";
}

/// A collection with the name of its pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct CollectionRow {
    pub id: String,
    pub tenant_id: String,
    pub pipeline: Option<String>,
    pub to_review: bool,
    /// JSON text.
    pub settings: String,
}

/// A pipeline in its present version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct PipelineRow {
    pub name: String,
    pub version: i64,
    /// JSON text.
    pub definition: String,
}

/// A pause with the names of what it stops.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct PauseRow {
    pub id: PauseId,
    pub scope: String,
    pub pipeline: Option<String>,
    pub tenant_id: Option<String>,
    pub collection_id: Option<String>,
    pub channel: Option<String>,
    pub reason: String,
    pub actor: String,
    pub at: Timestamp,
}

/// Tenants whose ids come after this one.
pub async fn tenants(tx: &mut Tx, after: &str, limit: u64) -> Result<Vec<Tenant>> {
    let rows = tx.rows(&TENANTS, params![after, limit]).await?;
    rows.into_iter()
        .map(|mut row| {
            Ok(Tenant {
                id: row.text(0)?,
                tier: row.text(1)?,
                uploads: upload_limit(row.opt_int(2)?),
                concurrent_jobs: u32::try_from(row.int(3)?).map_err(|_| row.inconsistent(3))?,
                intake_next: row.count(4)?,
            })
        })
        .collect()
}

fn read_collection(mut row: crate::value::Row) -> Result<CollectionRow> {
    Ok(CollectionRow {
        id: row.text(0)?,
        tenant_id: row.text(1)?,
        pipeline: row.opt_text(2)?,
        to_review: row.bool(3)?,
        settings: row.text(4)?,
    })
}

/// A collection.
pub async fn collection(tx: &mut Tx, id: &str) -> Result<Option<CollectionRow>> {
    tx.row_opt(&COLLECTION, params![id])
        .await?
        .map(read_collection)
        .transpose()
}

/// Collections, of one tenant or of all, whose ids come after this one.
pub async fn collections(
    tx: &mut Tx,
    tenant: Option<&str>,
    after: &str,
    limit: u64,
) -> Result<Vec<CollectionRow>> {
    let rows = match tenant {
        None => tx.rows(&COLLECTIONS, params![after, limit]).await?,
        Some(tenant) => {
            tx.rows(&COLLECTIONS_OF_TENANT, params![tenant, after, limit])
                .await?
        }
    };
    rows.into_iter().map(read_collection).collect()
}

fn read_pipeline(mut row: crate::value::Row) -> Result<PipelineRow> {
    Ok(PipelineRow {
        name: row.text(0)?,
        version: row.int(1)?,
        definition: row.text(2)?,
    })
}

/// A pipeline.
pub async fn pipeline(tx: &mut Tx, name: &str) -> Result<Option<PipelineRow>> {
    tx.row_opt(&PIPELINE, params![name])
        .await?
        .map(read_pipeline)
        .transpose()
}

/// Pipelines whose names come after this one.
pub async fn pipelines(tx: &mut Tx, after: &str, limit: u64) -> Result<Vec<PipelineRow>> {
    let rows = tx.rows(&PIPELINES, params![after, limit]).await?;
    rows.into_iter().map(read_pipeline).collect()
}

fn read_pause(mut row: crate::value::Row) -> Result<PauseRow> {
    Ok(PauseRow {
        id: PauseId::from_uuid(row.uuid(0)?),
        scope: row.text(1)?,
        pipeline: row.opt_text(2)?,
        tenant_id: row.opt_text(3)?,
        reason: row.text(4)?,
        actor: row.text(5)?,
        at: row.time(6)?,
        collection_id: row.opt_text(7)?,
        channel: row.opt_text(8)?,
    })
}

/// A pause.
pub async fn pause(tx: &mut Tx, id: PauseId) -> Result<Option<PauseRow>> {
    tx.row_opt(&PAUSE, params![id]).await?.map(read_pause).transpose()
}

/// Pauses set after this one, oldest first.
pub async fn pauses(tx: &mut Tx, after: PauseId, limit: u64) -> Result<Vec<PauseRow>> {
    let rows = tx.rows(&PAUSES, params![after, limit]).await?;
    rows.into_iter().map(read_pause).collect()
}
