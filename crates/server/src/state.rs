//! What handlers stand on.

use std::sync::Arc;
use std::time::Duration;

use docket_access::Access;
use docket_core::random::{Random, SystemRandom};
use docket_engine::Engine;
use tokio::sync::watch;

use crate::layer::Observed;
use crate::proxy::Proxies;
use crate::room::Room;

/// Told of every answered request.
pub type Observe = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;

/// The server's bounds and seams. The defaults are right for most.
#[derive(Clone)]
pub struct ServerConfig {
    /// The largest JSON body of calls that carry content: submissions and completions.
    pub batch_max: usize,
    /// The largest JSON body of other calls.
    pub json_max: usize,
    /// What the values of one JSON body may take in memory once it is read.
    pub values_max: usize,
    /// What the JSON bodies of all calls that are under way may have together, small ones not counted.
    pub bodies_held_max: usize,
    /// What their values may take together.
    pub values_held_max: usize,
    /// How long a call waits for room in memory.
    pub room_timeout: Duration,
    /// How long a JSON body may take to arrive.
    pub body_timeout: Duration,
    /// How long an upload, a download or a stream may stand still.
    pub idle_timeout: Duration,
    /// How long a call may take to be answered, besides the time it was asked to wait.
    pub call_timeout: Duration,
    /// How long a connection may take to send the head of a request.
    pub head_timeout: Duration,
    /// How long requests under way may take to end after the signal to stop.
    pub shutdown_timeout: Duration,
    /// Connections served at once; more wait to be accepted.
    pub connections_max: usize,
    /// Which proxies are believed about whom they speak for.
    pub proxies: Proxies,
    /// Whether the older list of unreviewed items is served.
    pub unreviewed: bool,
    /// Told of every answered request; for metrics.
    pub observe: Option<Observe>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            batch_max: 32 << 20,
            json_max: 4 << 20,
            values_max: 256 << 20,
            bodies_held_max: 128 << 20,
            values_held_max: 512 << 20,
            room_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(15),
            shutdown_timeout: Duration::from_secs(8),
            connections_max: 10_000,
            proxies: Proxies::default(),
            unreviewed: false,
            observe: None,
        }
    }
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("batch_max", &self.batch_max)
            .field("json_max", &self.json_max)
            .finish_non_exhaustive()
    }
}

struct Inner {
    engine: Engine,
    access: Access,
    room: Room,
    config: ServerConfig,
    random: Arc<dyn Random>,
    stop: watch::Sender<bool>,
}

/// What handlers stand on; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

impl std::fmt::Debug for AppState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppState").finish_non_exhaustive()
    }
}

impl AppState {
    /// A server's state over this engine.
    pub fn new(engine: Engine, access: Access, config: ServerConfig) -> Self {
        Self(Arc::new(Inner {
            engine,
            access,
            room: Room::new(&config),
            config,
            random: Arc::new(SystemRandom),
            stop: watch::Sender::new(false),
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Who asks.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// The bounds.
    pub fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    /// Room in memory.
    pub(crate) fn room(&self) -> &Room {
        &self.0.room
    }

    pub(crate) fn random(&self) -> &dyn Random {
        self.0.random.as_ref()
    }

    /// Ends streams and waiting claims, and lets no new ones begin. Requests under way are finished.
    pub fn begin_shutdown(&self) {
        self.0.stop.send_replace(true);
    }

    /// Resolves when the server is about to stop.
    pub(crate) async fn stopping(&self) {
        let mut stop = self.0.stop.subscribe();
        // The sender lives as long as the state that is borrowed here.
        stop.wait_for(|stop| *stop).await.ok();
    }
}
