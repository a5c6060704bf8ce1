//! Insights, and corrections as training data.

use std::time::Duration;

use docket_wire::insight::{CalibrationInsight, CorrectionsInsight, ReviewersInsight, SlaInsight};

use crate::client::{Call, Client};
use crate::content::Download;
use crate::error::Result;

/// A server that looks at a million decisions takes its time.
const LOOK_MAX: Duration = Duration::from_secs(600);

/// Which decisions.
#[derive(Clone, Debug, Default)]
pub struct InsightFilter {
    /// Of one tenant; for those who may see several.
    pub tenant_id: Option<String>,
    /// Of one collection.
    pub collection_id: Option<String>,
    /// Not before this time; 30 days where nothing is said.
    pub since: Option<docket_wire::Time>,
    /// Before this time.
    pub until: Option<docket_wire::Time>,
    /// Of one field, where fields are asked about.
    pub field: Option<String>,
}

impl Client {
    fn insight(&self, what: &str, filter: &InsightFilter) -> Call {
        let mut call = self
            .get(&["api", "v1", "insights", what])
            .query("tenantId", filter.tenant_id.as_deref())
            .query("collectionId", filter.collection_id.as_deref())
            .query("since", filter.since)
            .query("until", filter.until)
            .query("field", filter.field.as_deref());
        call.timeout = Some(LOOK_MAX);
        call
    }

    /// Which fields the machine gets wrong, and how.
    pub async fn insight_corrections(&self, filter: &InsightFilter) -> Result<CorrectionsInsight> {
        self.ask(self.insight("corrections", filter)).await
    }

    /// What reviewers decided, how many a day and how long each.
    pub async fn insight_reviewers(&self, filter: &InsightFilter) -> Result<ReviewersInsight> {
        self.ask(self.insight("reviewers", filter)).await
    }

    /// How sure the machine was against what reviewers changed; with one more threshold.
    pub async fn insight_calibration(
        &self,
        filter: &InsightFilter,
        threshold: Option<f64>,
    ) -> Result<CalibrationInsight> {
        let call = self.insight("calibration", filter);
        self.ask(call.query("threshold", threshold)).await
    }

    /// How many deadlines were kept, and how many will be missed at the pace of the last hours.
    pub async fn insight_sla(&self, filter: &InsightFilter, pace_hours: Option<u32>) -> Result<SlaInsight> {
        let call = self.insight("sla", filter);
        self.ask(call.query("paceHours", pace_hours)).await
    }

    /// Corrections as training data, as JSON lines in a stream.
    pub async fn training_data(&self, filter: &InsightFilter) -> Result<Download> {
        let call = self.insight("training-data", filter);
        self.open(call.query("format", Some("jsonl"))).await
    }
}
