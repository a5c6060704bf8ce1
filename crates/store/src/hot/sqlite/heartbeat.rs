//! Heartbeat on SQLite.

use docket_core::Timestamp;

use super::super::heartbeat::Beat;
use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    HEARTBEAT = sqlite "heartbeat" "
update hold set until_ms = $4 + coalesce($5, lease_ms), lease_ms = coalesce($5, lease_ms)
where lane_key = $1 and seq = $2 and token = $3 and kind = 1 returning until_ms";
}

pub(in crate::hot) async fn heartbeat(
    tx: &mut Tx,
    beats: &[Beat],
    now: Timestamp,
) -> Result<Vec<Option<Timestamp>>> {
    let mut ends = Vec::with_capacity(beats.len());
    for beat in beats {
        let params = params![beat.lane, beat.seq, beat.token.0, now, beat.lease_ms];
        let row = tx.row_opt(&HEARTBEAT, params).await?;
        ends.push(row.map(|mut row| row.time(0)).transpose()?);
    }
    Ok(ends)
}
