//! Corrections: a person's value for a field, locked against machines (rules V10 and V11).

use docket_core::content::check_json;
use docket_core::field::Correction;
use docket_core::id::ItemId;
use docket_core::item::JSON_MAX;
use docket_core::log::Action;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::{correction, item, log};
use docket_store::{Result, Tx};
use serde_json::Value;

use crate::engine::Engine;
use crate::view::item::{fields_of, item_of_tenant};

struct Correct {
    scope: Scope,
    item: ItemId,
    corrections: Vec<(String, Value)>,
    now: Timestamp,
}

impl Engine {
    /// Sets and locks fields of an item, each with its old and new value on record.
    pub async fn fields_correct(
        &self,
        scope: &Scope,
        item: ItemId,
        corrections: Vec<(String, Value)>,
    ) -> Result<()> {
        docket_core::item::check_batch("corrections", corrections.len())?;
        for (_, value) in &corrections {
            check_json("value", value, JSON_MAX)?;
        }
        let params = Correct {
            scope: scope.clone(),
            item,
            corrections,
            now: self.kernel.clock.now(),
        };
        self.kernel
            .store
            .run("fields_correct", params, |tx, p| Box::pin(fields_correct(tx, p)))
            .await
    }
}

async fn fields_correct(tx: &mut Tx, p: &Correct) -> Result<()> {
    item::lock(tx, p.item).await?;
    let found = item_of_tenant(tx, &p.scope, p.item).await?;
    let fields = fields_of(tx, &found).await?;
    for (name, value) in &p.corrections {
        let field = fields
            .iter()
            .find(|field| field.name == *name)
            .ok_or_else(|| Refusal::invalid("corrections", format!("the item has no field '{name}'")))?;
        let correction = Correction {
            name: name.clone(),
            value: value.clone(),
            locked: true,
            corrected_by: p.scope.actor.as_str().to_owned(),
            corrected_at: p.now,
        };
        correction::put(tx, p.item, &correction).await?;
        let mut entry =
            NewEntry::new(Action::FieldCorrected, p.scope.actor.as_str()).of_item(&found.tenant_id, p.item);
        entry.field = Some(name.clone());
        entry.old = Some(field.value.to_string());
        entry.new = Some(value.to_string());
        log::append(tx, &entry, p.now).await?;
    }
    Ok(())
}
