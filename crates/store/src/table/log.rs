//! The log: appending to it, and reading it in its order.
//!
//! On PostgreSQL the order is that of transactions, and a transaction with a lower number may commit later. Whoever wants to
//! read on from where a read ended, and miss nothing, stops at the [`horizon`] of the same snapshot.

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, JobId, LaneKey, Seq};
use docket_core::log::Action;
pub use docket_core::log::LogPosition;
use docket_core::seal::Record;

use crate::error::Result;
use crate::params;
use crate::statement::Statement;
use crate::tx::Tx;
use crate::value::{Row, Value};

crate::statements! {
    APPEND = portable "log_append" "
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor, field, old, new, details)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    OF_ITEM = portable "log_of_item" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l where item_id = $1 and (tx > $2 or (tx = $2 and id > $3)) order by tx, id limit $4";
    HORIZON = split "log_horizon" "select log_base() + pg_snapshot_xmin(pg_current_snapshot())::text::bigint" "select 9223372036854775807";
    STREAM_UP = split "log_stream_up" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where (l.tx, l.id) > ($1, $2) and (l.tx, l.id) <= ($3, $4)
  and ($6::text is null or l.tenant_id = $6) and ($7::text is null or l.actor = $7)
  and ($8::text is null or l.action = $8) and ($9::bigint is null or l.at_ms >= $9) and ($10::bigint is null or l.at_ms < $10)
order by l.tx, l.id limit $5" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where l.id > $2 and l.id <= $4
  and ($6 is null or l.tenant_id = $6) and ($7 is null or l.actor = $7)
  and ($8 is null or l.action = $8) and ($9 is null or l.at_ms >= $9) and ($10 is null or l.at_ms < $10)
order by l.id limit $5";
    PLAIN = split "log_stream_plain" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       null::bigint
from log l where (l.tx, l.id) > ($1, $2) and (l.tx, l.id) <= ($3, $4) order by l.tx, l.id limit $5" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       null
from log l where l.id > $2 and l.id <= $4 order by l.id limit $5";
    STREAM_ITEM_UP = split "log_stream_item_up" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where l.item_id = $11 and (l.tx, l.id) > ($1, $2) and (l.tx, l.id) <= ($3, $4)
  and ($6::text is null or l.tenant_id = $6) and ($7::text is null or l.actor = $7)
  and ($8::text is null or l.action = $8) and ($9::bigint is null or l.at_ms >= $9) and ($10::bigint is null or l.at_ms < $10)
order by l.tx, l.id limit $5" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where l.item_id = $11 and l.id > $2 and l.id <= $4
  and ($6 is null or l.tenant_id = $6) and ($7 is null or l.actor = $7)
  and ($8 is null or l.action = $8) and ($9 is null or l.at_ms >= $9) and ($10 is null or l.at_ms < $10)
order by l.id limit $5";
    WINDOW_UP = split "log_stream_window_up" "
select l.tx, l.id from log l where (l.tx, l.id) > ($1, $2) and (l.tx, l.id) <= ($3, $4) order by l.tx, l.id offset $5 limit 1" "
select l.tx, l.id from log l where l.id > $2 and l.id <= $4 order by l.id limit 1 offset $5";
    BOUNDED_UP = split "log_stream_bounded_up" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from (select e.*, sum(octet_length(coalesce(e.old, '')) + octet_length(coalesce(e.new, '')) + octet_length(coalesce(e.details, '')))
                  over (order by e.tx, e.id rows between unbounded preceding and 1 preceding) as before
      from log e
      where (e.tx, e.id) > ($1, $2) and (e.tx, e.id) <= ($3, $4) and ($6::text is null or e.tenant_id = $6)
      order by e.tx, e.id limit $5) l
where coalesce(l.before, 0) < $7 order by l.tx, l.id" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from (select e.*, sum(octet_length(coalesce(e.old, '')) + octet_length(coalesce(e.new, '')) + octet_length(coalesce(e.details, '')))
                  over (order by e.id rows between unbounded preceding and 1 preceding) as before
      from log e where e.id > $2 and e.id <= $4 and ($6 is null or e.tenant_id = $6) order by e.id limit $5) l
where coalesce(l.before, 0) < $7 order by l.id";
    BOUNDED_ITEM_UP = portable "log_stream_bounded_item_up" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from (select e.*, sum(octet_length(coalesce(e.old, '')) + octet_length(coalesce(e.new, '')) + octet_length(coalesce(e.details, '')))
                  over (order by e.tx, e.id rows between unbounded preceding and 1 preceding) as before
      from log e where e.item_id = $6 and (e.tx, e.id) > ($1, $2) and (e.tx, e.id) <= ($3, $4)
      order by e.tx, e.id limit $5) l
where coalesce(l.before, 0) < $7 order by l.tx, l.id";
    STREAM_DOWN = split "log_stream_down" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where (l.tx, l.id) < ($1, $2) and (l.tx, l.id) >= ($3, $4)
  and ($6::text is null or l.tenant_id = $6) and ($7::text is null or l.actor = $7)
  and ($8::text is null or l.action = $8) and ($9::bigint is null or l.at_ms >= $9) and ($10::bigint is null or l.at_ms < $10)
order by l.tx desc, l.id desc limit $5" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where l.id < $2 and l.id >= $4
  and ($6 is null or l.tenant_id = $6) and ($7 is null or l.actor = $7)
  and ($8 is null or l.action = $8) and ($9 is null or l.at_ms >= $9) and ($10 is null or l.at_ms < $10)
order by l.id desc limit $5";
    STREAM_ITEM_DOWN = split "log_stream_item_down" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where l.item_id = $11 and (l.tx, l.id) < ($1, $2) and (l.tx, l.id) >= ($3, $4)
  and ($6::text is null or l.tenant_id = $6) and ($7::text is null or l.actor = $7)
  and ($8::text is null or l.action = $8) and ($9::bigint is null or l.at_ms >= $9) and ($10::bigint is null or l.at_ms < $10)
order by l.tx desc, l.id desc limit $5" "
select l.tx, l.id, l.at_ms, l.tenant_id, l.item_id, l.lane_key, l.seq, l.action, l.actor, l.field, l.old, l.new, l.details,
       (select j.created_at_ms from job j where j.lane_key = l.lane_key and j.seq = l.seq)
from log l
where l.item_id = $11 and l.id < $2 and l.id >= $4
  and ($6 is null or l.tenant_id = $6) and ($7 is null or l.actor = $7)
  and ($8 is null or l.action = $8) and ($9 is null or l.at_ms >= $9) and ($10 is null or l.at_ms < $10)
order by l.id desc limit $5";
    WINDOW_DOWN = split "log_stream_window_down" "
select l.tx, l.id from log l where (l.tx, l.id) < ($1, $2) and (l.tx, l.id) >= ($3, $4) order by l.tx desc, l.id desc offset $5 limit 1" "
select l.tx, l.id from log l where l.id < $2 and l.id >= $4 order by l.id desc limit 1 offset $5";}

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

    /// The same, of what was so before, where it was there, and is so now.
    #[must_use]
    pub fn changing(mut self, old: Option<&serde_json::Value>, new: &serde_json::Value) -> Self {
        (self.old, self.new) = (old.map(ToString::to_string), Some(new.to_string()));
        self
    }

    /// The same, with this to explain it.
    #[must_use]
    pub fn with(mut self, details: &serde_json::Value) -> Self {
        self.details = Some(details.to_string());
        self
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Entry {
    pub position: LogPosition,
    pub at: Timestamp,
    pub tenant_id: Option<String>,
    pub item: Option<ItemId>,
    /// Which job it is about, by its place.
    pub place: Option<(LaneKey, Seq)>,
    /// The same by its id, for as long as the job is kept.
    pub job: Option<JobId>,
    pub action: String,
    pub actor: String,
    pub field: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub details: Option<String>,
}

impl Entry {
    /// Reads the columns that every statement here gives in the same order.
    fn read(mut row: Row) -> Result<Self> {
        let place = row.opt_lane(5)?.zip(row.opt_seq(6)?);
        let created_at = row.opt_time(13)?;
        Ok(Self {
            position: LogPosition {
                tx: row.int(0)?,
                id: row.int(1)?,
            },
            at: row.time(2)?,
            tenant_id: row.opt_text(3)?,
            item: row.opt_item(4)?,
            place,
            job: place
                .zip(created_at)
                .map(|((lane, seq), created_at)| JobId::new(created_at, lane, seq)),
            action: row.text(7)?,
            actor: row.text(8)?,
            field: row.opt_text(9)?,
            old: row.opt_text(10)?,
            new: row.opt_text(11)?,
            details: row.opt_text(12)?,
        })
    }

    /// The same with everything that is sealed, and nothing else.
    pub fn record(&self) -> Record {
        Record {
            position: self.position,
            at_ms: self.at.ms(),
            tenant_id: self.tenant_id.clone(),
            item_id: self.item.map(ItemId::uuid),
            lane: self.place.map(|(lane, _)| i64::from(lane.0)),
            seq: self.place.map(|(_, seq)| crate::value::int_of(seq.0)),
            action: self.action.clone(),
            actor: self.actor.clone(),
            field: self.field.clone(),
            old: self.old.clone(),
            new: self.new.clone(),
            details: self.details.clone(),
        }
    }

    /// How many bytes its values take.
    fn value_bytes(&self) -> u64 {
        let values = [&self.old, &self.new, &self.details];
        values.into_iter().flatten().map(|value| value.len() as u64).sum()
    }

    /// Roughly how many bytes it takes.
    pub fn weight(&self) -> usize {
        let texts = [&self.tenant_id, &self.field, &self.old, &self.new, &self.details];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>() + self.action.len() + self.actor.len() + texts
    }
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
    let params = params![item, after.tx, after.id, limit];
    entries(tx, &OF_ITEM, params).await
}

async fn entries(tx: &mut Tx, statement: &'static Statement, params: &[Value]) -> Result<Vec<Entry>> {
    let rows = tx.rows(statement, params).await?;
    rows.into_iter().map(Entry::read).collect()
}

/// Which way to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As it was written.
    #[default]
    OldestFirst,
    /// The other way round.
    NewestFirst,
}

/// What is looked for. Nothing given is everything.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Wanted {
    pub tenant_id: Option<String>,
    pub item: Option<ItemId>,
    pub collection: Option<CollectionKey>,
    pub actor: Option<String>,
    pub action: Option<String>,
    /// From this moment on.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
}

impl Wanted {
    /// Whether an entry is looked for; the same as the statements say.
    pub fn takes(&self, entry: &Entry) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, has: Option<&T>) -> bool {
            wanted.is_none() || wanted == has
        }
        is(self.tenant_id.as_ref(), entry.tenant_id.as_ref())
            && is(self.item.as_ref(), entry.item.as_ref())
            && is(
                self.collection.as_ref(),
                entry.item.map(ItemId::collection).as_ref(),
            )
            && is(self.actor.as_ref(), Some(&entry.actor))
            && is(self.action.as_ref(), Some(&entry.action))
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }

    const fn is_everything(&self) -> bool {
        self.tenant_id.is_none()
            && self.item.is_none()
            && self.collection.is_none()
            && self.actor.is_none()
            && self.action.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }
}

/// A piece of the log to be read: from `after`, which is left out, up to `until`, which is not.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where to begin.
    pub after: LogPosition,
    /// Where to end.
    pub until: LogPosition,
    /// Which way; backwards `after` is the higher of the two.
    pub order: Order,
    /// How many entries at the most.
    pub limit: u64,
    /// How many entries are looked at, where not all are wanted.
    pub window: u64,
    /// Forwards, the entry with which the values reach so many bytes is the last.
    pub bytes: Option<u64>,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// What was found.
    pub entries: Vec<Entry>,
    /// Everything up to here was looked at, and more may follow; none when the end of the piece was reached.
    pub next: Option<LogPosition>,
}

/// The last position that a reader may go to who wants to miss nothing: no transaction that is still open can write at or before
/// it. On SQLite that is whatever is committed. It belongs to the snapshot of this transaction, as everything read in it does.
pub async fn horizon(tx: &mut Tx) -> Result<LogPosition> {
    let horizon = tx.row(&HORIZON, params![]).await?.int(0)?;
    Ok(LogPosition {
        tx: horizon - 1,
        id: i64::MAX,
    })
}

/// Where the log ends for a reader who wants to miss nothing.
pub async fn head(tx: &mut Tx) -> Result<LogPosition> {
    let until = horizon(tx).await?;
    newest_up_to(tx, until).await
}

/// The newest entry of all.
pub async fn newest(tx: &mut Tx) -> Result<LogPosition> {
    newest_up_to(tx, LogPosition::LAST).await
}

async fn newest_up_to(tx: &mut Tx, until: LogPosition) -> Result<LogPosition> {
    let back = params![until.tx, until.id, 0_i64, -1_i64, 0_i64];
    let row = tx.row_opt(&WINDOW_DOWN, back).await?;
    row.map_or(Ok(LogPosition::default()), |mut row| position(&mut row))
}

fn position(row: &mut Row) -> Result<LogPosition> {
    Ok(LogPosition {
        tx: row.int(0)?,
        id: row.int(1)?,
    })
}

/// What stands after one position and up to another, without the ids of jobs, which are not sealed and cost a look each.
pub async fn plain(tx: &mut Tx, after: LogPosition, until: LogPosition, limit: u64) -> Result<Vec<Entry>> {
    let params = params![after.tx, after.id, until.tx, until.id, limit];
    entries(tx, &PLAIN, params).await
}

/// Reads a piece of the log. What is not wanted is passed over, no more than a window of it, so that one read costs the same
/// whatever is looked for; the log has no index by tenant, actor or action, which every write would pay for.
pub async fn read(tx: &mut Tx, wanted: &Wanted, piece: &Piece) -> Result<Read> {
    let (stream, item_stream, window) = match piece.order {
        Order::OldestFirst => (&STREAM_UP, &STREAM_ITEM_UP, &WINDOW_UP),
        Order::NewestFirst => (&STREAM_DOWN, &STREAM_ITEM_DOWN, &WINDOW_DOWN),
    };
    let mut until = piece.until;
    let mut end = None;
    if !wanted.is_everything() && wanted.item.is_none() {
        let (after, to, offset) = (piece.after, piece.until, piece.window.max(1) - 1);
        let bounds = params![after.tx, after.id, to.tx, to.id, offset];
        if let Some(mut row) = tx.row_opt(window, bounds).await? {
            until = position(&mut row)?;
            end = Some(until);
        }
    }
    let mut found = match piece.bytes {
        Some(bytes) => bounded(tx, wanted, piece, until, bytes).await?,
        None => {
            let statement = if wanted.item.is_some() {
                item_stream
            } else {
                stream
            };
            let mut params = params![
                piece.after.tx,
                piece.after.id,
                until.tx,
                until.id,
                piece.limit,
                wanted.tenant_id.as_ref(),
                wanted.actor.as_ref(),
                wanted.action.as_ref(),
                wanted.since,
                wanted.until,
            ]
            .to_vec();
            params.extend(wanted.item.map(Value::from));
            entries(tx, statement, &params).await?
        }
    };
    let is_full = |bytes| found.iter().map(Entry::value_bytes).sum::<u64>() >= bytes;
    if found.len() as u64 == piece.limit || piece.bytes.is_some_and(is_full) {
        end = found.last().map(|entry| entry.position);
    }
    // A collection's key is a part of its items' ids; the databases do not know that, and what is bounded is asked for by its owner only.
    found.retain(|entry| wanted.takes(entry));
    Ok(Read {
        entries: found,
        next: end,
    })
}

/// What stands in a piece, up to the entry with which the values reach so many bytes.
async fn bounded(
    tx: &mut Tx,
    wanted: &Wanted,
    piece: &Piece,
    until: LogPosition,
    bytes: u64,
) -> Result<Vec<Entry>> {
    let (statement, whose) = match wanted.item {
        Some(item) => (&BOUNDED_ITEM_UP, Value::from(item)),
        None => (&BOUNDED_UP, Value::from(wanted.tenant_id.as_ref())),
    };
    let after = piece.after;
    let params = params![after.tx, after.id, until.tx, until.id, piece.limit, whose, bytes];
    entries(tx, statement, params).await
}
