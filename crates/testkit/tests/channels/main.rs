//! The channels against what others wrote: a mail server, parsers of mails, and libraries that verify signatures; and against a
//! provider that misbehaves (rules N4–N8 and N10).

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod email;
mod email_faults;
mod installed;
mod mail_server;
mod signatures;
mod webhook;
mod webhook_addresses;

use docket_core::Timestamp;
use docket_core::notify::{DeliveryToken, Message, Recipient};
use docket_notify::{Channel, Frozen};

/// A message as good as any.
fn message() -> Message {
    message_of("Review 7 is done", "It was approved.\n\nRegards\n")
}

fn message_of(subject: &str, body: &str) -> Message {
    Message::new("cl-7", 3, subject, body, Timestamp::from_ms(1_790_000_000_000)).unwrap()
}

fn token(text: &str) -> DeliveryToken {
    DeliveryToken::new(text).unwrap()
}

/// The message, frozen for this recipient under this token.
fn frozen(channel: &dyn Channel, recipient: &str, token_text: &str) -> Frozen {
    let recipient = Recipient::parse(recipient).unwrap();
    channel
        .render(&message(), &recipient, &token(token_text))
        .unwrap()
}
