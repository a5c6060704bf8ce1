//! Servers under load, over HTTP: they share lanes exactly (P1–P3), and nothing acknowledged is lost when one is killed (A3).

mod drained;
mod given;
mod killed;
mod load;
mod shared;
