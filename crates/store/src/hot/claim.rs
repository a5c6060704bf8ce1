//! Claim: gives the jobs that may start to those who ask.
//!
//! Contract: lanes are served in the order of their last turn, one job a lane in each round; within a lane, jobs that were put
//! back come first, then the tail, both by number; no lane exceeds its limit. A claim of many jobs takes exactly what as many
//! single claims in a row would take.

use docket_core::Timestamp;
use docket_core::id::{ItemId, LaneKey, PipelineKey, Seq};
use docket_core::lease::LeaseToken;

use crate::error::Result;
use crate::tx::{Driver, Tx};
use crate::value::Row;

/// Somebody who asks for jobs.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who.
    pub worker: String,
    /// How many at the most.
    pub limit: u64,
    /// For how long; none for the pipeline's own lease.
    pub lease_ms: Option<i64>,
}

/// A job that was given out.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Claimed {
    /// Which of the requests got it.
    pub request: usize,
    pub lane: LaneKey,
    pub seq: Seq,
    pub token: LeaseToken,
    pub retry_count: u32,
    pub lease_expires_at: Timestamp,
    pub pipeline_version: i64,
    pub created_at: Timestamp,
    /// Whether finished steps of an earlier attempt or job may be there.
    pub resumed: bool,
    pub item: ItemId,
    pub item_version: u32,
    pub collection_id: String,
    pub tenant_id: String,
    pub external_id: Option<String>,
    pub payload: Option<String>,
    pub has_content: bool,
    pub media_type: Option<String>,
    pub filename: Option<String>,
}

impl Claimed {
    /// Columns 1 to 17 in the order of the fields; the request comes first.
    pub(super) fn read(mut row: Row, request: usize) -> Result<Self> {
        Ok(Self {
            request,
            lane: row.lane(1)?,
            seq: row.seq(2)?,
            token: LeaseToken(row.int(3)?),
            retry_count: u32::try_from(row.int(4)?).map_err(|_| row.inconsistent(4))?,
            lease_expires_at: row.time(5)?,
            pipeline_version: row.int(6)?,
            created_at: row.time(7)?,
            resumed: row.bool(8)?,
            item: row.item(9)?,
            item_version: u32::try_from(row.int(10)?).map_err(|_| row.inconsistent(10))?,
            collection_id: row.text(11)?,
            tenant_id: row.text(12)?,
            external_id: row.opt_text(13)?,
            payload: row.opt_text(14)?,
            has_content: row.bool(15)?,
            media_type: row.opt_text(16)?,
            filename: row.opt_text(17)?,
        })
    }
}

/// What a claim found.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The jobs that were given out.
    pub jobs: Vec<Claimed>,
    /// Somebody was given nothing, though a lane is ready: others were at work on it at this very moment. Ask again.
    pub contended: bool,
}

/// Waits a moment for the first of the ready lanes: a claim passes over those that others have locked, and where they are locked again as
/// soon as they are free, as by one large submission after the other, it would never get one. What follows in the transaction finds it
/// its own. Refused where it is not to be had within that moment.
pub async fn stand_in_line(tx: &mut Tx, pipeline: PipelineKey) -> Result<()> {
    match tx.driver {
        Driver::Postgres(_) => super::postgres::claim::stand_in_line(tx, pipeline).await,
        Driver::Sqlite(_) => Ok(()),
    }
}

/// Gives out jobs of a pipeline, as many as there are and were asked for.
pub async fn claim(
    tx: &mut Tx,
    pipeline: PipelineKey,
    requests: &[ClaimRequest],
    now: Timestamp,
) -> Result<Claims> {
    match tx.driver {
        Driver::Postgres(_) => super::postgres::claim::claim(tx, pipeline, requests, now).await,
        Driver::Sqlite(_) => {
            let jobs = super::sqlite::claim::claim(tx, pipeline, requests, now).await?;
            Ok(Claims {
                jobs,
                contended: false,
            })
        }
    }
}
