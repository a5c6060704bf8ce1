//! The status of a notification, derived from its deliveries (rule N9) and stored nowhere.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Course, DeliveryState};
use crate::clock::Timestamp;

/// What has become of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationStatus {
    /// Nothing was tried yet.
    Pending,
    /// Something is on its way.
    InProgress,
    /// All required recipients were told.
    Succeeded,
    /// What is missing waits for its next try, or for a person's word.
    RetryableFailed,
    /// What is missing will not be sent unless a person says so.
    Failed,
    /// Everything that was required was taken back.
    Cancelled,
}

impl NotificationStatus {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::InProgress,
        Self::Succeeded,
        Self::RetryableFailed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The one of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Succeeded => "succeeded",
            Self::RetryableFailed => "retryable_failed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for NotificationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a required delivery contributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Untouched,
    Moving,
    Told,
    Waiting,
    Given,
    Cancelled,
}

fn part(state: DeliveryState, is_told: bool, was_tried: bool) -> Part {
    match state {
        // Also where it is being sent once more, and whatever becomes of that.
        _ if is_told => Part::Told,
        // A state without a moment at which they were told does not count.
        DeliveryState::Sent => Part::Moving,
        DeliveryState::Pending if !was_tried => Part::Untouched,
        DeliveryState::Pending | DeliveryState::Held => Part::Waiting,
        DeliveryState::Sending | DeliveryState::Unknown | DeliveryState::Reconciling => Part::Moving,
        DeliveryState::Failed => Part::Given,
        DeliveryState::Cancelled => Part::Cancelled,
    }
}

/// The status of a notification whose required deliveries are these: the state of each, whether its recipient was told, and whether it
/// was tried. Optional recipients never count.
pub fn status_of_whole(
    required: impl IntoIterator<Item = (DeliveryState, bool, bool)>,
) -> NotificationStatus {
    let parts: Vec<Part> = required
        .into_iter()
        .map(|(state, is_told, was_tried)| part(state, is_told, was_tried))
        .collect();
    let any = |wanted: Part| parts.contains(&wanted);
    let all = |wanted: Part| parts.iter().all(|part| *part == wanted);
    if parts.is_empty() {
        // The transaction that makes it has not written its deliveries yet.
        NotificationStatus::Pending
    } else if all(Part::Told) {
        NotificationStatus::Succeeded
    } else if all(Part::Untouched) {
        NotificationStatus::Pending
    } else if any(Part::Moving) || any(Part::Untouched) {
        NotificationStatus::InProgress
    } else if any(Part::Waiting) {
        NotificationStatus::RetryableFailed
    } else if any(Part::Given) || any(Part::Told) {
        NotificationStatus::Failed
    } else {
        NotificationStatus::Cancelled
    }
}

/// When the last of a notification's deliveries, the optional ones among them, came to its end; none while one of them has not.
pub fn end_of_whole<'a>(all: impl IntoIterator<Item = &'a Course>) -> Option<Timestamp> {
    let ends: Option<Vec<Timestamp>> = all.into_iter().map(Course::end).collect();
    ends?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::DeliveryState::*;
    use super::*;

    #[test]
    fn the_whole_has_succeeded_when_all_required_recipients_were_told() {
        use NotificationStatus as S;
        let told = (Sent, true, true);
        let tried = |state| (state, false, true);
        let fresh = (Pending, false, false);
        for (parts, status) in [
            (vec![told], S::Succeeded),
            (vec![told, told], S::Succeeded),
            (vec![], S::Pending),
            (vec![fresh], S::Pending),
            (vec![fresh, fresh], S::Pending),
            (vec![told, fresh], S::InProgress),
            (vec![told, tried(Sending)], S::InProgress),
            (vec![tried(Unknown)], S::InProgress),
            (vec![tried(Reconciling), told], S::InProgress),
            (vec![(Sent, false, true)], S::InProgress),
            (vec![told, tried(Pending)], S::RetryableFailed),
            (vec![told, tried(Held)], S::RetryableFailed),
            (vec![tried(Failed), tried(Pending)], S::RetryableFailed),
            (vec![tried(Failed), tried(Sending)], S::InProgress),
            (vec![told, tried(Failed)], S::Failed),
            (vec![tried(Failed), (Cancelled, false, false)], S::Failed),
            (vec![told, (Cancelled, false, false)], S::Failed),
            (vec![(Cancelled, false, false)], S::Cancelled),
            (vec![(Pending, true, true)], S::Succeeded),
            (vec![told, (Failed, true, true), (Held, true, true)], S::Succeeded),
            (vec![(Cancelled, true, true), tried(Held)], S::RetryableFailed),
        ] {
            assert_eq!(status_of_whole(parts.clone()), status, "{parts:?}");
        }
    }

    #[test]
    fn statuses_are_read_back_from_their_words() {
        for status in NotificationStatus::ALL {
            assert_eq!(NotificationStatus::from_word(status.as_str()), Some(status));
        }
        assert_eq!(NotificationStatus::from_word("sent"), None);
    }

    #[test]
    fn the_whole_has_ended_with_the_last_of_its_deliveries() {
        let at = Timestamp::from_ms;
        let ended = |ms| {
            let mut course = Course::new(at(0));
            course.cancel(at(ms)).unwrap();
            course
        };
        assert_eq!(end_of_whole(&[ended(5), ended(9), ended(7)]), Some(at(9)));
        assert_eq!(end_of_whole(&[ended(5), Course::new(at(0))]), None);
        assert_eq!(end_of_whole(&[]), None);
    }

    #[test]
    fn no_set_of_deliveries_succeeds_while_one_is_not_told() {
        for first in DeliveryState::ALL {
            for second in DeliveryState::ALL {
                let parts = [(first, first == Sent, true), (second, false, true)];
                assert_ne!(
                    status_of_whole(parts),
                    NotificationStatus::Succeeded,
                    "{first} {second}"
                );
            }
        }
    }
}
