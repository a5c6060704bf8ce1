//! Processing: workers claim jobs, say how they fare, and settle them (rules P1 to P14).

pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod complete;
pub(crate) mod correct;
pub(crate) mod enqueue;
pub(crate) mod fail;
pub(crate) mod heartbeat;
pub(crate) mod reap;
pub(crate) mod release;
pub(crate) mod retry;
pub(crate) mod step;
