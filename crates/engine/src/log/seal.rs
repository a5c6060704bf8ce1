//! Sealing: the next block of the log, made beside all writing and appended if nobody else's was there first.
//!
//! A block ends below the oldest open transaction, and what lies below never changes; so the entries are read and hashed before
//! the transaction that appends the seal, which is short. Two servers that seal at once read the same entries; the number of the
//! block decides, and the loser begins anew.

use docket_core::Timestamp;
use docket_core::log::LogPosition;
use docket_core::random::Random;
use docket_core::seal::{self, BLOCK_MAX, Block, Secret, Tree};
use docket_store::table::log::{self, Entry};
use docket_store::table::seal::Seal;
use docket_store::{Result, Store, Tx};

use crate::engine::Engine;

/// How many entries are read at once; between two reads others get their turn.
const READ_MAX: u64 = 512;
/// A block that has grown as heavy as this takes no more.
const WEIGHT_MAX: usize = 8 << 20;

/// How a try to seal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealing {
    /// A block of this many entries.
    Sealed(u64),
    /// There is nothing to seal, or nothing old enough.
    Nothing,
    /// Somebody else was faster.
    Beaten,
}

impl Engine {
    /// Seals everything that can be sealed now; how many entries that were.
    pub async fn seal(&self) -> Result<u64> {
        let mut entries = 0;
        loop {
            match self.seal_block(self.kernel.clock.now()).await? {
                Sealing::Sealed(sealed) => entries += sealed,
                Sealing::Beaten => {}
                Sealing::Nothing => return Ok(entries),
            }
        }
    }

    /// Seals the next block, if it is full or its first entry was written at or before a moment.
    pub(crate) async fn seal_block(&self, written_until: Timestamp) -> Result<Sealing> {
        let kernel = &self.kernel;
        let latest = latest(&kernel.store).await?;
        let mut draft = Draft::new(latest.as_ref(), kernel.random.as_ref());
        while !draft.is_full() {
            let after = draft.last.unwrap_or(draft.after);
            let limit = READ_MAX.min(BLOCK_MAX - draft.tree.leaves());
            let read = kernel
                .store
                .read("seal_read", (after, limit), |tx, (after, limit)| {
                    Box::pin(sealable(tx, *after, *limit))
                });
            let entries = read.await?;
            entries.iter().for_each(|entry| draft.push(entry));
            if (entries.len() as u64) < limit {
                break;
            }
        }
        let due = draft.is_full() || draft.first_at.is_some_and(|at| at <= written_until);
        let (true, Some(first), Some(last)) = (due, draft.first, draft.last) else {
            return Ok(Sealing::Nothing);
        };
        let now = kernel.clock.now();
        let block = Block::after(
            latest.as_ref().map(|seal| &seal.block),
            (first, last),
            &draft.tree,
            now,
        );
        let sealed = block.entries;
        let seal = Seal {
            block,
            secret: draft.secret,
            marks: draft.marks,
            until: draft.until,
        };
        let append = kernel.store.run("seal", seal, |tx, seal| {
            Box::pin(docket_store::table::seal::append(tx, seal))
        });
        Ok(match append.await? {
            true => Sealing::Sealed(sealed),
            false => Sealing::Beaten,
        })
    }
}

/// The newest seal.
pub(crate) async fn latest(store: &Store) -> Result<Option<Seal>> {
    let read = store.read("seal_latest", (), |tx, ()| {
        Box::pin(docket_store::table::seal::latest(tx))
    });
    read.await
}

/// Entries after a position that no open transaction can come between.
pub(super) async fn sealable(tx: &mut Tx, after: LogPosition, limit: u64) -> Result<Vec<Entry>> {
    let until = log::horizon(tx).await?;
    log::plain(tx, after, until, limit).await
}

/// A block under way.
struct Draft {
    after: LogPosition,
    secret: Secret,
    tree: Tree,
    marks: Vec<u8>,
    weight: usize,
    first: Option<LogPosition>,
    first_at: Option<Timestamp>,
    last: Option<LogPosition>,
    until: Timestamp,
}

impl Draft {
    fn new(latest: Option<&Seal>, random: &dyn Random) -> Self {
        let mut secret = Secret::default();
        for part in secret.chunks_mut(8) {
            part.copy_from_slice(&random.next_u64().to_be_bytes());
        }
        Self {
            after: latest.map_or_else(LogPosition::default, |seal| seal.block.last),
            secret,
            tree: Tree::default(),
            marks: Vec::new(),
            weight: 0,
            first: None,
            first_at: None,
            last: None,
            until: latest.map_or(Timestamp::from_ms(i64::MIN), |seal| seal.until),
        }
    }

    fn is_full(&self) -> bool {
        self.tree.leaves() >= BLOCK_MAX || self.weight >= WEIGHT_MAX
    }

    fn push(&mut self, entry: &Entry) {
        let record = entry.record();
        let hash = record.hash(seal::salt(&self.secret, record.position));
        self.tree.push_leaf(hash);
        self.marks.extend(seal::mark(hash));
        self.weight += entry.weight();
        self.first = self.first.or(Some(entry.position));
        self.first_at = self.first_at.or(Some(entry.at));
        self.last = Some(entry.position);
        self.until = self.until.max(entry.at);
    }
}
