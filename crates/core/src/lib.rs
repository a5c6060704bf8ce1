//! The rules Docket keeps, as pure functions and plain types.
//!
//! Nothing here performs I/O, reads a clock or draws a random number by itself: time and randomness
//! come in as values or through [`clock::Clock`] and [`random::Random`], so that every rule can be
//! tested as a table of cases. Storing, locking and telling the outside are other crates' business.

pub mod access;
pub mod backoff;
pub mod clock;
pub mod content;
pub mod field;
pub mod id;
pub mod insight;
pub mod item;
pub mod job;
pub mod lane;
pub mod lease;
pub mod limit;
pub mod log;
pub mod name;
pub mod notification;
pub mod notify;
pub mod pipeline;
pub mod position;
pub mod priority;
pub mod random;
pub mod refusal;
pub mod review;
pub mod scope;
pub mod seal;
pub mod tenant;

pub use clock::{Clock, Timestamp};
pub use refusal::{Refusal, Refused};
