//! Randomness, injected: jitter and keys come from here, so that a test can fix the seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync + 'static {
    /// Sixty-four random bits.
    fn next_u64(&self) -> u64;

    /// A number from 0 to `below - 1`; 0 when `below` is 0. The bias is below 2⁻³² for the small ranges used here.
    fn below(&self, below: u64) -> u64 {
        if below == 0 { 0 } else { self.next_u64() % below }
    }
}

/// The operating system's source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the source that asks the system"
    )]
    #[expect(
        clippy::expect_used,
        reason = "a machine without randomness cannot run Docket safely"
    )]
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random bytes")
    }
}

/// A repeatable source (SplitMix64): the same seed gives the same numbers.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// A source that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (a, b) = (SeededRandom::new(7), SeededRandom::new(7));
        let draw = |r: &SeededRandom| (0..5).map(|_| r.next_u64()).collect::<Vec<_>>();
        assert_eq!(draw(&a), draw(&b));
        assert_ne!(SeededRandom::new(8).next_u64(), SeededRandom::new(7).next_u64());
    }

    #[test]
    fn below_stays_below() {
        let random = SeededRandom::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
