//! Submit on PostgreSQL.
//!
//! Numbers are given under the lanes' locks, so their order is the order of commits, before it is known which items are new. Numbers
//! of those that turn out not to be become holes.

use std::collections::BTreeMap;

use docket_core::Timestamp;
use docket_core::content::Digest;

use super::super::submit::{NewItem, Submission};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::{Value, int_of};

crate::statements! {
    SUBMIT = postgres "submit" "
with lk as materialized (
  select array_agg(next_seq order by lane_key) as bases
  from (select k.lane_key, l.next_seq
        from (select lane_key from unnest($1::bigint[]) as k (lane_key) order by lane_key) k cross join lateral (
          select next_seq from lane where lane_key = k.lane_key order by served desc limit 1 for no key update) l) l),
n as materialized (
  select i.*, lk.bases[i.lane_rank] + i.k as job_seq
  from unnest($3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::bytea[], $10::bytea[],
              $11::bool[], $12::text[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[],
              $19::text[], $20::float8[], $21::bigint[], $22::float8[], $23::bigint[], $24::bool[], $25::text[])
    as i (collection_key, id, lane_key, lane_rank, k, external_id, content_hash, content_key, is_file, filename,
          media_type, size, blob_key, payload, metadata, fields, display_payload, confidence, line_item_count,
          total_amount, deadline_ms, to_review, submitted_by)
  cross join lk),
ins as (
  insert into item (collection_key, id, external_id, content_hash, content_key, is_file, filename, media_type, size,
                    blob_key, payload, metadata, fields, display_payload, confidence, line_item_count, total_amount,
                    deadline_ms, to_review, submitted_by, lane_key, job_seq, created_at_ms, updated_at_ms)
  select collection_key, id, external_id, content_hash, content_key, is_file, filename, media_type, size, blob_key,
         payload, metadata, fields, display_payload, confidence, line_item_count, total_amount, deadline_ms, to_review,
         submitted_by, lane_key, job_seq, $26::bigint, $26
  from n
  on conflict do nothing
  returning collection_key, id, lane_key, job_seq, to_review, submitted_by),
x as materialized (
  select y.*, v.served
  from (select lane_key, sum(given)::bigint as given, sum(used)::bigint as used
        from (select lane_key, given, 0 as used from unnest($1::bigint[], $2::bigint[]) as g (lane_key, given)
              union all
              select lane_key, 0, 1 from ins where lane_key is not null) y
        group by lane_key order by lane_key) y
  cross join lateral (select served from lane where lane_key = y.lane_key order by served desc limit 1) v),
ul as (
  update lane b set next_seq = b.next_seq + x.given, queued = b.queued + x.used
  from x
  where b.lane_key = x.lane_key and b.served >= x.served
  returning b.pipeline_key, b.ready_key),
hl as (
  insert into hole (lane_key, seq)
  select lane_key, job_seq
  from (select lane_key, job_seq, 1 as had from n union all select lane_key, job_seq, -1 from ins) y
  where lane_key is not null and (select count(*) from ins) < (select count(*) from n)
  group by lane_key, job_seq having sum(had) > 0),
jb as (
  insert into job (lane_key, seq, collection_key, item_id, item_version, created_at_ms)
  select lane_key, job_seq, collection_key, id, 1, $26 from ins where lane_key is not null),
lg as (
  insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor)
  select $26, (select k.tenant_id from collection k where k.collection_key = ins.collection_key), ins.id, ins.lane_key, ins.job_seq, 'item.submitted', ins.submitted_by
  from ins),
dl as (
  insert into delta (collection_key, to_status, n)
  select collection_key,
         case when lane_key is not null then 'queued' when to_review then 'in_review' else 'completed' end, count(*)
  from ins group by 1, 2)
select id, job_seq, null::integer, null::bigint from ins
union all
select null, null, pipeline_key, min(ready_key) from ul where ready_key is not null group by pipeline_key";
}

pub(in crate::hot) async fn submit(tx: &mut Tx, items: &[NewItem], now: Timestamp) -> Result<Submission> {
    let (items, numbered) = in_order(items);
    let digests = |of: fn(&NewItem) -> Option<Digest>| {
        Value::Blobs(
            items
                .iter()
                .map(|item| of(item).map(|digest| digest.bytes().to_vec()))
                .collect(),
        )
    };
    let texts = |of: fn(&NewItem) -> Option<&String>| {
        Value::Texts(items.iter().map(|item| of(item).cloned()).collect())
    };
    let params = params![
        Value::Ints(numbered.lanes),
        Value::Ints(numbered.given),
        Value::Ints(
            items
                .iter()
                .map(|item| Some(i64::from(item.collection.0)))
                .collect()
        ),
        Value::Uuids(items.iter().map(|item| item.id.uuid()).collect()),
        Value::Ints(
            items
                .iter()
                .map(|item| item.lane.map(|lane| i64::from(lane.0)))
                .collect()
        ),
        Value::Ints(numbered.ranks),
        Value::Ints(numbered.offsets),
        texts(|item| item.external_id.as_ref()),
        digests(|item| Some(item.content_hash)),
        digests(|item| item.content_key),
        Value::Bools(items.iter().map(|item| item.is_file).collect()),
        texts(|item| item.filename.as_ref()),
        texts(|item| item.media_type.as_ref()),
        Value::Ints(items.iter().map(|item| Some(int_of(item.size))).collect()),
        texts(|item| item.blob_key.as_ref()),
        texts(|item| item.payload.as_ref()),
        texts(|item| item.metadata.as_ref()),
        texts(|item| item.fields.as_ref()),
        texts(|item| item.display_payload.as_ref()),
        Value::Reals(items.iter().map(|item| item.confidence).collect()),
        Value::Ints(items.iter().map(|item| item.line_item_count).collect()),
        Value::Reals(items.iter().map(|item| item.total_amount).collect()),
        Value::Ints(
            items
                .iter()
                .map(|item| item.deadline.map(Timestamp::ms))
                .collect()
        ),
        Value::Bools(items.iter().map(|item| item.to_review).collect()),
        texts(|item| Some(&item.submitted_by)),
        now,
    ];
    let mut submission = Submission::default();
    for mut row in tx.rows(&SUBMIT, params).await? {
        match row.opt_item(0)? {
            Some(item) => submission.inserted.push((item, row.opt_seq(1)?)),
            None => {
                let (pipeline, turn) = (row.pipeline(2)?, row.int(3)?);
                tx.lane_is_ready(Some(pipeline), turn);
                submission.ready.push(pipeline);
            }
        }
    }
    Ok(submission)
}

/// The items in the order in which they are inserted, with their numbers. Two calls that insert the same items insert them in the
/// same order, so that one waits for the other and none for both.
fn in_order(items: &[NewItem]) -> (Vec<&NewItem>, Numbered) {
    let mut numbered = Numbered::of(items);
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| {
        let item = &items[*index];
        (item.collection, &item.external_id, item.content_key)
    });
    numbered.reorder(&order);
    (order.iter().map(|index| &items[*index]).collect(), numbered)
}

/// The lanes of a call in order of their keys, how many numbers each gives, and each item's lane and offset there.
#[derive(Default)]
struct Numbered {
    lanes: Vec<Option<i64>>,
    given: Vec<Option<i64>>,
    ranks: Vec<Option<i64>>,
    offsets: Vec<Option<i64>>,
}

impl Numbered {
    fn reorder(&mut self, order: &[usize]) {
        for entries in [&mut self.ranks, &mut self.offsets] {
            *entries = order.iter().map(|index| entries[*index]).collect();
        }
    }

    fn of(items: &[NewItem]) -> Self {
        let mut counts = BTreeMap::new();
        let offsets: Vec<Option<i64>> = items
            .iter()
            .map(|item| {
                let count = counts.entry(item.lane?).or_insert(0_i64);
                *count += 1;
                Some(*count - 1)
            })
            .collect();
        let ranks: BTreeMap<_, _> = counts.keys().zip(1_i64..).collect();
        Self {
            ranks: items.iter().map(|item| ranks.get(&item.lane?).copied()).collect(),
            offsets,
            lanes: counts.keys().map(|lane| Some(i64::from(lane.0))).collect(),
            given: counts.values().copied().map(Some).collect(),
        }
    }
}
