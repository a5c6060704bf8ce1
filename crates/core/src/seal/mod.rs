//! Sealing the log: what is hashed, byte by byte (rule L2).
//!
//! Entries are sealed in blocks. The hashes of a block's entries are the leaves of a tree; its root stands in the block, and each
//! block holds the hash of the one before. Whoever has the hash of one block, the head, can prove every entry up to it.
//!
//! An entry's hash is salted. The salts are derived from a secret of the block that stays in the database, so that the hash of
//! an entry that somebody may not see, given in its place, cannot be guessed at. Everything that is hashed begins with a word of its
//! own, and every part of changing length with that length, so that no bytes can stand for something else.
//!
//! `docs/reference/audit.md` says the same for those who write a check of their own. Deliberately absent: keys. Who can write to the
//! database at will can seal a false log anew; the head, kept elsewhere, is what shows that.

mod line;
mod tree;
mod verify;
#[cfg(test)]
mod verify_tests;

pub use line::{End, Header, Hidden, Line, SealedEntry};
pub use tree::{Shown, Tree, hide};
pub use verify::{Fault, FaultKind, Report, Verifier};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::content::{Digest, Hasher};
use crate::log::LogPosition;

const ENTRY: &[u8] = b"docket-log-entry-1\n";
const SALT: &[u8] = b"docket-log-salt-1\n";
const NODE: &[u8] = b"docket-log-node-1\n";
const BLOCK: &[u8] = b"docket-log-block-1\n";

/// The most entries of one block.
pub const BLOCK_MAX: u64 = 4_096;
/// How many bytes of an entry's hash are kept with its block, to name one that was changed.
pub const MARK_LENGTH: usize = 8;
/// What stands for the block before the first.
pub const NO_BLOCK: Digest = Digest::zero();

/// What a block's salts are derived from.
pub type Secret = [u8; 32];
/// What makes an entry's hash impossible to guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub [u8; 16]);

/// An entry with everything that is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are the log's")]
pub struct Record {
    pub position: LogPosition,
    pub at_ms: i64,
    pub tenant_id: Option<String>,
    pub item_id: Option<Uuid>,
    pub lane: Option<i64>,
    pub seq: Option<i64>,
    pub action: String,
    pub actor: String,
    pub field: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub details: Option<String>,
}

impl Record {
    /// The entry's hash.
    pub fn hash(&self, salt: Salt) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(ENTRY);
        hasher.update(&salt.0);
        for number in [self.position.tx, self.position.id, self.at_ms] {
            hasher.update(&number.to_be_bytes());
        }
        let mut part = |bytes: Option<&[u8]>| match bytes {
            None => hasher.update(&[0]),
            Some(bytes) => {
                hasher.update(&[1]);
                hasher.update(&(bytes.len() as u64).to_be_bytes());
                hasher.update(bytes);
            }
        };
        let text = |text: &Option<String>| text.clone().map(String::into_bytes);
        part(text(&self.tenant_id).as_deref());
        part(self.item_id.as_ref().map(|id| id.as_bytes().as_slice()));
        part(self.lane.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        part(self.seq.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        part(Some(self.action.as_bytes()));
        part(Some(self.actor.as_bytes()));
        for more in [&self.field, &self.old, &self.new, &self.details] {
            part(more.as_ref().map(String::as_bytes));
        }
        hasher.finish()
    }
}

/// The salt of the entry at a position.
pub fn salt(secret: &Secret, position: LogPosition) -> Salt {
    let mut hasher = Hasher::default();
    hasher.update(SALT);
    hasher.update(secret);
    hasher.update(&position.tx.to_be_bytes());
    hasher.update(&position.id.to_be_bytes());
    let mut salt = [0; 16];
    salt.copy_from_slice(&hasher.finish().bytes()[..16]);
    Salt(salt)
}

/// The beginning of an entry's hash, as it is kept with its block.
pub fn mark(hash: Digest) -> [u8; MARK_LENGTH] {
    let mut mark = [0; MARK_LENGTH];
    mark.copy_from_slice(&hash.bytes()[..MARK_LENGTH]);
    mark
}

/// A sealed block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Block {
    /// From 1, without a gap.
    pub number: u64,
    /// Its first entry.
    pub first: LogPosition,
    /// Its last.
    pub last: LogPosition,
    /// How many entries all earlier blocks have.
    pub before: u64,
    /// How many entries it has.
    pub entries: u64,
    /// The root of the tree over its entries' hashes.
    pub root: Digest,
    /// The hash of the block before.
    pub previous: Digest,
    /// When it was sealed.
    pub sealed_at_ms: i64,
    /// The hash of all of the above.
    pub hash: Digest,
}

impl Block {
    /// The block after `previous`, with its hash.
    pub fn after(
        previous: Option<&Self>,
        (first, last): (LogPosition, LogPosition),
        tree: &Tree,
        sealed_at: Timestamp,
    ) -> Self {
        let mut block = Self {
            number: previous.map_or(1, |block| block.number + 1),
            first,
            last,
            before: previous.map_or(0, |block| block.before + block.entries),
            entries: tree.leaves(),
            root: tree.root(),
            previous: previous.map_or(NO_BLOCK, |block| block.hash),
            sealed_at_ms: sealed_at.ms(),
            hash: NO_BLOCK,
        };
        block.hash = block.computed_hash();
        block
    }

    /// What its hash has to be.
    pub fn computed_hash(&self) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(BLOCK);
        hasher.update(&self.number.to_be_bytes());
        for position in [self.first, self.last] {
            hasher.update(&position.tx.to_be_bytes());
            hasher.update(&position.id.to_be_bytes());
        }
        hasher.update(&self.before.to_be_bytes());
        hasher.update(&self.entries.to_be_bytes());
        hasher.update(self.root.bytes());
        hasher.update(self.previous.bytes());
        hasher.update(&self.sealed_at_ms.to_be_bytes());
        hasher.finish()
    }

    /// Whether it may follow on another, or on none; what is wrong with it otherwise.
    pub fn check_after(&self, previous: Option<&Self>) -> Result<(), String> {
        let number = previous.map_or(1, |block| block.number + 1);
        if self.number != number {
            return Err(format!(
                "block {number} is missing: block {} stands in its place",
                self.number
            ));
        }
        if self.hash != self.computed_hash() {
            return Err(format!("the seal of block {number} was changed"));
        }
        if self.previous != previous.map_or(NO_BLOCK, |block| block.hash)
            || self.before != previous.map_or(0, |block| block.before + block.entries)
            || previous.is_some_and(|block| block.last >= self.first)
            || self.first > self.last
            || self.entries == 0
        {
            return Err(format!(
                "block {number} does not follow on the block before: one of the two was replaced"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn record(id: i64) -> Record {
        Record {
            position: LogPosition { tx: 7, id },
            at_ms: 1_790_000_000_000,
            tenant_id: Some("acme".to_owned()),
            item_id: Some(Uuid::from_u128(5)),
            lane: Some(3),
            seq: Some(9),
            action: "item.submitted".to_owned(),
            actor: "producer:ben".to_owned(),
            field: None,
            old: None,
            new: None,
            details: Some("{}".to_owned()),
        }
    }

    #[test]
    fn an_entrys_hash_is_the_one_that_the_reference_gives() {
        // docs/reference/audit.md has this case; whoever changes it changes the format.
        let hash = record(1).hash(Salt([0; 16]));
        let bytes = reference_bytes();
        assert_eq!(hash, Digest::of(&bytes), "{hash}");
        assert_eq!(
            hash.to_string(),
            "5be936140e308edbeca7714848de1f1bf4959c09bb990103e934f9f88579fc86"
        );
    }

    /// The bytes of the case, put together by hand.
    fn reference_bytes() -> Vec<u8> {
        let mut bytes = b"docket-log-entry-1\n".to_vec();
        bytes.extend([0; 16]);
        for number in [7_i64, 1, 1_790_000_000_000] {
            bytes.extend(number.to_be_bytes());
        }
        let some = |part: &[u8]| [&[1], (part.len() as u64).to_be_bytes().as_slice(), part].concat();
        bytes.extend(some(b"acme"));
        bytes.extend(some(&5_u128.to_be_bytes()));
        bytes.extend(some(&3_i64.to_be_bytes()));
        bytes.extend(some(&9_i64.to_be_bytes()));
        bytes.extend(some(b"item.submitted"));
        bytes.extend(some(b"producer:ben"));
        bytes.extend([0, 0, 0]);
        bytes.extend(some(b"{}"));
        bytes
    }

    #[test]
    fn every_member_of_an_entry_is_in_its_hash() {
        let whole = record(1);
        let changes: [fn(&mut Record); 13] = [
            |r| r.position.tx += 1,
            |r| r.position.id += 1,
            |r| r.at_ms += 1,
            |r| r.tenant_id = None,
            |r| r.item_id = None,
            |r| r.lane = Some(4),
            |r| r.seq = None,
            |r| r.action.push('x'),
            |r| r.actor.push('x'),
            |r| r.field = Some(String::new()),
            |r| r.old = Some("{}".to_owned()),
            |r| r.new = Some("{}".to_owned()),
            |r| r.details = None,
        ];
        let salt = Salt([1; 16]);
        for (n, change) in changes.iter().enumerate() {
            let mut other = whole.clone();
            change(&mut other);
            assert_ne!(other.hash(salt), whole.hash(salt), "change {n}");
        }
        assert_ne!(whole.hash(Salt([2; 16])), whole.hash(salt));
    }

    #[test]
    fn nothing_can_be_shifted_between_two_members() {
        let with = |action: &str, actor: &str, old: Option<&str>, new: Option<&str>| {
            let mut entry = record(1);
            (entry.action, entry.actor) = (action.to_owned(), actor.to_owned());
            (entry.old, entry.new) = (old.map(str::to_owned), new.map(str::to_owned));
            entry.hash(Salt([0; 16]))
        };
        assert_ne!(with("ab", "c", None, None), with("a", "bc", None, None));
        assert_ne!(with("a", "b", Some("x"), None), with("a", "b", None, Some("x")));
        assert_ne!(with("a", "b", Some(""), None), with("a", "b", None, None));
    }

    #[test]
    fn a_block_is_chained_to_the_one_before() {
        let mut tree = Tree::default();
        tree.push_leaf(record(1).hash(Salt([0; 16])));
        let at = |id| LogPosition { tx: 7, id };
        let first = Block::after(None, (at(1), at(1)), &tree, Timestamp::from_ms(5));
        let second = Block::after(Some(&first), (at(2), at(2)), &tree, Timestamp::from_ms(6));
        assert_eq!(
            (second.number, second.before, second.previous),
            (2, 1, first.hash)
        );
        assert_eq!(first.check_after(None), Ok(()));
        assert_eq!(second.check_after(Some(&first)), Ok(()));
        assert!(
            second
                .check_after(None)
                .unwrap_err()
                .contains("block 1 is missing")
        );
        let changed = Block {
            sealed_at_ms: 7,
            ..second.clone()
        };
        assert!(
            changed
                .check_after(Some(&first))
                .unwrap_err()
                .contains("was changed")
        );
        let mut replaced = Block {
            previous: second.hash,
            ..second
        };
        replaced.hash = replaced.computed_hash();
        assert!(
            replaced
                .check_after(Some(&first))
                .unwrap_err()
                .contains("does not follow")
        );
    }
}
