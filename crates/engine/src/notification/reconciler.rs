//! The reconciler: finds what counts as sent although no provider ever said so, and has it looked up (rule N7). What is in doubt has a moment
//! at which the dispatcher asks by itself.

use std::sync::Arc;
use std::time::Duration;

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_store::table::record::record;
use docket_store::table::{delivery, delivery_find};
use docket_store::{Hint, Result, Tx};
use serde_json::json;

use super::alert::{Alert, alert_in};
use super::entry;
use super::take::DISPATCHER;
use crate::engine::{Engine, Kernel};

const BATCH: u64 = 200;

impl Engine {
    /// Sends a bounded number of deliveries without evidence to reconciliation; comes back at once where there are more.
    pub async fn reconciler_run_once(&self) -> Result<Option<Duration>> {
        let params = (Arc::clone(&self.kernel), self.kernel.clock.now());
        let found = self
            .kernel
            .store
            .run("reconcile", params, |tx, p| {
                Box::pin(reconcile_batch(tx, &p.0, p.1))
            })
            .await?;
        if found > 0 {
            self.kernel.store.hints().send(Hint::Delivery);
        }
        Ok((found == BATCH).then_some(Duration::ZERO))
    }
}

async fn reconcile_batch(tx: &mut Tx, kernel: &Kernel, now: Timestamp) -> Result<u64> {
    let mut found = delivery_find::without_evidence(tx, BATCH).await?;
    let mut log = Vec::with_capacity(found.len());
    for delivery in &mut found {
        delivery.course.reconcile(now)?;
        let details = json!({ "why": "it counts as sent, but no provider said so", "receipt": delivery.course.receipt });
        log.push(entry(Action::DeliveryReconciling, DISPATCHER, delivery, details));
        alert_in(tx, kernel, delivery, Alert::NoEvidence, now).await?;
    }
    delivery::put(tx, &found.iter().collect::<Vec<_>>()).await?;
    record(tx, &log, &[], now).await?;
    Ok(found.len() as u64)
}
