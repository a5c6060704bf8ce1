//! How much waits in each pipeline, for those who watch. Read off the lanes' counts, so that it costs as much as there are lanes,
//! whatever waits in them.

use docket_core::Timestamp;

use crate::error::Result;
use crate::tx::Tx;

/// The most pipelines told of.
const PIPELINES_MAX: usize = 200;

crate::statements! {
    COUNTS = portable "depth_counts" "
select p.name, cast(coalesce(sum(l.queued), 0) as bigint), cast(coalesce(sum(l.active), 0) as bigint),
       cast(coalesce(sum(l.waiting), 0) as bigint)
from pipeline p left join lane l on l.pipeline_key = p.pipeline_key group by p.name order by p.name limit 200";
    OLDEST = portable "depth_oldest" "
select p.name, min(coalesce(
  (select j.created_at_ms from hold h join job j on j.lane_key = h.lane_key and j.seq = h.seq
   where h.lane_key = l.lane_key and h.kind = 3 order by h.lane_key, h.seq limit 1),
  (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq >= l.head_seq
   order by j.lane_key, j.seq limit 1)))
from pipeline p join lane l on l.pipeline_key = p.pipeline_key where l.queued > 0 group by p.name order by p.name limit 200";
}

/// What waits and runs in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depth {
    /// The pipeline.
    pub pipeline: String,
    /// Jobs that can start, as far as their lane's limit lets them.
    pub queued: u64,
    /// Jobs that workers hold.
    pub active: u64,
    /// Jobs that wait for their next attempt.
    pub waiting: u64,
    /// When the oldest of the queued ones was submitted.
    pub oldest: Option<Timestamp>,
}

/// All pipelines, by name.
pub async fn all(tx: &mut Tx) -> Result<Vec<Depth>> {
    let mut depths = Vec::new();
    for mut row in tx.rows(&COUNTS, &[]).await? {
        depths.push(Depth {
            pipeline: row.text(0)?,
            queued: row.count(1)?,
            active: row.count(2)?,
            waiting: row.count(3)?,
            oldest: None,
        });
    }
    depths.truncate(PIPELINES_MAX);
    for mut row in tx.rows(&OLDEST, &[]).await? {
        let (name, oldest) = (row.text(0)?, row.opt_time(1)?);
        if let Some(depth) = depths.iter_mut().find(|depth| depth.pipeline == name) {
            depth.oldest = oldest;
        }
    }
    Ok(depths)
}
