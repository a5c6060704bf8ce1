//! The clock of servers on PostgreSQL: the database's, so that all agree.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use deadpool_postgres::Pool;
use docket_core::{Clock, Timestamp};

use super::connect::no_connection;
use crate::error::{Error, Result};

const MEASURE_EVERY: Duration = Duration::from_secs(10);
const TOOK_TOO_LONG_MS: i64 = 200;

/// Follows the database's clock: its time when it was last asked, and what the machine's steady clock says has passed since. A step
/// of the machine's wall clock moves nothing.
#[derive(Debug)]
pub(crate) struct DatabaseClock {
    began: Instant,
    /// The database's time at `began`, in milliseconds since the epoch.
    offset_ms: AtomicI64,
    known: AtomicBool,
}

impl Default for DatabaseClock {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn default() -> Self {
        Self {
            began: Instant::now(),
            offset_ms: AtomicI64::new(0),
            known: AtomicBool::new(false),
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        // The store is not handed out before the first measurement.
        debug_assert!(
            self.known.load(Ordering::Relaxed),
            "the database's clock was measured"
        );
        Timestamp::from_ms(self.offset_ms.load(Ordering::Relaxed) + self.elapsed_ms())
    }
}

impl DatabaseClock {
    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Measures the distance once, halfway between question and answer. An answer that took long tells little, and is not needed
    /// where an earlier one is known.
    pub(super) async fn measure(&self, pool: &Pool) -> Result<()> {
        let connection = pool.get().await.map_err(|error| no_connection(&error))?;
        let asked_ms = self.elapsed_ms();
        let row = connection
            .query_one(
                "select (extract(epoch from clock_timestamp()) * 1000)::bigint",
                &[],
            )
            .await
            .map_err(Error::postgres("clock"))?;
        let took_ms = self.elapsed_ms() - asked_ms;
        if took_ms > TOOK_TOO_LONG_MS && self.known.load(Ordering::Relaxed) {
            return Ok(());
        }
        let theirs: i64 = row.try_get(0).map_err(Error::postgres("clock"))?;
        self.offset_ms
            .store(theirs - asked_ms - took_ms / 2, Ordering::Relaxed);
        self.known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Goes on measuring for as long as anybody uses the clock and the pool is open.
    pub(super) fn keep_measuring(self: &Arc<Self>, pool: Pool) {
        let clock: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(MEASURE_EVERY).await;
                let Some(clock) = clock.upgrade().filter(|_| !pool.is_closed()) else {
                    return;
                };
                if let Err(error) = clock.measure(&pool).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the database's clock was not measured"
                    );
                }
            }
        });
    }
}
