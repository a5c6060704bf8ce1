//! When a call is made again, and after how long: exponential waits with full jitter, `Retry-After` heeded, all of it bounded.
//!
//! Invariant: a call is repeated only where repeating is the same as making it once: it reads, it carries an idempotency key,
//! or it is fenced by a token; or where it surely never arrived.

use std::time::Duration;

use docket_core::random::Random;

use crate::error::ClientError;

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// How often a call is made at the most, the first time included.
    pub attempts: u32,
    /// The wait after the first attempt; it doubles from there.
    pub base_ms: u64,
    /// The longest wait between two attempts. A `Retry-After` beyond it ends the retries.
    pub max_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            base_ms: 100,
            max_ms: 10_000,
        }
    }
}

impl RetryPolicy {
    /// A call is made once.
    pub const fn never() -> Self {
        Self {
            attempts: 1,
            base_ms: 0,
            max_ms: 0,
        }
    }

    /// The wait before the next attempt, after `made` of them; none where it is not made.
    pub(crate) fn wait(
        &self,
        made: u32,
        repeatable: bool,
        error: &ClientError,
        random: &dyn Random,
    ) -> Option<Duration> {
        if made >= self.attempts {
            return None;
        }
        let asked = match error {
            ClientError::Transport { reached, .. } => (repeatable || !*reached).then_some(None)?,
            // A refusal by the limit has done nothing, so it may be repeated whatever the call.
            ClientError::Problem(problem) if problem.status == 429 => Some(problem.retry_after?),
            ClientError::Problem(_) if error.is_passing() && repeatable => match error {
                ClientError::Problem(problem) => problem.retry_after,
                _ => None,
            },
            _ => return None,
        };
        match asked {
            Some(asked) if asked > Duration::from_millis(self.max_ms) => None,
            // A little later than asked, so that those who were refused together do not come back together.
            Some(asked) => Some(asked + Duration::from_millis(random.below(self.base_ms + 1))),
            None => Some(backoff(made, self.base_ms, self.max_ms, random)),
        }
    }
}

/// A random wait below a bound that doubles with every attempt made.
pub(crate) fn backoff(made: u32, base_ms: u64, max_ms: u64, random: &dyn Random) -> Duration {
    let doubled = base_ms.saturating_mul(1 << made.saturating_sub(1).min(20));
    let bound = doubled.clamp(1, max_ms.max(1));
    // Never less than a tenth: a wait of nothing is no wait.
    Duration::from_millis((bound / 10).max(1) + random.below(bound))
}

#[cfg(test)]
mod tests {
    use docket_core::random::SeededRandom;

    use super::*;
    use crate::error::Problem;

    fn refused(status: u16, retry_after_s: Option<u64>) -> ClientError {
        let retry_after = retry_after_s.map(Duration::from_secs);
        ClientError::Problem(Box::new(Problem::read(status, retry_after, None, b"{}")))
    }

    #[test]
    fn only_what_is_safe_and_passing_is_repeated() {
        let (policy, random) = (RetryPolicy::default(), SeededRandom::new(1));
        for (error, repeatable, repeated) in [
            (refused(503, None), true, true),
            (refused(503, None), false, false),
            (refused(500, None), true, true),
            (refused(404, None), true, false),
            (refused(409, None), true, false),
            (refused(422, None), true, false),
            (refused(429, Some(2)), false, true),
            (refused(429, Some(3_000)), true, false),
            (refused(429, None), true, false),
        ] {
            let wait = policy.wait(1, repeatable, &error, &random);
            assert_eq!(wait.is_some(), repeated, "{error:?} {repeatable}");
        }
    }

    #[test]
    fn attempts_are_bounded_and_retry_after_is_kept() {
        let (policy, random) = (RetryPolicy::default(), SeededRandom::new(1));
        assert!(policy.wait(5, true, &refused(503, None), &random).is_none());
        let wait = policy.wait(1, true, &refused(503, Some(3)), &random).unwrap();
        assert!((3_000..=3_100).contains(&wait.as_millis()), "{wait:?}");
        for made in 1..40 {
            assert!(backoff(made, 100, 10_000, &random).as_millis() <= 11_000);
        }
    }
}
