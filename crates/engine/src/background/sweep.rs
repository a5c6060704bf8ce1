//! The sweeper: deletes bytes that no item has taken over (rule I7): first the bytes, then the row that names them.

use std::time::Duration;

use docket_store::Result;
use docket_store::table::upload;

use crate::engine::Engine;

const BATCH: u64 = 100;

impl Engine {
    /// Sweeps uploads that were given up or have expired, up to a bound.
    pub async fn sweep_run_once(&self) -> Result<Option<Duration>> {
        let now = self.kernel.clock.now();
        let due = self
            .kernel
            .store
            .run("sweep", now, |tx, now| {
                Box::pin(upload::mark_due(tx, *now, BATCH))
            })
            .await?;
        let full = due.len() as u64 == BATCH;
        for (id, blob_key) in due {
            self.blobs.delete(&blob_key).await?;
            self.kernel
                .store
                .run("sweep_done", id, |tx, id| Box::pin(upload::delete(tx, *id)))
                .await?;
        }
        Ok(full.then_some(Duration::ZERO))
    }
}
