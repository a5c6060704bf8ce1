//! Hints that there may be work, or entries in the log: fired after a commit, taken by whoever waits. The tables are the truth; a
//! lost hint costs time and never correctness.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use docket_core::id::{CollectionKey, PipelineKey};
use tokio::sync::{Notify, broadcast, mpsc};

const KEPT: usize = 1_024;

/// What may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A job of this pipeline may be ready.
    Ready(PipelineKey),
    /// A review of this collection may be pending.
    Review(CollectionKey),
    /// A delivery may be due.
    Delivery,
    /// The log may have grown.
    Logged,
    /// Somebody follows the log here, and the other servers should say when it grows.
    Following,
    /// Hints may have been lost; look at everything.
    Anything,
}

/// For this long a server tells one that follows the log; who still follows says so more often.
const TOLD_FOR: Duration = Duration::from_secs(20);

/// Sends and receives hints, here and, on PostgreSQL, in the other servers.
#[derive(Clone, Debug)]
pub struct Hints {
    here: broadcast::Sender<Hint>,
    elsewhere: mpsc::Sender<Hint>,
    log: Arc<LogHints>,
}

/// Hints of the log. Every commit gives one, so they are not queued: one that was not yet taken stands for all.
#[derive(Debug)]
struct LogHints {
    bell: Notify,
    /// Whether anybody listens here.
    wanted: AtomicBool,
    /// Until when somebody listens elsewhere, in milliseconds since `began`.
    wanted_elsewhere_ms: AtomicI64,
    /// Whether one is on its way to the other servers.
    on_its_way: AtomicBool,
    began: Instant,
}

impl LogHints {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl Hints {
    /// The hints of one store, and the stream of those that other servers should get.
    #[expect(clippy::disallowed_methods, reason = "how long somebody is told is real time")]
    pub(crate) fn new() -> (Self, mpsc::Receiver<Hint>) {
        let (elsewhere, outgoing) = mpsc::channel(KEPT);
        let log = LogHints {
            bell: Notify::new(),
            wanted: AtomicBool::new(false),
            wanted_elsewhere_ms: AtomicI64::new(i64::MIN),
            on_its_way: AtomicBool::new(false),
            began: Instant::now(),
        };
        (
            Self {
                here: broadcast::Sender::new(KEPT),
                elsewhere,
                log: Arc::new(log),
            },
            outgoing,
        )
    }

    /// Tells everybody.
    pub fn send(&self, hint: Hint) {
        // No receiver is fine: nobody waits.
        self.here.send(hint).ok();
        self.send_elsewhere(hint);
    }

    /// Tells the other servers; here it was told already.
    pub fn send_elsewhere(&self, hint: Hint) {
        // Nobody takes them on SQLite, where there is no other server; and while the database is away, those that do not fit are lost.
        self.elsewhere.try_send(hint).ok();
    }

    /// Something was committed that may have written to the log. Costs next to nothing while nobody follows it.
    pub(crate) fn logged(&self) {
        let log = &self.log;
        if log.wanted.load(Ordering::Relaxed) {
            log.bell.notify_one();
        }
        if log.wanted_elsewhere_ms.load(Ordering::Relaxed) > log.now_ms()
            && !log.on_its_way.swap(true, Ordering::Relaxed)
            && self.elsewhere.try_send(Hint::Logged).is_err()
        {
            log.on_its_way.store(false, Ordering::Relaxed);
        }
    }

    /// What connects them with other servers'.
    pub(crate) fn gate(&self) -> Gate {
        Gate {
            here: self.here.clone(),
            log: Arc::clone(&self.log),
        }
    }

    /// Says that the log is followed here, or is not any more. Who follows says so again every few seconds.
    pub fn follow_log(&self, wanted: bool) {
        self.log.wanted.store(wanted, Ordering::Relaxed);
        if wanted {
            self.elsewhere.try_send(Hint::Following).ok();
        }
    }

    /// Waits for a hint that the log has grown; for one reader only.
    pub async fn log_grows(&self) {
        self.log.bell.notified().await;
    }

    /// The hints from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Hint> {
        self.here.subscribe()
    }
}

/// Where hints leave for other servers and come in from them. It keeps nobody from ending: it cannot send.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    here: broadcast::Sender<Hint>,
    log: Arc<LogHints>,
}

impl Gate {
    /// A hint is taken out of the stream, to be told to the other servers: what is committed from now on needs another.
    pub(crate) fn leaves(&self, hint: Hint) {
        if hint == Hint::Logged {
            self.log.on_its_way.store(false, Ordering::Relaxed);
        }
    }

    /// A hint came from another server.
    pub(crate) fn arrives(&self, hint: Hint) {
        let log = &self.log;
        match hint {
            Hint::Logged => log.bell.notify_one(),
            Hint::Following => {
                let until = log.now_ms() + i64::try_from(TOLD_FOR.as_millis()).unwrap_or(0);
                log.wanted_elsewhere_ms.store(until, Ordering::Relaxed);
            }
            Hint::Ready(_) | Hint::Review(_) | Hint::Delivery | Hint::Anything => {
                self.here.send(hint).ok();
            }
        }
        if hint == Hint::Anything {
            log.bell.notify_one();
        }
    }
}
