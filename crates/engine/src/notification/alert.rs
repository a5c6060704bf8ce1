//! Alerts: what a person has to hear of is an entry in the log already; here it is counted, said in the server's own log, and, where that is
//! configured, told as a notification of its own.

use docket_core::Timestamp;
use docket_store::table::delivery::Delivery;
use docket_store::{Error, Result, Tx};

use super::create::{Creations, create_in};
use super::prepare::{NewNotification, Terms, prepare};
use super::take::DISPATCHER;
use crate::engine::Kernel;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alert {
    /// It may have been sent, nobody can tell, and a person has to say.
    Held,
    /// It will not be sent unless a person says so.
    Failed,
    /// It counts as sent, and no provider ever said so.
    NoEvidence,
    /// It counted as sent, and the provider knows nothing of it: it is sent again.
    NotThere,
}

impl Alert {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Failed => "failed",
            Self::NoEvidence => "no_evidence",
            Self::NotThere => "not_there",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Held => "may have been sent, and nobody can tell: say whether to resend or cancel it",
            Self::Failed => "failed and is not tried again by itself",
            Self::NoEvidence => "counts as sent, but no provider said so: its provider is asked",
            Self::NotThere => "counted as sent, but its provider knows nothing of it: it is sent again",
        }
    }
}

/// Raises an alert within a transaction.
pub(crate) async fn alert_in(
    tx: &mut Tx,
    kernel: &Kernel,
    delivery: &Delivery,
    alert: Alert,
    now: Timestamp,
) -> Result<()> {
    let outbox = &kernel.config.outbox;
    // The transaction may be run again, and then this is said again: too often rather than never.
    tracing::warn!(
        delivery = %delivery.id, recipient = delivery.recipient, alert = alert.as_str(),
        "a delivery {}", alert.sentence()
    );
    metrics::counter!("docket_delivery_alerts_total", "alert" => alert.as_str()).increment(1);
    // An alert that cannot be told raises no further one.
    if outbox.alerts.is_empty() || outbox.alerts.contains(&delivery.recipient) {
        return Ok(());
    }
    let new = NewNotification {
        idempotency_key: format!(
            "alert:{}:{}:{}",
            delivery.id,
            alert.as_str(),
            delivery.course.lease.0
        ),
        changelist_id: format!("alert:{}:{}", delivery.id, alert.as_str()),
        review_version: delivery.course.lease.0,
        recipients: outbox.alerts.clone(),
        optional_recipients: Vec::new(),
        subject: format!("Docket: a delivery {}", alert.as_str()),
        body: format!(
            "Delivery {} to {} {}.\n\n{}\n",
            delivery.id,
            delivery.recipient,
            alert.sentence(),
            delivery.course.problem.as_deref().unwrap_or_default()
        ),
    };
    let terms = Terms {
        owner: "",
        actor: DISPATCHER,
        item: None,
        not_before: now,
        on_unknown: None,
        now,
    };
    let mut writes = Creations::default();
    let made = match prepare(outbox, kernel.random.as_ref(), &terms, &new) {
        Ok(prepared) => create_in(tx, &prepared, &mut writes).await,
        Err(refusal) => Err(Error::Refused(refusal)),
    };
    match made {
        Ok(_) => writes.write(tx, now).await,
        Err(Error::Refused(refusal)) => {
            tracing::warn!(%refusal, "an alert could not be told");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
