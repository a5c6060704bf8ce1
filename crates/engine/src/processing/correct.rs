//! Corrections: a person's value for a field, locked against machines (rules V10 and V11).

use docket_core::content::check_json;
use docket_core::field::{Correction, MachineField};
use docket_core::id::{ItemId, LaneKey, Seq};
use docket_core::item::JSON_MAX;
use docket_core::log::Action;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::{collection, correction, item, log};
use docket_store::{Result, Tx};
use serde_json::{Value, json};

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

/// What a machine says anew of an item.
pub(crate) struct Said<'a> {
    pub(crate) item: ItemId,
    pub(crate) fields: &'a [MachineField],
    /// The job that says it; none where it came with the item's next version.
    pub(crate) job: Option<(LaneKey, Seq)>,
}

/// What the machine says of fields that a person has corrected (rule V11): where the field is locked the person's value stays, and what
/// the machine says is noted; where it was unlocked the machine's takes its place. The corrections that stand.
pub(crate) async fn weigh_corrections(
    tx: &mut Tx,
    said: &[Said<'_>],
    now: Timestamp,
) -> Result<Vec<(ItemId, Correction)>> {
    if said.is_empty() {
        return Ok(Vec::new());
    }
    let items: Vec<_> = said.iter().map(|said| said.item).collect();
    let mut standing = Vec::new();
    for (item, mut correction) in correction::of_items(tx, &items).await? {
        let said = said.iter().find(|said| said.item == item);
        let field = said.and_then(|said| said.fields.iter().find(|field| field.name == correction.name));
        if let (Some(said), Some(field)) = (said, field) {
            if !correction.locked {
                match gives_way(tx, item, &correction.name).await? {
                    None => continue,
                    Some(locked) => correction = locked,
                }
            }
            kept_locked(tx, said, &correction, field, now).await?;
        }
        standing.push((item, correction));
    }
    Ok(standing)
}

/// Forgets a correction that was seen to be unlocked; the one that stands in its place, where a person has set and locked the field in the
/// meantime.
async fn gives_way(tx: &mut Tx, item: ItemId, name: &str) -> Result<Option<Correction>> {
    if correction::delete_unlocked(tx, item, name).await? {
        return Ok(None);
    }
    let found = correction::of_items(tx, &[item]).await?;
    let mut found = found.into_iter().map(|(_, correction)| correction);
    Ok(found.find(|correction| correction.name == name))
}

/// Notes what the machine says of a field that is a person's.
async fn kept_locked(
    tx: &mut Tx,
    said: &Said<'_>,
    correction: &Correction,
    field: &MachineField,
    now: Timestamp,
) -> Result<()> {
    let owner = collection::by_key(tx, said.item.collection()).await?;
    let tenant_id = owner.map(|collection| collection.tenant_id).unwrap_or_default();
    let mut entry = NewEntry::new(Action::FieldKeptLocked, "docket").of_item(&tenant_id, said.item);
    entry.job = said.job;
    entry.field = Some(correction.name.clone());
    entry.old = Some(correction.value.to_string());
    entry.new = Some(field.value.to_string());
    log::append(tx, &entry.with(&json!({ "confidence": field.confidence })), now).await
}
