//! The tail of the log: one reader a process, for as long as anybody follows. It keeps the newest entries in a ring that all
//! followers share, so that a thousand of them cost one read.
//!
//! The reader stops below the oldest open transaction, so what it hands on is in order and nothing comes later in between. Hints
//! wake it; without any it looks every half second. A follower that is behind the ring reads the table by itself, two of them at a
//! time, and holds up nobody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_store::table::log::{self, Entry, LogPosition, Order, Piece, Wanted};
use docket_store::{Result, Store};
use tokio::sync::{Notify, Semaphore, watch};

/// This often the log is looked at without a hint, by the tail and by a follower that hears nothing.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After a hint the log is looked at soon again, then less and less often: the entry may lie behind an older transaction of
/// somebody who gives no hints.
const LOOK_AGAIN: Duration = Duration::from_millis(8);
/// Commits within this time are read together.
const BREATH: Duration = Duration::from_millis(2);
/// This often the other servers are told that the log is followed here.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// After a failure the tail rests, and followers look for themselves.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

const READ_MAX: u64 = 1_000;
/// An entry holds values of up to 2 MiB; with so many bytes one reading ends.
const READ_BYTES: u64 = 4 << 20;
const RING_MAX: usize = 8_192;
const RING_WEIGHT_MAX: usize = 16 << 20;
const CATCHING_UP_MAX: usize = 2;

/// The newest entries, without a gap.
#[derive(Debug, Default)]
struct Ring {
    /// Everything after this position, and up to the last entry, is here.
    begin: LogPosition,
    entries: VecDeque<Arc<Entry>>,
    weight: usize,
}

impl Ring {
    fn push(&mut self, entry: Entry) {
        self.weight += entry.weight();
        self.entries.push_back(Arc::new(entry));
        while self.entries.len() > RING_MAX || self.weight > RING_WEIGHT_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.weight -= oldest.weight();
            self.begin = oldest.position;
        }
    }
}

#[derive(Debug, Default)]
struct State {
    followers: usize,
    running: bool,
    ring: Option<Ring>,
}

/// The tail; followers hold it.
#[derive(Debug)]
pub(crate) struct Tail {
    store: Store,
    state: Mutex<State>,
    grown: watch::Sender<()>,
    last_has_gone: Notify,
    pub(super) catching_up: Semaphore,
}

impl Tail {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            state: Mutex::default(),
            grown: watch::Sender::new(()),
            last_has_gone: Notify::new(),
            catching_up: Semaphore::new(CATCHING_UP_MAX),
        }
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody follows from now on; the first one starts the reading. What rings when there is more.
    pub(super) fn join(self: &Arc<Self>) -> watch::Receiver<()> {
        let mut state = self.state();
        state.followers += 1;
        if !std::mem::replace(&mut state.running, true) {
            tokio::spawn(Arc::clone(self).run());
        }
        self.grown.subscribe()
    }

    /// Somebody follows no more; the last one ends the reading.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.followers -= 1;
        if state.followers == 0 {
            self.last_has_gone.notify_one();
        }
    }

    /// How many follow, for the metrics.
    pub(crate) fn followers(&self) -> usize {
        self.state().followers
    }

    /// What the ring has after a position; none where the ring does not reach back so far.
    pub(super) fn after(&self, position: LogPosition, limit: usize) -> Option<Vec<Arc<Entry>>> {
        let state = self.state();
        let ring = state.ring.as_ref().filter(|ring| ring.begin <= position)?;
        let first = ring.entries.partition_point(|entry| entry.position <= position);
        Some(ring.entries.range(first..).take(limit).cloned().collect())
    }

    async fn run(self: Arc<Self>) {
        loop {
            match self.serve().await {
                Ok(()) => return,
                Err(error) => {
                    // Followers read the table until it works again.
                    self.state().ring = None;
                    self.grown.send_replace(());
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the tail of the log cannot be read"
                    );
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Whether nobody follows any more. Who joins afterwards starts another reading.
    fn is_over(&self) -> bool {
        let mut state = self.state();
        if state.followers == 0 {
            (state.running, state.ring) = (false, None);
            self.store.hints().follow_log(false);
            return true;
        }
        false
    }

    async fn serve(&self) -> Result<()> {
        let hints = self.store.hints();
        hints.follow_log(true);
        let head = self.store.read("log_head", (), |tx, ()| Box::pin(log::head(tx)));
        let mut position = head.await?;
        self.state().ring = Some(Ring {
            begin: position,
            ..Ring::default()
        });
        self.grown.send_replace(());
        let mut say = tokio::time::interval(SAY_EVERY);
        let mut wait = LOOK_AGAIN;
        while !self.is_over() {
            let read = self
                .store
                .read("log_tail", position, |tx, after| Box::pin(next(tx, *after)))
                .await?;
            let more = read.next.is_some();
            if let Some(last) = read.entries.last() {
                position = last.position;
                wait = LOOK_AGAIN;
                if let Some(ring) = &mut self.state().ring {
                    read.entries.into_iter().for_each(|entry| ring.push(entry));
                }
                self.grown.send_replace(());
            }
            if more {
                continue;
            }
            tokio::select! {
                () = hints.log_grows() => {
                    wait = LOOK_AGAIN;
                    tokio::time::sleep(BREATH).await;
                }
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LOOK_EVERY),
                () = self.last_has_gone.notified() => {}
                _ = say.tick() => hints.follow_log(true),
            }
        }
        Ok(())
    }
}

async fn next(tx: &mut docket_store::Tx, after: LogPosition) -> Result<log::Read> {
    let piece = Piece {
        after,
        until: log::horizon(tx).await?,
        order: Order::OldestFirst,
        limit: READ_MAX,
        window: READ_MAX,
        bytes: Some(READ_BYTES),
    };
    log::read(tx, &Wanted::default(), &piece).await
}
