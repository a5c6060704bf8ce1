//! Settle on SQLite.

use std::collections::{BTreeMap, BTreeSet};

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, LaneKey};
use docket_core::job::JobState;
use docket_core::lane::HoldKind;

use super::super::settle::{Settle, SettleTo, Settled, Settlement};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    GONE = sqlite "settle_gone" "
delete from hold where lane_key = $1 and seq = $2 and token = $3 and kind = $4
returning retry_count, worker, started_at_ms, pipeline_version, to_review";
    KEPT = sqlite "settle_kept" "
update hold set kind = $5, until_ms = $6, retry_count = coalesce($7, retry_count)
where lane_key = $1 and seq = $2 and token = $3 and kind = $4
returning retry_count, worker, started_at_ms, pipeline_version, to_review";
    JOB = sqlite "settle_job" "
update job
set state = $3, token = $4, retry_count = $5, worker = coalesce($6, worker), started_at_ms = $7, pipeline_version = $8,
    to_review = $9, finished_at_ms = $10,
    error = case when $3 <> 2 then coalesce($11, error) end,
    failed_step = case when $3 = 2 then null when $11 is not null then $12 else failed_step end,
    result = $13, fields = $14, display_payload = $15, line_item_count = $16, total_amount = $17
where lane_key = $1 and seq = $2 returning item_id, collection_key";
    LANE = sqlite "settle_lane" "
update lane set active = active - $2, queued = queued + $3, waiting = waiting + $4
where lane_key = $1 returning pipeline_key, ready_key is not null";
    LOG = sqlite "settle_log" "
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, details)
values ($1, (select tenant_id from collection where collection_key = $2), $3, $4, $5, $6, $7, $8)";
    DELTA = sqlite "settle_delta" "
insert into delta (collection_key, from_status, to_status, n) values ($1, 'queued', $2, $3)";
}

struct Held {
    retry_count: i64,
    worker: Option<String>,
    started_at: Timestamp,
    pipeline_version: i64,
    to_review: bool,
}

impl Held {
    fn read(mut row: Row) -> Result<Self> {
        Ok(Self {
            retry_count: row.int(0)?,
            worker: row.opt_text(1)?,
            started_at: row.time(2)?,
            pipeline_version: row.int(3)?,
            to_review: row.bool(4)?,
        })
    }
}

pub(in crate::hot) async fn settle(tx: &mut Tx, entries: &[Settle], now: Timestamp) -> Result<Settlement> {
    let mut settlement = Settlement::default();
    let mut lanes: BTreeMap<LaneKey, [i64; 3]> = BTreeMap::new();
    let mut counts: BTreeMap<(CollectionKey, &'static str), i64> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let Some(held) = end_hold(tx, entry).await? else {
            continue;
        };
        let mut job = write_job(tx, entry, &held, now).await?;
        let (item, collection) = (job.item(0)?, job.collection(1)?);
        if let Some(action) = entry.action {
            let actor = entry.actor.clone().unwrap_or_else(|| {
                held.worker
                    .as_ref()
                    .map_or_else(|| "docket".to_owned(), |worker| format!("worker:{worker}"))
            });
            let details = entry.details.clone().unwrap_or_else(|| {
                format!(
                    "{{\"attempt\":{},\"runMs\":{}}}",
                    held.retry_count + 1,
                    now.since(held.started_at)
                )
            });
            let params = params![
                now,
                collection,
                item,
                entry.lane,
                entry.seq,
                action.as_str(),
                actor,
                details
            ];
            tx.execute_one(&LOG, params).await?;
        }
        if let Some(status) = final_status(entry.to, held.to_review) {
            *counts.entry((collection, status)).or_default() += 1;
        }
        let change = lanes.entry(entry.lane).or_default();
        change[0] += i64::from(entry.from == HoldKind::Leased);
        change[1] += i64::from(entry.to == SettleTo::Front) - i64::from(entry.from == HoldKind::Front);
        change[2] +=
            i64::from(matches!(entry.to, SettleTo::Delayed(_))) - i64::from(entry.from == HoldKind::Delayed);
        settlement.settled.push(Settled { index, item });
    }
    let mut ready = BTreeSet::new();
    for (lane, [active, queued, waiting]) in lanes {
        let mut row = tx.row(&LANE, params![lane, active, queued, waiting]).await?;
        let pipeline = row.pipeline(0)?;
        if row.bool(1)? {
            ready.insert(pipeline);
        }
    }
    for ((collection, status), n) in counts {
        tx.execute_one(&DELTA, params![collection, status, n]).await?;
    }
    settlement.ready.extend(ready);
    Ok(settlement)
}

async fn end_hold(tx: &mut Tx, entry: &Settle) -> Result<Option<Held>> {
    let (lane, seq, token, from) = (entry.lane, entry.seq, entry.token.0, entry.from.code());
    let row = match entry.to {
        SettleTo::Gone(_) => tx.row_opt(&GONE, params![lane, seq, token, from]).await?,
        SettleTo::Front | SettleTo::Delayed(_) => {
            let (kind, until_ms) = (entry.to.kind_code(), entry.to.until_ms());
            let params = params![lane, seq, token, from, kind, until_ms, entry.retry_count];
            tx.row_opt(&KEPT, params).await?
        }
    };
    row.map(Held::read).transpose()
}

async fn write_job(tx: &mut Tx, entry: &Settle, held: &Held, now: Timestamp) -> Result<Row> {
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
    tx.row(&JOB, params).await
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
