//! What a change leaves behind: entries of the log and changes of counts, together, in one statement on PostgreSQL.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, LaneKey, Seq};

use super::counter::{self, Counted};
use super::log::{self, NewEntry};
use crate::error::Result;
use crate::params;
use crate::tx::{Driver, Tx};
use crate::value::{Value, int_of};

crate::statements! {
    RECORD = postgres "record" "
with lg as (
  insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, field, old, new, details)
  select $1, e.tenant_id, nullif(e.item_id, '00000000-0000-0000-0000-000000000000'), e.lane_key, e.seq, e.action, e.actor, e.field, e.old, e.new, e.details
  from unnest($2::text[], $3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::text[], $11::text[])
    as e (tenant_id, item_id, lane_key, seq, action, actor, field, old, new, details))
insert into delta (collection_key, from_status, to_status, n)
select * from unnest($12::bigint[], $13::text[], $14::text[], $15::bigint[])";
}

/// Things that went from one count to another; none for what is new, or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// In which collection.
    pub collection: CollectionKey,
    /// Where they were counted.
    pub from: Option<Counted>,
    /// Where they are.
    pub to: Option<Counted>,
}

/// Writes entries, and each change of counts as often as it is named.
pub async fn record(tx: &mut Tx, entries: &[NewEntry], moves: &[Move], now: Timestamp) -> Result<()> {
    let mut sums = std::collections::BTreeMap::<Move, u64>::new();
    for change in moves.iter().filter(|change| change.from != change.to) {
        *sums.entry(*change).or_default() += 1;
    }
    if entries.is_empty() && sums.is_empty() {
        return Ok(());
    }
    if let Driver::Postgres(tx) = &mut tx.driver {
        tx.execute_later((&RECORD, at_once(entries, &sums, now)));
        return Ok(());
    }
    for entry in entries {
        log::append(tx, entry, now).await?;
    }
    for (change, n) in sums {
        counter::add_counted(tx, change.collection, change.from, change.to, n).await?;
    }
    Ok(())
}

fn at_once(entries: &[NewEntry], sums: &std::collections::BTreeMap<Move, u64>, now: Timestamp) -> Vec<Value> {
    let texts = |of: fn(&NewEntry) -> Option<&String>| {
        Value::Texts(entries.iter().map(|entry| of(entry).cloned()).collect())
    };
    let word = |of: fn(&Move) -> Option<Counted>| {
        Value::Texts(sums.keys().map(|change| of(change).map(Counted::word)).collect())
    };
    let place =
        |of: fn((LaneKey, Seq)) -> i64| Value::Ints(entries.iter().map(|entry| entry.job.map(of)).collect());
    params![
        now,
        texts(|entry| entry.tenant_id.as_ref()),
        Value::Uuids(
            entries
                .iter()
                .map(|entry| entry.item.map(|item| item.uuid()).unwrap_or_default())
                .collect()
        ),
        place(|(lane, _)| i64::from(lane.0)),
        place(|(_, seq)| int_of(seq.0)),
        Value::Texts(
            entries
                .iter()
                .map(|entry| Some(entry.action.as_str().to_owned()))
                .collect()
        ),
        texts(|entry| Some(&entry.actor)),
        texts(|entry| entry.field.as_ref()),
        texts(|entry| entry.old.as_ref()),
        texts(|entry| entry.new.as_ref()),
        texts(|entry| entry.details.as_ref()),
        Value::Ints(
            sums.keys()
                .map(|change| Some(i64::from(change.collection.0)))
                .collect()
        ),
        word(|change| change.from),
        word(|change| change.to),
        Value::Ints(sums.values().map(|n| Some(int_of(*n))).collect()),
    ]
    .to_vec()
}
