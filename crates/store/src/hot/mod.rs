//! The tuned operations: submit, claim, settle and heartbeat, each one statement on PostgreSQL and a short loop within the
//! writer's transaction on SQLite. Both keep the same contract, which the conformance suite checks; everything else is
//! portable and lives in [`crate::table`].

mod claim;
mod heartbeat;
mod postgres;
mod settle;
mod sqlite;
mod submit;

pub use claim::{ClaimRequest, Claimed, Claims, claim, stand_in_line};
pub use heartbeat::{Beat, heartbeat};
pub use settle::{Output, Settle, SettleTo, Settled, Settlement, settle};
pub use submit::{NewItem, Submission, submit};

use crate::statement::Statement;

pub(crate) static STATEMENTS: &[&[&Statement]] = &[
    postgres::claim::STATEMENTS,
    postgres::heartbeat::STATEMENTS,
    postgres::settle::STATEMENTS,
    postgres::submit::STATEMENTS,
    sqlite::claim::STATEMENTS,
    sqlite::heartbeat::STATEMENTS,
    sqlite::settle::STATEMENTS,
    sqlite::submit::STATEMENTS,
];
