//! Lanes, outside of the tuned operations.

use docket_core::id::{LaneKey, PipelineKey, Seq};
use docket_core::lane::LaneCounts;

use crate::error::Result;
use crate::params;
use crate::postgres::BOTTOM;
use crate::tx::Tx;

/// Lanes that were never served come before all others, in the order in which they were made.
const NEVER_SERVED: i64 = -(1 << 62);

crate::statements! {
    OF = portable "lane_of" "select lane_key from lane_of where tenant_id = $1 and pipeline_key = $2";
    OF_INSERT = portable "lane_of_insert" "
insert into lane_of (tenant_id, pipeline_key, lane_key) values ($1, $2, $3)";
    TURN = split "lane_turn"
        "select nextval('lane_turn')"
        "update lane_turn set value = value + 1 returning value";
    INSERT = portable "lane_insert" "
insert into lane (lane_key, pipeline_key, lim, served, strict) values ($1, $2, $3, $4, $5)";
    SET_LIMIT = split "lane_set_limit"
        "with l as materialized (
           select l.lane_key from lane_of o join lane l on l.lane_key = o.lane_key
           where o.tenant_id = $1 order by l.lane_key for no key update of l)
         update lane set lim = $2 from l where lane.lane_key = l.lane_key and lane.lim <> $2"
        "update lane set lim = $2 where lane_key in (select lane_key from lane_of where tenant_id = $1) and lim <> $2";
    SET_LIMIT_OF_TIER = split "lane_set_limit_of_tier"
        "with l as materialized (
           select l.lane_key from tenant t join lane_of o on o.tenant_id = t.id join lane l on l.lane_key = o.lane_key
           where t.tier = $1 and t.concurrent_jobs is null order by l.lane_key for no key update of l)
         update lane set lim = $2 from l where lane.lane_key = l.lane_key and lane.lim <> $2"
        "update lane set lim = $2
         where lim <> $2 and lane_key in (
           select o.lane_key from tenant join lane_of o on o.tenant_id = tenant.id
           where tenant.tier = $1 and tenant.concurrent_jobs is null)";
    SET_STRICT = split "lane_set_strict"
        "with l as materialized (
           select lane_key from lane where pipeline_key = $1 order by lane_key for no key update)
         update lane set strict = $2 from l where lane.lane_key = l.lane_key and lane.strict <> $2"
        "update lane set strict = $2 where pipeline_key = $1 and strict <> $2";
    SET_PAUSED = portable "lane_set_paused" "update lane set paused = $2 where lane_key = $1";
    GET = portable "lane_get" "
select pipeline_key, lim, active, queued, waiting, head_seq, paused, strict, ready_key is not null from lane where lane_key = $1";
    LOCK = portable "lane_lock" "
select pipeline_key, lim, active, queued, waiting, head_seq, paused, strict, ready_key is not null
from lane where lane_key = $1 for no key update";
    APPEND = portable "lane_append" "
update lane set queued = queued + 1, next_seq = next_seq + 1
where lane_key = $1 returning next_seq - 1, pipeline_key, ready_key is not null";
    UNQUEUE = portable "lane_unqueue" "update lane set queued = queued - 1 where lane_key = $1";
    HOLE = portable "hole_insert" "insert into hole (lane_key, seq) values ($1, $2)";
    HOLES_BEFORE = portable "holes_before" "
select count(*) from hole where lane_key = $1 and seq >= $2 and seq < $3";
    WAITING_BEFORE = portable "waiting_before" "
select count(*) from hold where lane_key = $1 and kind > 1 and seq < $2";
    READY_OF_TENANT = portable "lane_ready_of_tenant" "
select l.pipeline_key from lane_of o join lane l on l.lane_key = o.lane_key
where o.tenant_id = $1 and l.ready_key is not null";
}

/// A lane.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Lane {
    pub pipeline: PipelineKey,
    pub counts: LaneCounts,
    pub head: Seq,
    pub paused: bool,
    pub strict: bool,
    /// What the database makes of these.
    pub ready: bool,
}

async fn read(
    tx: &mut Tx,
    statement: &'static crate::statement::Statement,
    lane: LaneKey,
) -> Result<Option<Lane>> {
    let Some(mut row) = tx.row_opt(statement, params![lane]).await? else {
        return Ok(None);
    };
    Ok(Some(Lane {
        pipeline: row.pipeline(0)?,
        counts: LaneCounts {
            limit: row.count(1)?,
            active: row.count(2)?,
            queued: row.count(3)?,
            waiting: row.count(4)?,
        },
        head: row.seq(5)?,
        paused: row.bool(6)?,
        strict: row.bool(7)?,
        ready: row.bool(8)?,
    }))
}

/// The lane of a tenant within a pipeline.
pub async fn of(tx: &mut Tx, tenant: &str, pipeline: PipelineKey) -> Result<Option<LaneKey>> {
    tx.row_opt(&OF, params![tenant, pipeline])
        .await?
        .map(|mut row| row.lane(0))
        .transpose()
}

/// Makes the lane of a tenant within a pipeline.
pub async fn insert(
    tx: &mut Tx,
    lane: LaneKey,
    tenant: &str,
    pipeline: PipelineKey,
    limit: u32,
    strict: bool,
) -> Result<()> {
    let turn = tx.row(&TURN, &[]).await?.int(0)?;
    tx.execute_one(
        &INSERT,
        params![lane, pipeline, limit, NEVER_SERVED + turn, strict],
    )
    .await?;
    tx.execute_one(&OF_INSERT, params![tenant, pipeline, lane]).await
}

/// A lane as it is.
pub async fn get(tx: &mut Tx, lane: LaneKey) -> Result<Option<Lane>> {
    read(tx, &GET, lane).await
}

/// A lane, locked.
pub async fn lock(tx: &mut Tx, lane: LaneKey) -> Result<Option<Lane>> {
    read(tx, &LOCK, lane).await
}

/// Sets how many jobs each of a tenant's lanes may run at once.
pub async fn set_limit(tx: &mut Tx, tenant: &str, limit: u32) -> Result<()> {
    any_may_be_ready(tx);
    tx.execute(&SET_LIMIT, params![tenant, limit]).await.map(|_| ())
}

/// The same for all tenants of a tier that have no number of their own.
pub async fn set_limit_of_tier(tx: &mut Tx, tier: &str, limit: u32) -> Result<()> {
    any_may_be_ready(tx);
    tx.execute(&SET_LIMIT_OF_TIER, params![tier, limit])
        .await
        .map(|_| ())
}

/// The pipelines of which this tenant has something to start.
pub async fn ready_of_tenant(tx: &mut Tx, tenant: &str) -> Result<Vec<PipelineKey>> {
    tx.rows(&READY_OF_TENANT, params![tenant])
        .await?
        .into_iter()
        .map(|mut row| row.pipeline(0))
        .collect()
}

/// Sets whether the lanes of a pipeline are held up by a job that waits.
pub async fn set_strict(tx: &mut Tx, pipeline: PipelineKey, strict: bool) -> Result<()> {
    any_may_be_ready(tx);
    tx.execute(&SET_STRICT, params![pipeline, strict])
        .await
        .map(|_| ())
}

/// Pauses or resumes a lane.
pub async fn set_paused(tx: &mut Tx, lane: LaneKey, paused: bool) -> Result<()> {
    any_may_be_ready(tx);
    tx.execute_one(&SET_PAUSED, params![lane, paused]).await
}

/// Counts one more job in the tail: its number, and the lane's pipeline where something can start now.
pub async fn append(tx: &mut Tx, lane: LaneKey) -> Result<(Seq, Option<PipelineKey>)> {
    let mut row = tx.row(&APPEND, params![lane]).await?;
    let (seq, pipeline, ready) = (row.seq(0)?, row.pipeline(1)?, row.bool(2)?);
    if ready {
        tx.lane_is_ready(Some(pipeline), BOTTOM);
    }
    Ok((seq, ready.then_some(pipeline)))
}

/// Claims look everywhere again.
fn any_may_be_ready(tx: &mut Tx) {
    tx.lane_is_ready(None, BOTTOM);
}

/// Takes one job out of the tail for good.
pub async fn remove_from_tail(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<()> {
    tx.execute_one(&UNQUEUE, params![lane]).await?;
    tx.execute_one(&HOLE, params![lane, seq]).await
}

/// Numbers of the tail before `seq` that no job has any more.
pub async fn holes_before(tx: &mut Tx, lane: LaneKey, head: Seq, seq: Seq) -> Result<u64> {
    tx.row(&HOLES_BEFORE, params![lane, head, seq]).await?.count(0)
}

/// Held jobs with a smaller number that wait.
pub async fn waiting_before(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<u64> {
    tx.row(&WAITING_BEFORE, params![lane, seq]).await?.count(0)
}
