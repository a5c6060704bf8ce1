//! Measuring: how many calls and jobs there were in which time, and how long each call took.

use std::time::Instant;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer than this no call takes; its client has given up by then.
const CALL_MAX_US: u64 = 600_000_000;

/// What was measured of one kind of call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) jobs: u64,
    pub(super) calls: u64,
    pub(super) seconds: f64,
    pub(super) jobs_per_second: f64,
    pub(super) calls_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

/// The calls of one kind that were made.
pub(super) struct Meter {
    took_us: Histogram<u64>,
    jobs: u64,
    /// When the last of them was answered.
    last: Option<Instant>,
}

impl Meter {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            took_us: Histogram::new_with_bounds(1, CALL_MAX_US, 3)?,
            jobs: 0,
            last: None,
        })
    }

    /// A call that began then has been answered, about so many jobs.
    pub(super) fn add(&mut self, began: Instant, jobs: usize) {
        let answered = now();
        let took = answered.duration_since(began).as_micros();
        self.took_us
            .saturating_record(u64::try_from(took).unwrap_or(CALL_MAX_US).max(1));
        self.jobs += jobs as u64;
        self.last = Some(answered);
    }

    /// What another client has measured.
    pub(super) fn join(&mut self, other: &Self) -> Result<()> {
        self.took_us.add(&other.took_us)?;
        self.jobs += other.jobs;
        self.last = self.last.max(other.last);
        Ok(())
    }

    /// The sum, from this moment to the last answer.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2⁵²")]
    pub(super) fn phase(&self, name: &'static str, began: Instant) -> Phase {
        let took = self.last.map(|last| last.duration_since(began));
        let (calls, seconds) = (self.took_us.len(), took.unwrap_or_default().as_secs_f64());
        let a_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let ms = |us: u64| us as f64 / 1_000.0;
        Phase {
            name,
            jobs: self.jobs,
            calls,
            seconds,
            jobs_per_second: a_second(self.jobs),
            calls_per_second: a_second(calls),
            p50_ms: ms(self.took_us.value_at_quantile(0.5)),
            p99_ms: ms(self.took_us.value_at_quantile(0.99)),
            max_ms: ms(self.took_us.max()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures how long calls take; nothing is decided by it"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}
