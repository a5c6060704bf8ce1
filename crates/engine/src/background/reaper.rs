//! The reaper: settles stale leases and ends waits, on a schedule and when the next one is due.

use std::sync::atomic::Ordering;
use std::time::Duration;

use docket_core::Timestamp;
use docket_store::Result;
use docket_store::Tx;
use docket_store::table::{hold, review};

use crate::engine::Engine;

/// The reaper rests at least this long.
const REST: Duration = Duration::from_millis(20);
/// How many transactions one run makes for jobs, and for reviews.
const ROUNDS: usize = 20;

impl Engine {
    /// Settles what is due, up to a bound; when the next is, where that is known.
    pub async fn reaper_run_once(&self) -> Result<Option<Duration>> {
        let kernel = &self.kernel;
        // While it looks nobody has to wake it: leases given out meanwhile are remembered and compared at the end.
        kernel.next_reap_ms.store(i64::MIN, Ordering::SeqCst);
        kernel.earliest_lease_ms.store(i64::MAX, Ordering::SeqCst);
        let (_, more_jobs) = self.reap_rounds(None, ROUNDS).await?;
        let (_, more_reviews) = self.review_reap_rounds(None, ROUNDS).await?;
        if more_jobs || more_reviews {
            return Ok(Some(REST));
        }
        let due = kernel
            .store
            .read("next_due", (), |tx, ()| Box::pin(next_due(tx)))
            .await?;
        kernel
            .next_reap_ms
            .store(due.map_or(i64::MAX, Timestamp::ms), Ordering::SeqCst);
        let next = due
            .map_or(i64::MAX, Timestamp::ms)
            .min(kernel.earliest_lease_ms.load(Ordering::SeqCst));
        if next == i64::MAX {
            return Ok(None);
        }
        let wait = Timestamp::from_ms(next).since(kernel.clock.now());
        Ok(Some(
            Duration::from_millis(u64::try_from(wait).unwrap_or(0)).max(REST),
        ))
    }
}

/// When the next lease or wait ends, of a job or of a review.
async fn next_due(tx: &mut Tx) -> Result<Option<Timestamp>> {
    let (job, review) = (hold::next_due(tx).await?, review::next_due(tx).await?);
    Ok(job.into_iter().chain(review).min())
}
