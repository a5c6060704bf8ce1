//! The channels by which people are told: mail, webhooks, and a file (rules N4–N8 and N10).
//!
//! A [`Channel`] renders a message into [`Frozen`] bytes, which are kept before anything is sent, and sends those bytes, never
//! others. It says in [`Abilities`] what it can promise, and answers each send with [`Sent`]: accepted, surely not sent, not now,
//! never, or nobody knows. It claims no more than it can prove; what is done about an answer is the dispatcher's business.
//!
//! Deliberately absent: retries, back-off, storage, and any decision about what is unknown.

mod channel;
pub mod email;
pub mod file;
mod outcome;
mod retry_after;
mod secret;
pub mod webhook;
mod words;

use std::time::Duration;

pub use channel::{Abilities, Channel, Channels, Frozen, Lookup, SEND_MAX};
pub use outcome::{Found, Sent};
pub use secret::Secret;
pub use words::{WORDS_MAX, Words};

/// A channel's settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// Which setting.
    pub key: &'static str,
    /// What is wrong with it, and what would be right. It never shows a secret.
    pub problem: String,
}

impl ConfigError {
    fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self {
            key,
            problem: problem.into(),
        }
    }
}

/// The shortest and the longest time-out that a channel takes.
const TIMEOUT_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);

fn check_timeout(timeout: Duration) -> Result<(), ConfigError> {
    if TIMEOUT_RANGE.contains(&timeout) {
        return Ok(());
    }
    Err(ConfigError::new("timeout_seconds", "must be from 1 to 60"))
}
