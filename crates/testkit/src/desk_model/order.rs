//! How urgent reviews are, by the book (rules V2 to V5), in whole numbers.

use std::cmp::Reverse;

use docket_core::Timestamp;
use docket_core::review::ReviewState;

use super::Mutation;
use super::op::{Policy, WEIGHTS};
use super::state::{Inputs, Model};

const HOUR_MS: i64 = 3_600_000;

/// Ten thousand times the points that do not change with time.
fn standing(policy: Policy, inputs: &Inputs) -> i64 {
    let [confidence, _, complexity, value] = WEIGHTS[usize::from(policy.weights)];
    inputs
        .confidence
        .map_or(0, |sure| (100 - sure) * 100 * confidence)
        + inputs.lines.unwrap_or(0).min(100) * 100 * complexity
        + inputs.amount.unwrap_or(0).min(10_000) * value
}

/// The moment at which the review would have the score that others have at their deadline by the deadline alone: the points that do not
/// change, as time at the pace of the deadline's part. Where the deadline does not count, only the points order.
pub(super) fn key(policy: Policy, inputs: &Inputs, deadline: Timestamp) -> i64 {
    let points = standing(policy, inputs);
    match WEIGHTS[usize::from(policy.weights)][1] {
        0 => -points * 100_000,
        weight => deadline.ms() - points * i64::from(policy.sla_hours) * (HOUR_MS / 10_000) / weight,
    }
}

/// The score at a moment, in points, not bounded.
pub(super) fn score(policy: Policy, inputs: &Inputs, deadline: Timestamp, now: Timestamp) -> f64 {
    let weight = WEIGHTS[usize::from(policy.weights)][1] as f64;
    let left = deadline.since(now) as f64 / (f64::from(policy.sla_hours) * HOUR_MS as f64);
    standing(policy, inputs) as f64 / 10_000.0 + weight * (1.0 - left)
}

/// The time that a review has.
pub(super) const fn sla_ms(policy: Policy) -> i64 {
    policy.sla_hours as i64 * HOUR_MS
}

impl Model {
    /// By what a strategy orders, and then who came first.
    pub(super) fn place(&self, review: usize, strategy: u8) -> (i64, u64) {
        let review = &self.reviews[review];
        let by = match strategy {
            0 => 0,
            1 if self.mutated(Mutation::DeadlineForgotten) => {
                -standing(self.collections[0].policy, &review.inputs)
            }
            1 => review.key,
            _ => review.deadline.ms(),
        };
        (by, review.arrival)
    }

    /// The reviews in the order in which a strategy offers them.
    pub(super) fn sorted(&self, mut reviews: Vec<usize>, strategy: u8) -> Vec<usize> {
        reviews.sort_by_key(|review| self.place(*review, strategy));
        if self.mutated(Mutation::OrderReversed) {
            reviews.sort_by_key(|review| Reverse(self.place(*review, strategy)));
        }
        reviews
    }

    /// Orders all open reviews by the present policies.
    pub(super) fn rekey(&mut self) {
        for review in 0..self.reviews.len() {
            let open = matches!(
                self.reviews[review].state,
                ReviewState::Pending | ReviewState::InReview | ReviewState::Failed
            );
            if open && self.collections[self.collection_of(review)].to_rekey {
                self.rekey_one(review);
            }
        }
        self.collections
            .iter_mut()
            .for_each(|collection| collection.to_rekey = false);
    }

    /// Orders one review by the present policy.
    pub(super) fn rekey_one(&mut self, index: usize) {
        let policy = self.policy(index);
        let review = &mut self.reviews[index];
        if review.inputs.deadline.is_none() {
            review.deadline = review.created_at.plus_ms(sla_ms(policy));
        }
        review.key = key(policy, &review.inputs, review.deadline);
    }

    /// Changes a policy; where that changes the order, open reviews are to be ordered anew.
    pub(super) fn change_policy(&mut self, collection: usize, policy: Policy) {
        let collection = &mut self.collections[collection];
        let before = std::mem::replace(&mut collection.policy, policy);
        if (before.weights, before.sla_hours) != (policy.weights, policy.sla_hours) {
            collection.to_rekey = true;
        }
    }
}
