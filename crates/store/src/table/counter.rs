//! Counts of items and reviews by collection and status: folded ones, and the changes that wait to be folded in. Both together are exact at
//! any moment, in one snapshot.

use std::collections::BTreeMap;

use docket_core::id::CollectionKey;
use docket_core::item::ItemStatus;
use docket_core::review::ReviewState;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    ADD = portable "delta_add" "
insert into delta (collection_key, from_status, to_status, n) values ($1, $2, $3, $4)";
    TAKE = split "delta_take"
        "delete from delta where ctid = any (array(select ctid from delta limit $1 for update skip locked))
         returning collection_key, from_status, to_status, n"
        "delete from delta where rowid in (select rowid from delta order by rowid limit $1)
         returning collection_key, from_status, to_status, n";
    FOLD = portable "counter_fold" "
insert into counter (collection_key, status, value) values ($1, $2, $3)
on conflict (collection_key, status) do update set value = counter.value + excluded.value";
    READ = portable "counter_read" "
select status, cast(sum(n) as bigint) from (
  select status, value as n from counter where collection_key = $1
  union all select to_status, n from delta where collection_key = $1 and to_status is not null
  union all select from_status, -n from delta where collection_key = $1 and from_status is not null) x
group by status";
}

/// What is counted by collection: items by their status, and reviews by their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// An item.
    Item(ItemStatus),
    /// A review.
    Review(ReviewState),
}

/// How the word of a review's count begins.
const REVIEW: &str = "review:";

impl Counted {
    pub(crate) fn word(self) -> String {
        match self {
            Self::Item(status) => status.counted_as().as_str().to_owned(),
            Self::Review(state) => format!("{REVIEW}{state}"),
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word.strip_prefix(REVIEW) {
            Some(state) => ReviewState::parse(state).ok().map(Self::Review),
            None => ItemStatus::from_word(word).map(Self::Item),
        }
    }
}

/// The state of a review that a counter's word stands for.
pub(crate) fn review_state(word: &str) -> Option<ReviewState> {
    match Counted::from_word(word)? {
        Counted::Review(state) => Some(state),
        Counted::Item(_) => None,
    }
}

/// Notes that `n` items went from one status to another; none for a new item, or one that is gone.
pub async fn add(
    tx: &mut Tx,
    collection: CollectionKey,
    from: Option<ItemStatus>,
    to: Option<ItemStatus>,
    n: u64,
) -> Result<()> {
    add_counted(tx, collection, from.map(Counted::Item), to.map(Counted::Item), n).await
}

/// The same for anything that is counted.
pub async fn add_counted(
    tx: &mut Tx,
    collection: CollectionKey,
    from: Option<Counted>,
    to: Option<Counted>,
    n: u64,
) -> Result<()> {
    let word = |counted: Option<Counted>| counted.map(Counted::word);
    tx.execute_one(&ADD, params![collection, word(from), word(to), n])
        .await
}

/// Folds up to `limit` changes into the counters; how many there were.
pub async fn fold(tx: &mut Tx, limit: u64) -> Result<u64> {
    let rows = tx.rows(&TAKE, params![limit]).await?;
    let taken = rows.len() as u64;
    // Sorted, so that two folders lock the counters in the same order.
    let mut sums: BTreeMap<(CollectionKey, String), i64> = BTreeMap::new();
    for mut row in rows {
        let (collection, n) = (row.collection(0)?, row.int(3)?);
        if let Some(from) = row.opt_text(1)? {
            *sums.entry((collection, from)).or_default() -= n;
        }
        if let Some(to) = row.opt_text(2)? {
            *sums.entry((collection, to)).or_default() += n;
        }
    }
    for ((collection, status), n) in sums.into_iter().filter(|(_, n)| *n != 0) {
        tx.execute_one(&FOLD, params![collection, status, n]).await?;
    }
    Ok(taken)
}

/// The counts of a collection's items. What runs counts as queued.
pub async fn read(tx: &mut Tx, collection: CollectionKey) -> Result<BTreeMap<ItemStatus, i64>> {
    let counts = read_all(tx, collection).await?.into_iter();
    Ok(counts
        .filter_map(|(counted, n)| match counted {
            Counted::Item(status) => Some((status, n)),
            Counted::Review(_) => None,
        })
        .collect())
}

/// The counts of a collection's reviews.
pub async fn read_reviews(tx: &mut Tx, collection: CollectionKey) -> Result<BTreeMap<ReviewState, i64>> {
    let counts = read_all(tx, collection).await?.into_iter();
    Ok(counts
        .filter_map(|(counted, n)| match counted {
            Counted::Review(state) => Some((state, n)),
            Counted::Item(_) => None,
        })
        .collect())
}

async fn read_all(tx: &mut Tx, collection: CollectionKey) -> Result<Vec<(Counted, i64)>> {
    let rows = tx.rows(&READ, params![collection]).await?;
    rows.into_iter()
        .map(|mut row| {
            let counted = Counted::from_word(&row.text(0)?).ok_or_else(|| row.inconsistent(0))?;
            Ok((counted, row.int(1)?))
        })
        .filter(|read| !matches!(read, Ok((_, 0))))
        .collect()
}
