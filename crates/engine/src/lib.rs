//! Docket's use cases, written once for both databases: intake, lanes and processing.
//!
//! Each use case is one operation: it becomes one transaction, which writes state, log and counts together. What may happen is
//! decided by `docket-core`; what is written is `docket-store`'s. Hints to those who wait are fired after the commit.
//!
//! Deliberately absent: HTTP, authentication and SQL.
//!
//! A queue in one process, from an empty folder to a finished item:
//!
//! ```
//! use docket_core::{item::ItemDetails, name::*, pipeline::Pipeline, scope::*, tenant::TenantSettings};
//! use docket_engine::*;
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = std::env::temp_dir().join(format!("docket-example-{}", std::process::id()));
//! let store = StoreConfig::Sqlite(folder.clone()); // or Postgres(PostgresConfig::new("postgres://…"))
//! let engine = Engine::open(EngineConfig::new(store, BlobConfig::Folder(folder.clone()))).await?;
//! let background = engine.start_background(background::Intervals::default()).await?;
//!
//! // Once: a pipeline of two steps, a tenant, a collection.
//! let admin = Operator { actor: Actor::new("admin:ann")? };
//! let (acme, invoices) = (TenantId::new("acme")?, CollectionId::new("invoices")?);
//! let reading = PipelineName::new("reading")?;
//! let steps = vec![StepName::new("ocr")?, StepName::new("extract")?];
//! engine.pipeline_put(&admin, reading.clone(), Pipeline { steps, ..Pipeline::default() }).await?;
//! let tenant = TenantSettings { id: acme.clone(), tier: "pro".into(), uploads: None, concurrent_jobs: None };
//! engine.tenant_put(&admin, tenant).await?;
//! let collection = CollectionSettings {
//!     id: invoices.clone(), tenant: acme.clone(), pipeline: Some(reading.clone()), review: false, settings: json!({}),
//! };
//! engine.collection_put(&admin, collection).await?;
//!
//! // A producer submits.
//! let producer = Scope { tenant: acme, actor: Actor::new("producer:ben")? };
//! let details = ItemDetails { external_id: Some("INV-1".into()), ..ItemDetails::default() };
//! let items = vec![SubmitItem { payload: json!({ "text": "…" }), details }];
//! let answer = engine
//!     .submit(&producer, Submit { collection: invoices, items, idempotency_key: Some("monday".into()) })
//!     .await?;
//! let item = answer.results[0].clone()?;
//!
//! // A worker claims, keeps what each step makes, and completes. Its token is checked every time.
//! let claim = Claim { pipeline: reading, worker: WorkerId::new("w1")?, limit: 1, lease_ms: None, wait_ms: 1_000 };
//! for job in engine.claim(claim).await? {
//!     for step in job.steps.iter().filter(|step| step.output.is_none()) {
//!         let output = json!({ "did": step.name });
//!         engine.step(StepDone { job: job.id, token: job.token, name: step.name.clone(), output }).await?;
//!     }
//!     engine.complete(vec![Complete::new(job.id, job.token)]).await?;
//! }
//!
//! assert_eq!(engine.item(&producer, item.id).await?.item.status.as_str(), "completed");
//! assert!(engine.doctor().await?.is_empty());
//! background.stop().await;
//! # drop(engine);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # })
//! # }
//! ```

mod admin;
pub mod background;
mod batch;
mod blob;
mod definition;
mod doctor;
mod engine;
mod insight;
mod intake;
mod log;
mod meter;
mod notification;
mod once;
mod processing;
mod review;
mod view;
mod wait;

pub use admin::collection::CollectionSettings;
pub use admin::key::{CreatedKey, KeyPage, NewKey};
pub use admin::listing::{CollectionView, ListPage, PauseView, PipelineView, TenantView};
pub use admin::pause::PauseTarget;
pub use blob::BlobConfig;
pub use docket_store::table::delivery::Delivery;
pub use docket_store::table::delivery_attempt::DeliveryAttempt;
pub use docket_store::table::depth::Depth;
pub use docket_store::table::item::Item;
pub use docket_store::table::key::Key;
pub use docket_store::table::log::{Entry, LogPosition, Order as LogOrder};
pub use docket_store::table::notification::Notification;
pub use docket_store::table::pause::{Pause, PauseScope};
pub use docket_store::table::review::Review;
pub use docket_store::table::review_list::ReviewDepth;
pub use docket_store::table::reviewer::Reviewer;
pub use docket_store::{Error, PostgresConfig, Result, StoreConfig};
pub use engine::{Engine, EngineConfig};
pub use insight::calibration::CalibrationInsight;
pub use insight::corrections::CorrectionsInsight;
pub use insight::reviewers::ReviewersInsight;
pub use insight::sla::{SlaInsight, SlaOfCollection};
pub use insight::training::{TrainingData, TrainingExample};
pub use insight::{InsightQuery, LookedAt};
pub use intake::submit::{Submit, SubmitAnswer, SubmitItem, SubmittedItem};
pub use intake::upload::{Upload, UploadRequest, UploadStart};
pub use log::{AuditExport, AuditFault, Follower, LogFilter, LogPage, LogQuery};
pub use notification::config::{DeliveryPoint, DeliveryProbe, OutboxConfig};
pub use notification::create::CreatedNotification;
pub use notification::dispatcher::Dispatched;
pub use notification::prepare::NewNotification;
pub use notification::view::{DeliveryFilter, DeliveryView, NotificationView, OutboxDepth};
pub use object_store::GetRange;
pub use once::Once;
pub use processing::claim::{Claim, ClaimedJob, ClaimedStep};
pub use processing::complete::{Complete, Completed};
pub use processing::fail::{Fail, Failed};
pub use processing::heartbeat::Heartbeat;
pub use processing::reap::Reaped;
pub use processing::release::Release;
pub use processing::step::StepDone;
pub use review::commit::Decision;
pub use review::decision::{Decided, FieldChange, Recorded};
pub use review::entries::EnteredReview;
pub use review::entry::ReviewEntry;
pub use review::list::{ReviewExplanation, ReviewFilter, ReviewPage, ReviewPlace};
pub use review::pop::{Empty, EmptyReason, Pop, Popped};
pub use review::reap::ReapedReviews;
pub use review::reassign::Reassign;
pub use review::release::ReviewRelease;
pub use review::reviewer::ReviewerSettings;
pub use review::stats::{ReviewStats, Workload};
pub use review::undo::Undone;
pub use view::content::ContentView;
pub use view::explain::{Explanation, Holder};
pub use view::item::{ItemView, JobView, StepView};
pub use view::items::{ItemFilter, ItemPage};
