//! Calibration: how sure the machine was, against what reviewers changed.

use super::judged::Judged;
use super::share;
use crate::review::Outcome;

/// How many bins there are: from 0 to 100, of the same width.
pub const BINS: usize = 10;
/// The thresholds that are told of without being asked for.
pub const THRESHOLDS: [f64; 9] = [50.0, 60.0, 70.0, 80.0, 85.0, 90.0, 95.0, 98.0, 99.0];

#[expect(clippy::cast_precision_loss, reason = "there are ten")]
const WIDTH: f64 = 100.0 / BINS as f64;

/// Fields of which the machine was about as sure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// How many a reviewer decided on.
    pub fields: u64,
    /// How many of those were changed.
    pub changed: u64,
    confidence_sum: f64,
}

impl Bin {
    /// The share that was changed.
    pub fn changed_share(&self) -> Option<f64> {
        share(self.changed, self.fields)
    }

    /// How sure the machine was on average.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn mean_confidence(&self) -> Option<f64> {
        (self.fields > 0).then(|| self.confidence_sum / self.fields as f64)
    }
}

/// What would have gone through unseen, had everything of at least this confidence been approved without a reviewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The confidence from which on nobody would have looked.
    pub at: f64,
    /// Reviews that nobody would have seen.
    pub reviews: u64,
    /// Of those, how many a reviewer corrected.
    pub corrected: u64,
    /// Of those, how many a reviewer rejected.
    pub rejected: u64,
    /// Fields of at least this confidence, whatever their review's.
    pub fields: u64,
    /// Of those, how many a reviewer changed.
    pub changed: u64,
}

impl Threshold {
    const fn new(at: f64) -> Self {
        Self {
            at,
            reviews: 0,
            corrected: 0,
            rejected: 0,
            fields: 0,
            changed: 0,
        }
    }

    /// Mistakes that it would have let through.
    pub const fn let_through(&self) -> u64 {
        self.corrected + self.rejected
    }
}

/// Counts confidence against decisions.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Fields by confidence.
    pub bins: [Bin; BINS],
    /// Fields of which the machine did not say how sure it was.
    pub fields_without: u64,
    /// Reviews with a confidence.
    pub reviews: u64,
    /// Reviews without one.
    pub reviews_without: u64,
    /// What thresholds would have let through, from the lowest.
    pub thresholds: Vec<Threshold>,
}

impl Calibration {
    /// Nothing counted yet; with one more threshold where one is asked for.
    pub fn new(threshold: Option<f64>) -> Self {
        let mut all = THRESHOLDS.to_vec();
        all.extend(threshold);
        all.sort_by(f64::total_cmp);
        all.dedup();
        Self {
            bins: [Bin::default(); BINS],
            fields_without: 0,
            reviews: 0,
            reviews_without: 0,
            thresholds: all.into_iter().map(Threshold::new).collect(),
        }
    }

    /// Counts a decided review as a whole.
    pub fn add_review(&mut self, confidence: Option<f64>, outcome: Outcome) {
        let Some(confidence) = confidence else {
            self.reviews_without += 1;
            return;
        };
        self.reviews += 1;
        for threshold in self.thresholds.iter_mut().filter(|t| confidence >= t.at) {
            threshold.reviews += 1;
            threshold.corrected += u64::from(outcome == Outcome::Corrected);
            threshold.rejected += u64::from(outcome == Outcome::Rejected);
        }
    }

    /// Counts a decided field.
    pub fn add_field(&mut self, judged: &Judged<'_>) {
        let Some(confidence) = judged.confidence else {
            self.fields_without += 1;
            return;
        };
        let changed = u64::from(judged.change.is_some());
        let bin = &mut self.bins[bin_of(confidence)];
        bin.fields += 1;
        bin.changed += changed;
        bin.confidence_sum += confidence;
        for threshold in self.thresholds.iter_mut().filter(|t| confidence >= t.at) {
            threshold.fields += 1;
            threshold.changed += changed;
        }
    }

    /// From which confidence on a bin goes, and up to which: that one belongs to the next, and 100 to the last.
    #[expect(clippy::cast_precision_loss, reason = "there are ten")]
    pub const fn edges(bin: usize) -> (f64, f64) {
        (bin as f64 * WIDTH, (bin + 1) as f64 * WIDTH)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion to usize stops at its ends"
)]
fn bin_of(confidence: f64) -> usize {
    ((confidence / WIDTH) as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::insight::Change;

    #[test]
    fn a_bin_begins_at_its_lower_edge_and_the_last_has_100_too() {
        for (confidence, bin) in [
            (0.0, 0),
            (9.999, 0),
            (10.0, 1),
            (55.0, 5),
            (89.99, 8),
            (90.0, 9),
            (100.0, 9),
            (-1.0, 0),
            (1_000.0, 9),
        ] {
            assert_eq!(bin_of(confidence), bin, "{confidence}");
        }
        assert_eq!(
            (Calibration::edges(0), Calibration::edges(9)),
            ((0.0, 10.0), (90.0, 100.0))
        );
    }

    #[test]
    fn fields_are_put_into_bins_and_thresholds() {
        let (machine, human) = (json!("a"), json!("b"));
        let field = |confidence: Option<f64>, is_changed: bool| Judged {
            field: "vendor",
            confidence,
            change: is_changed.then_some(Change {
                field: "vendor",
                machine: &machine,
                human: &human,
                confidence,
            }),
        };
        let mut calibration = Calibration::new(None);
        for (confidence, is_changed) in [
            (95.0, false),
            (97.0, true),
            (99.0, false),
            (62.0, true),
            (68.0, true),
        ] {
            calibration.add_field(&field(Some(confidence), is_changed));
        }
        calibration.add_field(&field(None, true));
        let bin = |n: usize| {
            let bin = calibration.bins[n];
            (
                bin.fields,
                bin.changed,
                bin.changed_share(),
                bin.mean_confidence(),
            )
        };
        assert_eq!(bin(9), (3, 1, Some(1.0 / 3.0), Some(97.0)));
        assert_eq!(bin(6), (2, 2, Some(1.0), Some(65.0)));
        assert_eq!(bin(0), (0, 0, None, None));
        assert_eq!(calibration.fields_without, 1);
        let fields: Vec<_> = calibration
            .thresholds
            .iter()
            .map(|t| (t.at, t.fields, t.changed))
            .collect();
        assert_eq!(fields[1], (60.0, 5, 3));
        assert_eq!(fields[2], (70.0, 3, 1));
        assert_eq!((fields[6], fields[8]), ((95.0, 3, 1), (99.0, 1, 0)));
    }

    #[test]
    fn a_threshold_tells_what_nobody_would_have_seen() {
        let mut calibration = Calibration::new(Some(87.5));
        for (confidence, outcome) in [
            (Some(99.5), Outcome::Approved),
            (Some(95.0), Outcome::Corrected),
            (Some(87.5), Outcome::Rejected),
            (Some(40.0), Outcome::Rejected),
            (None, Outcome::Approved),
        ] {
            calibration.add_review(confidence, outcome);
        }
        assert_eq!((calibration.reviews, calibration.reviews_without), (4, 1));
        let at = |at: f64| {
            let found = calibration.thresholds.iter().find(|t| t.at == at).unwrap();
            (
                found.reviews,
                found.corrected,
                found.rejected,
                found.let_through(),
            )
        };
        assert_eq!(at(99.0), (1, 0, 0, 0));
        assert_eq!(at(95.0), (2, 1, 0, 1));
        assert_eq!(at(87.5), (3, 1, 1, 2));
        assert_eq!(at(50.0), (3, 1, 1, 2));
        assert_eq!(Calibration::new(Some(90.0)).thresholds.len(), THRESHOLDS.len());
    }
}
