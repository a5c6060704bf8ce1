//! The engine: what a server holds, one a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use docket_core::id::{CollectionKey, PipelineKey};
use docket_core::random::{Random, SystemRandom};
use docket_core::{Clock, Timestamp};
use docket_store::{Hint, Result, Store, StoreConfig};
use tokio::sync::Notify;

use crate::batch::Batches;
use crate::blob::{BlobConfig, Blobs};
use crate::definition::Definitions;
use crate::log::tail::Tail;
use crate::notification::config::OutboxConfig;
use crate::processing::claim::Sightings;
use crate::review::last_seen::LastSeen;
use crate::wait::{Awaited, Waiters};

/// What an engine is opened with.
#[derive(Clone)]
pub struct EngineConfig {
    /// The database.
    pub store: StoreConfig,
    /// Where files go.
    pub blobs: BlobConfig,
    /// Another clock than the database's; for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// The source of keys and jitter.
    pub random: Arc<dyn Random>,
    /// How many statements of each tuned operation run side by side.
    pub runners: usize,
    /// The largest file taken, in bytes.
    pub file_max: u64,
    /// How long an upload may take before its place and its bytes are given up.
    pub upload_ms: i64,
    /// How long answers are kept for repeated calls.
    pub idempotency_ms: i64,
    /// How long finished items and notifications are kept; none for ever.
    pub keep_finished_ms: Option<i64>,
    /// How people are told.
    pub outbox: OutboxConfig,
}

impl EngineConfig {
    /// The usual settings for this database and these blobs.
    pub fn new(store: StoreConfig, blobs: BlobConfig) -> Self {
        Self {
            store,
            blobs,
            clock: None,
            random: Arc::new(SystemRandom),
            runners: 2,
            file_max: 5 << 30,
            upload_ms: 3_600_000,
            idempotency_ms: 86_400_000,
            keep_finished_ms: None,
            outbox: OutboxConfig::default(),
        }
    }
}

impl std::fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineConfig")
            .field("runners", &self.runners)
            .finish_non_exhaustive()
    }
}

/// What operations stand on.
pub(crate) struct Kernel {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) waiters: Waiters,
    pub(crate) tail: Arc<Tail>,
    pub(crate) sightings: Sightings,
    pub(crate) last_seen: LastSeen,
    /// Rings when a job begins to wait: the reaper may have to look sooner than it meant to.
    pub(crate) wait_began: Notify,
    /// Rings when a reviewer is said to be there or to have room: the assigner has to look.
    pub(crate) somebody_is_there: Notify,
    /// When the reaper means to look again, in milliseconds since the epoch.
    pub(crate) next_reap_ms: AtomicI64,
    /// The earliest end of the leases given out here since the reaper last looked.
    pub(crate) earliest_lease_ms: AtomicI64,
    /// Rises with every key revoked here: who remembers keys looks whether it still may.
    pub(crate) keys_revoked: AtomicU64,
    pub(crate) config: EngineConfig,
}

impl Kernel {
    /// Tells those who wait, here and elsewhere, that these pipelines may have work.
    pub(crate) fn hint(&self, ready: impl IntoIterator<Item = PipelineKey>) {
        for pipeline in ready {
            self.waiters.ring(Awaited::Job(pipeline));
            self.store.hints().send_elsewhere(Hint::Ready(pipeline));
        }
    }

    /// Tells those who wait that reviews of these collections may be pending.
    pub(crate) fn hint_reviews(&self, pending: impl IntoIterator<Item = CollectionKey>) {
        for collection in pending {
            self.waiters.ring(Awaited::Review(collection));
            self.store.hints().send_elsewhere(Hint::Review(collection));
        }
    }
}

impl Kernel {
    /// A lease ends at this moment: the reaper looks then, if it did not mean to look before.
    pub(crate) fn lease_ends(&self, until: Timestamp) {
        self.earliest_lease_ms.fetch_min(until.ms(), Ordering::SeqCst);
        if until.ms() < self.next_reap_ms.load(Ordering::SeqCst) {
            self.wait_began.notify_one();
        }
    }
}

/// Docket's use cases over one database.
#[derive(Clone)]
pub struct Engine {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) batches: Arc<Batches>,
    pub(crate) blobs: Blobs,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.kernel.store)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the database and brings it up to date. Background work starts with [`Engine::start_background`].
    pub async fn open(config: EngineConfig) -> Result<Self> {
        let store = Store::open(&config.store).await?;
        let blobs = Blobs::open(&config.blobs)?;
        let clock = config.clock.clone().unwrap_or_else(|| store.clock());
        let kernel = Arc::new(Kernel {
            waiters: Waiters::start(store.hints().subscribe()),
            tail: Arc::new(Tail::new(store.clone())),
            store,
            clock,
            random: Arc::clone(&config.random),
            definitions: Arc::default(),
            sightings: Sightings::default(),
            last_seen: LastSeen::default(),
            wait_began: Notify::new(),
            somebody_is_there: Notify::new(),
            next_reap_ms: AtomicI64::new(i64::MIN),
            earliest_lease_ms: AtomicI64::new(i64::MAX),
            keys_revoked: AtomicU64::new(0),
            config,
        });
        let batches = Arc::new(Batches::start(&kernel));
        let engine = Self {
            kernel,
            batches,
            blobs,
        };
        engine.tiers_seed().await?;
        Ok(engine)
    }

    /// Gives up the connections. Operations under way end; new ones are refused.
    pub fn close(&self) {
        self.kernel.store.close();
    }
}
