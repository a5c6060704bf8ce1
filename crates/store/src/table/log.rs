//! The log.

use docket_core::Timestamp;
use docket_core::id::{ItemId, JobId, LaneKey, Seq};
use docket_core::log::Action;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    APPEND = portable "log_append" "
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, field, old, new, details)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    OF_ITEM = portable "log_of_item" "
select tx, id, at_ms, action, actor, field, old, new, details from log
where item_id = $1 and (tx > $2 or (tx = $2 and id > $3)) order by tx, id limit $4";
}

/// An entry to be written.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct NewEntry {
    pub action: Action,
    pub actor: String,
    pub tenant_id: Option<String>,
    pub item: Option<ItemId>,
    pub job: Option<(LaneKey, Seq)>,
    pub field: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub details: Option<String>,
}

impl NewEntry {
    /// An entry that says only this.
    pub fn new(action: Action, actor: impl Into<String>) -> Self {
        Self {
            action,
            actor: actor.into(),
            tenant_id: None,
            item: None,
            job: None,
            field: None,
            old: None,
            new: None,
            details: None,
        }
    }

    /// The same, of this item.
    #[must_use]
    pub fn of_item(mut self, tenant_id: &str, item: ItemId) -> Self {
        (self.tenant_id, self.item) = (Some(tenant_id.to_owned()), Some(item));
        self
    }

    /// The same, of this job.
    #[must_use]
    pub fn of_job(mut self, job: JobId) -> Self {
        self.job = Some((job.lane(), job.seq()));
        self
    }

    /// The same, with this to explain it.
    #[must_use]
    pub fn with(mut self, details: &serde_json::Value) -> Self {
        self.details = Some(details.to_string());
        self
    }
}

/// Where an entry stands in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The transaction (0 on SQLite).
    pub tx: i64,
    /// The entry.
    pub id: i64,
}

/// An entry of the log.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Entry {
    pub position: LogPosition,
    pub at: Timestamp,
    pub action: String,
    pub actor: String,
    pub field: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub details: Option<String>,
}

/// Writes an entry.
pub async fn append(tx: &mut Tx, entry: &NewEntry, now: Timestamp) -> Result<()> {
    let params = params![
        now,
        entry.tenant_id.as_ref(),
        entry.item,
        entry.job.map(|(lane, _)| lane),
        entry.job.map(|(_, seq)| seq),
        entry.action.as_str(),
        &entry.actor,
        entry.field.as_ref(),
        entry.old.as_ref(),
        entry.new.as_ref(),
        entry.details.as_ref(),
    ];
    tx.execute_one(&APPEND, params).await
}

/// The entries of an item after a position, oldest first.
pub async fn of_item(tx: &mut Tx, item: ItemId, after: LogPosition, limit: u64) -> Result<Vec<Entry>> {
    let rows = tx
        .rows(&OF_ITEM, params![item, after.tx, after.id, limit])
        .await?;
    rows.into_iter()
        .map(|mut row| {
            Ok(Entry {
                position: LogPosition {
                    tx: row.int(0)?,
                    id: row.int(1)?,
                },
                at: row.time(2)?,
                action: row.text(3)?,
                actor: row.text(4)?,
                field: row.opt_text(5)?,
                old: row.opt_text(6)?,
                new: row.opt_text(7)?,
                details: row.opt_text(8)?,
            })
        })
        .collect()
}
