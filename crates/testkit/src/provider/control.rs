//! How a provider is told to behave.

use std::collections::{BTreeMap, VecDeque};

use docket_core::content::Digest;
use serde::{Deserialize, Serialize};

use super::Mode;

/// How a provider behaves, from now on. Sent as JSON to `POST /control`, it replaces what was said before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// What it does with the next messages, one after the other.
    pub next: VecDeque<Mode>,
    /// With all others: one mode for all, or one of several by the seed.
    pub modes: Vec<Mode>,
    /// Chooses among several: by it, the message's token and how often that was sent, so that the order of arrival does not count.
    pub seed: u64,
    /// From this attempt at a token on it accepts, whatever the modes say; 0 for never.
    pub accept_from: u64,
    /// Whether a token that it has taken has no second effect.
    pub dedupe: bool,
    /// The `Retry-After` of a 429 or 503.
    pub retry_after: Option<String>,
    /// How long a lookup takes.
    pub lookup_delay_ms: u64,
    /// How old an effect has to be before a lookup finds it.
    pub lookup_lag_ms: i64,
    /// Lookups answer 503.
    pub lookup_fails: bool,
    /// Lookups answer 200 with words that are no JSON.
    pub lookup_babbles: bool,
    /// How old a message may be by its `webhook-timestamp`; an older one is not taken, and its connection is broken. Without it a provider on
    /// a busy machine may take a message long after it has said that it does not know it. 0 for any age.
    pub age_max_ms: i64,
}

impl Control {
    /// This mode for every message.
    pub fn always(mode: Mode) -> Self {
        Self {
            modes: vec![mode],
            ..Self::default()
        }
    }

    /// The mode of the next message.
    pub(super) fn mode(&mut self, token: &str, attempts: &mut BTreeMap<String, u64>) -> Mode {
        let attempt = attempts.entry(token.to_owned()).or_default();
        *attempt += 1;
        if self.accept_from > 0 && *attempt >= self.accept_from {
            return Mode::Accept;
        }
        if let Some(mode) = self.next.pop_front() {
            return mode;
        }
        let draw = Digest::of(format!("{}/{token}/{attempt}", self.seed).as_bytes());
        let draw = usize::from(u16::from_be_bytes([draw.bytes()[0], draw.bytes()[1]]));
        match self.modes.len() {
            0 => Mode::Accept,
            count => self.modes[draw % count],
        }
    }
}
