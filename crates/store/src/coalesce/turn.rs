//! Who waits for whom: how much a batch may be, and which one does better to wait for another.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A batch takes no further call once it has so many entries,
pub(super) const ENTRIES_MAX: usize = 1_000;
/// or so many bytes.
pub(super) const BYTES_MAX: usize = 8 << 20;
/// A batch up to this size is over in a few milliseconds, so that waiting for it pays where the next one does the same,
pub(super) const SHORT_MAX: usize = 64;
/// and one up to this size for whatever the next one does,
pub(super) const VERY_SHORT_MAX: usize = 32;
/// but only as long as it holds no more than this,
pub(super) const SHORT_BYTES_MAX: usize = 256 << 10;
/// and for no longer than this: it may be waiting itself, for somebody's lock, and then it is not short.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(20);

/// What a call brings into its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Its entries.
    pub entries: usize,
    /// What they hold, where that can be much.
    pub bytes: usize,
}

impl Weight {
    /// So many small entries.
    pub const fn of(entries: usize) -> Self {
        Self { entries, bytes: 0 }
    }

    pub(super) const fn is_full(self) -> bool {
        self.entries >= ENTRIES_MAX || self.bytes >= BYTES_MAX
    }

    /// How many entries it takes as long as: none that holds much is short.
    pub(super) fn length(self) -> usize {
        match self.bytes > SHORT_BYTES_MAX {
            true => self.entries.max(SHORT_MAX + 1),
            false => self.entries,
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// Lets very short batches of several coalescers run one at a time. Most of what such a batch costs the database is the same for one entry
/// and for twenty, so while one runs the others gather more.
#[derive(Clone, Debug)]
pub struct Turns(pub(super) Option<Arc<Semaphore>>);

impl Turns {
    /// One at a time.
    pub fn one_at_a_time() -> Self {
        Self(Some(Arc::new(Semaphore::new(1))))
    }

    /// Any number at a time: for a database whose writer gathers by itself.
    pub const fn any() -> Self {
        Self(None)
    }

    /// Waits for one's turn.
    pub(super) async fn next(&self) -> Option<OwnedSemaphorePermit> {
        let turns = Arc::clone(self.0.as_ref()?);
        turns.acquire_owned().await.ok()
    }
}

/// What the runners of a coalescer know of each other.
pub(super) struct Underway {
    /// The length of the batches that run now and have not taken long.
    length: AtomicUsize,
    pub(super) ended: Notify,
    /// Shared with other coalescers.
    pub(super) turns: Turns,
}

impl Underway {
    pub(super) fn new(turns: Turns) -> Self {
        Self {
            length: AtomicUsize::new(0),
            ended: Notify::new(),
            turns,
        }
    }

    /// Whether a batch of this length does better to wait for the one that runs: that one is short, so it ends soon, and two statements
    /// for what one could do cost more than the wait. Where the writer gathers by itself, only one that is no smaller is worth it.
    pub(super) fn is_worth_waiting_for(&self, length: usize) -> bool {
        let running = self.length.load(Ordering::SeqCst);
        let least = match self.turns.0 {
            Some(_) => 1,
            None => length,
        };
        (least..=SHORT_MAX).contains(&running)
    }

    /// A batch of this weight runs from now on; one that is not very short leaves its turn to others.
    pub(super) fn begin(&self, weight: Weight, turn: Option<OwnedSemaphorePermit>) -> Awaited<'_> {
        let length = weight.length();
        self.length.fetch_add(length, Ordering::SeqCst);
        Awaited {
            underway: self,
            length,
            _turn: turn.filter(|_| length <= VERY_SHORT_MAX),
        }
    }
}

/// A batch that runs, as far as others wait for it: until it has ended, or has taken long.
pub(super) struct Awaited<'a> {
    underway: &'a Underway,
    length: usize,
    /// As long as it is kept, no other very short batch runs.
    _turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.underway.length.fetch_sub(self.length, Ordering::SeqCst);
        self.underway.ended.notify_one();
    }
}
