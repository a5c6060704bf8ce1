//! Docket's use cases, written once for both databases: intake, lanes and processing.
//!
//! Each use case is one operation: it becomes one transaction, which writes state, log and counts together. What may happen is
//! decided by `docket-core`; what is written is `docket-store`'s. Hints to those who wait are fired after the commit.
//!
//! Deliberately absent: HTTP, authentication and SQL.

mod admin;
pub mod background;
mod batch;
mod blob;
mod definition;
mod doctor;
mod engine;
mod intake;
mod processing;
mod view;
mod wait;

pub use admin::collection::CollectionSettings;
pub use admin::pause::PauseTarget;
pub use blob::BlobConfig;
pub use docket_store::table::log::{Entry, LogPosition};
pub use docket_store::table::pause::{Pause, PauseScope};
pub use docket_store::{Error, PostgresConfig, Result, StoreConfig};
pub use engine::{Engine, EngineConfig};
pub use intake::submit::{Submit, SubmitAnswer, SubmitItem, SubmittedItem};
pub use intake::upload::{Upload, UploadRequest, UploadStart};
pub use processing::claim::{Claim, ClaimedJob, ClaimedStep};
pub use processing::complete::{Complete, Completed};
pub use processing::fail::{Fail, Failed};
pub use processing::heartbeat::Heartbeat;
pub use processing::reap::Reaped;
pub use processing::release::Release;
pub use processing::step::StepDone;
pub use view::explain::{Explanation, Holder};
pub use view::item::{ItemFilter, ItemPage, ItemView, JobView, StepView};
