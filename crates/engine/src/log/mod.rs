//! The log: reading it, following it (rule L4), and proving it (rule L2).

mod export;
mod follow;
pub(crate) mod read;
pub(crate) mod seal;
pub(crate) mod tail;
mod verify;

pub use export::AuditExport;
pub use follow::Follower;
pub use read::{LogFilter, LogPage, LogQuery};
pub use verify::AuditFault;
