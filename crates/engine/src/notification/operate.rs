//! What a person does with a delivery: have it looked up, send it once more, or give it up. Each is explicit and logged.

use std::sync::Arc;

use docket_core::id::DeliveryId;
use docket_core::log::Action;
use docket_core::name::check_name;
use docket_core::notification::{DeliveryState, delivery_token};
use docket_core::notify::Recipient;
use docket_core::scope::Notifying;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::delivery::{self, Delivery};
use docket_store::table::{delivery_attempt, log, notification};
use docket_store::{Hint, Result, Tx};
use serde_json::json;

use super::config::{OutboxConfig, ability};
use super::entry;
use super::prepare::{message_of, render};
use super::view::{DeliveryView, no_delivery};
use crate::engine::{Engine, Kernel};

#[derive(Clone, Debug)]
enum Wish {
    Reconcile,
    Resend { nonce: String },
    Cancel,
}

impl Engine {
    /// Has the provider asked what it knows of a delivery; the dispatcher does so, and records what it finds.
    pub async fn delivery_reconcile(&self, who: &Notifying, id: DeliveryId) -> Result<DeliveryView> {
        self.delivery_change(who, id, Wish::Reconcile).await
    }

    /// Sends a delivery once more, under another token, which the nonce makes. The same nonce again does nothing.
    pub async fn delivery_resend(
        &self,
        who: &Notifying,
        id: DeliveryId,
        nonce: &str,
    ) -> Result<DeliveryView> {
        check_name("nonce", nonce)?;
        let nonce = nonce.to_owned();
        self.delivery_change(who, id, Wish::Resend { nonce }).await
    }

    /// Gives a delivery up.
    pub async fn delivery_cancel(&self, who: &Notifying, id: DeliveryId) -> Result<DeliveryView> {
        self.delivery_change(who, id, Wish::Cancel).await
    }

    async fn delivery_change(&self, who: &Notifying, id: DeliveryId, wish: Wish) -> Result<DeliveryView> {
        let kernel = Arc::clone(&self.kernel);
        let params = (kernel, who.clone(), id, wish, self.kernel.clock.now());
        let changed = self.kernel.store.run("delivery_change", params, |tx, p| {
            Box::pin(change(tx, &p.0, &p.1, p.2, &p.3, p.4))
        });
        if let Some(state) = changed.await? {
            crate::meter::operated(state);
        }
        self.kernel.store.hints().send(Hint::Delivery);
        self.delivery(who, id).await
    }
}

/// Does what is wished; the state that this led to, if it changed anything.
async fn change(
    tx: &mut Tx,
    kernel: &Kernel,
    who: &Notifying,
    id: DeliveryId,
    wish: &Wish,
    now: Timestamp,
) -> Result<Option<DeliveryState>> {
    let found = delivery::lock(tx, &[id]).await?.pop();
    let found = found.filter(|delivery| who.reaches(&delivery.owner));
    let mut delivery = found.ok_or_else(|| no_delivery(id))?;
    let was = delivery.course.clone();
    let action = match wish {
        Wish::Reconcile => {
            can_be_settled(&kernel.config.outbox, &delivery)?;
            delivery.course.reconcile(now)?;
            Action::DeliveryReconciling
        }
        Wish::Cancel => {
            delivery.course.cancel(now)?;
            Action::DeliveryCancelled
        }
        Wish::Resend { nonce } => {
            if !resend(tx, kernel, &mut delivery, nonce, now).await? {
                return Ok(None);
            }
            Action::DeliveryResent
        }
    };
    if delivery.course == was {
        return Ok(None);
    }
    delivery::put(tx, &[&delivery]).await?;
    let details = json!({
        "was": was.state.as_str(), "nonce": delivery.nonce, "token": delivery.token,
        "receipt": was.receipt, "notifiedAtMs": was.told_at().map(Timestamp::ms),
    });
    let entry = entry(action, who.actor().as_str(), &delivery, details);
    log::append(tx, &entry, now).await?;
    Ok(Some(delivery.course.state))
}

/// Asking has to lead somewhere: the provider can tell, or takes what nobody vouched for once more and only once.
fn can_be_settled(outbox: &OutboxConfig, delivery: &Delivery) -> Refused<()> {
    let Some(ability) = outbox
        .channel(&delivery.channel)
        .map(|channel| ability(channel.as_ref(), delivery))
    else {
        let problem = format!("this server has no channel '{}'", delivery.channel);
        return Err(Refusal::Conflict { problem });
    };
    let has_evidence = delivery.course.evidence_at.is_some();
    match ability.lookup_lag_ms.is_some() || (ability.dedupe_ms.is_some() && !has_evidence) {
        true => Ok(()),
        false => Err(Refusal::Conflict {
            problem: match has_evidence {
                true => "this channel cannot be asked, and its provider said that it took the message; a resend sends it once more",
                false => "this channel cannot be asked; resend the delivery, or cancel it",
            }
            .to_owned(),
        }),
    }
}

/// Makes it a delivery under another token; whether this nonce is new.
async fn resend(
    tx: &mut Tx,
    kernel: &Kernel,
    delivery: &mut Delivery,
    nonce: &str,
    now: Timestamp,
) -> Result<bool> {
    let known = notification::get(tx, delivery.notification).await?;
    let known = known.ok_or_else(|| Refusal::not_found("notification", &delivery.notification))?;
    let recipient = Recipient::parse(&delivery.recipient)?;
    let token = delivery_token(
        &known.owner,
        &known.changelist_id,
        &recipient,
        known.review_version,
        nonce,
    );
    let is_known =
        delivery.nonce == nonce || delivery_attempt::has_token(tx, delivery.id, token.as_str()).await?;
    if is_known {
        return Ok(false);
    }
    delivery.course.resend(now)?;
    let frozen = render(&kernel.config.outbox, &message_of(&known)?, &recipient, &token)?;
    delivery::refreeze(tx, delivery.id, token.as_str(), nonce, &frozen).await?;
    (delivery.token, delivery.nonce) = (token.to_string(), nonce.to_owned());
    Ok(true)
}
