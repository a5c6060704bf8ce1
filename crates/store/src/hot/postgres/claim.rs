//! Claim on PostgreSQL.
//!
//! `q` is `docket_core::lane::rounds_for`: how many jobs a lane gives at the most, so that few more are looked at than are wanted.
//!
//! Rows are looked up by `lateral … limit 1`, which the planner cannot turn round: a plan made while a table was young would otherwise
//! walk it from end to end when it is old.
//!
//! `skip locked` returns the newest version of a lane while its jobs are read under the statement's older snapshot; a lane
//! that changed in between is dropped by the look-up of its `ctid` in that snapshot, and stays ready for the next claim.

use std::collections::HashSet;

use docket_core::id::PipelineKey;
use docket_core::{Refusal, Timestamp};
use tokio_postgres::error::SqlState;

use super::super::claim::{ClaimRequest, Claimed, Claims};
use crate::error::{Error, Result};
use crate::params;
use crate::postgres::BOTTOM;
use crate::tx::Tx;
use crate::value::{Value, int_of};

crate::statements! {
    CLAIM = postgres "claim" "
with p as materialized (
  select version, lease_ms, to_review from pipeline
  where pipeline_key = $1 and not exists (select 1 from pause where pipeline_key in (0, $1))),
v as materialized (
  select ready_key from lane
  where pipeline_key = $1 and ready_key is not null and ready_key >= $7::bigint
  order by ready_key limit 1),
l as materialized (
  select ctid as tid, lane_key, head_seq, least(lim - active, queued) as room, ready_key
  from lane
  where pipeline_key = $1 and ready_key is not null and ready_key >= (select ready_key from v) and exists (select 1 from p)
  order by ready_key limit $5::bigint for no key update skip locked),
w as (
  select room, count(*) over () - row_number() over (order by room) + 1 as lanes,
         coalesce(sum(room) over (order by room rows between unbounded preceding and 1 preceding), 0)::bigint as given
  from l),
q as materialized (
  select coalesce(max(($5::bigint - given + lanes - 1) / lanes) filter (where given + room * lanes >= $5::bigint),
                  max(room)) as most from w),
t as materialized (
  select l.tid, l.lane_key, l.ready_key, j.*, row_number() over (partition by l.lane_key order by j.seq) as turn
  from l cross join q cross join lateral (select 1 from lane s where s.ctid = l.tid limit 1) s
  cross join lateral (
    (select h.seq, h.token, h.retry_count, b.created_at_ms, b.cause, b.item_id, b.item_version, b.collection_key
     from hold h cross join lateral (
       select b.created_at_ms, b.cause, b.item_id, b.item_version, b.collection_key from job b
       where b.lane_key = h.lane_key and b.seq = h.seq limit 1) b
     where h.lane_key = l.lane_key and h.kind = 3
     order by h.seq limit least(l.room, q.most))
    union all
    (select j.seq, null, null, j.created_at_ms, j.cause, j.item_id, j.item_version, j.collection_key
     from job j where j.lane_key = l.lane_key and j.seq >= l.head_seq and j.state = 0
     order by j.seq limit least(l.room, q.most))
    order by 1 limit least(l.room, q.most)) j),
c as materialized (
  select t.*, row_number() over (order by turn, ready_key) as rank
  from t order by turn, ready_key limit $5::bigint),
r as materialized (
  select ord, worker, lease_ms,
         (sum(n) over (order by ord) - n)::bigint as lo, (sum(n) over (order by ord))::bigint as hi
  from unnest($2::text[], $3::bigint[], $4::bigint[]) with ordinality as r (worker, n, lease_ms, ord)),
d as materialized (
  select r.ord, c.rank, c.lane_key, c.seq, coalesce(c.token, 0) + 1 as token, coalesce(c.retry_count, 0) as retry_count,
         $6::bigint + coalesce(r.lease_ms, p.lease_ms) as until_ms, p.version as pipeline_version, c.created_at_ms,
         c.token is not null or c.cause = 1 as resumed, c.item_id, c.item_version, k.id as collection_id, k.tenant_id,
         i.external_id, i.payload, i.blob_key is not null as has_content, i.media_type, i.filename,
         r.worker, coalesce(r.lease_ms, p.lease_ms) as lease_ms, p.to_review
  from c cross join p join r on c.rank > r.lo and c.rank <= r.hi
  cross join lateral (
    select i.external_id, i.payload, i.blob_key, i.media_type, i.filename from item i
    where i.collection_key = c.collection_key and i.id = c.item_id limit 1) i
  cross join lateral (
    select k.id, k.tenant_id from collection k where k.collection_key = c.collection_key limit 1) k),
u as (
  insert into hold as h (lane_key, seq, kind, token, retry_count, worker, until_ms, lease_ms, started_at_ms,
                         pipeline_version, to_review)
  select lane_key, seq, 1, token, retry_count, worker, until_ms, lease_ms, $6, pipeline_version, to_review from d
  on conflict (lane_key, seq) do update
    set kind = 1, token = excluded.token, worker = excluded.worker, until_ms = excluded.until_ms,
        lease_ms = excluded.lease_ms, started_at_ms = excluded.started_at_ms,
        pipeline_version = excluded.pipeline_version, to_review = excluded.to_review
    where h.kind = 3
  returning 1),
turn as materialized (select nextval('lane_turn') as n where exists (select 1 from c)),
ul as (
  update lane b
  set active = b.active + x.n, queued = b.queued - x.n, head_seq = greatest(b.head_seq, x.m + 1),
      served = greatest(b.served + 1, x.served)
  from (select c.tid, count(*) as n, max(c.seq) as m, max(turn.n) * 65536 + max(c.rank) as served
        from c cross join turn group by c.tid) x
  where b.ctid = x.tid),
lg as (
  insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, details)
  select $6, tenant_id, item_id, lane_key, seq, 'job.claimed', 'worker:' || worker,
         '{\"attempt\":' || retry_count + 1 || '}' from d)
select d.ord, d.lane_key, d.seq, d.token, d.retry_count, d.until_ms, d.pipeline_version, d.created_at_ms, d.resumed,
       d.item_id, d.item_version, d.collection_id, d.tenant_id, d.external_id, d.payload, d.has_content, d.media_type,
       d.filename, (select count(*) from u) as held,
       (select ready_key from v) as lowest
from d order by d.ord, d.rank";
    PATIENCE = postgres "claim_patience" "select set_config('lock_timeout', '2s', true)";
    IN_LINE = postgres "claim_in_line" "
select 1 from lane where pipeline_key = $1 and ready_key is not null order by ready_key limit 1 for no key update";
    CONTENDED = postgres "claim_contended" "
select exists (select 1 from lane where pipeline_key = $1 and ready_key is not null)
       and not exists (select 1 from pause where pipeline_key in (0, $1))";
}

/// The most jobs of one statement: their ranks share a turn's number.
const CLAIM_MAX: u64 = 65_535;

pub(in crate::hot) async fn claim(
    tx: &mut Tx,
    pipeline: PipelineKey,
    requests: &[ClaimRequest],
    now: Timestamp,
) -> Result<Claims> {
    let total = requests
        .iter()
        .map(|request| request.limit)
        .sum::<u64>()
        .min(CLAIM_MAX);
    let from = tx.look_for_lanes(pipeline);
    let mut params = params![
        pipeline,
        Value::Texts(
            requests
                .iter()
                .map(|request| Some(request.worker.clone()))
                .collect()
        ),
        Value::Ints(
            requests
                .iter()
                .map(|request| Some(int_of(request.limit)))
                .collect()
        ),
        Value::Ints(requests.iter().map(|request| request.lease_ms).collect()),
        total,
        now,
        from,
    ]
    .to_vec();
    let mut rows = tx.rows(&CLAIM, &params).await?;
    if rows.is_empty() && from > BOTTOM {
        params[6] = Value::Int(BOTTOM);
        rows = tx.rows(&CLAIM, &params).await?;
    }
    if rows.is_empty() {
        return Ok(Claims {
            jobs: Vec::new(),
            contended: is_contended(tx, pipeline).await?,
        });
    }
    let found = rows.len() as u64;
    if let Some(row) = rows.first_mut() {
        let lowest = row.int(19)?;
        tx.found_lanes(lowest);
    }
    let jobs = rows
        .into_iter()
        .map(|mut row| {
            let held = row.count(18)?;
            if held != found {
                // Jobs are taken under their lane's lock, so each of them gets its hold, or something is badly wrong.
                return Err(Error::WrongRows {
                    statement: CLAIM.name,
                    touched: held,
                    expected: found,
                });
            }
            let request = row.count(0)? as usize - 1;
            Claimed::read(row, request)
        })
        .collect::<Result<Vec<_>>>()?;
    // Some may have got all there was, and others nothing although there is more, in other hands at this moment.
    let served: HashSet<usize> = jobs.iter().map(|job| job.request).collect();
    let contended = served.len() < requests.len() && is_contended(tx, pipeline).await?;
    Ok(Claims { jobs, contended })
}

pub(in crate::hot) async fn stand_in_line(tx: &mut Tx, pipeline: PipelineKey) -> Result<()> {
    tx.rows(&PATIENCE, &[]).await?;
    match tx.rows(&IN_LINE, params![pipeline]).await {
        Ok(_) => Ok(()),
        Err(Error::Postgres { source, .. }) if source.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            let problem = "the first of the lanes is in other hands".to_owned();
            Err(Refusal::Conflict { problem }.into())
        }
        Err(error) => Err(error),
    }
}

/// Whether a lane is ready all the same.
async fn is_contended(tx: &mut Tx, pipeline: PipelineKey) -> Result<bool> {
    tx.row(&CONTENDED, params![pipeline]).await?.bool(0)
}
