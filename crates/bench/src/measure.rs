//! Measuring: many tasks do the same thing for a while; how often, and how long each took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

/// What was measured; no latencies where none were taken.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) done: u64,
}

/// Tells the tasks when to stop, and counts what they did.
#[derive(Clone)]
pub(crate) struct Run {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    /// When something was last done, in microseconds since `began`.
    last_us: Arc<AtomicU64>,
    began: Instant,
}

impl Run {
    pub(crate) fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Counts something that was done; how much it is with that.
    pub(crate) fn add(&self, n: usize) -> u64 {
        let before = self.done.fetch_add(n as u64, Ordering::Relaxed);
        let now_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_us.fetch_max(now_us, Ordering::Relaxed);
        before + n as u64
    }

    /// From the beginning until something was last done: finding out that there is nothing left is no work.
    fn took(&self) -> Duration {
        Duration::from_micros(self.last_us.load(Ordering::Relaxed).max(1))
    }

    /// Ends the run early: there is nothing left to do.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Latencies of one task, in microseconds.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, 120_000_000, 3)?))
    }

    pub(crate) fn add(&mut self, took: Duration) {
        self.0
            .saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
    }
}

/// Says on a terminal what is being done, and for how long.
pub(crate) fn spinner(what: &str) -> Result<ProgressBar> {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// Runs the tasks for `window` (or until one ends the run) and puts together what they measured.
pub(crate) async fn measure<F>(
    name: &str,
    window: Duration,
    tasks: impl FnOnce(Run) -> Vec<F>,
) -> Result<Measured>
where
    F: Future<Output = Result<Latencies>> + Send + 'static,
{
    let bar = spinner(name)?;
    let run = Run {
        over: Arc::default(),
        done: Arc::default(),
        last_us: Arc::default(),
        began: Instant::now(),
    };
    let mut set = JoinSet::new();
    for task in tasks(run.clone()) {
        set.spawn(task);
    }
    let timer = tokio::spawn({
        let run = run.clone();
        async move {
            tokio::time::sleep(window).await;
            run.end();
        }
    });
    let mut all = Latencies::new()?;
    while let Some(task) = set.join_next().await {
        all.0.add(task??.0)?;
    }
    timer.abort();
    bar.finish_and_clear();
    let done = run.done.load(Ordering::Relaxed);
    let ms = |quantile| (!all.0.is_empty()).then(|| all.0.value_at_quantile(quantile) as f64 / 1000.0);
    Ok(Measured {
        per_second: done as f64 / run.took().as_secs_f64(),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        done,
    })
}
