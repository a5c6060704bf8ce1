//! Calls that were gathered into one transaction, and those that have to wait for what becomes of another one.

use std::sync::Arc;

use docket_core::Timestamp;
use docket_core::random::Random;
use docket_store::{Error, Result};

use super::run::submit_batch;
use super::submit::{CallAnswer, SubmitCall};
use crate::engine::Kernel;

/// All calls of a batch with what they need.
pub(super) struct Batch {
    pub(super) calls: Vec<SubmitCall>,
    pub(super) random: Arc<dyn Random>,
    pub(super) now: Timestamp,
}

/// Runs a batch in one transaction; calls that have to wait for what becomes of another one follow in the next.
pub(crate) async fn submit_calls(
    kernel: &Arc<Kernel>,
    mut calls: Vec<SubmitCall>,
) -> Result<Vec<CallAnswer>> {
    let mut answers: Vec<Option<CallAnswer>> = vec![None; calls.len()];
    let mut places: Vec<usize> = (0..calls.len()).collect();
    while !calls.is_empty() {
        let batch = Arc::new(Batch {
            calls,
            random: Arc::clone(&kernel.random),
            now: kernel.clock.now(),
        });
        let mut left = (Vec::new(), Vec::new());
        for (index, answer) in submit_once(kernel, &batch).await?.into_iter().enumerate() {
            match answer {
                Some(answer) => answers[places[index]] = Some(answer),
                None => {
                    left.0.push(places[index]);
                    left.1.push(batch.calls[index].clone());
                }
            }
        }
        (places, calls) = left;
    }
    let unanswered = Error::Unanswered { operation: "submit" };
    answers.into_iter().collect::<Option<_>>().ok_or(unanswered)
}

async fn submit_once(kernel: &Arc<Kernel>, batch: &Arc<Batch>) -> Result<Vec<Option<CallAnswer>>> {
    let run = kernel.store.run_batch("submit", Arc::clone(batch), |tx, batch| {
        Box::pin(submit_batch(tx, batch))
    });
    let (answers, ready, pending) = run.await?;
    kernel.hint(ready);
    kernel.hint_reviews(pending);
    Ok(answers)
}
