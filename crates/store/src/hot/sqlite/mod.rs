//! The tuned operations on SQLite: short loops of indexed statements within the writer's transaction, which is alone.

pub(super) mod claim;
pub(super) mod heartbeat;
pub(super) mod settle;
pub(super) mod submit;
