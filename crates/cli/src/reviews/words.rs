//! Reviews in words, for people.

use docket_client::wire::EntryError;
use docket_client::wire::review::{Empty, Entry, Explanation, Sla, Stats, Workload};
use docket_core::priority::SlaLevel;
use docket_core::review::ReviewState;

use crate::remote::{facts, moment, or_nothing, table, word};

pub(super) const HEADS: [&str; 7] = [
    "review",
    "about",
    "collection",
    "status",
    "priority",
    "due",
    "with",
];

pub(super) fn row(entry: &Entry) -> [String; 7] {
    [
        entry.queue_id.to_string(),
        entry.generation_id.clone(),
        entry.collection_id.clone(),
        status(entry.status),
        priority(entry.priority, &word(&entry.band)),
        match entry.decided_at {
            Some(_) => String::new(),
            None => due(&entry.sla),
        },
        or_nothing(entry.assigned_to.as_ref()),
    ]
}

pub(super) fn status(status: ReviewState) -> String {
    status.as_str().replace('_', " ")
}

fn priority(score: f64, band: &str) -> String {
    format!("{score:.1} {band}")
}

/// How long until a deadline, or since.
fn due(sla: &Sla) -> String {
    match sla.level {
        SlaLevel::Overdue => format!("OVERDUE by {}", span(sla.seconds_left.unsigned_abs())),
        _ => format!("in {}", span(sla.seconds_left.unsigned_abs())),
    }
}

/// A length of time in its two largest units.
fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(3);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, name) in units.iter().skip(first).take(2) {
        let count = rest / unit;
        rest %= unit;
        if count > 0 || parts.is_empty() {
            parts.push(format!("{count} {name}"));
        }
    }
    parts.join(" ")
}

pub(super) fn entry(entry: &Entry) -> String {
    let mut text = facts(&[
        ("review", entry.queue_id.to_string()),
        ("status", status(entry.status)),
        ("about", entry.generation_id.clone()),
        ("item", format!("{}, version {}", entry.item_id, entry.version)),
        ("tenant", entry.tenant_id.clone()),
        ("collection", entry.collection_id.clone()),
        ("priority", priority(entry.priority, &word(&entry.band))),
        (
            "due",
            match entry.decided_at {
                Some(_) => moment(entry.sla.deadline),
                None => format!("{} ({})", due(&entry.sla), moment(entry.sla.deadline)),
            },
        ),
        ("with", or_nothing(entry.assigned_to.as_ref())),
        ("since", or_nothing(entry.assigned_at.map(moment))),
        ("held until", or_nothing(entry.lease_expires_at.map(moment))),
        (
            "token",
            or_nothing(entry.lease_token.as_ref().map(|token| token.0)),
        ),
        (
            "came back",
            match entry.retry_count {
                0 => String::new(),
                1 => "once, unfinished".to_owned(),
                times => format!("{times} times, unfinished"),
            },
        ),
        ("decided", or_nothing(entry.decided_at.map(moment))),
        ("decided by", or_nothing(entry.decided_by.as_ref())),
        ("reason", or_nothing(entry.reason.as_ref())),
        ("file", or_nothing(entry.filename.as_ref())),
        ("content", or_nothing(entry.content_url.as_ref())),
        ("to see", or_nothing(entry.display_payload.as_ref())),
    ]);
    if !entry.fields.is_empty() {
        text.push_str(&table(
            ["field", "value", "confidence", "by", "the machine says"],
            entry.fields.iter().map(|field| {
                let by = field.corrected_by.clone().unwrap_or_else(|| "machine".to_owned());
                [
                    field.name.clone(),
                    field.value.to_string(),
                    or_nothing(field.confidence),
                    if field.locked {
                        format!("{by} (locked)")
                    } else {
                        by
                    },
                    or_nothing(field.machine_value.as_ref()),
                ]
            }),
        ));
    }
    text
}

pub(super) fn explanation(explained: &Explanation) -> String {
    let mut text = String::new();
    for reason in &explained.reasons {
        text.push_str(&format!("{reason}\n"));
    }
    let (parts, weights) = (&explained.parts, &explained.weights);
    let part = |name: &str, points: f64, weight: f64| {
        [name.to_owned(), format!("{points:.1}"), format!("{weight:.0}")]
    };
    text.push_str(&table(
        ["part", "points", "weight"],
        [
            part("confidence", parts.confidence, weights.confidence),
            part("deadline", parts.deadline, weights.deadline),
            part("complexity", parts.complexity, weights.complexity),
            part("value", parts.value, weights.value),
            [
                "priority".to_owned(),
                format!("{:.1}", explained.priority),
                word(&explained.band),
            ],
        ]
        .into_iter(),
    ));
    let end = match explained.status.is_open() {
        true => format!(
            "\nDue {} ({}).",
            due(&explained.sla),
            moment(explained.sla.deadline)
        ),
        false => String::new(),
    };
    text + &end
}

pub(super) fn empty(empty: &Empty) -> String {
    let mut text = format!("No review for you: {}.", empty.detail);
    if empty.pending + empty.in_review > 0 {
        text.push_str(&format!(
            "\n{} pending, {} in hands.",
            empty.pending, empty.in_review
        ));
    }
    if let Some(at) = empty.next_lease_ends_at {
        text.push_str(&format!("\nThe next may come back at {}.", moment(at)));
    }
    text
}

/// A no about one review.
pub(super) fn refusal(error: &EntryError) -> String {
    match (&error.assigned_to, error.lease_expires_at) {
        (Some(_), Some(until)) => format!("{}, until {}", error.detail, moment(until)),
        _ => error.detail.clone(),
    }
}

fn age(seconds: Option<u64>) -> String {
    seconds.map(span).unwrap_or_default()
}

fn overdue(stats: &Stats) -> String {
    match stats.more_overdue {
        true => format!("{} or more", stats.overdue),
        false => stats.overdue.to_string(),
    }
}

pub(super) fn stats(stats: &Stats) -> String {
    let counts = &stats.counts;
    facts(&[
        ("collection", stats.collection_id.clone()),
        ("tenant", stats.tenant_id.clone()),
        (
            "paused",
            if stats.paused {
                "yes".to_owned()
            } else {
                String::new()
            },
        ),
        ("pending", counts.pending.to_string()),
        ("in review", counts.in_review.to_string()),
        ("overdue", overdue(stats)),
        ("oldest waits", age(stats.oldest_pending_age_seconds)),
        ("approved", counts.approved.to_string()),
        ("corrected", counts.corrected.to_string()),
        ("rejected", counts.rejected.to_string()),
        ("failed", counts.failed.to_string()),
    ])
}

pub(super) fn stats_table(all: &[Stats]) -> String {
    if all.is_empty() {
        return "There are no collections.".to_owned();
    }
    table(
        [
            "collection",
            "pending",
            "in review",
            "overdue",
            "oldest waits",
            "approved",
            "corrected",
            "rejected",
            "failed",
        ],
        all.iter().map(|stats| {
            let counts = &stats.counts;
            [
                match stats.paused {
                    true => format!("{} (paused)", stats.collection_id),
                    false => stats.collection_id.clone(),
                },
                counts.pending.to_string(),
                counts.in_review.to_string(),
                overdue(stats),
                age(stats.oldest_pending_age_seconds),
                counts.approved.to_string(),
                counts.corrected.to_string(),
                counts.rejected.to_string(),
                counts.failed.to_string(),
            ]
        }),
    )
}

pub(super) fn workload(workload: &Workload) -> String {
    if workload.reviewers.is_empty() {
        return "Nobody reviews here yet.".to_owned();
    }
    table(
        [
            "reviewer",
            "name",
            "available",
            "in hand",
            "capacity",
            "decided today",
            "mean seconds",
        ],
        workload.reviewers.iter().map(|one| {
            [
                one.reviewer_id.clone(),
                one.name.clone(),
                if one.available { "yes" } else { "no" }.to_owned(),
                one.in_review.to_string(),
                or_nothing(one.capacity),
                one.decided_today.to_string(),
                or_nothing(one.mean_seconds.map(|seconds| format!("{seconds:.1}"))),
            ]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_said_in_two_units() {
        for (seconds, said) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (61, "1 min 1 s"),
            (7_200, "2 h"),
            (11_520, "3 h 12 min"),
            (90_000, "1 d 1 h"),
            (86_401, "1 d"),
        ] {
            assert_eq!(span(seconds), said);
        }
    }
}
