//! The sealer: chains the log into blocks. A block is made when it is full, or when its first entry has waited for a while, so that
//! a quiet system has few blocks and a busy one full ones.

use std::time::Duration;

use docket_store::Result;

use crate::engine::Engine;
use crate::log::seal::Sealing;

/// An entry waits for its seal no longer than this, and no open transaction being in the way.
const WAITS_MS: i64 = 5_000;
/// Between two blocks it rests: where more is written than it can seal at that pace, it catches up when there is less to do.
const REST: Duration = Duration::from_millis(100);

impl Engine {
    /// Seals the next block, if one is due.
    pub async fn sealer_run_once(&self) -> Result<Option<Duration>> {
        let due = self.kernel.clock.now().plus_ms(-WAITS_MS);
        Ok(match self.seal_block(due).await? {
            Sealing::Sealed(_) => Some(REST),
            // Whoever was faster goes on; two would only read everything twice.
            Sealing::Nothing | Sealing::Beaten => None,
        })
    }
}
