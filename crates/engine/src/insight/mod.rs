//! Insights (rule L3): what decided reviews tell of the machine, of the reviewers and of deadlines.
//!
//! They are read from the reviews themselves, which the transactions that decide write together with the log, and which are forgotten
//! together with their items. A decision that was taken back is not there any more. Reading goes in small pieces, each a short read of its
//! own that holds nobody up; what is decided while it goes on may or may not be in it. The rules of counting are the core's.

pub(crate) mod calibration;
pub(crate) mod corrections;
pub(crate) mod reviewers;
pub(crate) mod sla;
pub(crate) mod training;
mod walk;

use docket_core::Timestamp;
use docket_core::insight::{Change, Fact, Judged, Period, judge};
use docket_core::name::{CollectionId, NAME_MAX, check_text};
use docket_store::table::decided::DecidedReview;
use docket_store::{Error, Result};

use crate::review::decision::Recorded;

/// What is asked about.
#[derive(Clone, Debug, Default)]
pub struct InsightQuery {
    /// One collection; all of the tenant's where none is named.
    pub collection: Option<CollectionId>,
    /// Decisions from this moment on; 30 days where nothing is said.
    pub since: Option<Timestamp>,
    /// Decisions before this moment; up to now where nothing is said.
    pub until: Option<Timestamp>,
    /// One field, where fields are asked about.
    pub field: Option<String>,
}

impl InsightQuery {
    fn check_field(&self) -> Result<()> {
        match &self.field {
            None => Ok(()),
            Some(field) => Ok(check_text("field", field, NAME_MAX)?),
        }
    }

    fn wants(&self, field: &str) -> bool {
        self.field.as_ref().is_none_or(|wanted| wanted == field)
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedAt {
    /// Decisions of this time.
    pub period: Period,
    /// How many decided reviews there were.
    pub reviews: u64,
    /// Whether there were more than one call looks at, and the answer is about those only.
    pub is_capped: bool,
}

/// What a decision made of the machine's fields.
struct Judgement {
    facts: Vec<Fact>,
    recorded: Recorded,
}

impl Judgement {
    fn of(review: &DecidedReview) -> Result<Self> {
        let facts = match &review.facts {
            None => Vec::new(),
            Some(text) => serde_json::from_str(text).map_err(|source| Error::Json {
                what: "the facts of a review",
                source,
            })?,
        };
        let recorded = review.decision.as_deref().and_then(Recorded::read);
        Ok(Self {
            facts,
            recorded: recorded.unwrap_or_default(),
        })
    }

    fn fields(&self, review: &DecidedReview) -> Vec<Judged<'_>> {
        let changes = self.recorded.corrections.iter().map(|change| Change {
            field: &change.field,
            machine: &change.machine_value,
            human: &change.new,
            confidence: change.confidence,
        });
        judge(review.outcome, &self.facts, changes)
    }
}
