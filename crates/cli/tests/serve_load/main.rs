//! Servers under load, over HTTP: they share lanes exactly (P1–P3), and nothing acknowledged is lost when one is killed (A3).

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]

#[path = "../serving/mod.rs"]
mod serving;

mod drained;
mod given;
mod killed;
mod load;
mod shared;
