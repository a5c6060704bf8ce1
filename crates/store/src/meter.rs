//! What the store tells about itself, through the `metrics` facade: nothing is counted unless the program installs a recorder.
//! Labels are names of operations, of which there are as many as the source has.

use std::time::Instant;

/// Measures how long one operation takes, from the call to its commit; failures included.
pub(crate) struct Timed {
    operation: &'static str,
    began: Instant,
}

impl Timed {
    #[expect(
        clippy::disallowed_methods,
        reason = "a measurement, on which no rule depends"
    )]
    pub(crate) fn new(operation: &'static str) -> Self {
        Self {
            operation,
            began: Instant::now(),
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        metrics::histogram!("docket_store_transaction_seconds", "operation" => self.operation)
            .record(seconds);
    }
}

/// So many entries ride in one statement.
pub(crate) fn batch(operation: &'static str, entries: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
    metrics::histogram!("docket_batch_size", "operation" => operation).record(entries as f64);
}
