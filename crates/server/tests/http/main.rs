//! The server's calls, in process, on both databases: right, by the wrong role, of the wrong tenant, malformed, too large, repeated.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod access;
mod administration;
mod bodies;
mod connections;
mod events;
mod hostile;
mod insights;
mod intake;
mod notifications;
mod openapi;
mod problems;
mod review_overview;
mod review_refusals;
mod reviewers;
mod reviews;
mod site;
mod uploads;
mod work;
