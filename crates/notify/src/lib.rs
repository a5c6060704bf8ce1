//! The channels by which people are told: mail, webhooks, and a file (rules N4–N8 and N10).
//!
//! A [`Channel`] renders a message into [`Frozen`] bytes, which are kept before anything is sent, and sends those bytes, never
//! others. It says in [`Abilities`] what it can promise, and answers each send with [`Sent`]: accepted, surely not sent, not now,
//! never, or nobody knows. It claims no more than it can prove; what is done about an answer is the dispatcher's business.
//!
//! Deliberately absent: retries, back-off, storage, and any decision about what is unknown.

mod channel;
mod outcome;
mod words;

pub use channel::{Abilities, Channel, Channels, Frozen, Lookup};
pub use outcome::{Found, Sent};
pub use words::{WORDS_MAX, Words};
