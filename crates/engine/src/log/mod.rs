//! The log: reading it, following it (rule L4), and proving it (rule L2).

mod follow;
pub(crate) mod read;
pub(crate) mod tail;

pub use follow::Follower;
pub use read::{LogFilter, LogPage, LogQuery};
