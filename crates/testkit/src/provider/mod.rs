//! A provider that misbehaves on demand: an HTTP server, as a process of its own, that receives webhooks, keeps what it did in a
//! ledger on disk, and answers as it was told.
//!
//! An *effect* is what a receiver does once for each message that it takes: a line in the ledger, on the disk before any answer.
//! Two lines with one token are a message that somebody was told twice.

mod control;
mod ledger;
mod mode;
mod process;
mod request;
mod serve;

pub use control::Control;
pub use ledger::{Effect, read_ledger};
pub use mode::Mode;
pub use process::ProviderProcess;
pub use serve::serve;
