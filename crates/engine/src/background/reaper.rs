//! The reaper: settles stale leases and ends waits, on a schedule and when the next one is due.

use std::sync::atomic::Ordering;
use std::time::Duration;

use docket_store::Result;
use docket_store::table::hold;

use crate::engine::Engine;

/// The reaper rests at least this long.
const REST: Duration = Duration::from_millis(20);

impl Engine {
    /// Settles what is due; when the next is, where that is known.
    pub async fn reaper_run_once(&self) -> Result<Option<Duration>> {
        // Leases given out from now on are compared with what is found below, or wake the reaper.
        self.kernel.next_reap_ms.store(i64::MAX, Ordering::Relaxed);
        self.reap(None).await?;
        let next = self
            .kernel
            .store
            .read("next_due", (), |tx, ()| Box::pin(hold::next_due(tx)))
            .await?;
        if let Some(due) = next {
            self.kernel.next_reap_ms.fetch_min(due.ms(), Ordering::Relaxed);
        }
        Ok(next.map(|due| {
            let wait = due.since(self.kernel.clock.now());
            Duration::from_millis(u64::try_from(wait).unwrap_or(0)).max(REST)
        }))
    }
}
