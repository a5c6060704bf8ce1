//! How urgent a review is (rules V2 to V4).
//!
//! The deadline's part of a score grows at the same pace for all reviews of a collection, so waiting never changes their order. It is
//! stored once, as a whole number ([`Rule::order_key`]): the deadline, moved forward by what the other parts are worth in time.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::refusal::{Refusal, Refused};

/// Line items from which on a review is as complex as it gets.
const LINE_ITEMS_FULL: f64 = 100.0;
/// The amount from which on an item is worth as much as it gets.
const AMOUNT_FULL: f64 = 10_000.0;
/// A deadline that counts less than this does not count.
const DEADLINE_MIN: f64 = 1e-6;
/// How finely points are told apart where the deadline does not count.
const KEYS_PER_POINT: f64 = 1e9;
const HOUR_MS: i64 = 3_600_000;

/// How much each part counts; together 100, usually.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Weights {
    /// How unsure the machine is.
    pub confidence: f64,
    /// How near the deadline is.
    pub deadline: f64,
    /// How much there is to review.
    pub complexity: f64,
    /// What it is worth.
    pub value: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            confidence: 40.0,
            deadline: 30.0,
            complexity: 20.0,
            value: 10.0,
        }
    }
}

impl Weights {
    /// Says what is wrong with them, if anything.
    pub fn check(&self) -> Refused<()> {
        let parts = [
            ("confidence", self.confidence),
            ("deadline", self.deadline),
            ("complexity", self.complexity),
            ("value", self.value),
        ];
        for (name, weight) in parts {
            if !(0.0..=100.0).contains(&weight) {
                return Err(Refusal::invalid(name, "must be from 0 to 100"));
            }
        }
        Ok(())
    }
}

/// What is known of an item when its review begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inputs {
    /// How sure the machine is on the average, 0 to 100. Where it said nothing, nothing is added.
    pub confidence: Option<f64>,
    /// How much there is to review.
    pub line_item_count: Option<i64>,
    /// What it is worth.
    pub total_amount: Option<f64>,
    /// When it should be decided.
    pub deadline: Timestamp,
}

/// How a collection computes its scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// How much each part counts.
    pub weights: Weights,
    /// The time that a review has.
    pub sla_ms: i64,
}

/// The four parts of a score, in points.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "named as the weights are")]
pub struct Parts {
    pub confidence: f64,
    pub deadline: f64,
    pub complexity: f64,
    pub value: f64,
}

impl Parts {
    /// Their sum, which may lie below 0 and above 100.
    pub fn total(&self) -> f64 {
        self.confidence + self.deadline + self.complexity + self.value
    }

    /// The score as it is shown: 0 to 100.
    pub fn score(&self) -> f64 {
        self.total().clamp(0.0, 100.0)
    }
}

impl Rule {
    /// The parts of a score at a moment.
    pub fn parts(&self, inputs: &Inputs, now: Timestamp) -> Parts {
        let share = |part: f64, full: f64| (part / full).clamp(0.0, 1.0);
        let left = as_real(inputs.deadline.since(now)) / as_real(self.sla_ms.max(1));
        Parts {
            confidence: inputs.confidence.map_or(0.0, |confidence| {
                (100.0 - confidence) / 100.0 * self.weights.confidence
            }),
            deadline: self.weights.deadline * (1.0 - left),
            complexity: share(as_real(inputs.line_item_count.unwrap_or(0)), LINE_ITEMS_FULL)
                * self.weights.complexity,
            value: share(inputs.total_amount.unwrap_or(0.0), AMOUNT_FULL) * self.weights.value,
        }
    }

    /// By which reviews are ordered: the smaller, the more urgent, at any time.
    pub fn order_key(&self, inputs: &Inputs) -> i64 {
        let parts = self.parts(inputs, inputs.deadline);
        let standing = parts.total() - parts.deadline;
        if self.weights.deadline < DEADLINE_MIN {
            return whole(-standing * KEYS_PER_POINT);
        }
        let ms_per_point = as_real(self.sla_ms) / self.weights.deadline;
        inputs
            .deadline
            .ms()
            .saturating_sub(whole(standing * ms_per_point))
    }
}

#[expect(clippy::cast_precision_loss, reason = "times and counts are far below 2^53")]
const fn as_real(number: i64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a conversion to i64 stops at its ends"
)]
fn whole(number: f64) -> i64 {
    number.round() as i64
}

/// How urgent a score is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// Red.
    High,
    /// Yellow.
    Medium,
    /// Gray.
    Low,
}

impl Band {
    /// The lowest scores of the upper bands.
    pub const HIGH_FROM: f64 = 70.0;
    /// From here on it is medium.
    pub const MEDIUM_FROM: f64 = 40.0;

    /// The band of a score.
    pub fn of(score: f64) -> Self {
        if score >= Self::HIGH_FROM {
            Self::High
        } else if score >= Self::MEDIUM_FROM {
            Self::Medium
        } else {
            Self::Low
        }
    }
}

/// How it stands with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlaLevel {
    /// Green: over 6 hours left.
    OnTrack,
    /// Yellow: 2 to 6 hours left.
    Attention,
    /// Red: under 2 hours left.
    Urgent,
    /// Red: past.
    Overdue,
}

impl SlaLevel {
    /// The level with so much time left.
    pub const fn of(left_ms: i64) -> Self {
        if left_ms < 0 {
            Self::Overdue
        } else if left_ms < 2 * HOUR_MS {
            Self::Urgent
        } else if left_ms <= 6 * HOUR_MS {
            Self::Attention
        } else {
            Self::OnTrack
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_790_000_000_000);
    const RULE: Rule = Rule {
        weights: Weights {
            confidence: 40.0,
            deadline: 30.0,
            complexity: 20.0,
            value: 10.0,
        },
        sla_ms: 24 * HOUR_MS,
    };

    fn inputs(confidence: f64, hours_left: i64, lines: i64, amount: f64) -> Inputs {
        Inputs {
            confidence: Some(confidence),
            line_item_count: Some(lines),
            total_amount: Some(amount),
            deadline: NOW.plus_ms(hours_left * HOUR_MS),
        }
    }

    #[test]
    fn scores_computed_by_hand() {
        for (confidence, hours_left, lines, amount, score) in [
            (100.0, 24, 0, 0.0, 0.0),
            (0.0, 0, 100, 10_000.0, 100.0),
            (50.0, 12, 50, 5_000.0, 20.0 + 15.0 + 10.0 + 5.0),
            (85.0, 18, 12, 1_234.0, 6.0 + 7.5 + 2.4 + 1.234),
            (0.0, 24, 1_000, 0.0, 40.0 + 20.0),
            (67.0, 6, 3, 99_999.0, 13.2 + 22.5 + 0.6 + 10.0),
            // Past the deadline the part goes on growing; the score shown stops at 100.
            (100.0, -24, 0, 0.0, 60.0),
            (0.0, -24, 100, 10_000.0, 100.0),
            // A deadline far away takes from the score; what is shown stops at 0.
            (100.0, 240, 0, 0.0, 0.0),
        ] {
            let found = RULE
                .parts(&inputs(confidence, hours_left, lines, amount), NOW)
                .score();
            assert!(
                (found - score).abs() < 1e-9,
                "{confidence} {hours_left}: {found} is not {score}"
            );
        }
    }

    #[test]
    fn what_the_machine_does_not_say_adds_nothing() {
        let silent = Inputs {
            confidence: None,
            line_item_count: None,
            total_amount: None,
            deadline: NOW.plus_ms(12 * HOUR_MS),
        };
        assert!((RULE.parts(&silent, NOW).total() - 15.0).abs() < 1e-9);
    }

    #[test]
    fn an_overdue_review_stands_above_all_fresh_ones_of_its_kind() {
        let overdue = RULE.order_key(&inputs(80.0, -1, 5, 100.0));
        for hours_left in 0..48 {
            assert!(overdue < RULE.order_key(&inputs(80.0, hours_left, 5, 100.0)));
        }
    }

    #[test]
    fn bands_begin_at_40_and_70() {
        for (score, band) in [
            (0.0, Band::Low),
            (39.9, Band::Low),
            (40.0, Band::Medium),
            (69.9, Band::Medium),
            (70.0, Band::High),
            (100.0, Band::High),
        ] {
            assert_eq!(Band::of(score), band, "{score}");
        }
    }

    #[test]
    fn levels_change_at_6_and_2_hours_and_at_the_deadline() {
        for (left_ms, level) in [
            (6 * HOUR_MS + 1, SlaLevel::OnTrack),
            (6 * HOUR_MS, SlaLevel::Attention),
            (2 * HOUR_MS, SlaLevel::Attention),
            (2 * HOUR_MS - 1, SlaLevel::Urgent),
            (0, SlaLevel::Urgent),
            (-1, SlaLevel::Overdue),
        ] {
            assert_eq!(SlaLevel::of(left_ms), level, "{left_ms}");
        }
    }

    fn any_inputs() -> impl Strategy<Value = Inputs> {
        let optional = |range: std::ops::Range<f64>| proptest::option::of(range);
        (
            optional(0.0..100.0),
            proptest::option::of(0_i64..500),
            optional(0.0..50_000.0),
            -2_000_000_000_i64..2_000_000_000,
        )
            .prop_map(|(confidence, line_item_count, total_amount, deadline)| Inputs {
                confidence,
                line_item_count,
                total_amount,
                deadline: NOW.plus_ms(deadline),
            })
    }

    proptest! {
        #[test]
        fn the_stored_key_orders_any_two_reviews_as_their_scores_do_at_any_time(
            a in any_inputs(), b in any_inputs(), later_ms in -9_000_000_000_i64..9_000_000_000,
            weights in (0.0..100.0, 0.0..100.0, 0.0..100.0, 0.0..100.0), sla_ms in 36_000_i64..31_536_000_000,
        ) {
            let (confidence, deadline, complexity, value) = weights;
            let rule = Rule { weights: Weights { confidence, deadline, complexity, value }, sla_ms };
            let at = NOW.plus_ms(later_ms);
            let (score_a, score_b) = (rule.parts(&a, at).total(), rule.parts(&b, at).total());
            // Keys are whole milliseconds: scores that differ by less than that may tie or change places.
            let apart = (2.0 * deadline / as_real(sla_ms)).max(1e-6 * (1.0 + score_a.abs() + score_b.abs()));
            if score_a > score_b + apart {
                prop_assert!(rule.order_key(&a) <= rule.order_key(&b));
            }
        }
    }
}
