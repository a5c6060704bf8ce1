//! Settle on SQLite.

use std::collections::BTreeMap;

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, LaneKey};
use docket_core::job::JobState;
use docket_core::lane::HoldKind;

use super::super::settle::{Settle, SettleTo, Settled, Settlement};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::{Row, Value};

crate::statements! {
    HELD = sqlite "settle_held" "
select h.retry_count, h.worker, h.started_at_ms, h.pipeline_version, h.to_review, j.item_id, j.collection_key, k.tenant_id
from hold h
join job j on j.lane_key = h.lane_key and j.seq = h.seq
join collection k on k.collection_key = j.collection_key
where h.lane_key = $1 and h.seq = $2 and h.token = $3 and h.kind = $4";
    GONE = sqlite "settle_gone" "delete from hold where lane_key = $1 and seq = $2";
    KEPT = sqlite "settle_kept" "
update hold set kind = $3, until_ms = $4, retry_count = coalesce($5, retry_count) where lane_key = $1 and seq = $2";
    JOB = sqlite "settle_job" "
update job
set state = $3, token = $4, retry_count = $5, worker = coalesce($6, worker), started_at_ms = $7, pipeline_version = $8,
    to_review = $9, finished_at_ms = $10,
    error = case when $3 <> 2 then coalesce($11, error) end,
    failed_step = case when $3 = 2 then null when $11 is not null then $12 else failed_step end,
    result = $13, fields = $14, display_payload = $15, line_item_count = $16, total_amount = $17
where lane_key = $1 and seq = $2";
    LANE = sqlite "settle_lane" "
update lane set active = active - $2, queued = queued + $3, waiting = waiting + $4 where lane_key = $1";
    READY = sqlite "settle_ready" "
select distinct pipeline_key from lane
where lane_key in (select value from json_each($1)) and ready_key is not null";
    LOG = sqlite "settle_log" "
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, details)
values ($1, $2, $3, $4, $5, $6, $7, $8)";
    DELTA = sqlite "settle_delta" "
insert into delta (collection_key, from_status, to_status, n) values ($1, 'queued', $2, $3)";
}

/// What is held, and of what.
struct Held {
    retry_count: i64,
    worker: Option<String>,
    started_at: Timestamp,
    pipeline_version: i64,
    to_review: bool,
    item: ItemId,
    collection: CollectionKey,
    tenant_id: String,
}

impl Held {
    fn read(mut row: Row) -> Result<Self> {
        Ok(Self {
            retry_count: row.int(0)?,
            worker: row.opt_text(1)?,
            started_at: row.time(2)?,
            pipeline_version: row.int(3)?,
            to_review: row.bool(4)?,
            item: row.item(5)?,
            collection: row.collection(6)?,
            tenant_id: row.text(7)?,
        })
    }
}

pub(in crate::hot) async fn settle(tx: &mut Tx, entries: &[Settle], now: Timestamp) -> Result<Settlement> {
    let mut settlement = Settlement::default();
    let mut lanes: BTreeMap<LaneKey, [i64; 3]> = BTreeMap::new();
    let mut counts: BTreeMap<(CollectionKey, &'static str), i64> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let held = params![entry.lane, entry.seq, entry.token.0, entry.from.code()];
        let Some(held) = tx.row_opt(&HELD, held).await?.map(Held::read).transpose()? else {
            continue;
        };
        end_hold(tx, entry).await?;
        write_job(tx, entry, &held, now).await?;
        write_log(tx, entry, &held, now).await?;
        if let Some(status) = final_status(entry.to, held.to_review) {
            *counts.entry((held.collection, status)).or_default() += 1;
        }
        let change = lanes.entry(entry.lane).or_default();
        change[0] += i64::from(entry.from == HoldKind::Leased);
        change[1] += i64::from(entry.to == SettleTo::Front) - i64::from(entry.from == HoldKind::Front);
        change[2] +=
            i64::from(matches!(entry.to, SettleTo::Delayed(_))) - i64::from(entry.from == HoldKind::Delayed);
        settlement.settled.push(Settled {
            index,
            item: held.item,
            to_review: held.to_review && entry.to == SettleTo::Gone(JobState::Completed),
        });
    }
    for (lane, [active, queued, waiting]) in &lanes {
        tx.execute_one(&LANE, params![*lane, *active, *queued, *waiting])
            .await?;
    }
    let lanes = Value::Ints(lanes.into_keys().map(|lane| Some(i64::from(lane.0))).collect());
    for mut row in tx.rows(&READY, params![lanes]).await? {
        settlement.ready.push(row.pipeline(0)?);
    }
    for ((collection, status), n) in counts {
        tx.execute_one(&DELTA, params![collection, status, n]).await?;
    }
    Ok(settlement)
}

async fn end_hold(tx: &mut Tx, entry: &Settle) -> Result<()> {
    match entry.to {
        SettleTo::Gone(_) => tx.execute_one(&GONE, params![entry.lane, entry.seq]).await,
        SettleTo::Front | SettleTo::Delayed(_) => {
            let (kind, until_ms) = (entry.to.kind_code(), entry.to.until_ms());
            let params = params![entry.lane, entry.seq, kind, until_ms, entry.retry_count];
            tx.execute_one(&KEPT, params).await
        }
    }
}

async fn write_job(tx: &mut Tx, entry: &Settle, held: &Held, now: Timestamp) -> Result<()> {
    let state = entry.to.state();
    let output = &entry.output;
    let params = params![
        entry.lane,
        entry.seq,
        state.code(),
        entry.token.0,
        entry.retry_count.map_or(held.retry_count, i64::from),
        held.worker.as_ref(),
        held.started_at,
        held.pipeline_version,
        state == JobState::Completed && held.to_review,
        (state != JobState::Live).then_some(now),
        entry.error.as_ref(),
        entry.failed_step.as_ref(),
        output.result.as_ref(),
        output.fields.as_ref(),
        output.display_payload.as_ref(),
        output.line_item_count,
        output.total_amount,
    ];
    tx.execute_one(&JOB, params).await
}

async fn write_log(tx: &mut Tx, entry: &Settle, held: &Held, now: Timestamp) -> Result<()> {
    let Some(action) = entry.action else {
        return Ok(());
    };
    let actor = entry.actor.clone().unwrap_or_else(|| {
        held.worker
            .as_ref()
            .map_or_else(|| "docket".to_owned(), |worker| format!("worker:{worker}"))
    });
    let details = entry.details.clone().unwrap_or_else(|| {
        let (attempt, run_ms) = (held.retry_count + 1, now.since(held.started_at));
        format!("{{\"attempt\":{attempt},\"runMs\":{run_ms}}}")
    });
    let params = params![
        now,
        &held.tenant_id,
        held.item,
        entry.lane,
        entry.seq,
        action.as_str(),
        actor,
        details
    ];
    tx.execute_one(&LOG, params).await
}

const fn final_status(to: SettleTo, to_review: bool) -> Option<&'static str> {
    match to.state() {
        JobState::Live => None,
        JobState::Completed if to_review => Some("in_review"),
        JobState::Completed => Some("completed"),
        JobState::Failed => Some("failed"),
        JobState::Cancelled => Some("cancelled"),
    }
}
