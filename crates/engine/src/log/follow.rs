//! Following the log: every entry after a position, once, in order, as it is committed, on any server (rule L4).
//!
//! Entries come in the order of their positions, and none that comes later goes before them: an entry is handed on once every older
//! transaction of the database has ended. A transaction that somebody leaves open for long, in whatever program, holds the stream
//! up for that long; Docket's own end after a minute at the latest.

use std::sync::Arc;

use docket_core::Refusal;
use docket_core::name::TenantId;
use docket_core::scope::{Operator, Scope};
use docket_store::table::log::{self, Entry, LogPosition, Order, Piece, Wanted};
use docket_store::{Result, Tx};
use tokio::sync::watch;

use super::read::{LogFilter, Reader, WINDOW, check, wanted};
use super::tail::{LOOK_EVERY, Tail};
use crate::engine::Engine;

/// The most entries that are handed over at once.
const BATCH: usize = 256;
/// The most bytes, but for the last entry: a follower may be slow, and holds what it was handed for as long.
const BATCH_BYTES: usize = 256 << 10;
/// How many entries of the ring are passed over before others get their turn.
const LOOK_MAX: usize = 1_024;

/// Somebody who follows the log. Dropping it ends that.
#[derive(Debug)]
pub struct Follower {
    tail: Arc<Tail>,
    grown: watch::Receiver<()>,
    wanted: Wanted,
    position: LogPosition,
}

impl Engine {
    /// Follows the log of a tenant from after a position, or from now on; while a transaction is open, "now" is when it began.
    pub async fn follow(
        &self,
        scope: &Scope,
        filter: LogFilter,
        after: Option<LogPosition>,
    ) -> Result<Follower> {
        self.follower(Reader::Tenant(scope.clone()), filter, after).await
    }

    /// Follows the log of all tenants, or of one, for those who run the deployment; what belongs to no tenant is in it too.
    pub async fn follow_all(
        &self,
        _operator: &Operator,
        tenant: Option<TenantId>,
        filter: LogFilter,
        after: Option<LogPosition>,
    ) -> Result<Follower> {
        self.follower(Reader::Operator(tenant), filter, after).await
    }

    /// How many follow the log on this server.
    pub fn followers(&self) -> usize {
        self.kernel.tail.followers()
    }

    async fn follower(
        &self,
        reader: Reader,
        filter: LogFilter,
        after: Option<LogPosition>,
    ) -> Result<Follower> {
        check(&filter)?;
        let params = (reader, filter, after);
        let begin = self
            .kernel
            .store
            .read("log_follow", params, |tx, (reader, filter, after)| {
                Box::pin(begin(tx, reader, filter, *after))
            });
        let (wanted, position) = begin.await?;
        let tail = Arc::clone(&self.kernel.tail);
        Ok(Follower {
            grown: tail.join(),
            tail,
            wanted,
            position,
        })
    }
}

async fn begin(
    tx: &mut Tx,
    reader: &Reader,
    filter: &LogFilter,
    after: Option<LogPosition>,
) -> Result<(Wanted, LogPosition)> {
    let wanted = wanted(tx, reader, filter).await?;
    let Some(after) = after else {
        return Ok((wanted, log::head(tx).await?));
    };
    if log::newest(tx).await? < after {
        // Whoever waits there would wait for ever: it is the position of another database, or of what a restored one has lost.
        let problem = "the log does not reach this position; read it anew and follow from where it ends";
        return Err(Refusal::invalid("after", problem).into());
    }
    Ok((wanted, after))
}

impl Follower {
    /// The next entries, at least one; waits for them. It can be given up and called again at any time, also after an error:
    /// what was not handed over comes next.
    pub async fn next(&mut self) -> Result<Vec<Arc<Entry>>> {
        loop {
            self.grown.borrow_and_update();
            let before = self.position;
            let found = match self.tail.after(before, LOOK_MAX) {
                Some(entries) => self.pick(entries),
                None => self.catch_up().await?,
            };
            if !found.is_empty() {
                return Ok(found);
            }
            if self.position == before {
                // The store may be gone with the tail's last words, so nobody waits without looking now and then.
                tokio::time::timeout(LOOK_EVERY, self.grown.changed()).await.ok();
            }
        }
    }

    /// Everything up to here was handed over or passed by; where to follow from another time.
    pub const fn position(&self) -> LogPosition {
        self.position
    }

    fn pick(&mut self, entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
        let (mut picked, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            self.position = entry.position;
            if self.wanted.takes(&entry) {
                bytes += entry.weight();
                picked.push(entry);
                if picked.len() == BATCH || bytes >= BATCH_BYTES {
                    break;
                }
            }
        }
        picked
    }

    /// Reads the table itself, as one that is behind what the tail keeps.
    async fn catch_up(&mut self) -> Result<Vec<Arc<Entry>>> {
        let place = self.tail.catching_up.acquire().await;
        let params = (self.wanted.clone(), self.position);
        let read = self
            .tail
            .store()
            .read("log_catch_up", params, |tx, (wanted, after)| {
                Box::pin(piece(tx, wanted, *after))
            });
        let (entries, reached) = read.await?;
        drop(place);
        self.position = reached;
        Ok(entries.into_iter().map(Arc::new).collect())
    }
}

/// What is wanted of the next piece, and how far that piece reaches.
async fn piece(tx: &mut Tx, wanted: &Wanted, after: LogPosition) -> Result<(Vec<Entry>, LogPosition)> {
    let head = log::head(tx).await?;
    if head <= after {
        return Ok((Vec::new(), after));
    }
    let piece = Piece {
        after,
        until: head,
        order: Order::OldestFirst,
        limit: BATCH as u64,
        window: WINDOW,
        bytes: Some(BATCH_BYTES as u64),
    };
    let read = log::read(tx, wanted, &piece).await?;
    Ok((read.entries, read.next.unwrap_or(head)))
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.tail.leave();
    }
}
