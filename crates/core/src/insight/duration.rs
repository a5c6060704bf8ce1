//! Lengths of time: their mean, exactly, and their median, as exactly as memory allows.

use std::collections::BTreeMap;

/// How many lengths are told apart.
const DISTINCT_MAX: usize = 2_048;

/// Lengths of time. As long as at most [`DISTINCT_MAX`] different ones have come, the median is exact; then lengths beside each other are
/// put together, twice as wide each time, and the median is right within half a width.
#[derive(Clone, Debug)]
pub struct Durations {
    count: u64,
    sum_ms: u128,
    width_ms: u64,
    counts: BTreeMap<u64, u64>,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            count: 0,
            sum_ms: 0,
            width_ms: 1,
            counts: BTreeMap::new(),
        }
    }
}

impl Durations {
    /// One more.
    pub fn add(&mut self, ms: u64) {
        self.count += 1;
        self.sum_ms += u128::from(ms);
        *self.counts.entry(ms / self.width_ms).or_default() += 1;
        while self.counts.len() > DISTINCT_MAX {
            self.width_ms *= 2;
            let mut wider = BTreeMap::new();
            for (place, count) in std::mem::take(&mut self.counts) {
                *wider.entry(place / 2).or_default() += count;
            }
            self.counts = wider;
        }
    }

    /// Their mean in milliseconds; none of none.
    #[expect(clippy::cast_precision_loss, reason = "a sum of times is far below 2^53")]
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ms as f64 / self.count as f64)
    }

    /// Their median in milliseconds; between two in the middle it is their mean. None of none.
    pub fn median_ms(&self) -> Option<f64> {
        let (low, high) = (self.at(self.count.checked_sub(1)? / 2)?, self.at(self.count / 2)?);
        Some(f64::midpoint(low, high))
    }

    /// How far off the median may be, in milliseconds: 0 where it is exact.
    #[expect(clippy::cast_precision_loss, reason = "a width is far below 2^53")]
    pub fn within_ms(&self) -> f64 {
        (self.width_ms - 1) as f64 / 2.0
    }

    /// The length at this place of their order.
    #[expect(clippy::cast_precision_loss, reason = "a length of time is far below 2^53")]
    fn at(&self, rank: u64) -> Option<f64> {
        let mut seen = 0;
        self.counts.iter().find_map(|(place, count)| {
            seen += count;
            (seen > rank).then(|| (place * self.width_ms) as f64 + self.within_ms())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_medians() {
        for (lengths, mean, median) in [
            (vec![], None, None),
            (vec![7], Some(7.0), Some(7.0)),
            (vec![10, 20], Some(15.0), Some(15.0)),
            (
                vec![30_000, 10_000, 90_000],
                Some(43_333.333_333_333_336),
                Some(30_000.0),
            ),
            (vec![5, 5, 5, 1_000_000], Some(250_003.75), Some(5.0)),
            (vec![1, 2, 3, 10], Some(4.0), Some(2.5)),
        ] {
            let mut durations = Durations::default();
            lengths.iter().for_each(|ms| durations.add(*ms));
            assert_eq!(
                (durations.mean_ms(), durations.median_ms()),
                (mean, median),
                "{lengths:?}"
            );
            assert!(durations.within_ms() == 0.0);
        }
    }

    #[test]
    fn of_very_many_the_median_is_right_within_what_it_says() {
        let mut durations = Durations::default();
        // Each of the numbers up to 100,000 once, in an order that jumps about, and one that is far off.
        for n in 0..100_000_u64 {
            durations.add(n * 7_919 % 100_000);
        }
        durations.add(u64::from(u32::MAX));
        let off = (durations.median_ms().unwrap() - 50_000.0).abs();
        assert!(durations.within_ms() > 0.0 && durations.within_ms() < 64.0);
        assert!(off <= durations.within_ms() + 1.0, "{off}");
        assert!(durations.counts.len() <= DISTINCT_MAX);
    }
}
