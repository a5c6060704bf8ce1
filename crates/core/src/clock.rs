//! Time as Docket sees it: milliseconds since the Unix epoch, from one clock.
//!
//! Operations take `now` as a value. The only place that asks the machine is [`SystemClock`];
//! servers on PostgreSQL follow the database's clock instead, and tests turn a [`ManualClock`].

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment that lies `ms` milliseconds after the epoch.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// This moment moved by `ms`; stops at the ends of the range instead of wrapping.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How long after `earlier` this moment lies, in milliseconds; negative when it lies before.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where `now` comes from.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that asks the machine for the time"
    )]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    pub const fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.0))
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A length of time in the words of a person: "10 minutes", "1 hour", "45 seconds".
pub fn duration_in_words(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (count, unit) = match seconds {
        0 => return format!("{} milliseconds", ms.max(0)),
        s if s % 86_400 == 0 => (s / 86_400, "day"),
        s if s % 3_600 == 0 => (s / 3_600, "hour"),
        s if s % 60 == 0 => (s / 60, "minute"),
        s => (s, "second"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_a_person_says_them() {
        for (ms, words) in [
            (600_000, "10 minutes"),
            (60_000, "1 minute"),
            (3_600_000, "1 hour"),
            (172_800_000, "2 days"),
            (90_000, "90 seconds"),
            (1_000, "1 second"),
            (250, "250 milliseconds"),
            (-5, "0 milliseconds"),
        ] {
            assert_eq!(duration_in_words(ms), words);
        }
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::from_ms(5));
        assert_eq!(clock.now(), clock.now());
        clock.advance_ms(10);
        assert_eq!(clock.now().since(Timestamp::from_ms(5)), 10);
    }
}
