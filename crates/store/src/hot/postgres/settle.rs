//! Settle on PostgreSQL.
//!
//! Starting a statement costs more the more it could do, whatever it then does. Completions by their holders are most of what there is
//! to settle, and nothing of them is kept, delayed or explained: they have a leaner statement of their own.

use docket_core::Timestamp;
use docket_core::job::JobState;
use docket_core::lane::HoldKind;
use docket_core::log::Action;

use super::super::settle::{Output, Settle, SettleTo, Settled, Settlement};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::{Row, Value, int_of};

crate::statements! {
    SETTLE = postgres "settle" "
with c as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                       $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                       $15::float8[], $16::text[], $17::text[], $18::text[])
    with ordinality as c (lane_key, seq, token, from_kind, to_kind, until_ms, retry_count, state, error, failed_step,
                          result, fields, display_payload, line_item_count, total_amount, action, actor, details, ord)
  order by lane_key, seq),
gone as (
  delete from hold h using c
  where c.to_kind = 0 and h.lane_key = c.lane_key and h.seq = c.seq and h.token = c.token and h.kind = c.from_kind
  returning c.*, h.retry_count as held_count, h.worker, h.started_at_ms, h.pipeline_version, h.to_review),
kept as (
  update hold h
  set kind = c.to_kind, until_ms = c.until_ms, retry_count = coalesce(c.retry_count, h.retry_count)
  from c
  where c.to_kind > 0 and h.lane_key = c.lane_key and h.seq = c.seq and h.token = c.token and h.kind = c.from_kind
  returning c.*, h.retry_count as held_count, h.worker, h.started_at_ms, h.pipeline_version, h.to_review),
d as materialized (select * from gone union all select * from kept),
u as (
  update job j
  set state = d.state, token = d.token, retry_count = coalesce(d.retry_count, d.held_count),
      worker = coalesce(d.worker, j.worker), started_at_ms = d.started_at_ms, pipeline_version = d.pipeline_version,
      to_review = d.state = 2 and d.to_review, finished_at_ms = case when d.state <> 0 then $19::bigint end,
      error = case when d.state <> 2 then coalesce(d.error, j.error) end,
      failed_step = case when d.state = 2 then null when d.error is not null then d.failed_step else j.failed_step end,
      result = d.result, fields = d.fields, display_payload = d.display_payload,
      line_item_count = d.line_item_count, total_amount = d.total_amount
  from d
  where j.lane_key = d.lane_key and j.seq = d.seq
  returning d.ord, d.lane_key, d.seq, j.item_id, j.collection_key, d.state, d.to_review, d.action, d.actor, d.worker,
            d.details, d.held_count, d.started_at_ms),
x as materialized (
  select y.*, v.served
  from (select lane_key, count(*) filter (where from_kind = 1) as a,
               count(*) filter (where to_kind = 3) - count(*) filter (where from_kind = 3) as q,
               count(*) filter (where to_kind = 2) - count(*) filter (where from_kind = 2) as w
        from d group by lane_key order by lane_key) y
  cross join lateral (select served from lane where lane_key = y.lane_key order by served desc limit 1) v),
ul as (
  update lane b
  set active = b.active - x.a, queued = b.queued + x.q, waiting = b.waiting + x.w
  from x
  where b.lane_key = x.lane_key and b.served >= x.served
  returning b.pipeline_key, b.ready_key),
lg as (
  insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, details)
  select $19, (select k.tenant_id from collection k where k.collection_key = u.collection_key), u.item_id, u.lane_key, u.seq, u.action, coalesce(u.actor, 'worker:' || u.worker, 'docket'),
         coalesce(u.details, '{\"attempt\":' || u.held_count + 1 || ',\"runMs\":' || $19 - u.started_at_ms || '}')
  from u where u.action is not null),
dl as (
  insert into delta (collection_key, from_status, to_status, n)
  select collection_key, 'queued',
         case state when 2 then case when to_review then 'in_review' else 'completed' end
                    when 3 then 'failed' else 'cancelled' end, count(*)
  from u where state <> 0 group by 1, 3)
select ord, item_id, null::integer, state = 2 and to_review, null::bigint from u
union all
select null, null, pipeline_key, null, min(ready_key) from ul where ready_key is not null group by pipeline_key";
    COMPLETE = postgres "settle_complete" "
with c as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[],
                       $8::float8[])
    with ordinality as c (lane_key, seq, token, result, fields, display_payload, line_item_count, total_amount, ord)
  order by lane_key, seq),
d as (
  delete from hold h using c
  where h.lane_key = c.lane_key and h.seq = c.seq and h.token = c.token and h.kind = 1
  returning c.*, h.retry_count, h.worker, h.started_at_ms, h.pipeline_version, h.to_review),
u as (
  update job j
  set state = 2, token = d.token, retry_count = d.retry_count, worker = coalesce(d.worker, j.worker),
      started_at_ms = d.started_at_ms, pipeline_version = d.pipeline_version, to_review = d.to_review,
      finished_at_ms = $9::bigint, error = null, failed_step = null, result = d.result, fields = d.fields,
      display_payload = d.display_payload, line_item_count = d.line_item_count, total_amount = d.total_amount
  from d
  where j.lane_key = d.lane_key and j.seq = d.seq
  returning d.ord, d.lane_key, d.seq, j.item_id, j.collection_key, d.to_review, d.worker, d.retry_count, d.started_at_ms),
x as materialized (
  select y.*, v.served
  from (select lane_key, count(*) as n from d group by lane_key order by lane_key) y
  cross join lateral (select served from lane where lane_key = y.lane_key order by served desc limit 1) v),
ul as (
  update lane b set active = b.active - x.n
  from x
  where b.lane_key = x.lane_key and b.served >= x.served
  returning b.pipeline_key, b.ready_key),
lg as (
  insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, details)
  select $9, (select k.tenant_id from collection k where k.collection_key = u.collection_key), u.item_id, u.lane_key, u.seq,
         'job.completed', coalesce('worker:' || u.worker, 'docket'),
         '{\"attempt\":' || u.retry_count + 1 || ',\"runMs\":' || $9 - u.started_at_ms || '}'
  from u),
dl as (
  insert into delta (collection_key, from_status, to_status, n)
  select collection_key, 'queued', case when to_review then 'in_review' else 'completed' end, count(*)
  from u group by 1, 3)
select ord, item_id, null::integer, to_review, null::bigint from u
union all
select null, null, pipeline_key, null, min(ready_key) from ul where ready_key is not null group by pipeline_key";
}

pub(in crate::hot) async fn settle(tx: &mut Tx, entries: &[Settle], now: Timestamp) -> Result<Settlement> {
    let rows = if entries.iter().all(is_plain_completion) {
        complete_rows(tx, entries, now).await?
    } else {
        settle_rows(tx, entries, now).await?
    };
    let mut settlement = Settlement::default();
    for mut row in rows {
        match row.opt_count(0)? {
            Some(ord) => settlement.settled.push(Settled {
                index: ord as usize - 1,
                item: row.item(1)?,
                to_review: row.bool(3)?,
            }),
            None => {
                let (pipeline, turn) = (row.pipeline(2)?, row.int(4)?);
                tx.lane_is_ready(Some(pipeline), turn);
                settlement.ready.push(pipeline);
            }
        }
    }
    Ok(settlement)
}

/// Whether a job's holder says that it is done, and no more than that and what came out.
fn is_plain_completion(entry: &Settle) -> bool {
    entry.from == HoldKind::Leased
        && entry.to == SettleTo::Gone(JobState::Completed)
        && entry.action == Some(Action::JobCompleted)
        && entry.retry_count.is_none()
        && entry.actor.is_none()
        && entry.details.is_none()
}

async fn complete_rows(tx: &mut Tx, entries: &[Settle], now: Timestamp) -> Result<Vec<Row>> {
    let ints = |of: fn(&Settle) -> i64| Value::Ints(entries.iter().map(|entry| Some(of(entry))).collect());
    let texts = |of: fn(&Output) -> Option<String>| {
        Value::Texts(entries.iter().map(|entry| of(&entry.output)).collect())
    };
    let params = params![
        ints(|entry| i64::from(entry.lane.0)),
        ints(|entry| int_of(entry.seq.0)),
        ints(|entry| entry.token.0),
        texts(|output| output.result.clone()),
        texts(|output| output.fields.clone()),
        texts(|output| output.display_payload.clone()),
        Value::Ints(entries.iter().map(|entry| entry.output.line_item_count).collect()),
        Value::Reals(entries.iter().map(|entry| entry.output.total_amount).collect()),
        now,
    ];
    tx.rows(&COMPLETE, params).await
}

async fn settle_rows(tx: &mut Tx, entries: &[Settle], now: Timestamp) -> Result<Vec<Row>> {
    let ints = |of: fn(&Settle) -> i64| Value::Ints(entries.iter().map(|entry| Some(of(entry))).collect());
    let texts = |of: fn(&Settle) -> Option<String>| Value::Texts(entries.iter().map(of).collect());
    let params = params![
        ints(|entry| i64::from(entry.lane.0)),
        ints(|entry| int_of(entry.seq.0)),
        ints(|entry| entry.token.0),
        ints(|entry| entry.from.code()),
        ints(|entry| entry.to.kind_code()),
        ints(|entry| entry.to.until_ms()),
        Value::Ints(
            entries
                .iter()
                .map(|entry| entry.retry_count.map(i64::from))
                .collect()
        ),
        ints(|entry| entry.to.state().code()),
        texts(|entry| entry.error.clone()),
        texts(|entry| entry.failed_step.clone()),
        texts(|entry| entry.output.result.clone()),
        texts(|entry| entry.output.fields.clone()),
        texts(|entry| entry.output.display_payload.clone()),
        Value::Ints(entries.iter().map(|entry| entry.output.line_item_count).collect()),
        Value::Reals(entries.iter().map(|entry| entry.output.total_amount).collect()),
        texts(|entry| entry.action.map(|action| action.as_str().to_owned())),
        texts(|entry| entry.actor.clone()),
        texts(|entry| entry.details.clone()),
        now,
    ];
    tx.rows(&SETTLE, params).await
}
