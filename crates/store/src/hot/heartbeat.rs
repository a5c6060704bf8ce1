//! Heartbeat: extends leases that are still held.

use docket_core::Timestamp;
use docket_core::id::{LaneKey, Seq};
use docket_core::lease::LeaseToken;

use crate::error::Result;
use crate::tx::{Driver, Tx};

/// A sign of life for one job.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The job's lane.
    pub lane: LaneKey,
    /// Its place there.
    pub seq: Seq,
    /// The token that its holder shows.
    pub token: LeaseToken,
    /// For how long from now; none for as long as before.
    pub lease_ms: Option<i64>,
}

/// Extends the leases; the new end of each, none for a lease that is lost.
pub async fn heartbeat(tx: &mut Tx, beats: &[Beat], now: Timestamp) -> Result<Vec<Option<Timestamp>>> {
    match tx.driver {
        Driver::Postgres(_) => super::postgres::heartbeat::heartbeat(tx, beats, now).await,
        Driver::Sqlite(_) => super::sqlite::heartbeat::heartbeat(tx, beats, now).await,
    }
}
