//! Moving in: `docket backfill` as a real process, against a real server, from real files and a real PostgreSQL (rule A5).

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]

#[path = "../serving/mod.rs"]
mod serving;

mod killed;
mod lines;
mod site;
mod table;
