//! Retention: forgets what is kept no longer. The log stays.

use std::sync::Arc;
use std::time::Duration;

use docket_core::Timestamp;
use docket_core::id::UploadId;
use docket_core::log::Action;
use docket_store::table::log::NewEntry;
use docket_store::table::{counter, idempotency, item, log, retention, review, tenant, upload, worker};
use docket_store::{Result, Tx};

use crate::engine::{Engine, Kernel};
use crate::notification::expire::expire;

const BATCH: u64 = 500;
/// Workers not seen for this long are forgotten: a week.
const WORKERS_KEPT_MS: i64 = 7 * 86_400_000;

/// How much was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Retained {
    pub answers: u64,
    pub moments: u64,
    pub holes: u64,
    pub workers: u64,
    pub items: u64,
    pub notifications: u64,
    /// A batch was full: there may be more.
    pub has_more: bool,
}

impl Engine {
    /// Forgets a bounded batch; comes back at once where there is more.
    pub async fn retention_run_once(&self) -> Result<Option<Duration>> {
        Ok(self.retain().await?.has_more.then_some(Duration::ZERO))
    }

    /// Forgets one bounded batch of everything that is kept no longer.
    pub async fn retain(&self) -> Result<Retained> {
        let (kernel, now) = (&self.kernel, self.kernel.clock.now());
        let params = (Arc::clone(kernel), now);
        let retained = kernel
            .store
            .run("retention", params, |tx, p| Box::pin(retain(tx, &p.0, p.1)));
        let mut forgotten = retained.await?;
        if let Some(keep_ms) = kernel.config.keep_finished_ms {
            let params = (now.plus_ms(-keep_ms), now);
            let expired = kernel.store.run("notification_expire", params, |tx, p| {
                Box::pin(expire(tx, p.0, BATCH, p.1))
            });
            let expired = expired.await?;
            forgotten.notifications = expired.notifications;
            forgotten.has_more |= expired.looked_at >= BATCH;
        }
        Ok(forgotten)
    }
}

async fn retain(tx: &mut Tx, kernel: &Kernel, now: Timestamp) -> Result<Retained> {
    let mut forgotten = Retained {
        answers: idempotency::sweep(tx, now.plus_ms(-kernel.config.idempotency_ms), BATCH).await?,
        moments: tenant::sweep_slots(tx, now, BATCH).await?,
        holes: retention::sweep_holes(tx, BATCH).await?,
        workers: worker::sweep(tx, now.plus_ms(-WORKERS_KEPT_MS), BATCH).await?,
        ..Retained::default()
    };
    if let Some(keep_ms) = kernel.config.keep_finished_ms {
        for id in retention::finished(tx, now.plus_ms(-keep_ms), BATCH).await? {
            let Some(found) = item::get(tx, id).await? else {
                continue;
            };
            let blobs = found
                .blob_key
                .clone()
                .into_iter()
                .chain(retention::version_blobs(tx, id).await?);
            for blob_key in blobs {
                let trash = UploadId::new(now, kernel.random.as_ref());
                upload::insert_discarded(tx, trash, &found.tenant_id, &blob_key, now).await?;
            }
            let reviews = review::delete_of_item(tx, id).await?;
            retention::delete(tx, id, found.job).await?;
            for state in reviews {
                let counted = Some(counter::Counted::Review(state));
                counter::add_counted(tx, id.collection(), counted, None, 1).await?;
            }
            counter::add(tx, id.collection(), Some(found.status), None, 1).await?;
            let entry = NewEntry::new(Action::ItemExpired, "docket").of_item(&found.tenant_id, id);
            log::append(tx, &entry, now).await?;
            forgotten.items += 1;
        }
    }
    let counts = [
        forgotten.answers,
        forgotten.moments,
        forgotten.holes,
        forgotten.workers,
        forgotten.items,
    ];
    forgotten.has_more = counts.contains(&BATCH);
    Ok(forgotten)
}
