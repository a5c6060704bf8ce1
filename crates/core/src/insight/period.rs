//! The time that is looked at.

use crate::clock::Timestamp;
use crate::refusal::{Refusal, Refused};

/// How far back is looked where nothing is said.
pub const PERIOD_DEFAULT_DAYS: i64 = 30;
/// The longest time that is looked at.
pub const PERIOD_MAX_DAYS: i64 = 366;

const DAY_MS: i64 = 86_400_000;

/// From one moment up to another, which is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// From this moment on.
    pub since: Timestamp,
    /// Before this moment.
    pub until: Timestamp,
}

impl Period {
    /// What is asked for. Without an end it goes up to now, the present millisecond included; without a beginning it is
    /// [`PERIOD_DEFAULT_DAYS`] long.
    pub fn of(since: Option<Timestamp>, until: Option<Timestamp>, now: Timestamp) -> Refused<Self> {
        let until = until.unwrap_or_else(|| now.plus_ms(1));
        let since = since.unwrap_or_else(|| until.plus_ms(-PERIOD_DEFAULT_DAYS * DAY_MS));
        if since >= until {
            return Err(Refusal::invalid("since", "must lie before 'until'"));
        }
        if until.since(since) > PERIOD_MAX_DAYS * DAY_MS {
            let problem = format!("must lie at most {PERIOD_MAX_DAYS} days before 'until'");
            return Err(Refusal::invalid("since", problem));
        }
        Ok(Self { since, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_thirty_days_up_to_now_unless_somebody_says_otherwise() {
        let day = |n: i64| Timestamp::from_ms(n * DAY_MS);
        let now = day(1_000);
        let period = |since, until| Period::of(since, until, now).map(|p| (p.since.ms(), p.until.ms()));
        let end = now.ms() + 1;
        assert_eq!(period(None, None), Ok((end - 30 * DAY_MS, end)));
        assert_eq!(period(Some(day(990)), None), Ok((990 * DAY_MS, end)));
        assert_eq!(period(None, Some(day(500))), Ok((470 * DAY_MS, 500 * DAY_MS)));
        assert_eq!(
            period(Some(day(134)), Some(day(500))),
            Ok((134 * DAY_MS, 500 * DAY_MS))
        );
        for (since, until) in [(500, 500), (501, 500), (133, 500)] {
            assert!(
                period(Some(day(since)), Some(day(until))).is_err(),
                "{since} to {until}"
            );
        }
        assert!(
            period(
                Some(Timestamp::from_ms(i64::MIN)),
                Some(Timestamp::from_ms(i64::MAX))
            )
            .is_err()
        );
    }
}
