//! What comes up most often, of more than can be kept.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts the commonest of a stream in bounded memory ("space-saving", Metwally and others, 2005): a newcomer takes the place of the rarest,
/// and its count with it. Whatever makes up more than one part in [`Commonest::new`]'s `most` is always there.
#[derive(Clone, Debug)]
pub struct Commonest<K> {
    most: usize,
    counts: HashMap<K, Count>,
    is_exact: bool,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    seen: u64,
    /// How much of that may have been others'.
    inherited: u64,
}

/// One of the commonest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common<K> {
    /// What it is.
    pub key: K,
    /// How often it surely was there; exactly so often where the whole is exact.
    pub count: u64,
}

impl<K: Clone + Eq + Hash + Ord> Commonest<K> {
    /// Nothing yet; tells at most so many apart.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            counts: HashMap::new(),
            is_exact: true,
        }
    }

    /// One more of these.
    pub fn add(&mut self, key: K) {
        if let Some(count) = self.counts.get_mut(&key) {
            count.seen += 1;
            return;
        }
        let mut inherited = 0;
        if self.counts.len() >= self.most {
            let rarest = self.counts.iter().min_by_key(|(key, count)| (count.seen, *key));
            if let Some((rarest, count)) = rarest.map(|(key, count)| (key.clone(), *count)) {
                inherited = count.seen;
                self.counts.remove(&rarest);
                self.is_exact = false;
            }
        }
        let seen = inherited + 1;
        self.counts.insert(key, Count { seen, inherited });
    }

    /// Whether everything could be told apart, so that the counts are exact.
    pub const fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The commonest, most often first; equals in their own order.
    pub fn top(&self, limit: usize) -> Vec<Common<K>> {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .map(|(key, count)| Common {
                key: key.clone(),
                count: count.seen - count.inherited,
            })
            .collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        all.truncate(limit);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(most: usize, keys: &str) -> Commonest<char> {
        let mut commonest = Commonest::new(most);
        keys.chars().for_each(|key| commonest.add(key));
        commonest
    }

    #[test]
    fn what_fits_is_counted_exactly() {
        let commonest = counted(3, "abacab");
        let top: Vec<_> = commonest.top(2).into_iter().map(|c| (c.key, c.count)).collect();
        assert_eq!((top, commonest.is_exact()), (vec![('a', 3), ('b', 2)], true));
    }

    #[test]
    fn what_is_common_survives_any_number_of_rare_ones() {
        let mut commonest = Commonest::new(8);
        for n in 0..10_000_u32 {
            commonest.add(if n % 3 == 0 { 0 } else { n });
        }
        let top = commonest.top(1);
        assert_eq!(top[0].key, 0);
        assert!(!commonest.is_exact());
        assert!(
            top[0].count <= 3_334,
            "never more than there were: {}",
            top[0].count
        );
        assert!(top[0].count >= 2_000, "{}", top[0].count);
        assert_eq!(commonest.counts.len(), 8);
    }

    #[test]
    fn a_newcomer_is_told_with_what_is_surely_its_own() {
        let commonest = counted(2, "aabbc");
        let top: Vec<_> = commonest.top(9).into_iter().map(|c| (c.key, c.count)).collect();
        assert_eq!((top, commonest.is_exact()), (vec![('b', 2), ('c', 1)], false));
    }
}
