//! What the engine tells about itself, through the `metrics` facade: nothing is counted unless the program installs a recorder.
//! The only label that is not a constant is the name of a pipeline that exists.

use docket_core::notification::DeliveryState;
use docket_core::notify::OnUnknown;
use docket_core::review::Outcome;
use docket_core::{Refusal, Refused};

use crate::notification::take::TakenBatch;
use crate::processing::reap::Reaped;
use crate::review::decision::Decided;
use crate::review::pop::Popped;

/// Jobs were given to workers.
pub(crate) fn claimed(pipeline: &str, jobs: usize) {
    if jobs > 0 {
        metrics::counter!("docket_jobs_claimed_total", "pipeline" => pipeline.to_owned())
            .increment(jobs as u64);
    }
}

/// Jobs were completed.
pub(crate) fn completed(jobs: usize) {
    metrics::counter!("docket_jobs_completed_total").increment(jobs as u64);
}

/// Attempts failed; `ended` says that there is no further one.
pub(crate) fn failed(jobs: usize, ended: bool) {
    if jobs > 0 {
        let outcome = if ended { "failed" } else { "retried" };
        metrics::counter!("docket_jobs_failed_total", "outcome" => outcome).increment(jobs as u64);
    }
}

/// Leases ran out.
pub(crate) fn stale(reaped: &Reaped) {
    for (outcome, jobs) in [("failed", reaped.failed), ("requeued", reaped.requeued)] {
        if jobs > 0 {
            metrics::counter!("docket_jobs_stale_total", "outcome" => outcome).increment(jobs);
        }
    }
}

/// Counts the leases that those who answered had lost.
pub(crate) fn lost<T>(operation: &'static str, results: &[Refused<T>]) {
    let lost = |result: &&Refused<T>| matches!(result, Err(Refusal::LeaseLost));
    let lost = results.iter().filter(lost).count();
    if lost > 0 {
        metrics::counter!("docket_leases_lost_total", "operation" => operation).increment(lost as u64);
    }
}

/// A reviewer asked for reviews, and got some or was told why not.
pub(crate) fn popped(popped: &Popped) {
    match &popped.empty {
        None => metrics::counter!("docket_reviews_popped_total").increment(popped.entries.len() as u64),
        Some(empty) => {
            metrics::counter!("docket_reviews_pops_empty_total", "reason" => empty.reason.as_str())
                .increment(1);
        }
    }
}

/// Reviews were decided.
pub(crate) fn decided(results: &[Refused<Decided>]) {
    for outcome in Outcome::ALL {
        let is_new = |decided: &&Decided| decided.outcome == outcome && !decided.repeated;
        let decided = results.iter().flatten().filter(is_new).count();
        if decided > 0 {
            metrics::counter!("docket_reviews_decided_total", "outcome" => outcome.state().as_str())
                .increment(decided as u64);
        }
    }
    lost("review_commit", results);
}

/// Notifications were made.
pub(crate) fn notifications_created(notifications: usize) {
    if notifications > 0 {
        metrics::counter!("docket_notifications_created_total").increment(notifications as u64);
    }
}

/// Deliveries came to their end.
fn ended(state: DeliveryState, deliveries: usize) {
    if deliveries > 0 {
        metrics::counter!("docket_deliveries_ended_total", "status" => state.as_str())
            .increment(deliveries as u64);
    }
}

/// So many messages, or questions, of this server are on their way.
pub(crate) fn in_flight(deliveries: usize) {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2⁵²")]
    metrics::gauge!("docket_deliveries_in_flight").set(deliveries as f64);
}

/// A person has changed a delivery.
pub(crate) fn operated(state: DeliveryState) {
    if state.is_final() {
        ended(state, 1);
    }
}

/// Deliveries were taken from the outbox.
pub(crate) fn taken(batch: &TakenBatch) {
    ended(DeliveryState::Failed, batch.failed);
    if batch.in_doubt > 0 {
        metrics::counter!("docket_delivery_in_doubt_total").increment(batch.in_doubt as u64);
    }
    for (policy, deliveries) in [
        (OnUnknown::Hold, batch.held_by_policy),
        (OnUnknown::Resend, batch.sent_anyway),
    ] {
        if deliveries > 0 {
            metrics::counter!("docket_delivery_policy_total", "policy" => policy.as_str())
                .increment(deliveries as u64);
        }
    }
}

/// A message left, or a provider was asked.
pub(crate) fn attempted(kind: &'static str, outcome: &'static str) {
    metrics::counter!("docket_delivery_attempts_total", "kind" => kind, "outcome" => outcome).increment(1);
}

/// The first attempt of a delivery ended so long after it was made.
pub(crate) fn first_attempt(after_ms: i64) {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds far below 2⁵²")]
    metrics::histogram!("docket_delivery_first_attempt_seconds").record(after_ms.max(0) as f64 / 1_000.0);
}

/// Outcomes were recorded, or came too late.
pub(crate) fn settled(results: &[Refused<DeliveryState>]) {
    for state in [DeliveryState::Sent, DeliveryState::Failed] {
        ended(
            state,
            results.iter().flatten().filter(|now| **now == state).count(),
        );
    }
    lost("delivery_settle", results);
}
