//! Claim on SQLite.

use std::collections::BTreeMap;

use docket_core::Timestamp;
use docket_core::id::{LaneKey, PipelineKey, Seq};
use docket_core::lane::rounds_for;

use super::super::claim::{ClaimRequest, Claimed};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::int_of;

crate::statements! {
    PIPELINE = sqlite "claim_pipeline" "
select version, lease_ms, to_review from pipeline
where pipeline_key = $1 and not exists (select 1 from pause where pipeline_key in (0, $1))";
    LANES = sqlite "claim_lanes" "
select lane_key, head_seq, min(lim - active, queued),
       exists (select 1 from hold h where h.lane_key = lane.lane_key and h.kind = 3)
from lane where pipeline_key = $1 and ready_key is not null order by ready_key limit $2";
    FRONT = sqlite "claim_front" "
select 0, h.lane_key, h.seq, h.token + 1, h.retry_count, 0, 0, j.created_at_ms, 1, j.item_id, j.item_version, k.id,
       k.tenant_id, i.external_id, i.payload, i.blob_key is not null, i.media_type, i.filename
from hold h indexed by hold_front
join job j on j.lane_key = h.lane_key and j.seq = h.seq
join item i on i.collection_key = j.collection_key and i.id = j.item_id
join collection k on k.collection_key = j.collection_key
where h.lane_key = $1 and h.kind = 3 order by h.seq limit $2";
    TAIL = sqlite "claim_tail" "
select 0, j.lane_key, j.seq, 1, 0, 0, 0, j.created_at_ms, j.cause = 1, j.item_id, j.item_version, k.id, k.tenant_id,
       i.external_id, i.payload, i.blob_key is not null, i.media_type, i.filename
from job j
join item i on i.collection_key = j.collection_key and i.id = j.item_id
join collection k on k.collection_key = j.collection_key
where j.lane_key = $1 and j.seq >= $2 and j.state = 0 order by j.seq limit $3";
    HOLD = sqlite "claim_hold" "
insert into hold (lane_key, seq, kind, token, retry_count, worker, until_ms, lease_ms, started_at_ms, pipeline_version,
                  to_review)
values ($1, $2, 1, 1, 0, $3, $4, $5, $6, $7, $8)";
    HOLD_AGAIN = sqlite "claim_hold_again" "
update hold
set kind = 1, token = token + 1, worker = $3, until_ms = $4, lease_ms = $5, started_at_ms = $6, pipeline_version = $7,
    to_review = $8
where lane_key = $1 and seq = $2 and kind = 3";
    TURN = sqlite "claim_turn" "update lane_turn set value = value + 1 returning value";
    LANE = sqlite "claim_lane" "
update lane set active = active + $2, queued = queued - $2, head_seq = max(head_seq, $3 + 1), served = $4
where lane_key = $1";
    LOG = sqlite "claim_log" "
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, details)
values ($1, $2, $3, $4, $5, 'job.claimed', $6, $7)";
}

struct Candidate {
    turn: usize,
    lane_rank: usize,
    /// Whether it was put back, and so has a hold already.
    put_back: bool,
    job: Claimed,
}

pub(in crate::hot) async fn claim(
    tx: &mut Tx,
    pipeline: PipelineKey,
    requests: &[ClaimRequest],
    now: Timestamp,
) -> Result<Vec<Claimed>> {
    let Some(mut settings) = tx.row_opt(&PIPELINE, params![pipeline]).await? else {
        return Ok(Vec::new());
    };
    let (version, lease_ms, to_review) = (settings.int(0)?, settings.int(1)?, settings.bool(2)?);
    let total = requests.iter().map(|request| request.limit).sum::<u64>();
    let chosen = candidates(tx, pipeline, total).await?;
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    serve_lanes(tx, &chosen).await?;

    let mut takers = requests
        .iter()
        .enumerate()
        .flat_map(|(index, request)| std::iter::repeat_n((index, request), request.limit as usize));
    let mut claimed = Vec::with_capacity(chosen.len());
    for Candidate {
        mut job, put_back, ..
    } in chosen
    {
        let Some((index, request)) = takers.next() else {
            break;
        };
        let lease_ms = request.lease_ms.unwrap_or(lease_ms);
        (job.request, job.pipeline_version) = (index, version);
        job.lease_expires_at = now.plus_ms(lease_ms);
        let hold = params![
            job.lane,
            job.seq,
            &request.worker,
            job.lease_expires_at,
            lease_ms,
            now,
            version,
            to_review
        ];
        tx.execute_one(if put_back { &HOLD_AGAIN } else { &HOLD }, hold)
            .await?;
        let actor = format!("worker:{}", request.worker);
        let details = format!("{{\"attempt\":{}}}", job.retry_count + 1);
        let entry = params![now, &job.tenant_id, job.item, job.lane, job.seq, actor, details];
        tx.execute_one(&LOG, entry).await?;
        claimed.push(job);
    }
    Ok(claimed)
}

/// The jobs to give out: round by round over the lanes in the order of their last turn.
async fn candidates(tx: &mut Tx, pipeline: PipelineKey, total: u64) -> Result<Vec<Candidate>> {
    let mut lanes = Vec::new();
    for mut row in tx.rows(&LANES, params![pipeline, total]).await? {
        lanes.push((row.lane(0)?, row.seq(1)?, row.count(2)?, row.bool(3)?));
    }
    let supplies: Vec<u64> = lanes.iter().map(|(_, _, supply, _)| *supply).collect();
    let most = rounds_for(total, &supplies);
    let mut candidates = Vec::new();
    for (lane_rank, (lane, head, supply, has_front)) in lanes.into_iter().enumerate() {
        let room = int_of(supply.min(most));
        let mut jobs = Vec::new();
        if has_front {
            jobs = tx.rows(&FRONT, params![lane, room]).await?;
        }
        let put_back = jobs.len();
        let left = room - int_of(put_back as u64);
        if left > 0 {
            jobs.extend(tx.rows(&TAIL, params![lane, head, left]).await?);
        }
        for (turn, row) in jobs.into_iter().enumerate() {
            candidates.push(Candidate {
                turn,
                lane_rank,
                put_back: turn < put_back,
                job: Claimed::read(row, 0)?,
            });
        }
    }
    candidates.sort_by_key(|candidate| (candidate.turn, candidate.lane_rank));
    candidates.truncate(total as usize);
    Ok(candidates)
}

/// Counts the jobs as active and sends their lanes to the end of the line.
async fn serve_lanes(tx: &mut Tx, chosen: &[Candidate]) -> Result<()> {
    let turn = tx.row(&TURN, &[]).await?.int(0)?;
    let mut lanes: BTreeMap<LaneKey, (i64, Seq, i64)> = BTreeMap::new();
    for (rank, candidate) in chosen.iter().enumerate() {
        let served = turn * 65_536 + int_of(rank as u64 + 1);
        let job = &candidate.job;
        let lane = lanes.entry(job.lane).or_insert((0, job.seq, served));
        *lane = (lane.0 + 1, lane.1.max(job.seq), served);
    }
    for (lane, (taken, last, served)) in lanes {
        tx.execute_one(&LANE, params![lane, taken, last, served]).await?;
    }
    Ok(())
}
