//! Notifications: the states of a delivery, what is done with it before and after each try, the status of the whole, and the token that
//! a message is sent with (rules N1 to N9).
//!
//! A delivery's [`Course`] is what changes while it is on its way. Those who work on it read it under its lock, turn it by the rules
//! here, and write it back.

mod course;
mod recipients;
mod rule;
mod token;
mod version;
mod whole;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, Refused};

pub use course::{Ability, Answer, Course, Found, RetryPolicy, Step};
pub use recipients::{RECIPIENTS_MAX, destination, read_recipients};
pub use rule::{NotifyRule, SUBJECT_TEMPLATE_MAX};
pub use token::delivery_token;
pub use version::{VersionStands, version_stands};
pub use whole::{NotificationStatus, end_of_whole, status_of_whole};

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits for its first try, or for the next.
    Pending,
    /// The intent is committed; somebody sends it.
    Sending,
    /// It may have been sent; the provider is asked before anything else.
    Unknown,
    /// It may have been sent and nobody can tell: a person has to say what happens.
    Held,
    /// The provider has taken it.
    Sent,
    /// It will not be sent unless a person says so.
    Failed,
    /// It counts as sent, and that is being looked into.
    Reconciling,
    /// A person took it back.
    Cancelled,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Sending,
        Self::Unknown,
        Self::Held,
        Self::Sent,
        Self::Failed,
        Self::Reconciling,
        Self::Cancelled,
    ];

    /// Those in which something may have been sent, or counts as sent, and a provider or a person has to say.
    pub const UNSURE: [Self; 3] = [Self::Unknown, Self::Held, Self::Reconciling];

    /// As it is stored.
    pub const fn code(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::Sending => 1,
            Self::Unknown => 2,
            Self::Held => 3,
            Self::Sent => 4,
            Self::Failed => 5,
            Self::Reconciling => 6,
            Self::Cancelled => 7,
        }
    }

    /// Read back from storage.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// Whether it has come to its end, unless a person wants it sent all the same or once more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Sent | Self::Failed | Self::Cancelled)
    }

    /// Whether somebody may have to look at it.
    pub const fn is_for_people(self) -> bool {
        matches!(
            self,
            Self::Unknown | Self::Held | Self::Failed | Self::Reconciling
        )
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Unknown => "unknown",
            Self::Held => "held",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Reconciling => "reconciling",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for DeliveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DeliveryState {
    type Err = Refusal;

    fn from_str(text: &str) -> Refused<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let words = Self::ALL.map(Self::as_str).join(", ");
                Refusal::invalid("status", format!("must be one of {words}"))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_from_their_codes_and_words() {
        for state in DeliveryState::ALL {
            assert_eq!(DeliveryState::from_code(state.code()), Some(state));
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert_eq!(DeliveryState::from_code(8), None);
        assert!("told".parse::<DeliveryState>().is_err());
    }
}
