//! Entering: an item that is finished comes up for review, once for each version (rule V1).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use docket_core::Timestamp;
use docket_core::field::{Correction, MachineField};
use docket_core::id::{CollectionKey, ItemId, ReviewId};
use docket_core::insight::Fact;
use docket_core::item::ItemStatus;
use docket_core::log::Action;
use docket_core::priority::Inputs;
use docket_core::random::Random;
use docket_core::review::ReviewState;
use docket_store::hot::NewItem;
use docket_store::table::counter::Counted;
use docket_store::table::record::{Move, record};
use docket_store::table::review::{self, NewReview};
use docket_store::table::review_content::{self, ReviewInputs};
use docket_store::{Error, Result, Tx};
use serde_json::json;

use super::assign::assign_new;
use super::{Collections, Reviewed};

/// An item that comes up for review, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Enter {
    pub(crate) item: ItemId,
    pub(crate) version: i64,
    /// How sure the machine is on the whole, where that was given.
    pub(crate) confidence: Option<f64>,
    pub(crate) fields: Vec<MachineField>,
    /// The fields for which a person's value stands.
    pub(crate) corrected: HashSet<String>,
    pub(crate) line_item_count: Option<i64>,
    pub(crate) total_amount: Option<f64>,
    pub(crate) deadline: Option<Timestamp>,
}

impl Enter {
    /// A new item that arrived finished.
    pub(crate) fn of_new(row: &NewItem, version: i64) -> Result<Self> {
        Ok(Self {
            item: row.id,
            version,
            confidence: row.confidence,
            fields: fields_of(row.fields.as_deref())?,
            corrected: HashSet::new(),
            line_item_count: row.line_item_count,
            total_amount: row.total_amount,
            deadline: row.deadline,
        })
    }

    /// An item that is there.
    pub(crate) fn of_item(inputs: &ReviewInputs) -> Result<Self> {
        Ok(Self {
            item: inputs.id,
            version: inputs.version,
            confidence: inputs.confidence,
            fields: fields_of(inputs.fields.as_deref())?,
            corrected: HashSet::new(),
            line_item_count: inputs.line_item_count,
            total_amount: inputs.total_amount,
            deadline: inputs.deadline,
        })
    }

    /// The average confidence of its fields, unless one was given.
    fn confidence(&self) -> Option<f64> {
        let said: Vec<f64> = self.fields.iter().filter_map(|field| field.confidence).collect();
        #[expect(clippy::cast_precision_loss, reason = "there are at most a thousand fields")]
        let mean = (!said.is_empty()).then(|| said.iter().sum::<f64>() / said.len() as f64);
        self.confidence.or(mean)
    }

    /// The same, with people's values for some fields.
    pub(crate) fn under(mut self, corrections: impl IntoIterator<Item = (ItemId, Correction)>) -> Self {
        let own = corrections.into_iter().filter(|(item, _)| *item == self.item);
        self.corrected.extend(own.map(|(_, correction)| correction.name));
        self
    }

    /// The machine's fields, for those who later ask how often it was right.
    fn facts(&self) -> Option<String> {
        let facts: Vec<_> = self
            .fields
            .iter()
            .map(|field| Fact {
                name: field.name.clone(),
                confidence: field.confidence,
                is_corrected: self.corrected.contains(&field.name),
            })
            .collect();
        (!facts.is_empty()).then(|| json!(facts).to_string())
    }

    fn review(&self, id: ReviewId, owner: &Reviewed, now: Timestamp) -> NewReview {
        let rule = owner.policy.rule();
        let inputs = Inputs {
            confidence: self.confidence(),
            line_item_count: self.line_item_count,
            total_amount: self.total_amount,
            deadline: self.deadline.unwrap_or_else(|| now.plus_ms(rule.sla_ms)),
        };
        NewReview {
            id,
            item: self.item,
            item_version: self.version,
            order_key: rule.order_key(&inputs),
            inputs,
            deadline_given: self.deadline.is_some(),
            policy: owner.collection.review_policy,
            facts: self.facts(),
        }
    }
}

pub(crate) fn fields_of(text: Option<&str>) -> Result<Vec<MachineField>> {
    text.map_or(Ok(Vec::new()), |text| {
        serde_json::from_str(text).map_err(|source| Error::Json {
            what: "fields",
            source,
        })
    })
}

/// What is known of items that are there.
pub(crate) async fn known(tx: &mut Tx, items: &[ItemId]) -> Result<BTreeMap<ItemId, Enter>> {
    let mut known = BTreeMap::new();
    for inputs in review_content::inputs(tx, items).await? {
        known.insert(inputs.id, Enter::of_item(&inputs)?);
    }
    Ok(known)
}

/// Begins the reviews that are not there yet, and gives them to reviewers where the collection asks for it. Returns the collections in
/// which something is pending now.
pub(crate) async fn enter(
    tx: &mut Tx,
    entries: &[Enter],
    random: &dyn Random,
    now: Timestamp,
) -> Result<BTreeSet<CollectionKey>> {
    if entries.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut collections = Collections::default();
    let mut new = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = entry.item.collection();
        if let Some(owner) = collections.get(tx, key).await? {
            new.push(entry.review(ReviewId::new(now, key, random), owner, now));
        }
    }
    let begun: BTreeMap<ItemId, ReviewId> = review::enter(tx, &new, now)
        .await?
        .into_iter()
        .map(|(review, item)| (item, review))
        .collect();
    let (mut log, mut moves) = (Vec::new(), Vec::new());
    let mut arrived: BTreeMap<CollectionKey, Vec<ReviewId>> = BTreeMap::new();
    for review in &new {
        let Some(id) = begun.get(&review.item) else {
            moves.extend(counted_again(tx, review).await?);
            continue;
        };
        let Some(owner) = collections.get(tx, review.item.collection()).await? else {
            continue;
        };
        let is_new = *id == review.id;
        let action = if is_new {
            Action::ReviewCreated
        } else {
            Action::ReviewReopened
        };
        let details = json!({
            "queueId": id, "version": review.item_version, "deadlineMs": review.inputs.deadline.ms(),
            "confidence": review.inputs.confidence,
        });
        log.push(
            docket_store::table::log::NewEntry::new(action, "docket")
                .of_item(&owner.collection.tenant_id, review.item)
                .with(&details),
        );
        let before = (!is_new).then_some(ReviewState::Cancelled);
        moves.push(owner.moved(before, ReviewState::Pending));
        arrived.entry(owner.collection.key).or_default().push(*id);
    }
    record(tx, &log, &moves, now).await?;
    let mut pending = BTreeSet::new();
    for (key, ids) in arrived {
        let Some(owner) = collections.get(tx, key).await? else {
            continue;
        };
        let is_assigned = owner.assigns() && {
            let reviews = review::lock(tx, &ids).await?;
            assign_new(tx, owner, reviews, now).await?
        };
        if !is_assigned {
            pending.insert(key);
        }
    }
    Ok(pending)
}

/// The item's completion was counted as the beginning of a review; but it has one, and where that is decided the item is what was
/// decided.
async fn counted_again(tx: &mut Tx, review: &NewReview) -> Result<Option<Move>> {
    let known = review::of_item(tx, review.item, review.item_version).await?;
    let status = known.map(|known| ItemStatus::reviewed(true, Some(known.hand.state)));
    Ok(status
        .filter(|status| *status != ItemStatus::InReview)
        .map(|status| Move {
            collection: review.item.collection(),
            from: Some(Counted::Item(ItemStatus::InReview)),
            to: Some(Counted::Item(status)),
        }))
}
