//! Calibration: how sure the machine was against what reviewers changed, and what an automatic approval would have let through.

use docket_core::field::check_confidence;
use docket_core::insight::Calibration;
use docket_core::scope::Scope;
use docket_core::{Refusal, Refused};
use docket_store::Result;
use docket_store::table::decided::Detail;

use super::walk::{LOOK_AT_MAX, Walk};
use super::{InsightQuery, Judgement, LookedAt};
use crate::engine::Engine;

/// Confidence against decisions.
#[derive(Clone, Debug)]
pub struct CalibrationInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// What was counted.
    pub calibration: Calibration,
}

fn check_threshold(threshold: Option<f64>) -> Refused<()> {
    threshold.map_or(Ok(()), |threshold| {
        check_confidence(threshold)
            .map_err(|_| Refusal::invalid("threshold", "must be a number from 0 to 100"))
    })
}

impl Engine {
    /// How sure the machine was against what reviewers changed; with one more threshold where one is asked for.
    pub async fn insight_calibration(
        &self,
        scope: &Scope,
        query: &InsightQuery,
        threshold: Option<f64>,
    ) -> Result<CalibrationInsight> {
        query.check_field()?;
        check_threshold(threshold)?;
        let mut walk = Walk::begin(self, scope, query, Detail::Whole, LOOK_AT_MAX).await?;
        let mut calibration = Calibration::new(threshold);
        while let Some((_, reviews)) = walk.next().await? {
            for review in &reviews {
                calibration.add_review(review.confidence, review.outcome);
                let judgement = Judgement::of(review)?;
                for judged in judgement.fields(review) {
                    if query.wants(judged.field) {
                        calibration.add_field(&judged);
                    }
                }
            }
        }
        Ok(CalibrationInsight {
            looked_at: walk.looked_at(),
            calibration,
        })
    }
}
