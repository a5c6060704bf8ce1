//! Values that people set.

use docket_core::field::Correction;
use docket_core::id::ItemId;

use crate::error::{Error, Result};
use crate::params;
use crate::postgres::Query;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

crate::statements! {
    PUT = portable "correction_put" "
insert into correction (collection_key, item_id, name, value, locked, corrected_by, corrected_at_ms)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (collection_key, item_id, name) do update set value = excluded.value, locked = excluded.locked,
  corrected_by = excluded.corrected_by, corrected_at_ms = excluded.corrected_at_ms";
    DELETE = portable "correction_delete" "
delete from correction where collection_key = $1 and item_id = $2 and name = $3";
    DELETE_UNLOCKED = portable "correction_delete_unlocked" "
delete from correction where collection_key = $1 and item_id = $2 and name = $3 and not locked";
    OF_ITEM = portable "corrections_of_item" "
select item_id, name, value, locked, corrected_by, corrected_at_ms from correction
where collection_key = $1 and item_id = $2 order by name";
    OF_ITEMS = postgres "corrections_of_items" "
select c.item_id, c.name, c.value, c.locked, c.corrected_by, c.corrected_at_ms
from unnest($1::bigint[], $2::uuid[]) as q (collection_key, item_id)
cross join lateral (
  select * from correction c where c.collection_key = q.collection_key and c.item_id = q.item_id offset 0) c";
}

fn read(mut row: Row) -> Result<(ItemId, Correction)> {
    let value = row.text(2)?;
    Ok((
        row.item(0)?,
        Correction {
            name: row.text(1)?,
            value: serde_json::from_str(&value).map_err(|source| Error::Json {
                what: "a correction",
                source,
            })?,
            locked: row.bool(3)?,
            corrected_by: row.text(4)?,
            corrected_at: row.time(5)?,
        },
    ))
}

/// Sets a value.
pub async fn put(tx: &mut Tx, item: ItemId, correction: &Correction) -> Result<()> {
    let params = params![
        item.collection(),
        item,
        &correction.name,
        correction.value.to_string(),
        correction.locked,
        &correction.corrected_by,
        correction.corrected_at,
    ];
    tx.execute_one(&PUT, params).await
}

/// Forgets a value.
pub async fn delete(tx: &mut Tx, item: ItemId, name: &str) -> Result<()> {
    tx.execute_one(&DELETE, params![item.collection(), item, name])
        .await
}

/// Forgets a value that is not locked; whether there was one.
pub async fn delete_unlocked(tx: &mut Tx, item: ItemId, name: &str) -> Result<bool> {
    let deleted = tx
        .execute(&DELETE_UNLOCKED, params![item.collection(), item, name])
        .await?;
    Ok(deleted == 1)
}

/// Asks for the values set for some items.
pub(super) fn with_items(items: &[ItemId]) -> Query {
    let keys = items.iter().map(|item| Some(i64::from(item.collection().0)));
    let ids = items.iter().map(|item| item.uuid());
    (
        &OF_ITEMS,
        vec![Value::Ints(keys.collect()), Value::Uuids(ids.collect())],
    )
}

pub(super) fn read_all(rows: Vec<Row>) -> Result<Vec<(ItemId, Correction)>> {
    rows.into_iter().map(read).collect()
}

/// The values set for some items.
pub async fn of_items(tx: &mut Tx, items: &[ItemId]) -> Result<Vec<(ItemId, Correction)>> {
    if let Driver::Postgres(tx) = &mut tx.driver {
        let (statement, params) = with_items(items);
        return read_all(tx.rows(statement, &params).await?);
    }
    let mut corrections = Vec::new();
    for item in items {
        for row in tx.rows(&OF_ITEM, params![item.collection(), *item]).await? {
            corrections.push(read(row)?);
        }
    }
    Ok(corrections)
}
