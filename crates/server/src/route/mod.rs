//! The calls, one noun a file. A handler reads, asks the engine once, and writes.

mod batch;
pub(crate) mod collection;
pub(crate) mod compat;
pub(crate) mod content;
pub(crate) mod docs;
pub(crate) mod event;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod insight;
mod insight_view;
pub(crate) mod item;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod limit;
pub(crate) mod log;
pub(crate) mod notification;
pub(crate) mod pause;
pub(crate) mod pipeline;
pub(crate) mod review;
pub(crate) mod reviewer;
pub(crate) mod submit;
pub(crate) mod tenant;
pub(crate) mod upload;
mod view;
