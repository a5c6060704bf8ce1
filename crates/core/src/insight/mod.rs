//! Insights (rule L3): what decided reviews tell of the machine, of the reviewers and of deadlines.
//!
//! Everything here counts, one review at a time, in memory that does not grow with their number: where there is more to tell apart than
//! is kept, the answer says so. A decision that was taken back is no decision, and never comes here.
//!
//! Deliberately absent: reading reviews, and who may ask.

mod calibration;
mod commonest;
mod correction;
mod duration;
mod judged;
mod period;
mod reviewer;
mod sla;

pub use calibration::{BINS, Bin, Calibration, THRESHOLDS, Threshold};
pub use commonest::{Common, Commonest};
pub use correction::{CHANGES_SHOWN, Corrections, FIELDS_MAX, FieldCorrections, VALUE_MAX};
pub use duration::Durations;
pub use judged::{Change, Fact, Judged, judge};
pub use period::{PERIOD_DEFAULT_DAYS, PERIOD_MAX_DAYS, Period};
pub use reviewer::{REVIEWERS_MAX, ReviewerTally, Reviewers};
pub use sla::{Forecast, Kept, PACE_DEFAULT_HOURS, PACE_MAX_HOURS, Pace, forecast};

/// A part of a whole, from 0 to 1; none where there is nothing to be a part of.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_of_nothing_is_none() {
        for (part, whole, expected) in [
            (0, 0, None),
            (0, 4, Some(0.0)),
            (1, 4, Some(0.25)),
            (4, 4, Some(1.0)),
        ] {
            assert_eq!(share(part, whole), expected);
        }
    }
}
