//! Notifications: people are told once, and what became of it is on record (rules N1 to N9 and N11).
//!
//! A notification and its deliveries are written in one transaction, with the bytes that will be sent (`create`). The dispatcher takes
//! what is due and commits an intent for each (`take`), sends or asks (`attempt`), and records what came of it (`settle`). What was sent
//! and not recorded is in doubt, and the provider is asked before anything is sent again; what to do is decided by the core's `Course`.
//!
//! **Invariant:** nothing is sent that was not committed as an intent, and nothing is marked that a provider did not take.

pub(crate) mod alert;
pub(crate) mod attempt;
pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod dispatcher;
pub(crate) mod expire;
pub(crate) mod follow;
pub(crate) mod operate;
pub(crate) mod prepare;
pub(crate) mod reconciler;
pub(crate) mod settle;
pub(crate) mod take;
pub(crate) mod template;
pub(crate) mod view;
pub(crate) mod withdraw;

use docket_core::log::Action;
use docket_store::table::delivery::Delivery;
use docket_store::table::log::NewEntry;
use serde_json::{Value, json};

/// Whose entry it is in the log: the deployment's own have no tenant.
pub(crate) fn tenant_of(owner: &str) -> Option<String> {
    (!owner.is_empty()).then(|| owner.to_owned())
}

/// An entry about a delivery, which what names it is added to.
pub(crate) fn entry(action: Action, actor: &str, delivery: &Delivery, mut details: Value) -> NewEntry {
    if let Value::Object(details) = &mut details {
        details.insert("deliveryId".to_owned(), json!(delivery.id));
        details.insert("notificationId".to_owned(), json!(delivery.notification));
        details.insert("recipient".to_owned(), json!(delivery.recipient));
    }
    let mut entry = NewEntry::new(action, actor).with(&details);
    entry.tenant_id = tenant_of(&delivery.owner);
    entry.item = delivery.item;
    entry
}
