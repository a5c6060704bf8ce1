//! Times as the wire writes them: RFC 3339 in UTC, to the millisecond.

use std::fmt;
use std::str::FromStr;

use docket_core::{Refusal, Refused, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, written as `2026-09-21T12:00:00.000Z`. Any offset is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Timestamp);

impl Time {
    /// The moment as the rules know it.
    pub const fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for Time {
    /// Moments outside of what RFC 3339 can write (the years 1 to 9999) are moved to its ends.
    fn from(at: Timestamp) -> Self {
        const FIRST_MS: i64 = -62_135_596_800_000;
        const LAST_MS: i64 = 253_402_207_200_000;
        Self(Timestamp::from_ms(at.ms().clamp(FIRST_MS, LAST_MS)))
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl FromStr for Time {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read: Result<jiff::Timestamp, _> = text.parse();
        match (read, last_days(text)) {
            (Err(_), Some(day_before)) if day_before.parse::<jiff::Timestamp>().is_ok() => {
                Ok(Timestamp::from_ms(i64::MAX).into())
            }
            (read, _) => Ok(Timestamp::from_ms(read?.as_millisecond()).into()),
        }
    }
}

/// The last two days of the year 9999 cannot be computed with, but people write them for "never": the same time of a day that can.
fn last_days(text: &str) -> Option<String> {
    let rest = text.strip_prefix("9999-12-3")?;
    let rest = rest.strip_prefix(['0', '1'])?;
    Some(format!("9999-12-01{rest}"))
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_millisecond(self.0.ms()).map_err(|_| fmt::Error)?;
        write!(f, "{at:.3}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| D::Error::custom("must be a time like 2026-09-21T12:00:00Z (RFC 3339)"))
    }
}

/// Seconds as the wire writes them.
#[expect(
    clippy::cast_precision_loss,
    reason = "lengths of time in milliseconds are far below 2^53"
)]
pub fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

/// Milliseconds of a number of seconds that somebody sent; what is no length of time is refused.
#[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
pub fn millis(path: &str, seconds: f64) -> Refused<i64> {
    const SECONDS_MAX: f64 = 1e9;
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        Ok((seconds * 1_000.0).round() as i64)
    } else {
        Err(Refusal::invalid(path, "must be a number of seconds from 0 on"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_read_with_any_offset() {
        let noon = Time::from(Timestamp::from_ms(1_790_000_000_000));
        assert_eq!(noon.to_string(), "2026-09-21T14:13:20.000Z");
        for text in ["2026-09-21T14:13:20Z", "2026-09-21T16:13:20.000+02:00"] {
            assert_eq!(text.parse::<Time>().unwrap(), noon, "{text}");
        }
        let json = serde_json::to_string(&noon).unwrap();
        assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), noon);
    }

    #[test]
    fn what_is_no_time_is_refused_and_every_moment_can_be_written() {
        for text in [
            "",
            "yesterday",
            "2026-09-21",
            "2026-09-21T14:13:20",
            "2026-13-01T00:00:00Z",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        for text in ["9999-12-31T23:59:59.999Z", "9999-12-30T23:59:59-08:00"] {
            assert_eq!(
                text.parse::<Time>().unwrap(),
                Time::from(Timestamp::from_ms(i64::MAX)),
                "{text}"
            );
        }
        assert!("9999-12-31T25:00:00Z".parse::<Time>().is_err());
        assert!("9999-12-32T00:00:00Z".parse::<Time>().is_err());
        for ms in [i64::MIN, -1, 0, i64::MAX] {
            let time = Time::from(Timestamp::from_ms(ms));
            assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        }
    }
}
