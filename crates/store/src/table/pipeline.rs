//! Pipelines and their versions.

use docket_core::Timestamp;
use docket_core::id::PipelineKey;
use docket_core::pipeline::Pipeline;

use crate::error::{Error, Result};
use crate::params;
use crate::tx::Tx;

crate::statements! {
    BY_NAME = portable "pipeline_by_name" "
select pipeline_key, version from pipeline where name = $1 for no key update";
    NAME = portable "pipeline_name" "select name, version from pipeline where pipeline_key = $1";
    KEY = portable "pipeline_key" "select pipeline_key from pipeline where name = $1";
    INSERT = portable "pipeline_insert" "
insert into pipeline (pipeline_key, name, version, lease_ms, to_review) values ($1, $2, 1, $3, $4)";
    UPDATE = portable "pipeline_update" "
update pipeline set version = $2, lease_ms = $3, to_review = $4 where pipeline_key = $1";
    VERSION = portable "pipeline_version" "
select definition from pipeline_version where pipeline_key = $1 and version = $2";
    VERSION_INSERT = portable "pipeline_version_insert" "
insert into pipeline_version (pipeline_key, version, definition, created_at_ms) values ($1, $2, $3, $4)";
}

/// Key and present version of the pipeline with this name, which is locked.
pub async fn lock(tx: &mut Tx, name: &str) -> Result<Option<(PipelineKey, i64)>> {
    let row = tx.row_opt(&BY_NAME, params![name]).await?;
    row.map(|mut row| Ok((row.pipeline(0)?, row.int(1)?))).transpose()
}

/// The key of the pipeline with this name. Keys never change and pipelines are never deleted.
pub async fn key(tx: &mut Tx, name: &str) -> Result<Option<PipelineKey>> {
    tx.row_opt(&KEY, params![name])
        .await?
        .map(|mut row| row.pipeline(0))
        .transpose()
}

/// Name and present version of a pipeline.
pub async fn name(tx: &mut Tx, key: PipelineKey) -> Result<(String, i64)> {
    let mut row = tx.row(&NAME, params![key]).await?;
    Ok((row.text(0)?, row.int(1)?))
}

/// Writes a new pipeline, in version 1.
pub async fn insert(
    tx: &mut Tx,
    key: PipelineKey,
    name: &str,
    pipeline: &Pipeline,
    now: Timestamp,
) -> Result<()> {
    tx.execute_one(&INSERT, params![key, name, pipeline.lease_ms, pipeline.review])
        .await?;
    insert_version(tx, key, 1, pipeline, now).await
}

/// Writes a pipeline's next version.
pub async fn update(
    tx: &mut Tx,
    key: PipelineKey,
    version: i64,
    pipeline: &Pipeline,
    now: Timestamp,
) -> Result<()> {
    tx.execute_one(&UPDATE, params![key, version, pipeline.lease_ms, pipeline.review])
        .await?;
    insert_version(tx, key, version, pipeline, now).await
}

async fn insert_version(
    tx: &mut Tx,
    key: PipelineKey,
    version: i64,
    pipeline: &Pipeline,
    now: Timestamp,
) -> Result<()> {
    let definition = serde_json::to_string(pipeline).map_err(|source| Error::Json {
        what: "a pipeline",
        source,
    })?;
    tx.execute_one(&VERSION_INSERT, params![key, version, definition, now])
        .await
}

/// A version of a pipeline. Versions never change.
pub async fn version(tx: &mut Tx, key: PipelineKey, version: i64) -> Result<Pipeline> {
    let definition = tx.row(&VERSION, params![key, version]).await?.text(0)?;
    serde_json::from_str(&definition).map_err(|source| Error::Json {
        what: "a pipeline",
        source,
    })
}
