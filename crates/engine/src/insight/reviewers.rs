//! Reviewers: how many reviews a day, how long each, and how they decide.

use docket_core::insight::{ReviewerTally, Reviewers};
use docket_core::name::ReviewerId;
use docket_core::scope::Scope;
use docket_store::Result;
use docket_store::table::decided::Detail;

use super::walk::{LOOK_AT_MAX, Walk};
use super::{InsightQuery, LookedAt};
use crate::engine::Engine;

/// What reviewers decided.
#[derive(Clone, Debug)]
pub struct ReviewersInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Each reviewer, those who decided most first.
    pub reviewers: Vec<(String, ReviewerTally)>,
    /// Decisions of reviewers who are not told of, because there are too many.
    pub left_out: u64,
}

impl Engine {
    /// What reviewers decided; what one of them did, where one is named.
    pub async fn insight_reviewers(
        &self,
        scope: &Scope,
        query: &InsightQuery,
        only: Option<&ReviewerId>,
    ) -> Result<ReviewersInsight> {
        let mut walk = Walk::begin(self, scope, query, Detail::Plain, LOOK_AT_MAX).await?;
        let mut reviewers = Reviewers::default();
        while let Some((_, reviews)) = walk.next().await? {
            for review in &reviews {
                let by = review.decided_by.as_str();
                if only.is_none_or(|only| only.as_str() == by) {
                    reviewers.add(by, review.outcome, review.decided_at, review.active_ms);
                }
            }
        }
        let mut looked_at = walk.looked_at();
        if only.is_some() {
            // How much the others have done is not theirs to see.
            looked_at.reviews = reviewers.decisions();
        }
        Ok(ReviewersInsight {
            looked_at,
            left_out: reviewers.left_out(),
            reviewers: reviewers.finish(),
        })
    }
}
