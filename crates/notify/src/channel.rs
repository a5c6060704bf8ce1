//! What every channel is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use docket_core::notify::{ChannelKind, DeliveryToken, Message, OnUnknown, Recipient};
use docket_core::refusal::Refused;
use futures_util::future::BoxFuture;

use crate::{Found, Sent};

/// No channel's send or lookup takes longer, whatever its time-out is set to.
pub const SEND_MAX: Duration = Duration::from_secs(150);

/// One way to tell somebody.
pub trait Channel: fmt::Debug + Send + Sync + 'static {
    /// Which way it is.
    fn kind(&self) -> ChannelKind;

    /// How long a send usually lasts at the most, by the channel's time-outs.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// What it can promise.
    fn abilities(&self) -> Abilities;

    /// Whether the lookup knows what was sent to this recipient: an answer about somebody else's messages proves nothing.
    fn knows(&self, recipient: &Recipient) -> bool {
        recipient.channel() == self.kind()
    }

    /// What would be sent to this recipient. Pure: the same arguments give the same bytes, today and after a restart, as
    /// long as the configuration is the same. Refused for a recipient of another channel.
    fn render(&self, message: &Message, recipient: &Recipient, token: &DeliveryToken) -> Refused<Frozen>;

    /// Sends what was frozen, once. It ends within [`SEND_MAX`]. Dropped in the middle, it may have sent.
    fn send<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Sent>;

    /// Asks whether something was sent under this token. A channel whose abilities name no lookup answers
    /// [`Found::Unknown`]. An answer that is younger than the lookup's lag proves no absence.
    fn lookup<'a>(&'a self, token: &'a DeliveryToken) -> BoxFuture<'a, Found>;
}

/// What a channel can promise (rule N6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// For how long after a first send the receiving end takes a repeat of the token for the same delivery. None: it may act twice.
    pub idempotent_for: Option<Duration>,
    /// Whether it can be asked about a token. None: it cannot tell.
    pub lookup: Option<Lookup>,
    /// What is done with what is unknown, unless the collection says otherwise. It counts only where neither of the above helps.
    pub on_unknown: OnUnknown,
}

/// A channel's answer to "was it sent?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// How long after a send the answer may still be "absent" although it was sent.
    pub lag: Duration,
}

/// What is sent, byte by byte: rendered once, kept with the intent, and the same at every attempt (rule N4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// The delivery's token.
    pub token: DeliveryToken,
    /// To whom.
    pub recipient: Recipient,
    /// Headers beside the body: those of a webhook's request that do not change from one attempt to the next. A mail has its
    /// headers in the body.
    pub headers: Vec<(String, String)>,
    /// The whole mail, the request's body, or the line.
    pub body: Vec<u8>,
}

/// The channels of a deployment, at most one of each kind.
#[derive(Clone, Debug, Default)]
pub struct Channels(Vec<Arc<dyn Channel>>);

impl Channels {
    /// These channels; of two of one kind the later counts.
    pub fn new(channels: impl IntoIterator<Item = Arc<dyn Channel>>) -> Self {
        let mut all = Self::default();
        for channel in channels {
            all.0.retain(|other| other.kind() != channel.kind());
            all.0.push(channel);
        }
        all
    }

    /// The kinds there are.
    pub fn kinds(&self) -> Vec<ChannelKind> {
        self.0.iter().map(|channel| channel.kind()).collect()
    }

    /// The channel of this kind, if the deployment has one.
    pub fn get(&self, kind: ChannelKind) -> Option<&Arc<dyn Channel>> {
        self.0.iter().find(|channel| channel.kind() == kind)
    }
}
