//! Insights as tables.

use docket_client::wire::insight::{
    CalibrationInsight, CollectionSla, CommonChange, CorrectionsInsight, LookedAt, ReviewersInsight,
    SlaInsight,
};

use crate::remote::{moment, table};

/// How many changes a table has room for.
const CHANGES: usize = 3;

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn percent_or_nothing(share: Option<f64>) -> String {
    share.map(percent).unwrap_or_default()
}

fn heading(looked_at: &LookedAt) -> String {
    let more = match looked_at.capped {
        true => " There are more than one call looks at; ask about a shorter time or one collection.",
        false => "",
    };
    format!(
        "Decisions: {}, from {} to {}.{more}\n",
        looked_at.reviews,
        moment(looked_at.since),
        moment(looked_at.until)
    )
}

pub(super) fn corrections(found: &CorrectionsInsight) -> String {
    let change = |change: &CommonChange| format!("{} → {} ({})", change.old, change.new, change.count);
    let rows = found.fields.iter().map(|field| {
        let changes: Vec<_> = field.changes.iter().take(CHANGES).map(change).collect();
        [
            field.field.clone(),
            field.extracted.to_string(),
            field.corrected.to_string(),
            percent(field.rate),
            changes.join("\n"),
        ]
    });
    let mut text = heading(&found.looked_at);
    text.push_str(&table(
        ["field", "extracted", "corrected", "rate", "commonest changes"],
        rows,
    ));
    if found.left_out > 0 {
        text.push_str("\nThere are more fields than are told apart.");
    }
    text
}

pub(super) fn reviewers(found: &ReviewersInsight) -> String {
    let rows = found.reviewers.iter().map(|reviewer| {
        [
            reviewer.reviewer_id.clone(),
            reviewer.decisions.to_string(),
            format!("{:.1}", reviewer.decisions_per_day),
            format!("{:.1} s", reviewer.mean_seconds),
            format!("{:.1} s", reviewer.median_seconds),
            percent(reviewer.correction_rate),
            percent(reviewer.rejection_rate),
        ]
    });
    let heads = [
        "reviewer",
        "decisions",
        "a day",
        "mean",
        "median",
        "corrected",
        "rejected",
    ];
    let mut text = heading(&found.looked_at) + &table(heads, rows);
    if found.left_out > 0 {
        text.push_str(&format!("\nOthers decided {} more.", found.left_out));
    }
    text
}

pub(super) fn calibration(found: &CalibrationInsight) -> String {
    let bins = found.bins.iter().map(|bin| {
        [
            format!("{:.0}–{:.0}", bin.from, bin.to),
            bin.fields.to_string(),
            bin.changed.to_string(),
            percent_or_nothing(bin.changed_share),
        ]
    });
    let thresholds = found.thresholds.iter().map(|approval| {
        [
            approval.threshold.to_string(),
            approval.reviews.to_string(),
            percent_or_nothing(approval.review_share),
            approval.let_through.to_string(),
            percent_or_nothing(approval.let_through_share),
            format!("{} of {}", approval.changed_fields, approval.fields),
        ]
    });
    let bins = table(["confidence", "fields", "changed", "share"], bins);
    let heads = [
        "threshold",
        "unseen",
        "of all",
        "let through",
        "share",
        "fields changed",
    ];
    format!(
        "{}{bins}\n\nHad all of a threshold's confidence been approved unseen:\n{}",
        heading(&found.looked_at),
        table(heads, thresholds)
    )
}

pub(super) fn sla(found: &SlaInsight) -> String {
    let at_least = |collection: &CollectionSla| if collection.waiting.capped { "+" } else { "" };
    let rows = found.collections.iter().map(|collection| {
        let more = at_least(collection);
        let waiting = &collection.waiting;
        [
            collection.collection_id.clone(),
            collection.met.to_string(),
            collection.missed.to_string(),
            percent_or_nothing(collection.met_share),
            format!("{:.1}", collection.decisions_per_hour),
            format!("{}{more}", waiting.reviews),
            format!("{}{more}", waiting.overdue),
            format!("{}{more}", waiting.will_miss),
        ]
    });
    let heads = [
        "collection",
        "met",
        "missed",
        "met %",
        "an hour",
        "wait",
        "overdue",
        "will miss",
    ];
    let (waiting, hours) = (&found.waiting, found.pace_hours);
    format!(
        "{}{}\nAt the pace of the last {hours} hours {} of {} that wait will miss their deadline.",
        heading(&found.looked_at),
        table(heads, rows),
        waiting.will_miss,
        waiting.reviews
    )
}
