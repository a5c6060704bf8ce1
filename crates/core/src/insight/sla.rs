//! Deadlines: how many were kept, and how many of those that wait will be missed if work goes on as it does.

use super::share;
use crate::clock::Timestamp;

/// How far back is looked for the present pace, where nothing is said.
pub const PACE_DEFAULT_HOURS: u32 = 24;
/// The farthest that is looked back.
pub const PACE_MAX_HOURS: u32 = 168;

const HOUR_MS: i64 = 3_600_000;

/// Deadlines of decided reviews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Decided up to the deadline.
    pub met: u64,
    /// Decided after it.
    pub missed: u64,
}

impl Kept {
    /// Counts a decision.
    pub fn add(&mut self, decided_at: Timestamp, deadline: Timestamp) {
        match decided_at <= deadline {
            true => self.met += 1,
            false => self.missed += 1,
        }
    }

    /// The share that was met.
    pub fn met_share(&self) -> Option<f64> {
        share(self.met, self.met + self.missed)
    }
}

/// How fast reviews are decided: so many in the hours before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How many were decided.
    pub decided: u64,
    /// In how many hours.
    pub hours: u32,
}

impl Pace {
    /// Decisions in an hour.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn per_hour(&self) -> f64 {
        self.decided as f64 / f64::from(self.hours.max(1))
    }

    /// Whether the review at this place of the line, counted from 1, will be decided later than in so many milliseconds: the k-th is decided
    /// `k × hours ÷ decided` from now. Where nothing is decided, all of them will.
    fn misses(&self, place: u64, left_ms: i64) -> bool {
        let takes = i128::from(place) * i128::from(self.hours) * i128::from(HOUR_MS);
        takes > i128::from(left_ms) * i128::from(self.decided)
    }
}

/// What will become of reviews that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// How many wait.
    pub waiting: u64,
    /// How many of those are past their deadline.
    pub overdue: u64,
    /// How many will be decided after it at the present pace; those that are overdue among them.
    pub will_miss: u64,
}

/// What will become of reviews with these deadlines when they are decided in the order of their deadlines, at this pace and from now on.
pub fn forecast(mut deadlines: Vec<Timestamp>, pace: Pace, now: Timestamp) -> Forecast {
    deadlines.sort_unstable();
    let mut forecast = Forecast::default();
    for deadline in deadlines {
        forecast.waiting += 1;
        let left_ms = deadline.since(now);
        forecast.overdue += u64::from(left_ms < 0);
        forecast.will_miss += u64::from(pace.misses(forecast.waiting, left_ms));
    }
    forecast
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_up_to_its_last_moment() {
        let mut kept = Kept::default();
        for (decided_at, deadline) in [(10, 11), (11, 11), (12, 11)] {
            kept.add(Timestamp::from_ms(decided_at), Timestamp::from_ms(deadline));
        }
        assert_eq!(
            (kept, kept.met_share()),
            (Kept { met: 2, missed: 1 }, Some(2.0 / 3.0))
        );
        assert_eq!(Kept::default().met_share(), None);
    }

    #[test]
    fn those_that_wait_are_decided_in_the_order_of_their_deadlines() {
        let now = Timestamp::from_ms(1_790_000_000_000);
        // Each case: decisions in 24 hours, minutes left of those that wait; overdue, and missed.
        for (decided, minutes, overdue, will_miss) in [
            // One an hour: the k-th is decided in k hours.
            (24, vec![], 0, 0),
            (24, vec![60], 0, 0),
            (24, vec![59], 0, 1),
            (24, vec![60, 120, 180], 0, 0),
            (24, vec![180, 60, 120], 0, 0),
            (24, vec![60, 60, 60], 0, 2),
            (24, vec![-1, 60, 180], 1, 2),
            // One that is overdue is still decided first, and holds up the others.
            (24, vec![-600, -1, 240, 240], 2, 2),
            (24, vec![0], 0, 1),
            // Twice as fast.
            (48, vec![60, 60, 60], 0, 1),
            // Nobody decides anything.
            (0, vec![1_000_000, -5], 1, 2),
        ] {
            let deadlines = minutes.iter().map(|m| now.plus_ms(m * 60_000)).collect();
            let found = forecast(deadlines, Pace { decided, hours: 24 }, now);
            let expected = Forecast {
                waiting: minutes.len() as u64,
                overdue,
                will_miss,
            };
            assert_eq!(found, expected, "{decided} a day, {minutes:?}");
        }
    }

    #[test]
    fn a_pace_is_told_by_the_hour_and_no_number_is_too_large_for_it() {
        let pace = |decided, hours| Pace { decided, hours };
        assert_eq!((pace(12, 24).per_hour(), pace(0, 1).per_hour()), (0.5, 0.0));
        let far = vec![Timestamp::from_ms(i64::MAX), Timestamp::from_ms(i64::MIN)];
        let found = forecast(far, pace(u64::MAX, PACE_MAX_HOURS), Timestamp::from_ms(0));
        assert_eq!((found.overdue, found.will_miss), (1, 1));
    }
}
