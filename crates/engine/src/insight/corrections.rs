//! Corrections by field: which fields the machine gets wrong, and how.

use docket_core::insight::{Corrections, FieldCorrections};
use docket_core::review::Outcome;
use docket_core::scope::Scope;
use docket_store::Result;
use docket_store::table::decided::Detail;

use super::walk::{LOOK_AT_MAX, Walk};
use super::{InsightQuery, Judgement, LookedAt};
use crate::engine::Engine;

/// Corrections by field.
#[derive(Clone, Debug)]
pub struct CorrectionsInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Reviews that were rejected: they say nothing of single fields.
    pub rejected: u64,
    /// The fields, those corrected most often first.
    pub fields: Vec<FieldCorrections>,
    /// How often fields came up that are not told, because there are too many.
    pub left_out: u64,
}

impl Engine {
    /// Which fields the machine gets wrong, and how.
    pub async fn insight_corrections(
        &self,
        scope: &Scope,
        query: &InsightQuery,
    ) -> Result<CorrectionsInsight> {
        query.check_field()?;
        let mut walk = Walk::begin(self, scope, query, Detail::Whole, LOOK_AT_MAX).await?;
        let (mut corrections, mut rejected) = (Corrections::default(), 0);
        while let Some((_, reviews)) = walk.next().await? {
            for review in &reviews {
                rejected += u64::from(review.outcome == Outcome::Rejected);
                let judgement = Judgement::of(review)?;
                for judged in judgement.fields(review) {
                    if query.wants(judged.field) {
                        corrections.add(&judged);
                    }
                }
            }
        }
        Ok(CorrectionsInsight {
            looked_at: walk.looked_at(),
            rejected,
            left_out: corrections.left_out(),
            fields: corrections.finish(),
        })
    }
}
