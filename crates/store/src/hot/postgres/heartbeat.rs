//! Heartbeat on PostgreSQL.

use docket_core::Timestamp;

use super::super::heartbeat::Beat;
use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::{Value, int_of};

crate::statements! {
    HEARTBEAT = postgres "heartbeat" "
with c as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
    with ordinality as c (lane_key, seq, token, lease_ms, ord)
  order by lane_key, seq)
update hold h
set until_ms = $5::bigint + coalesce(c.lease_ms, h.lease_ms), lease_ms = coalesce(c.lease_ms, h.lease_ms)
from c
where h.lane_key = c.lane_key and h.seq = c.seq and h.token = c.token and h.kind = 1
returning c.ord, h.until_ms";
}

pub(in crate::hot) async fn heartbeat(
    tx: &mut Tx,
    beats: &[Beat],
    now: Timestamp,
) -> Result<Vec<Option<Timestamp>>> {
    let params = params![
        Value::Ints(beats.iter().map(|beat| Some(i64::from(beat.lane.0))).collect()),
        Value::Ints(beats.iter().map(|beat| Some(int_of(beat.seq.0))).collect()),
        Value::Ints(beats.iter().map(|beat| Some(beat.token.0)).collect()),
        Value::Ints(beats.iter().map(|beat| beat.lease_ms).collect()),
        now,
    ];
    let mut ends = vec![None; beats.len()];
    for mut row in tx.rows(&HEARTBEAT, params).await? {
        let index = row.count(0)? as usize - 1;
        ends[index] = Some(row.time(1)?);
    }
    Ok(ends)
}
