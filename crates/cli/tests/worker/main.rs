//! `docket worker` and the commands that ask a server, as real processes against a real server over HTTP.

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]
#![expect(clippy::panic, reason = "a test panics where it cannot go on")]

mod ends;
mod insights;
mod modes;
mod once;
mod remote;
mod site;
