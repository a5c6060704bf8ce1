//! Holds, outside of the tuned operations.

use docket_core::Timestamp;
use docket_core::id::{LaneKey, PipelineKey, Seq};
use docket_core::lane::HoldKind;
use docket_core::lease::LeaseToken;

use crate::error::Result;
use crate::params;
use crate::statement::Statement;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value, int_of};

crate::statements! {
    GET = portable "hold_get" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, l.pipeline_key
from hold h join lane l on l.lane_key = h.lane_key where h.lane_key = $1 and h.seq = $2";
    LOCK_ONE = portable "hold_lock_one" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, (select pipeline_key from lane l where l.lane_key = h.lane_key)
from hold h where h.lane_key = $1 and h.seq = $2 for no key update";
    LOCK_MANY = postgres "hold_lock_many" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, (select pipeline_key from lane l where l.lane_key = h.lane_key)
from unnest($1::bigint[], $2::bigint[]) as c (lane_key, seq) join hold h on h.lane_key = c.lane_key and h.seq = c.seq
order by h.lane_key, h.seq for no key update of h";
    LOCK_NOW = postgres "hold_lock_now" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, (select pipeline_key from lane l where l.lane_key = h.lane_key)
from unnest($1::bigint[], $2::bigint[]) as c (lane_key, seq) join hold h on h.lane_key = c.lane_key and h.seq = c.seq
order by h.lane_key, h.seq for no key update of h nowait";
    DUE = portable "hold_due" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, (select pipeline_key from lane l where l.lane_key = h.lane_key)
from hold h where h.kind < 3 and h.until_ms <= $1 order by h.until_ms limit $2 for no key update skip locked";
    SILENT = portable "hold_silent" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, (select pipeline_key from lane l where l.lane_key = h.lane_key)
from hold h where h.kind = 1 and h.until_ms - h.lease_ms <= $1 order by h.until_ms limit $2 for no key update skip locked";
    NEXT_DUE = portable "hold_next_due" "select min(until_ms) from hold where kind < 3";
    LEASED_OF_LANE = portable "hold_leased_of_lane" "
select h.lane_key, h.seq, h.kind, h.token, h.retry_count, h.worker, h.until_ms, h.lease_ms, h.started_at_ms,
       h.pipeline_version, 0
from hold h where h.lane_key = $1 and h.kind = 1 order by h.seq limit $2";
}

/// A hold.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Hold {
    pub lane: LaneKey,
    pub seq: Seq,
    pub kind: HoldKind,
    pub token: LeaseToken,
    pub retry_count: u32,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// When the lease or the wait ends.
    pub until: Timestamp,
    pub lease_ms: i64,
    pub started_at: Timestamp,
    pub pipeline_version: i64,
    pub pipeline: PipelineKey,
}

fn read(mut row: Row) -> Result<Hold> {
    Ok(Hold {
        lane: row.lane(0)?,
        seq: row.seq(1)?,
        kind: HoldKind::from_code(row.int(2)?).ok_or_else(|| row.inconsistent(2))?,
        token: LeaseToken(row.int(3)?),
        retry_count: u32::try_from(row.int(4)?).map_err(|_| row.inconsistent(4))?,
        worker: row.opt_text(5)?,
        until: row.time(6)?,
        lease_ms: row.int(7)?,
        started_at: row.time(8)?,
        pipeline_version: row.int(9)?,
        pipeline: row.pipeline(10)?,
    })
}

/// The hold of a job.
pub async fn get(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<Option<Hold>> {
    tx.row_opt(&GET, params![lane, seq]).await?.map(read).transpose()
}

/// The hold of a job, locked.
pub async fn lock(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<Option<Hold>> {
    tx.row_opt(&LOCK_ONE, params![lane, seq])
        .await?
        .map(read)
        .transpose()
}

/// The holds of these jobs, as far as they have one, locked; in any order.
pub async fn lock_many(tx: &mut Tx, jobs: &[(LaneKey, Seq)]) -> Result<Vec<Hold>> {
    lock_by(tx, &LOCK_MANY, jobs).await
}

/// The same for who has the jobs' lanes locked already. Somebody may have claimed one a moment before that, and be about to end it: that
/// one has the hold and waits for the lane, and must not be waited for. Where it is so, the transaction fails and is tried again at once.
pub async fn lock_now(tx: &mut Tx, jobs: &[(LaneKey, Seq)]) -> Result<Vec<Hold>> {
    lock_by(tx, &LOCK_NOW, jobs).await
}

async fn lock_by(tx: &mut Tx, statement: &'static Statement, jobs: &[(LaneKey, Seq)]) -> Result<Vec<Hold>> {
    if let Driver::Postgres(_) = tx.driver {
        let params = params![
            Value::Ints(jobs.iter().map(|(lane, _)| Some(i64::from(lane.0))).collect()),
            Value::Ints(jobs.iter().map(|(_, seq)| Some(int_of(seq.0))).collect()),
        ];
        return tx.rows(statement, params).await?.into_iter().map(read).collect();
    }
    let mut holds = Vec::with_capacity(jobs.len());
    for (lane, seq) in jobs {
        holds.extend(lock(tx, *lane, *seq).await?);
    }
    Ok(holds)
}

/// Leases that have run out and waits that are over, locked; those that somebody else has locked are left out.
pub async fn due(tx: &mut Tx, now: Timestamp, limit: u64) -> Result<Vec<Hold>> {
    tx.rows(&DUE, params![now, limit])
        .await?
        .into_iter()
        .map(read)
        .collect()
}

/// Leases without a sign of life since `moment`, locked; those that somebody else has locked are left out.
pub async fn silent_since(tx: &mut Tx, moment: Timestamp, limit: u64) -> Result<Vec<Hold>> {
    tx.rows(&SILENT, params![moment, limit])
        .await?
        .into_iter()
        .map(read)
        .collect()
}

/// When the next lease or wait ends.
pub async fn next_due(tx: &mut Tx) -> Result<Option<Timestamp>> {
    tx.row(&NEXT_DUE, &[]).await?.opt_time(0)
}

/// The jobs of a lane that run, in their order.
pub async fn leased_of_lane(tx: &mut Tx, lane: LaneKey, limit: u64) -> Result<Vec<Hold>> {
    tx.rows(&LEASED_OF_LANE, params![lane, limit])
        .await?
        .into_iter()
        .map(read)
        .collect()
}
