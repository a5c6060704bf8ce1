//! How long a failed attempt waits before the next (rule P7): exponential, capped, with jitter.

use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::refusal::{Refusal, Refused};

/// The longest wait that can be configured: a week.
pub const BACKOFF_MAX_MS: i64 = 7 * 86_400_000;

/// The wait after the first failure and the longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// The wait after the first failure, before jitter.
    pub base_ms: i64,
    /// No wait is longer.
    pub max_ms: i64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base_ms: 1_000,
            max_ms: 300_000,
        }
    }
}

impl Backoff {
    /// Says what is wrong with the numbers, if anything.
    pub fn check(&self) -> Refused<()> {
        if self.base_ms < 0 || self.max_ms < self.base_ms || self.max_ms > BACKOFF_MAX_MS {
            return Err(Refusal::invalid(
                "backoff",
                format!("needs 0 <= baseMs <= maxMs <= {BACKOFF_MAX_MS} (a week)"),
            ));
        }
        Ok(())
    }

    /// The wait after `failures` failed attempts (1 for the first): half of it is sure and half is jitter, so that
    /// a herd spreads out and yet nobody comes back at once.
    pub fn wait_ms(&self, failures: u32, random: &dyn Random) -> i64 {
        let doublings = failures.saturating_sub(1).min(62);
        let full = self.base_ms.saturating_mul(1_i64 << doublings).min(self.max_ms);
        let half = full / 2;
        let spread = u64::try_from(full - half).unwrap_or(0);
        half + i64::try_from(random.below(spread + 1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn waits_double_up_to_the_cap_and_stay_within_their_jitter() {
        let backoff = Backoff {
            base_ms: 100,
            max_ms: 1_000,
        };
        let random = SeededRandom::new(11);
        for (failures, full) in [
            (1, 100),
            (2, 200),
            (3, 400),
            (4, 800),
            (5, 1_000),
            (60, 1_000),
            (u32::MAX, 1_000),
        ] {
            for _ in 0..200 {
                let wait = backoff.wait_ms(failures, &random);
                assert!((full / 2..=full).contains(&wait), "{failures} failures: {wait}");
            }
        }
    }

    #[test]
    fn waits_spread_over_their_whole_half_and_follow_from_the_seed() {
        let backoff = Backoff {
            base_ms: 1_000,
            max_ms: 1_000,
        };
        let draw = |seed| {
            let random = SeededRandom::new(seed);
            let waits = (0..2_000).map(|_| backoff.wait_ms(1, &random));
            waits.collect::<Vec<_>>()
        };
        let waits = draw(11);
        assert!(waits.iter().all(|wait| (500..=1_000).contains(wait)));
        let different: std::collections::BTreeSet<_> = waits.iter().collect();
        assert!(different.len() > 400, "only {} of 501", different.len());
        assert!(**different.first().unwrap() < 510 && **different.last().unwrap() > 990);
        assert_eq!(draw(11), waits);
        assert_ne!(draw(12), waits);
    }

    #[test]
    fn no_base_means_no_wait() {
        assert_eq!(
            Backoff {
                base_ms: 0,
                max_ms: 0
            }
            .wait_ms(5, &SeededRandom::new(1)),
            0
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for (base_ms, max_ms) in [(-1, 5), (10, 5), (0, BACKOFF_MAX_MS + 1)] {
            assert!(Backoff { base_ms, max_ms }.check().is_err());
        }
    }
}
