//! The folder: adds waiting changes to the counters.

use std::time::Duration;

use docket_store::Result;
use docket_store::table::counter;

use crate::engine::Engine;

/// How many changes one transaction folds.
const BATCH: u64 = 5_000;
/// How many transactions one run makes.
const ROUNDS: usize = 20;

impl Engine {
    /// Folds what waits, up to a bound.
    pub async fn fold_run_once(&self) -> Result<Option<Duration>> {
        for _ in 0..ROUNDS {
            let folded = self
                .kernel
                .store
                .run("fold", (), |tx, ()| Box::pin(counter::fold(tx, BATCH)))
                .await?;
            if folded < BATCH {
                return Ok(None);
            }
        }
        Ok(Some(Duration::ZERO))
    }
}
