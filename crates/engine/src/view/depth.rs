//! How much waits in each pipeline.

use docket_store::Result;
use docket_store::table::depth::{self, Depth};

use crate::engine::Engine;

impl Engine {
    /// What waits and runs in each pipeline.
    pub async fn depths(&self) -> Result<Vec<Depth>> {
        let read = self
            .kernel
            .store
            .read("depths", (), |tx, ()| Box::pin(depth::all(tx)));
        read.await
    }
}
