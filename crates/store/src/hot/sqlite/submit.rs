//! Submit on SQLite.

use std::collections::{BTreeMap, BTreeSet};

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, LaneKey, Seq};

use super::super::submit::{NewItem, Submission};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    ITEM = sqlite "submit_item" "
insert into item (collection_key, id, external_id, content_hash, content_key, is_file, filename, media_type, size,
                  blob_key, payload, metadata, fields, display_payload, confidence, line_item_count, total_amount,
                  deadline_ms, to_review, submitted_by, lane_key, job_seq, created_at_ms, updated_at_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $23)
on conflict do nothing";
    NEXT = sqlite "submit_next" "select next_seq from lane where lane_key = $1";
    LANE = sqlite "submit_lane" "
update lane set queued = queued + $2, next_seq = next_seq + $2
where lane_key = $1 returning pipeline_key, ready_key is not null";
    JOB = sqlite "submit_job" "
insert into job (lane_key, seq, collection_key, item_id, item_version, created_at_ms) values ($1, $2, $3, $4, 1, $5)";
    LOG = sqlite "submit_log" "
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor)
values ($1, (select tenant_id from collection where collection_key = $2), $3, $4, $5, 'item.submitted', $6)";
    DELTA = sqlite "submit_delta" "insert into delta (collection_key, to_status, n) values ($1, $2, $3)";
}

pub(in crate::hot) async fn submit(tx: &mut Tx, items: &[NewItem], now: Timestamp) -> Result<Submission> {
    let mut submission = Submission::default();
    let mut lanes: BTreeMap<LaneKey, (u64, i64)> = BTreeMap::new();
    let mut counts: BTreeMap<(CollectionKey, &'static str), i64> = BTreeMap::new();
    for item in items {
        let seq = match item.lane {
            Some(lane) => Some(next_seq(tx, &mut lanes, lane).await?),
            None => None,
        };
        if insert(tx, item, seq, now).await? == 0 {
            continue;
        }
        if let (Some(lane), Some(seq)) = (item.lane, seq) {
            tx.execute_one(&JOB, params![lane, seq, item.collection, item.id, now])
                .await?;
            lanes.entry(lane).and_modify(|(_, used)| *used += 1);
        }
        let entry = params![now, item.collection, item.id, item.lane, seq, &item.submitted_by];
        tx.execute_one(&LOG, entry).await?;
        let status = match (item.lane, item.to_review) {
            (Some(_), _) => "queued",
            (None, true) => "in_review",
            (None, false) => "completed",
        };
        *counts.entry((item.collection, status)).or_default() += 1;
        submission.inserted.push((item.id, seq));
    }
    let mut ready = BTreeSet::new();
    for (lane, (_, used)) in lanes {
        let mut row = tx.row(&LANE, params![lane, used]).await?;
        let pipeline = row.pipeline(0)?;
        if row.bool(1)? {
            ready.insert(pipeline);
        }
    }
    for ((collection, status), n) in counts {
        tx.execute_one(&DELTA, params![collection, status, n]).await?;
    }
    submission.ready.extend(ready);
    Ok(submission)
}

/// The number that the lane's next job gets; used up only when the item turns out to be new.
async fn next_seq(tx: &mut Tx, lanes: &mut BTreeMap<LaneKey, (u64, i64)>, lane: LaneKey) -> Result<Seq> {
    if let Some((base, used)) = lanes.get(&lane) {
        return Ok(Seq(base + used.unsigned_abs()));
    }
    let base = tx.row(&NEXT, params![lane]).await?.count(0)?;
    lanes.insert(lane, (base, 0));
    Ok(Seq(base))
}

async fn insert(tx: &mut Tx, item: &NewItem, seq: Option<Seq>, now: Timestamp) -> Result<u64> {
    let params = params![
        item.collection,
        item.id,
        item.external_id.as_ref(),
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
        item.lane,
        seq,
        now,
    ];
    tx.execute(&ITEM, params).await
}
