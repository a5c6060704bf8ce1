//! Docket's wire contract: every request and answer of the HTTP API as a type.
//!
//! The server reads and writes these types, the client writes and reads them, and the OpenAPI document is made from them: there is
//! one description of the contract. JSON is camelCase; times are RFC 3339 in UTC ([`time::Time`]); ids are UUIDs. Requests refuse
//! properties that they do not know; answers may grow, so whoever reads them passes over what is new.
//!
//! Names, texts and numbers are checked by `docket-core` when a request is turned into the engine's words, not here: a request that
//! can be read is well formed, which does not mean that it is right.
//!
//! Whether a text can be read at all without losing a number or all memory is told by [`json`], for whoever reads one.
//!
//! With the feature `openapi` the types carry their schemas.
//!
//! Deliberately absent: rules, and HTTP.

pub mod batch;
pub mod collection;
pub mod field;
pub mod insight;
pub mod item;
pub mod job;
pub mod json;
pub mod key;
pub mod limit;
pub mod log;
pub mod notification;
pub mod page;
pub mod pause;
pub mod pipeline;
pub mod problem;
pub mod review;
pub mod reviewer;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod tenant;
pub mod time;
mod whole;

pub use batch::{EntryError, Outcome, Results};
pub use page::Page;
pub use problem::{Code, Problem};
pub use time::Time;
