//! The doctor: recounts what is counted.

use docket_store::Result;
use docket_store::table::doctor;

use crate::engine::Engine;

impl Engine {
    /// Recounts limits, active, queued, positions and counters against the rows, on one snapshot beside all work; each difference
    /// is a sentence, and none is health.
    pub async fn doctor(&self) -> Result<Vec<String>> {
        self.kernel
            .store
            .read("doctor", (), |tx, ()| Box::pin(doctor::differences(tx)))
            .await
    }
}
