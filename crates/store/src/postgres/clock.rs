//! The clock of servers on PostgreSQL: their own, corrected by its distance to the database's, so that all agree.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use deadpool_postgres::Pool;
use docket_core::clock::SystemClock;
use docket_core::{Clock, Timestamp};

use super::connect::no_connection;
use crate::error::{Error, Result};

const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// Follows the database's clock.
#[derive(Debug, Default)]
pub(crate) struct DatabaseClock {
    offset_ms: AtomicI64,
    known: AtomicBool,
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        // The store is not handed out before the first measurement.
        debug_assert!(
            self.known.load(Ordering::Relaxed),
            "the database's clock was measured"
        );
        SystemClock.now().plus_ms(self.offset_ms.load(Ordering::Relaxed))
    }
}

impl DatabaseClock {
    /// Measures the distance once, halfway between question and answer.
    pub(super) async fn measure(&self, pool: &Pool) -> Result<()> {
        let connection = pool.get().await.map_err(|error| no_connection(&error))?;
        let asked = SystemClock.now();
        let row = connection
            .query_one(
                "select (extract(epoch from clock_timestamp()) * 1000)::bigint",
                &[],
            )
            .await
            .map_err(Error::postgres("clock"))?;
        let answered = SystemClock.now();
        let theirs: i64 = row.try_get(0).map_err(Error::postgres("clock"))?;
        let ours = asked.ms() + answered.since(asked) / 2;
        self.offset_ms.store(theirs - ours, Ordering::Relaxed);
        self.known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Goes on measuring for as long as anybody uses the clock.
    pub(super) fn keep_measuring(self: &Arc<Self>, pool: Pool) {
        let clock: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(MEASURE_EVERY).await;
                let Some(clock) = clock.upgrade() else { return };
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
