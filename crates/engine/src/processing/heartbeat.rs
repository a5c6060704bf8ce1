//! Heartbeat: a sign of life extends the leases (rule P5).

use std::collections::HashMap;
use std::sync::Arc;

use docket_core::id::JobId;
use docket_core::item::check_batch;
use docket_core::lease::{LeaseToken, check_lease_ms};
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::Result;
use docket_store::hot::{self, Beat};

use crate::engine::{Engine, Kernel};

/// A sign of life for one job.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The job.
    pub job: JobId,
    /// The token that its holder was given.
    pub token: LeaseToken,
    /// For how long from now; none for as long as before.
    pub lease_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub(crate) struct HeartbeatCall {
    pub(crate) beats: Vec<Beat>,
}

pub(crate) type HeartbeatResult = Vec<Refused<Timestamp>>;

impl Engine {
    /// Extends leases; the new end of each, or that it is lost.
    pub async fn heartbeat(&self, beats: Vec<Heartbeat>) -> Result<Vec<Refused<Timestamp>>> {
        check_batch("jobs", beats.len())?;
        for (index, beat) in beats.iter().enumerate() {
            if let Some(lease_ms) = beat.lease_ms {
                check_lease_ms(&format!("jobs[{index}].leaseSeconds"), lease_ms)?;
            }
        }
        let beat = |beat: Heartbeat| Beat {
            lane: beat.job.lane(),
            seq: beat.job.seq(),
            token: beat.token,
            lease_ms: beat.lease_ms,
        };
        self.batches
            .heartbeat
            .call(HeartbeatCall {
                beats: beats.into_iter().map(beat).collect(),
            })
            .await
    }
}

/// Runs a batch of heartbeats in one transaction.
pub(crate) async fn heartbeat_calls(
    kernel: &Arc<Kernel>,
    calls: Vec<HeartbeatCall>,
) -> Result<Vec<HeartbeatResult>> {
    let sizes: Vec<_> = calls.iter().map(|call| call.beats.len()).collect();
    // Of signs for the same hold the last counts: one statement extends a hold once, and each of them has to be answered.
    let mut places = HashMap::new();
    let mut beats: Vec<Beat> = Vec::new();
    let mut answered_by = Vec::new();
    for beat in calls.into_iter().flat_map(|call| call.beats) {
        let place = *places
            .entry((beat.lane, beat.seq, beat.token))
            .or_insert(beats.len());
        answered_by.push(place);
        match beats.get_mut(place) {
            Some(earlier) => earlier.lease_ms = beat.lease_ms.or(earlier.lease_ms),
            None => beats.push(beat),
        }
    }
    let params = (beats, Arc::clone(&kernel.clock));
    let beat = kernel.store.run_batch("heartbeat", params, |tx, p| {
        Box::pin(hot::heartbeat(tx, &p.0, p.1.now()))
    });
    let ends = beat.await?;
    let results: Vec<_> = answered_by
        .into_iter()
        .map(|place| ends[place].ok_or(Refusal::LeaseLost))
        .collect();
    crate::meter::lost("heartbeat", &results);
    let mut results = results.into_iter();
    Ok(sizes
        .into_iter()
        .map(|size| results.by_ref().take(size).collect())
        .collect())
}
