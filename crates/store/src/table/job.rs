//! Jobs, outside of the tuned operations.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, JobId, LaneKey, Seq};
use docket_core::job::JobState;
use docket_core::lease::LeaseToken;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    GET = portable "job_get" "
select lane_key, seq, collection_key, item_id, item_version, state, cause, prior_lane_key, prior_seq, token, retry_count,
       pipeline_version, to_review, worker, error, failed_step, result, fields, display_payload, line_item_count,
       total_amount, created_at_ms, started_at_ms, finished_at_ms
from job where lane_key = $1 and seq = $2";
    INSERT = portable "job_insert" "
insert into job (lane_key, seq, collection_key, item_id, item_version, cause, prior_lane_key, prior_seq, created_at_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    CANCEL = portable "job_cancel" "
update job set state = 5, finished_at_ms = $3 where lane_key = $1 and seq = $2 and state = 0";
    RECENT_RUNS = portable "job_recent_runs" "
select finished_at_ms - started_at_ms from job
where lane_key = $1 and seq < $2 and seq >= $2 - 50 and state = 2 order by seq desc limit 20";
}

/// Why a job was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its item was submitted.
    Submitted,
    /// Somebody retried its failed predecessor.
    Retried,
    /// Somebody wanted its item processed again.
    Reprocessed,
    /// Its item has a new version.
    NextVersion,
}

impl Cause {
    const fn code(self) -> i64 {
        match self {
            Self::Submitted => 0,
            Self::Retried => 1,
            Self::Reprocessed => 2,
            Self::NextVersion => 3,
        }
    }

    const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Submitted),
            1 => Some(Self::Retried),
            2 => Some(Self::Reprocessed),
            3 => Some(Self::NextVersion),
            _ => None,
        }
    }
}

/// A job's row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Job {
    pub lane: LaneKey,
    pub seq: Seq,
    pub collection: CollectionKey,
    pub item: ItemId,
    pub item_version: i64,
    pub state: JobState,
    pub cause: Cause,
    pub prior: Option<(LaneKey, Seq)>,
    /// The last token that was settled.
    pub token: LeaseToken,
    pub retry_count: u32,
    pub pipeline_version: Option<i64>,
    pub to_review: bool,
    pub worker: Option<String>,
    pub error: Option<String>,
    pub failed_step: Option<String>,
    pub result: Option<String>,
    pub fields: Option<String>,
    pub display_payload: Option<String>,
    pub line_item_count: Option<i64>,
    pub total_amount: Option<f64>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// Its id.
    pub fn id(&self) -> JobId {
        JobId::new(self.created_at, self.lane, self.seq)
    }
}

fn read(mut row: Row) -> Result<Job> {
    let prior = match (row.opt_lane(7)?, row.opt_seq(8)?) {
        (Some(lane), Some(seq)) => Some((lane, seq)),
        _ => None,
    };
    Ok(Job {
        lane: row.lane(0)?,
        seq: row.seq(1)?,
        collection: row.collection(2)?,
        item: row.item(3)?,
        item_version: row.int(4)?,
        state: JobState::from_code(row.int(5)?).ok_or_else(|| row.inconsistent(5))?,
        cause: Cause::from_code(row.int(6)?).ok_or_else(|| row.inconsistent(6))?,
        prior,
        token: LeaseToken(row.int(9)?),
        retry_count: u32::try_from(row.int(10)?).map_err(|_| row.inconsistent(10))?,
        pipeline_version: row.opt_int(11)?,
        to_review: row.bool(12)?,
        worker: row.opt_text(13)?,
        error: row.opt_text(14)?,
        failed_step: row.opt_text(15)?,
        result: row.opt_text(16)?,
        fields: row.opt_text(17)?,
        display_payload: row.opt_text(18)?,
        line_item_count: row.opt_int(19)?,
        total_amount: row.opt_real(20)?,
        created_at: row.time(21)?,
        started_at: row.opt_time(22)?,
        finished_at: row.opt_time(23)?,
    })
}

/// The job at this place.
pub async fn get(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<Option<Job>> {
    tx.row_opt(&GET, params![lane, seq]).await?.map(read).transpose()
}

/// A job to be written.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct NewJob {
    pub lane: LaneKey,
    pub seq: Seq,
    pub item: ItemId,
    pub item_version: i64,
    pub cause: Cause,
    pub prior: Option<(LaneKey, Seq)>,
}

/// Writes a job; its lane has counted it already.
pub async fn insert(tx: &mut Tx, job: &NewJob, now: Timestamp) -> Result<()> {
    let params = params![
        job.lane,
        job.seq,
        job.item.collection(),
        job.item,
        job.item_version,
        job.cause.code(),
        job.prior.map(|(lane, _)| lane),
        job.prior.map(|(_, seq)| seq),
        now,
    ];
    tx.execute_one(&INSERT, params).await
}

/// Marks a job that never started as cancelled.
pub async fn cancel(tx: &mut Tx, lane: LaneKey, seq: Seq, now: Timestamp) -> Result<()> {
    tx.execute_one(&CANCEL, params![lane, seq, now]).await
}

/// How long the lane's latest completed jobs ran, in milliseconds.
pub async fn recent_runs(tx: &mut Tx, lane: LaneKey, head: Seq) -> Result<Vec<i64>> {
    tx.rows(&RECENT_RUNS, params![lane, head])
        .await?
        .into_iter()
        .map(|mut row| row.int(0))
        .collect()
}
