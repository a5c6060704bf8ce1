//! The tuned operations on PostgreSQL: one statement each, for any number of entries.
//!
//! Lock order: holds, sorted by lane and number, then lanes, sorted; claims lock lanes only, and skip those that are locked.
//!
//! A lane has one row and, while some transaction is open for long, hundreds of dead versions of it. So it is looked up by key and turn,
//! newest first, and updated from that turn on (`served >=`): a version that is made meanwhile has the same turn or a later one, since
//! only claims change it, and only upwards.
//!
//! No two of the intermediate results are joined with each other, since those have no index.

pub(super) mod claim;
pub(super) mod heartbeat;
pub(super) mod settle;
pub(super) mod submit;
