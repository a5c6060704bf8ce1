//! The tuned operations on PostgreSQL: one statement each, for any number of entries.
//!
//! Lock order: holds, sorted by lane and number, then lanes, sorted; claims lock lanes only, and skip those that are locked.
//! No two of the intermediate results are joined with each other, since those have no index.

pub(super) mod claim;
pub(super) mod heartbeat;
pub(super) mod settle;
pub(super) mod submit;
