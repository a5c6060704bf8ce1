//! Reviewers: how many reviews a day, how long each, and how they decide.

use std::collections::{BTreeMap, HashMap};

use super::duration::Durations;
use super::share;
use crate::clock::Timestamp;
use crate::review::Outcome;

/// The most reviewers that are told of; of more, the first that decided are.
pub const REVIEWERS_MAX: usize = 500;

const DAY_MS: i64 = 86_400_000;

/// What one reviewer decided.
#[derive(Clone, Debug, Default)]
pub struct ReviewerTally {
    /// As they are.
    pub approved: u64,
    /// With corrections.
    pub corrected: u64,
    /// No.
    pub rejected: u64,
    /// From the opening of a review to its decision.
    pub active: Durations,
    /// Decisions of each day (in UTC) on which there were any, by the moment at which the day begins.
    pub days: BTreeMap<Timestamp, u64>,
}

impl ReviewerTally {
    /// All decisions.
    pub const fn decisions(&self) -> u64 {
        self.approved + self.corrected + self.rejected
    }

    /// Decisions a day, over the days on which there were any.
    pub fn decisions_a_day(&self) -> Option<f64> {
        share(self.decisions(), self.days.len() as u64)
    }

    /// The share of decisions that were corrections.
    pub fn correction_rate(&self) -> Option<f64> {
        share(self.corrected, self.decisions())
    }

    /// The share of decisions that were rejections.
    pub fn rejection_rate(&self) -> Option<f64> {
        share(self.rejected, self.decisions())
    }
}

/// Counts decisions by reviewer.
#[derive(Clone, Debug, Default)]
pub struct Reviewers {
    tallies: HashMap<String, ReviewerTally>,
    left_out: u64,
}

impl Reviewers {
    /// Counts a decision.
    pub fn add(&mut self, by: &str, outcome: Outcome, at: Timestamp, active_ms: i64) {
        if !self.tallies.contains_key(by) {
            if self.tallies.len() >= REVIEWERS_MAX {
                self.left_out += 1;
                return;
            }
            self.tallies.insert(by.to_owned(), ReviewerTally::default());
        }
        let Some(tally) = self.tallies.get_mut(by) else {
            return;
        };
        match outcome {
            Outcome::Approved => tally.approved += 1,
            Outcome::Corrected => tally.corrected += 1,
            Outcome::Rejected => tally.rejected += 1,
        }
        tally.active.add(u64::try_from(active_ms).unwrap_or(0));
        let day = Timestamp::from_ms(at.ms().div_euclid(DAY_MS) * DAY_MS);
        *tally.days.entry(day).or_default() += 1;
    }

    /// All decisions of those who are told of.
    pub fn decisions(&self) -> u64 {
        self.tallies.values().map(ReviewerTally::decisions).sum()
    }

    /// Decisions of reviewers who are not told of, because there are too many.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The reviewers: those who decided most first, then by id.
    pub fn finish(self) -> Vec<(String, ReviewerTally)> {
        let mut reviewers: Vec<_> = self.tallies.into_iter().collect();
        reviewers.sort_by(|(a, one), (b, other)| {
            let by_count = other.decisions().cmp(&one.decisions());
            by_count.then_with(|| a.cmp(b))
        });
        reviewers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_counted_by_reviewer_and_day() {
        let mut reviewers = Reviewers::default();
        let at = |day: i64, hour: i64| Timestamp::from_ms(day * DAY_MS + hour * 3_600_000);
        for (by, outcome, at, active_ms) in [
            ("bob", Outcome::Approved, at(20_000, 23), 10_000),
            ("ann", Outcome::Approved, at(20_000, 0), 10_000),
            ("ann", Outcome::Corrected, at(20_000, 23), 30_000),
            ("ann", Outcome::Rejected, at(20_001, 0), 20_000),
            ("ann", Outcome::Corrected, at(20_003, 5), 60_000),
        ] {
            reviewers.add(by, outcome, at, active_ms);
        }
        let found = reviewers.finish();
        let names: Vec<_> = found
            .iter()
            .map(|(id, tally)| (id.as_str(), tally.decisions()))
            .collect();
        assert_eq!(names, [("ann", 4), ("bob", 1)]);
        let ann = &found[0].1;
        let days: Vec<_> = ann
            .days
            .iter()
            .map(|(day, count)| (day.ms() / DAY_MS, *count))
            .collect();
        assert_eq!(days, [(20_000, 2), (20_001, 1), (20_003, 1)]);
        assert_eq!(ann.decisions_a_day(), Some(4.0 / 3.0));
        assert_eq!(
            (ann.correction_rate(), ann.rejection_rate()),
            (Some(0.5), Some(0.25))
        );
        assert_eq!(
            (ann.active.mean_ms(), ann.active.median_ms()),
            (Some(30_000.0), Some(25_000.0))
        );
    }

    #[test]
    fn more_reviewers_than_are_told_of_are_said_to_be_left_out() {
        let mut reviewers = Reviewers::default();
        for n in 0..REVIEWERS_MAX + 2 {
            reviewers.add(&format!("r{n}"), Outcome::Approved, Timestamp::from_ms(-1), -5);
        }
        assert_eq!(reviewers.left_out(), 2);
        let found = reviewers.finish();
        assert_eq!(found.len(), REVIEWERS_MAX);
        assert_eq!(found[0].1.active.mean_ms(), Some(0.0));
    }
}
