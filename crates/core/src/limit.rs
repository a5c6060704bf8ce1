//! The rolling-window limit (rule I2).
//!
//! Submissions of a tenant are numbered. The window remembers, for each moment at which some were taken, the
//! number of the first; what was used in the last hour is then the distance from the first remembered number that is
//! still young enough to the next one: exact, and as cheap for a thousand an hour as for ten.

use crate::clock::Timestamp;
use crate::tenant::UploadLimit;

/// The window's length: an hour.
pub const WINDOW_MS: i64 = 3_600_000;

/// What a tenant has used, read under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number that the next submission will have.
    pub next: u64,
    /// The oldest moment within the window and the number of the first submission then.
    pub oldest: Option<(Timestamp, u64)>,
    /// The newest moment that is remembered.
    pub newest: Option<Timestamp>,
    /// Uploads under way that have reserved a place.
    pub reserved: u64,
    /// The moment of the submission that has to leave the window before a place is free: the oldest, unless more was taken than
    /// the limit now allows (see [`Window::must_leave`]).
    pub leaving: Option<Timestamp>,
}

/// How much of a limit is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Submissions allowed in a rolling hour; none for no limit.
    pub limit: Option<u64>,
    /// How many more are allowed now; the largest number there is for no limit.
    pub remaining: u64,
    /// Milliseconds until the next place is free; 0 while there is one.
    pub wait_ms: i64,
}

impl Window {
    /// Moments up to this one have left the window.
    pub const fn cutoff(now: Timestamp) -> Timestamp {
        now.plus_ms(-WINDOW_MS)
    }

    /// The moment under which submissions of now are remembered: within a window moments never run backwards, whatever the clock does.
    pub fn moment(&self, now: Timestamp) -> Timestamp {
        self.newest.map_or(now, |newest| newest.max(now))
    }

    /// The number of the submission that has to leave before a place is free, where more was taken than `limit` allows: a limit
    /// can be lowered below what is used.
    pub fn must_leave(&self, limit: UploadLimit) -> Option<u64> {
        let UploadLimit::PerHour(limit) = limit else {
            return None;
        };
        let allowed = u64::from(limit).saturating_sub(self.reserved).max(1);
        (self.taken() > allowed).then(|| self.next.saturating_sub(allowed))
    }

    fn taken(&self) -> u64 {
        self.oldest
            .map_or(0, |(_, first)| self.next.saturating_sub(first))
    }

    /// What is left of `limit`.
    pub fn allowance(&self, limit: UploadLimit, now: Timestamp) -> Allowance {
        let UploadLimit::PerHour(limit) = limit else {
            return Allowance {
                limit: None,
                remaining: u64::MAX,
                wait_ms: 0,
            };
        };
        let limit = u64::from(limit);
        let remaining = limit.saturating_sub(self.taken() + self.reserved);
        let wait_ms = match remaining {
            0 => self.wait_once_full_ms(now),
            _ => 0,
        };
        Allowance {
            limit: Some(limit),
            remaining,
            wait_ms,
        }
    }

    /// Milliseconds until the next place is free, should the rest be taken at this very moment. Uploads under way are expected to
    /// end well: who is told to come back sooner would be told to wait again. Never longer than the window, also where the clock of
    /// the server that took the last one is a little ahead.
    pub fn wait_once_full_ms(&self, now: Timestamp) -> i64 {
        self.leaving.map_or(WINDOW_MS, |at| {
            at.plus_ms(WINDOW_MS).since(now).clamp(1, WINDOW_MS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(10_000_000);

    fn window(next: u64, oldest: Option<(i64, u64)>, reserved: u64) -> Window {
        Window {
            next,
            oldest: oldest.map(|(at, first)| (Timestamp::from_ms(at), first)),
            newest: oldest.map(|(at, _)| Timestamp::from_ms(at)),
            reserved,
            leaving: oldest.map(|(at, _)| Timestamp::from_ms(at)),
        }
    }

    #[test]
    fn what_is_left_is_exact() {
        let limit = UploadLimit::PerHour(10);
        for (window, remaining, wait_ms) in [
            (window(0, None, 0), 10, 0),
            (window(500, None, 0), 10, 0),
            (window(510, Some((9_999_000, 501)), 0), 1, 0),
            (window(511, Some((9_999_000, 501)), 0), 0, 3_599_000),
            (window(511, Some((6_400_001, 501)), 0), 0, 1),
            (window(508, Some((9_999_000, 501)), 3), 0, 3_599_000),
            (window(0, None, 10), 0, WINDOW_MS),
            (window(900, Some((9_999_000, 501)), 0), 0, 3_599_000),
        ] {
            let allowance = window.allowance(limit, NOW);
            assert_eq!(
                (allowance.remaining, allowance.wait_ms),
                (remaining, wait_ms),
                "{window:?}"
            );
        }
    }

    #[test]
    fn what_must_leave_is_told_when_a_limit_was_lowered() {
        let ten = UploadLimit::PerHour(10);
        for (window, number) in [
            (window(511, Some((9_000_000, 501)), 0), None),
            (window(515, Some((9_000_000, 501)), 0), Some(505)),
            (window(515, Some((9_000_000, 501)), 4), Some(509)),
            (window(515, Some((9_000_000, 501)), 12), Some(514)),
            (window(515, None, 12), None),
        ] {
            assert_eq!(window.must_leave(ten), number, "{window:?}");
            assert_eq!(window.must_leave(UploadLimit::Unlimited), None);
        }
    }

    #[test]
    fn the_wait_after_the_rest_is_taken_is_known_before() {
        for (window, wait_ms) in [
            (window(0, None, 0), WINDOW_MS),
            (window(505, Some((9_999_000, 501)), 0), 3_599_000),
            (window(505, Some((10_000_003, 501)), 0), WINDOW_MS),
        ] {
            assert_eq!(window.wait_once_full_ms(NOW), wait_ms, "{window:?}");
        }
    }

    #[test]
    fn no_limit_is_never_used_up() {
        let allowance = window(1_000_000, Some((9_999_999, 0)), 5).allowance(UploadLimit::Unlimited, NOW);
        assert_eq!(
            allowance,
            Allowance {
                limit: None,
                remaining: u64::MAX,
                wait_ms: 0
            }
        );
    }

    #[test]
    fn a_limit_of_nothing_lets_nothing_in() {
        assert_eq!(
            window(0, None, 0)
                .allowance(UploadLimit::PerHour(0), NOW)
                .remaining,
            0
        );
    }
}
