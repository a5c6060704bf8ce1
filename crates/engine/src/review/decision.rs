//! What a decision leaves behind: the corrected fields with what they were before, so that it can be shown, counted and taken back.

use docket_core::field::Correction;
use docket_core::id::{ItemId, ReviewId};
use docket_core::log::Action;
use docket_core::name::ReviewerId;
use docket_core::review::{FieldCorrection, Outcome, ReviewState};
use docket_core::{Refusal, Timestamp};
use docket_store::table::correction;
use docket_store::table::item;
use docket_store::table::log::NewEntry;
use docket_store::table::review::Review;
use docket_store::{Error, Result, Tx};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::commit::Decision;
use super::{Reviewed, not_there};
use crate::view::item::fields_of;

/// A review that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The review.
    pub id: ReviewId,
    /// The item it is about.
    pub item: ItemId,
    /// What was decided.
    pub outcome: Outcome,
    /// What the review is now.
    pub state: ReviewState,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// Until when the reviewer can take it back.
    pub undo_until: Timestamp,
    /// Whether it was decided so before: nothing was changed now.
    pub repeated: bool,
}

impl Decided {
    pub(super) fn of(owner: &Reviewed, review: &Review, outcome: Outcome, repeated: bool) -> Self {
        let decided_at = review.hand.decided_at.unwrap_or(review.created_at);
        Self {
            id: review.id,
            item: review.item,
            outcome,
            state: review.hand.state,
            decided_at,
            undo_until: decided_at.plus_ms(owner.policy.undo_ms()),
            repeated,
        }
    }
}

/// What is kept with a decided review.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    /// Why.
    pub reason: Option<String>,
    /// The corrected fields.
    pub corrections: Vec<FieldChange>,
}

/// A corrected field.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// The field.
    pub field: String,
    /// Its value before.
    pub old: Value,
    /// Its value now.
    pub new: Value,
    /// What the machine said of it.
    pub machine_value: Value,
    /// And how sure it was.
    pub confidence: Option<f64>,
    /// The correction that this one took the place of.
    prior: Option<Prior>,
}

/// An earlier correction.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prior {
    value: Value,
    locked: bool,
    corrected_by: String,
    corrected_at_ms: i64,
}

impl Recorded {
    /// What is kept with a review; none where that cannot be read.
    pub fn of(review: &Review) -> Option<Self> {
        Self::read(review.decision.as_deref()?)
    }

    /// The same, of what is stored.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|source| Error::Json {
            what: "a decision",
            source,
        })
    }

    /// Whether a decision says the same.
    pub(super) fn says(&self, decision: &Decision) -> bool {
        let same = |(change, wanted): (&FieldChange, &FieldCorrection)| {
            change.field == wanted.field && change.new == wanted.value
        };
        self.reason == decision.reason
            && self.corrections.len() == decision.corrections.len()
            && self.corrections.iter().zip(&decision.corrections).all(same)
    }
}

impl FieldChange {
    pub(super) fn entry(&self, owner: &Reviewed, review: &Review, actor: &str) -> NewEntry {
        let details = json!({ "confidence": self.confidence, "machineValue": self.machine_value });
        let mut entry = owner.entry(Action::FieldCorrected, actor, review, details);
        entry.field = Some(self.field.clone());
        entry.old = Some(self.old.to_string());
        entry.new = Some(self.new.to_string());
        entry
    }

    /// Makes the field what it was before.
    pub(super) async fn take_back(
        &self,
        tx: &mut Tx,
        owner: &Reviewed,
        review: &Review,
        actor: &str,
    ) -> Result<NewEntry> {
        match &self.prior {
            None => correction::delete(tx, review.item, &self.field).await?,
            Some(prior) => {
                let before = Correction {
                    name: self.field.clone(),
                    value: prior.value.clone(),
                    locked: prior.locked,
                    corrected_by: prior.corrected_by.clone(),
                    corrected_at: Timestamp::from_ms(prior.corrected_at_ms),
                };
                correction::put(tx, review.item, &before).await?;
            }
        }
        let mut entry = owner.entry(Action::FieldRestored, actor, review, json!({}));
        entry.field = Some(self.field.clone());
        entry.old = Some(self.new.to_string());
        entry.new = Some(self.old.to_string());
        Ok(entry)
    }
}

/// Sets and locks the corrected fields. A field that the item does not have is refused, and nothing is set.
pub(super) async fn correct(
    tx: &mut Tx,
    owner: &Reviewed,
    review: &Review,
    corrections: &[FieldCorrection],
    by: &ReviewerId,
    now: Timestamp,
) -> Result<Vec<FieldChange>> {
    let found = item::get(tx, review.item)
        .await?
        .ok_or_else(|| not_there(&review.id))?;
    debug_assert_eq!(found.collection_id, owner.collection.id);
    let fields = fields_of(tx, &found).await?;
    let mut changes = Vec::with_capacity(corrections.len());
    for (index, wanted) in corrections.iter().enumerate() {
        let field = fields
            .iter()
            .find(|field| field.name == wanted.field)
            .ok_or_else(|| {
                let problem = format!("the item has no field '{}'", wanted.field);
                Refusal::invalid(format!("corrections[{index}].field"), problem)
            })?;
        let prior = field
            .corrected_by
            .clone()
            .zip(field.corrected_at)
            .map(|(by, at)| Prior {
                value: field.value.clone(),
                locked: field.locked,
                corrected_by: by,
                corrected_at_ms: at.ms(),
            });
        let machine_value = match &field.corrected_by {
            Some(_) => field.machine_value.clone().unwrap_or(Value::Null),
            None => field.value.clone(),
        };
        changes.push(FieldChange {
            field: field.name.clone(),
            old: field.value.clone(),
            new: wanted.value.clone(),
            machine_value,
            confidence: field.confidence,
            prior,
        });
    }
    for change in &changes {
        let correction = Correction {
            name: change.field.clone(),
            value: change.new.clone(),
            locked: true,
            corrected_by: by.to_string(),
            corrected_at: now,
        };
        correction::put(tx, review.item, &correction).await?;
    }
    Ok(changes)
}
