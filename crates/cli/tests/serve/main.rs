//! `docket serve` as a real process: its start and end, uploads, the live log, several servers, servers under load, servers that die on the way of a
//! message, and what moves in.

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]

mod backfill;
mod bench;
mod events;
mod outbox;
mod proxy;
mod reviews;
mod s3;
mod serving;
mod shared;
mod start;
mod stop;
#[cfg(feature = "otlp")]
mod traces;
mod under_load;
mod uploads;
