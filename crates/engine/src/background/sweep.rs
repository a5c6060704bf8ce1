//! The sweeper: deletes bytes that no item has taken over (rule I7): first the bytes, then the row that names them.

use std::time::Duration;

use docket_store::Result;
use docket_store::table::upload;

use crate::engine::Engine;

const BATCH: u64 = 100;
/// Bytes that could not be deleted are tried again after this.
const TRY_AGAIN_MS: i64 = 600_000;

impl Engine {
    /// Sweeps uploads that were given up or have expired, up to a bound.
    pub async fn sweep_run_once(&self) -> Result<Option<Duration>> {
        let now = self.kernel.clock.now();
        let due = self
            .kernel
            .store
            .run("sweep", now, |tx, now| {
                Box::pin(upload::mark_due(tx, *now, now.plus_ms(TRY_AGAIN_MS), BATCH))
            })
            .await?;
        let full = due.len() as u64 == BATCH;
        for (id, blob_key) in due {
            // One blob that cannot be deleted now keeps no other from going.
            if let Err(error) = self.blobs.delete(&blob_key).await {
                tracing::warn!(
                    blob_key,
                    error = &error as &dyn std::error::Error,
                    "a blob was not deleted"
                );
                continue;
            }
            self.kernel
                .store
                .run("sweep_done", id, |tx, id| Box::pin(upload::delete(tx, *id)))
                .await?;
        }
        Ok(full.then_some(Duration::ZERO))
    }
}
