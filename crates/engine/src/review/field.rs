//! Unlocking: a lead lets machines change a field again that a person had corrected.

use docket_core::field::Correction;
use docket_core::id::ItemId;
use docket_core::log::Action;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::{correction, item, log};
use docket_store::{Result, Tx};
use serde_json::json;

use crate::engine::Engine;
use crate::view::item::item_of_tenant;

impl Engine {
    /// Unlocks a corrected field: its value stays until a machine next says what it reads there.
    pub async fn field_unlock(&self, scope: &Scope, item: ItemId, field: &str) -> Result<()> {
        let params = (scope.clone(), item, field.to_owned(), self.kernel.clock.now());
        self.kernel
            .store
            .run("field_unlock", params, |tx, p| {
                Box::pin(field_unlock(tx, &p.0, p.1, &p.2, p.3))
            })
            .await
    }
}

async fn field_unlock(tx: &mut Tx, scope: &Scope, id: ItemId, field: &str, now: Timestamp) -> Result<()> {
    item::lock(tx, id).await?;
    let found = item_of_tenant(tx, scope, id).await?;
    let corrections = correction::of_items(tx, &[id]).await?;
    let known = corrections.into_iter().find(|(_, known)| known.name == field);
    let Some((_, known)) = known else {
        return Err(Refusal::not_found("corrected field", field).into());
    };
    if !known.locked {
        return Ok(());
    }
    let unlocked = Correction {
        locked: false,
        ..known
    };
    correction::put(tx, id, &unlocked).await?;
    let mut entry = NewEntry::new(Action::FieldUnlocked, scope.actor.as_str())
        .of_item(&found.tenant_id, id)
        .with(&json!({ "correctedBy": unlocked.corrected_by }));
    entry.field = Some(field.to_owned());
    entry.old = Some(unlocked.value.to_string());
    entry.new = Some(unlocked.value.to_string());
    log::append(tx, &entry, now).await
}
