//! Mail by SMTP.
//!
//! SMTP can neither say what it has nor recognise a repeat: what is unknown stays unknown, and policy decides. So the one moment
//! of doubt is kept as small as the protocol allows: from the end of the data to the server's answer. Before it the server has
//! no message to deliver; after it, it has said yes or no.
//!
//! Deliberately absent: a pool of connections (each mail has its own, so that a failure is this mail's), and DKIM, which is the
//! mail server's.

mod config;
mod dialogue;
mod render;

use std::time::Duration;

use docket_core::notify::{ChannelKind, DeliveryToken, Message, Recipient};
use docket_core::refusal::{Refusal, Refused};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::{Abilities, Channel, ConfigError, Found, Frozen, Sent, Words};

pub use config::{EmailConfig, Encryption};

/// Mail by SMTP.
#[derive(Debug)]
pub struct EmailChannel {
    config: EmailConfig,
    server: dialogue::Server,
}

impl EmailChannel {
    /// A channel by these settings. Nothing is connected yet.
    pub fn new(config: EmailConfig) -> Result<Self, ConfigError> {
        let server = dialogue::Server::new(&config)?;
        Ok(Self { config, server })
    }
}

impl Channel for EmailChannel {
    fn kind(&self) -> ChannelKind {
        ChannelKind::Email
    }

    fn patience(&self) -> Duration {
        self.config.timeout * 2
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            idempotent_for: None,
            lookup: None,
            on_unknown: self.config.on_unknown,
        }
    }

    fn render(&self, message: &Message, recipient: &Recipient, token: &DeliveryToken) -> Refused<Frozen> {
        let Recipient::Email(address) = recipient else {
            return Err(Refusal::invalid("recipient", "is no e-mail address"));
        };
        Ok(Frozen {
            token: token.clone(),
            recipient: recipient.clone(),
            headers: Vec::new(),
            body: render::mail(&self.config.from, message, address, token)?,
        })
    }

    fn send<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Sent> {
        async move {
            let Recipient::Email(address) = &frozen.recipient else {
                return Sent::Permanent {
                    gone: false,
                    words: Words::new("the recipient is no e-mail address"),
                };
            };
            let id = render::message_id(&self.config.from, &frozen.token);
            self.server.send(address, &frozen.body, id).await
        }
        .boxed()
    }

    fn lookup<'a>(&'a self, _token: &'a DeliveryToken) -> BoxFuture<'a, Found> {
        let words = Words::new("an SMTP server cannot be asked what it has sent");
        let found = Found::Unknown {
            retry_after: None,
            words,
        };
        std::future::ready(found).boxed()
    }
}
