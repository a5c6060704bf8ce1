//! Insights as the wire writes them.

use docket_core::insight::{Calibration as Counted, FieldCorrections, ReviewerTally, share};
use docket_core::{Timestamp, insight};
use docket_engine::{
    CalibrationInsight, CorrectionsInsight, LookedAt, ReviewersInsight, SlaInsight, SlaOfCollection,
    TrainingExample,
};
use docket_wire::Time;
use docket_wire::insight as wire;
use serde_json::Value;

use crate::error::{ApiError, ApiResult};

fn looked_at(looked_at: LookedAt) -> wire::LookedAt {
    wire::LookedAt {
        since: looked_at.period.since.into(),
        until: looked_at.period.until.into(),
        reviews: looked_at.reviews,
        capped: looked_at.is_capped,
    }
}

pub(crate) fn corrections(found: CorrectionsInsight) -> ApiResult<wire::CorrectionsInsight> {
    let fields: ApiResult<_> = found.fields.into_iter().map(field).collect();
    Ok(wire::CorrectionsInsight {
        looked_at: looked_at(found.looked_at),
        rejected: found.rejected,
        fields: fields?,
        left_out: found.left_out,
    })
}

fn value(text: &str) -> ApiResult<Value> {
    serde_json::from_str(text).map_err(|error| {
        tracing::error!(%error, "a value cannot be read");
        ApiError::Internal
    })
}

fn field(field: FieldCorrections) -> ApiResult<wire::FieldCorrections> {
    let changes: ApiResult<_> = field
        .changes
        .iter()
        .map(|change| {
            Ok(wire::CommonChange {
                old: value(&change.key.0)?,
                new: value(&change.key.1)?,
                count: change.count,
            })
        })
        .collect();
    Ok(wire::FieldCorrections {
        extracted: field.extracted,
        corrected: field.corrected,
        rate: field.rate().unwrap_or(0.0),
        changes: changes?,
        other_changes: field.other_changes(),
        changes_exact: field.is_exact,
        field: field.field,
    })
}

pub(crate) fn reviewers(found: ReviewersInsight) -> wire::ReviewersInsight {
    wire::ReviewersInsight {
        looked_at: looked_at(found.looked_at),
        reviewers: found.reviewers.into_iter().map(reviewer).collect(),
        left_out: found.left_out,
    }
}

fn reviewer((reviewer_id, tally): (String, ReviewerTally)) -> wire::ReviewerDecisions {
    let seconds = |ms: Option<f64>| ms.unwrap_or(0.0) / 1_000.0;
    let days = tally.days.iter().map(|(day, decisions)| wire::DecisionsOfDay {
        day: date(*day),
        decisions: *decisions,
    });
    wire::ReviewerDecisions {
        reviewer_id,
        decisions: tally.decisions(),
        decisions_per_day: tally.decisions_a_day().unwrap_or(0.0),
        approved: tally.approved,
        corrected: tally.corrected,
        rejected: tally.rejected,
        correction_rate: tally.correction_rate().unwrap_or(0.0),
        rejection_rate: tally.rejection_rate().unwrap_or(0.0),
        mean_seconds: seconds(tally.active.mean_ms()),
        median_seconds: seconds(tally.active.median_ms()),
        median_within_seconds: tally.active.within_ms() / 1_000.0,
        days: days.collect(),
    }
}

/// The day of a moment, in UTC.
fn date(day: Timestamp) -> String {
    Time::from(day)
        .to_string()
        .chars()
        .take_while(|c| *c != 'T')
        .collect()
}

pub(crate) fn calibration(found: &CalibrationInsight) -> wire::CalibrationInsight {
    let counted = &found.calibration;
    let bins = counted.bins.iter().enumerate().map(|(index, bin)| {
        let (from, to) = Counted::edges(index);
        wire::ConfidenceBin {
            from,
            to,
            fields: bin.fields,
            changed: bin.changed,
            changed_share: bin.changed_share(),
            mean_confidence: bin.mean_confidence(),
        }
    });
    let approval = |threshold: &insight::Threshold| wire::AutoApproval {
        threshold: threshold.at,
        reviews: threshold.reviews,
        review_share: share(threshold.reviews, counted.reviews),
        let_through: threshold.let_through(),
        let_through_share: share(threshold.let_through(), threshold.reviews),
        corrected: threshold.corrected,
        rejected: threshold.rejected,
        fields: threshold.fields,
        changed_fields: threshold.changed,
    };
    wire::CalibrationInsight {
        looked_at: looked_at(found.looked_at),
        bins: bins.collect(),
        fields_without_confidence: counted.fields_without,
        reviews_without_confidence: counted.reviews_without,
        thresholds: counted.thresholds.iter().map(approval).collect(),
    }
}

pub(crate) fn sla(found: SlaInsight, pace_hours: u32) -> wire::SlaInsight {
    let sum = |of: fn(&SlaOfCollection) -> u64| found.collections.iter().map(of).sum();
    let (met, missed): (u64, u64) = (sum(|of| of.kept.met), sum(|of| of.kept.missed));
    wire::SlaInsight {
        looked_at: looked_at(found.looked_at),
        pace_hours,
        met,
        missed,
        met_share: share(met, met + missed),
        waiting: wire::Waiting {
            reviews: sum(|of| of.forecast.waiting),
            overdue: sum(|of| of.forecast.overdue),
            will_miss: sum(|of| of.forecast.will_miss),
            capped: found.collections.iter().any(|of| of.is_capped),
        },
        collections: found.collections.into_iter().map(sla_of).collect(),
    }
}

fn sla_of(of: SlaOfCollection) -> wire::CollectionSla {
    wire::CollectionSla {
        collection_id: of.collection_id,
        met: of.kept.met,
        missed: of.kept.missed,
        met_share: of.kept.met_share(),
        decisions_per_hour: of.pace.per_hour(),
        in_review: of.in_review,
        waiting: wire::Waiting {
            reviews: of.forecast.waiting,
            overdue: of.forecast.overdue,
            will_miss: of.forecast.will_miss,
            capped: of.is_capped,
        },
    }
}

/// Training data, a line each.
pub(crate) fn lines(examples: Vec<TrainingExample>) -> String {
    let mut text = String::new();
    for example in examples {
        let line = wire::TrainingExample {
            item_id: example.item,
            external_id: example.external_id,
            collection_id: example.collection_id,
            version: example.version,
            queue_id: example.review,
            field: example.field,
            machine_value: example.machine_value,
            human_value: example.human_value,
            previous_value: example.previous_value,
            confidence: example.confidence,
            decided_by: example.decided_by,
            decided_at: example.decided_at.into(),
        };
        text.push_str(&serde_json::json!(line).to_string());
        text.push('\n');
    }
    text
}
