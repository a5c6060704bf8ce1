//! Corrections as training data: what the machine said beside what is right.

use docket_core::Timestamp;
use docket_core::id::{ItemId, ReviewId};
use docket_core::scope::Scope;
use docket_store::Result;
use docket_store::table::decided::Detail;
use serde_json::Value;

use super::walk::Walk;
use super::{InsightQuery, Judgement};
use crate::engine::Engine;

/// A field that the machine got wrong.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct TrainingExample {
    pub collection_id: String,
    pub item: ItemId,
    pub external_id: Option<String>,
    /// The version of the item that was reviewed.
    pub version: i64,
    pub review: ReviewId,
    pub field: String,
    pub machine_value: Value,
    pub human_value: Value,
    /// What the field said before the decision, where that was an earlier correction and not the machine's value.
    pub previous_value: Option<Value>,
    pub confidence: Option<f64>,
    pub decided_by: String,
    pub decided_at: Timestamp,
}

/// Training data under way.
#[derive(Debug)]
pub struct TrainingData {
    walk: Walk,
    query: InsightQuery,
}

impl Engine {
    /// Corrections as training data, a piece at a time and however many there are. What is asked for is checked here.
    pub async fn training_data(&self, scope: &Scope, query: InsightQuery) -> Result<TrainingData> {
        query.check_field()?;
        let walk = Walk::begin(self, scope, &query, Detail::Whole, u64::MAX).await?;
        Ok(TrainingData { walk, query })
    }
}

impl TrainingData {
    /// The next examples, in the order of the decisions in each collection; a piece may be empty. None at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<TrainingExample>>> {
        let Some((place, reviews)) = self.walk.next().await? else {
            return Ok(None);
        };
        let mut examples = Vec::new();
        for review in &reviews {
            let judgement = Judgement::of(review)?;
            for judged in judgement.fields(review) {
                let Some(change) = judged.change.filter(|_| self.query.wants(judged.field)) else {
                    continue;
                };
                let recorded = &judgement.recorded.corrections;
                let old = recorded.iter().find(|recorded| recorded.field == judged.field);
                let previous = old
                    .map(|recorded| &recorded.old)
                    .filter(|old| *old != change.machine);
                examples.push(TrainingExample {
                    collection_id: place.id.clone(),
                    item: review.item,
                    external_id: review.external_id.clone(),
                    version: review.item_version,
                    review: review.id,
                    field: judged.field.to_owned(),
                    machine_value: change.machine.clone(),
                    human_value: change.human.clone(),
                    previous_value: previous.cloned(),
                    confidence: judged.confidence,
                    decided_by: review.decided_by.clone(),
                    decided_at: review.decided_at,
                });
            }
        }
        Ok(Some(examples))
    }
}
