//! Calls that were gathered into one transaction.

use std::sync::Arc;

use docket_core::Timestamp;
use docket_core::random::Random;
use docket_store::Result;

use super::run::submit_batch;
use super::submit::{CallAnswer, SubmitCall};
use crate::engine::Kernel;

/// All calls of a batch with what they need.
pub(super) struct Batch {
    pub(super) calls: Vec<SubmitCall>,
    pub(super) random: Arc<dyn Random>,
    pub(super) now: Timestamp,
}

/// Runs a batch in one transaction, and never in two: where a batch fails, nothing of it was committed, and its calls can be run again.
/// A call that has to wait for what becomes of another one is not answered; it is made again ([`Engine::submit_call`]).
///
/// [`Engine::submit_call`]: crate::engine::Engine::submit_call
pub(crate) async fn submit_calls(
    kernel: &Arc<Kernel>,
    calls: Vec<SubmitCall>,
) -> Result<Vec<Option<CallAnswer>>> {
    let batch = Arc::new(Batch {
        calls,
        random: Arc::clone(&kernel.random),
        now: kernel.clock.now(),
    });
    let run = kernel
        .store
        .run_batch("submit", batch, |tx, batch| Box::pin(submit_batch(tx, batch)));
    let (answers, ready, pending) = run.await?;
    kernel.hint(ready);
    kernel.hint_reviews(pending);
    Ok(answers)
}
