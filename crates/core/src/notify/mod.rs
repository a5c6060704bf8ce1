//! Telling people (rules N1–N11): whom, what, and by which token.
//!
//! These are the checked values that every part of the way shares: the call that asks for a notification, the row that keeps
//! it, and the channel that sends it. How a channel sends is the business of the crate `notify`.

mod message;
mod recipient;
mod token;

use serde::{Deserialize, Serialize};

pub use message::{BODY_MAX, Message, SUBJECT_MAX};
pub use recipient::{ChannelKind, EmailAddress, FileLabel, RECIPIENT_MAX, Recipient, WebhookUrl};
pub use token::DeliveryToken;

/// What becomes of a delivery of which nobody can tell whether it was sent (rule N6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It waits for an operator.
    #[default]
    Hold,
    /// It is sent again, and may arrive twice.
    Resend,
}

impl OnUnknown {
    /// Its word, in configuration, metrics and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Resend => "resend",
        }
    }

    /// Read back from storage.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Hold, Self::Resend]
            .into_iter()
            .find(|policy| policy.as_str() == word)
    }
}
