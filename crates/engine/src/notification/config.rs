//! How the outbox works.

use std::sync::Arc;

use docket_core::notification::{Ability, RetryPolicy};
use docket_core::notify::{ChannelKind, Recipient};
use docket_notify::{Channel, Channels};
use docket_store::table::delivery::Delivery;

/// A moment of a delivery's way, for tests that end a process there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryPoint {
    /// The intent is committed and nothing was sent.
    AfterIntent,
    /// The provider has taken the message.
    AfterAccepted,
    /// The mark is about to be written.
    BeforeMark,
}

/// Called at each moment of a delivery's way.
pub type DeliveryProbe = Arc<dyn Fn(DeliveryPoint) + Send + Sync>;

/// How the outbox works.
#[derive(Clone)]
pub struct OutboxConfig {
    /// The channels of this server.
    pub channels: Channels,
    /// How long a send or a look-up is its server's; no send lasts longer.
    pub lease_ms: i64,
    /// How many messages of a channel are on their way at once, from one server.
    pub per_channel: usize,
    /// How many of them to one host.
    pub per_destination: usize,
    /// When to try again, and how often.
    pub retry: RetryPolicy,
    /// Who is told, beside the log and the metrics, of what a person has to look at.
    pub alerts: Vec<String>,
    /// Called at each moment of a delivery's way; for tests.
    pub probe: Option<DeliveryProbe>,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self {
            channels: Channels::default(),
            lease_ms: 180_000,
            per_channel: 256,
            per_destination: 16,
            retry: RetryPolicy::default(),
            alerts: Vec::new(),
            probe: None,
        }
    }
}

impl std::fmt::Debug for OutboxConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxConfig")
            .field("channels", &self.channels)
            .field("lease_ms", &self.lease_ms)
            .finish_non_exhaustive()
    }
}

impl OutboxConfig {
    /// The channel of this word.
    pub(crate) fn channel(&self, word: &str) -> Option<&Arc<dyn Channel>> {
        let kind = ChannelKind::ALL.into_iter().find(|kind| kind.as_str() == word)?;
        self.channels.get(kind)
    }

    /// The words of the channels that this server has.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        ChannelKind::ALL
            .into_iter()
            .filter(|kind| self.channels.get(*kind).is_some())
            .map(ChannelKind::as_str)
    }

    /// How many messages may be on their way to one host: a file is nobody's host.
    pub(crate) fn room_of(&self, channel: &str) -> usize {
        match channel == ChannelKind::File.as_str() {
            true => self.per_channel,
            false => self.per_destination,
        }
    }

    pub(crate) fn probe(&self, point: DeliveryPoint) {
        if let Some(probe) = &self.probe {
            probe(point);
        }
    }
}

/// What a channel can promise for a delivery, in the core's terms.
pub(crate) fn ability(channel: &dyn Channel, delivery: &Delivery) -> Ability {
    let has = channel.abilities();
    let ms = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let knows = Recipient::parse(&delivery.recipient).is_ok_and(|recipient| channel.knows(&recipient));
    Ability {
        lookup_lag_ms: has.lookup.filter(|_| knows).map(|lookup| ms(lookup.lag)),
        dedupe_ms: has.idempotent_for.map(ms),
        on_unknown: delivery.on_unknown.unwrap_or(has.on_unknown),
    }
}
