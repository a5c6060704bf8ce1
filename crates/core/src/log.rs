//! The log: what happened, to what, by whom (rule L1), and where an entry stands in it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, Refused};

/// Where an entry stands in the log. Entries are ordered by it, and on the wire it is their id: `tx-id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogPosition {
    /// The transaction, counted over all lives of the database (0 on SQLite).
    pub tx: i64,
    /// The entry.
    pub id: i64,
}

impl LogPosition {
    /// After every entry that there can be.
    pub const LAST: Self = Self {
        tx: i64::MAX,
        id: i64::MAX,
    };
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.tx, self.id)
    }
}

impl FromStr for LogPosition {
    type Err = Refusal;

    fn from_str(text: &str) -> Refused<Self> {
        // Exactly what `Display` writes: digits only, so that one position has one text.
        let number = |part: &str| {
            let plain =
                !part.is_empty() && part.len() <= 19 && part.bytes().all(|byte| byte.is_ascii_digit());
            let plain = plain && (part == "0" || !part.starts_with('0'));
            plain.then(|| part.parse().ok()).flatten()
        };
        let parsed = text.split_once('-').and_then(|(tx, id)| {
            Some(Self {
                tx: number(tx)?,
                id: number(id)?,
            })
        });
        parsed.ok_or_else(|| {
            let problem = "must be the position of a log entry as Docket gave it, such as 1234-56";
            Refusal::invalid("position", problem)
        })
    }
}

impl TryFrom<String> for LogPosition {
    type Error = Refusal;

    fn try_from(text: String) -> Refused<Self> {
        text.parse()
    }
}

impl From<LogPosition> for String {
    fn from(position: LogPosition) -> Self {
        position.to_string()
    }
}

/// What an entry says happened, as `noun.verb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words speak for themselves")]
pub enum Action {
    KeyCreated,
    KeyRevoked,
    TierPut,
    TenantPut,
    CollectionPut,
    PipelinePut,
    PauseSet,
    PauseLifted,
    ItemSubmitted,
    ItemVersioned,
    ItemReprocessed,
    ItemCancelled,
    ItemExpired,
    JobClaimed,
    JobStepCompleted,
    JobCompleted,
    JobFailed,
    JobReleased,
    JobStale,
    JobRetried,
    JobCancelled,
    FieldCorrected,
    FieldKeptLocked,
    ReviewCreated,
    ReviewAssigned,
    ReviewPopped,
    ReviewClaimed,
    ReviewReassigned,
    ReviewReleased,
    ReviewSkipped,
    ReviewReaped,
    ReviewApproved,
    ReviewCorrected,
    ReviewRejected,
    ReviewUndone,
    ReviewCancelled,
    ReviewReopened,
    ReviewsRekeyed,
    ReviewerPut,
    FieldUnlocked,
    FieldRestored,
    NotificationCreated,
    NotificationWithdrawn,
    NotificationExpired,
    NotificationRefused,
    DeliverySending,
    DeliverySent,
    DeliveryUnknown,
    DeliveryRetried,
    DeliveryFailed,
    DeliveryHeld,
    DeliveryReconciling,
    DeliveryReconciled,
    DeliveryResent,
    DeliveryCancelled,
    RecipientStopped,
    RecipientResumed,
}

impl Action {
    /// Its word, part of the wire contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyCreated => "key.created",
            Self::KeyRevoked => "key.revoked",
            Self::TierPut => "tier.put",
            Self::TenantPut => "tenant.put",
            Self::CollectionPut => "collection.put",
            Self::PipelinePut => "pipeline.put",
            Self::PauseSet => "pause.set",
            Self::PauseLifted => "pause.lifted",
            Self::ItemSubmitted => "item.submitted",
            Self::ItemVersioned => "item.versioned",
            Self::ItemReprocessed => "item.reprocessed",
            Self::ItemCancelled => "item.cancelled",
            Self::ItemExpired => "item.expired",
            Self::JobClaimed => "job.claimed",
            Self::JobStepCompleted => "job.step_completed",
            Self::JobCompleted => "job.completed",
            Self::JobFailed => "job.failed",
            Self::JobReleased => "job.released",
            Self::JobStale => "job.stale",
            Self::JobRetried => "job.retried",
            Self::JobCancelled => "job.cancelled",
            Self::FieldCorrected => "field.corrected",
            Self::FieldKeptLocked => "field.kept_locked",
            Self::ReviewCreated => "review.created",
            Self::ReviewAssigned => "review.assigned",
            Self::ReviewPopped => "review.popped",
            Self::ReviewClaimed => "review.claimed",
            Self::ReviewReassigned => "review.reassigned",
            Self::ReviewReleased => "review.released",
            Self::ReviewSkipped => "review.skipped",
            Self::ReviewReaped => "review.reaped",
            Self::ReviewApproved => "review.approved",
            Self::ReviewCorrected => "review.corrected",
            Self::ReviewRejected => "review.rejected",
            Self::ReviewUndone => "review.undone",
            Self::ReviewCancelled => "review.cancelled",
            Self::ReviewReopened => "review.reopened",
            Self::ReviewsRekeyed => "reviews.rekeyed",
            Self::ReviewerPut => "reviewer.put",
            Self::FieldUnlocked => "field.unlocked",
            Self::FieldRestored => "field.restored",
            Self::NotificationCreated => "notification.created",
            Self::NotificationWithdrawn => "notification.withdrawn",
            Self::NotificationExpired => "notification.expired",
            Self::NotificationRefused => "notification.refused",
            Self::DeliverySending => "delivery.sending",
            Self::DeliverySent => "delivery.sent",
            Self::DeliveryUnknown => "delivery.unknown",
            Self::DeliveryRetried => "delivery.retried",
            Self::DeliveryFailed => "delivery.failed",
            Self::DeliveryHeld => "delivery.held",
            Self::DeliveryReconciling => "delivery.reconciling",
            Self::DeliveryReconciled => "delivery.reconciled",
            Self::DeliveryResent => "delivery.resent",
            Self::DeliveryCancelled => "delivery.cancelled",
            Self::RecipientStopped => "recipient.stopped",
            Self::RecipientResumed => "recipient.resumed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back_from_its_text() {
        for (tx, id) in [(0, 1), (12, 34), (i64::MAX, i64::MAX)] {
            let position = LogPosition { tx, id };
            assert_eq!(position.to_string().parse(), Ok(position));
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "01-2",
            "1- 2",
            "+1-2",
            "-1-2",
            "1-9223372036854775808",
            "a-b",
        ] {
            let refused = text.parse::<LogPosition>().unwrap_err();
            assert_eq!(refused.code(), "validation_failed", "{text}");
        }
    }

    #[test]
    fn positions_are_ordered_by_transaction_first() {
        let at = |tx, id| LogPosition { tx, id };
        assert!(at(1, 9) < at(2, 1) && at(2, 1) < at(2, 2) && at(9, 9) < LogPosition::LAST);
    }
}
