//! Docket's client: every call of the contract with its types, and the loop of a worker.
//!
//! ```no_run
//! # async fn run() -> docket_client::Result<()> {
//! use docket_client::Client;
//! use docket_client::wire::tenant::TenantPut;
//!
//! let client = Client::new("http://127.0.0.1:7700", Some("dk_…".to_owned()))?;
//! let put = TenantPut { tier: "pro".to_owned(), uploads_per_hour: None, concurrent_jobs: None };
//! client.tenant_put("acme", &put).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client`] makes calls. What is safe to repeat is repeated ([`RetryPolicy`]): reads, calls with an idempotency key, which
//!   creating calls are given here, and words about a job, which carry its token. Nothing else is.
//! - [`ClientError`] tells a no of the server ([`Problem`], with its code) from a server that was not reached.
//! - [`worker`] claims, keeps leases alive, and delivers what came of jobs.
//! - [`Events`] is the live log, resumed by itself.
//!
//! **Invariant:** everything is bounded: answers, waits, attempts, what is held.
//!
//! **Invariant:** the key goes to the server that it is for, and into no log.
//!
//! Deliberately absent: rules. What is right is the server's word. Also absent: notifications, which come with their server.

mod call;
mod client;
mod content;
mod error;
mod events;
mod retry;
mod sse;
mod upload;
pub mod worker;

/// The types of the contract.
pub use docket_wire as wire;

pub use call::Answers;
pub use call::insight::InsightFilter;
pub use call::intake::ItemsFilter;
pub use call::log::{AuditFilter, ExportFormat};
pub use call::notification::{DeliveryFilter, NotificationFilter};
pub use client::{Client, ClientOptions};
pub use content::Download;
pub use error::{ClientError, Problem, Result};
pub use events::{Event, Events, EventsFilter};
pub use retry::RetryPolicy;
pub use upload::Upload;
