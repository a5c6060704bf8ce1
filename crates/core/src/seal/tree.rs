//! The tree over the hashes of a block's entries, and how parts of it are hidden.
//!
//! Leaves are added from left to right. Two neighbours of the same height become one node; what is left at the end is joined from
//! the right. So the root of any number of leaves is known, and a whole subtree can stand in for its leaves.

use super::NODE;
use crate::content::{Digest, Hasher};

/// A tree that grows; it keeps one hash for each height.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    peaks: Vec<(u32, Digest)>,
    leaves: u64,
}

fn node(left: Digest, right: Digest) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(NODE);
    hasher.update(left.bytes());
    hasher.update(right.bytes());
    hasher.finish()
}

impl Tree {
    /// Adds an entry's hash.
    pub fn push_leaf(&mut self, hash: Digest) {
        self.push(0, hash);
    }

    /// Adds a subtree of 2^height leaves; whether one may stand here.
    pub fn push(&mut self, height: u32, hash: Digest) -> bool {
        if height > 32 || !self.leaves.is_multiple_of(1 << height) {
            return false;
        }
        self.leaves += 1 << height;
        let (mut height, mut hash) = (height, hash);
        while let Some((_, left)) = self.peaks.pop_if(|(peak, _)| *peak == height) {
            (height, hash) = (height + 1, node(left, hash));
        }
        self.peaks.push((height, hash));
        true
    }

    /// How many leaves it has.
    pub const fn leaves(&self) -> u64 {
        self.leaves
    }

    /// Its root; of an empty tree, nothing but zeros.
    pub fn root(&self) -> Digest {
        let joined = self.peaks.iter().rev().map(|(_, hash)| *hash);
        joined
            .reduce(|right, left| node(left, right))
            .unwrap_or(Digest::zero())
    }
}

/// A part of a block as it is shown: one entry, or a subtree without any that may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The entry with this index.
    Entry(usize),
    /// The subtree of this height that begins at this index.
    Hidden(usize, u32, Digest),
}

/// Cuts a block into the entries that may be seen and the largest subtrees between them. `leaves` holds each entry's hash, and
/// whether it may be seen.
pub fn hide(leaves: &[(Digest, bool)]) -> Vec<Shown> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < leaves.len() {
        if leaves[at].1 {
            parts.push(Shown::Entry(at));
            at += 1;
            continue;
        }
        let run = leaves[at..].iter().take_while(|(_, seen)| !seen).count();
        let mut height = 0;
        while at.is_multiple_of(2 << height) && (2 << height) <= run {
            height += 1;
        }
        let mut tree = Tree::default();
        let end = at + (1 << height);
        leaves[at..end].iter().for_each(|(hash, _)| tree.push_leaf(*hash));
        parts.push(Shown::Hidden(at, height, tree.root()));
        at = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(n: u64) -> Vec<Digest> {
        (0..n).map(|n| Digest::of(&n.to_be_bytes())).collect()
    }

    fn root(leaves: &[Digest]) -> Digest {
        let mut tree = Tree::default();
        leaves.iter().for_each(|leaf| tree.push_leaf(*leaf));
        tree.root()
    }

    /// The same by its definition: the left subtree is the largest power of two that leaves something for the right.
    fn by_definition(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::zero(),
            [leaf] => *leaf,
            _ => {
                let left = leaves.len().next_power_of_two() / 2;
                node(by_definition(&leaves[..left]), by_definition(&leaves[left..]))
            }
        }
    }

    #[test]
    fn the_root_is_what_its_definition_says() {
        for n in 0..70 {
            assert_eq!(root(&leaves(n)), by_definition(&leaves(n)), "{n} leaves");
        }
    }

    #[test]
    fn a_leaf_changed_or_moved_changes_the_root() {
        let whole = leaves(13);
        for n in 0..12 {
            let mut swapped = whole.clone();
            swapped.swap(n, n + 1);
            assert_ne!(root(&swapped), root(&whole));
            let mut dropped = whole.clone();
            dropped.remove(n);
            assert_ne!(root(&dropped), root(&whole));
        }
    }

    #[test]
    fn what_is_hidden_leaves_the_root_as_it_was() {
        for n in 1..40_u64 {
            for seen in 0..n {
                let all = leaves(n);
                let shown: Vec<_> = all
                    .iter()
                    .enumerate()
                    .map(|(at, hash)| (*hash, at as u64 == seen || at as u64 == n / 2))
                    .collect();
                let mut tree = Tree::default();
                let parts = hide(&shown);
                for part in &parts {
                    match part {
                        Shown::Entry(at) => tree.push_leaf(all[*at]),
                        Shown::Hidden(_, height, hash) => assert!(tree.push(*height, *hash)),
                    }
                }
                assert_eq!((tree.root(), tree.leaves()), (root(&all), n));
                assert!(parts.len() <= 24, "{} parts for {n} leaves", parts.len());
            }
        }
    }

    #[test]
    fn a_subtree_stands_only_where_one_can() {
        let mut tree = Tree::default();
        tree.push_leaf(Digest::zero());
        assert!(!tree.push(1, Digest::zero()));
        assert!(!tree.push(60, Digest::zero()));
        assert_eq!(tree.leaves(), 1);
    }
}
