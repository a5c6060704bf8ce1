//! Reviewers: who they are, whether they are there, and whose turn it is.

use std::collections::HashMap;

use docket_core::Timestamp;

use crate::error::Result;
use crate::params;
use crate::postgres::Query;
use crate::tx::Tx;
use crate::value::{Row, Value};

/// The most reviewers that are told of, or share the work of a collection without a roster.
const REVIEWERS_MAX: u64 = 1_000;

/// What is read of every reviewer.
macro_rules! columns {
    () => {
        "r.id, r.name, r.tenant_id, r.available, r.capacity, r.turn"
    };
}

crate::statements! {
    GET = selecting "reviewer_get" columns "from reviewer r where r.id = $1";
    LOCK = selecting "reviewer_lock" columns "from reviewer r where r.id = $1 for no key update";
    LIST = selecting "reviewer_list" columns "from reviewer r where r.id > $1 order by r.id limit $2";
    PUT = portable "reviewer_put" "
insert into reviewer (id, name, tenant_id, available, capacity, created_at_ms, updated_at_ms)
values ($1, $2, $3, $4, $5, $6, $6)
on conflict (id) do update set name = excluded.name, tenant_id = excluded.tenant_id, available = excluded.available,
  capacity = excluded.capacity, updated_at_ms = excluded.updated_at_ms";
    OF_ROSTER = split "reviewer_of_roster"
        "select r.id, r.name, r.tenant_id, r.available, r.capacity, r.turn from reviewer r
         where r.id = any ($1::text[]) order by r.id"
        "select r.id, r.name, r.tenant_id, r.available, r.capacity, r.turn from reviewer r
         where r.id in (select value from json_each($1)) order by r.id";
    OF_TENANT = selecting "reviewer_of_tenant" columns "
from reviewer r where r.tenant_id is null or r.tenant_id = $1 order by r.id limit $2";
    LOCK_ROSTER = split "reviewer_lock_roster"
        "select r.id, r.name, r.tenant_id, r.available, r.capacity, r.turn from reviewer r
         where r.id = any ($1::text[]) order by r.id for no key update"
        "select r.id, r.name, r.tenant_id, r.available, r.capacity, r.turn from reviewer r
         where r.id in (select value from json_each($1)) order by r.id";
    LOCK_OF_TENANT = selecting "reviewer_lock_of_tenant" columns "
from reviewer r where r.tenant_id is null or r.tenant_id = $1 order by r.id limit $2 for no key update";
    SEED = split "reviewer_seed"
        "insert into reviewer (id, name, available, created_at_ms, updated_at_ms)
         select id, id, true, $2, $2 from unnest($1::text[]) as n (id) order by id on conflict do nothing"
        "insert into reviewer (id, name, available, created_at_ms, updated_at_ms)
         select value, value, 1, $2, $2 from json_each($1) where true on conflict do nothing";
    STANDINGS = split "reviewer_standings"
        "select n.id, (select w.capacity from reviewer w where w.id = n.id), count(r.id), count(r.id) - count(r.opened_at_ms)
         from unnest($1::text[]) as n (id) left join review r on r.assigned_to = n.id and r.state = 1 group by n.id"
        "select value, (select w.capacity from reviewer w where w.id = value), count(r.id), count(r.id) - count(r.opened_at_ms)
         from json_each($1) left join review r on r.assigned_to = value and r.state = 1 group by value";
    IN_HAND_OF = split "reviewer_in_hand"
        "select assigned_to, count(*) from review where assigned_to = any ($1::text[]) and state = 1 group by assigned_to"
        "select assigned_to, count(*) from review where assigned_to in (select value from json_each($1)) and state = 1
         group by assigned_to";
    SET_TURN = portable "reviewer_set_turn" "update reviewer set turn = $2 where id = $1";
}

/// A reviewer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Reviewer {
    pub id: String,
    pub name: String,
    /// None for one who reviews for any tenant.
    pub tenant_id: Option<String>,
    pub available: bool,
    /// How many reviews they may hold; none for any number.
    pub capacity: Option<u64>,
    /// When something was last assigned to them, in turns.
    pub turn: i64,
}

fn read(mut row: Row) -> Result<Reviewer> {
    Ok(Reviewer {
        id: row.text(0)?,
        name: row.text(1)?,
        tenant_id: row.opt_text(2)?,
        available: row.bool(3)?,
        capacity: row.opt_count(4)?,
        turn: row.int(5)?,
    })
}

/// A reviewer.
pub async fn get(tx: &mut Tx, id: &str) -> Result<Option<Reviewer>> {
    tx.row_opt(&GET, params![id]).await?.map(read).transpose()
}

/// A reviewer, locked: whoever assigns among them has to wait.
pub async fn lock(tx: &mut Tx, id: &str) -> Result<Option<Reviewer>> {
    tx.row_opt(&LOCK, params![id]).await?.map(read).transpose()
}

/// Reviewers after this one, by id.
pub async fn list(tx: &mut Tx, after: &str, limit: u64) -> Result<Vec<Reviewer>> {
    let rows = tx.rows(&LIST, params![after, limit]).await?;
    rows.into_iter().map(read).collect()
}

/// Makes or changes a reviewer; whose turn it is stays.
pub async fn put(tx: &mut Tx, reviewer: &Reviewer, now: Timestamp) -> Result<()> {
    let params = params![
        &reviewer.id,
        &reviewer.name,
        reviewer.tenant_id.as_ref(),
        reviewer.available,
        reviewer.capacity,
        now
    ];
    tx.execute_one(&PUT, params).await
}

/// Makes those of a roster that nobody has described yet: there, and without a limit.
pub async fn seed(tx: &mut Tx, roster: &[String], now: Timestamp) -> Result<()> {
    tx.execute(&SEED, params![texts(roster), now]).await.map(drop)
}

/// Those of a roster that somebody has described.
pub async fn of_roster(tx: &mut Tx, roster: &[String]) -> Result<Vec<Reviewer>> {
    let rows = tx.rows(&OF_ROSTER, params![texts(roster)]).await?;
    rows.into_iter().map(read).collect()
}

/// Those who review for a tenant.
pub async fn of_tenant(tx: &mut Tx, tenant_id: &str) -> Result<Vec<Reviewer>> {
    let rows = tx.rows(&OF_TENANT, params![tenant_id, REVIEWERS_MAX]).await?;
    rows.into_iter().map(read).collect()
}

/// Those of a roster, locked: whoever else assigns among them has to wait.
pub async fn lock_roster(tx: &mut Tx, roster: &[String]) -> Result<Vec<Reviewer>> {
    let rows = tx.rows(&LOCK_ROSTER, params![texts(roster)]).await?;
    rows.into_iter().map(read).collect()
}

/// Those who review for a tenant, likewise.
pub async fn lock_of_tenant(tx: &mut Tx, tenant_id: &str) -> Result<Vec<Reviewer>> {
    let rows = tx
        .rows(&LOCK_OF_TENANT, params![tenant_id, REVIEWERS_MAX])
        .await?;
    rows.into_iter().map(read).collect()
}

/// Notes whose turn it was.
pub async fn set_turn(tx: &mut Tx, id: &str, turn: i64) -> Result<()> {
    tx.execute_one(&SET_TURN, params![id, turn]).await
}

/// How it stands with a reviewer, over all collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// How many they may hold; none for any number.
    pub capacity: Option<u64>,
    /// How many they hold.
    pub in_hand: u64,
    /// How many of those they have not looked at yet.
    pub unopened: u64,
}

impl Standing {
    /// How many more they may take.
    pub fn room(&self) -> u64 {
        self.capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(self.in_hand))
    }
}

/// How it stands with these reviewers.
pub async fn standings(tx: &mut Tx, reviewers: &[String]) -> Result<HashMap<String, Standing>> {
    if reviewers.is_empty() {
        return Ok(HashMap::new());
    }
    let (statement, params) = asking_standings(reviewers);
    read_standings(tx.rows(statement, &params).await?)
}

pub(super) fn asking_standings(reviewers: &[String]) -> Query {
    (&STANDINGS, vec![texts(reviewers)])
}

pub(super) fn read_standings(rows: Vec<Row>) -> Result<HashMap<String, Standing>> {
    rows.into_iter()
        .map(|mut row| {
            let standing = Standing {
                capacity: row.opt_count(1)?,
                in_hand: row.count(2)?,
                unopened: row.count(3)?,
            };
            Ok((row.text(0)?, standing))
        })
        .collect()
}

/// How many reviews these reviewers hold; those who hold none are left out.
pub async fn in_hand_of(tx: &mut Tx, reviewers: &[String]) -> Result<Vec<(String, u64)>> {
    let rows = tx.rows(&IN_HAND_OF, params![texts(reviewers)]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.text(0)?, row.count(1)?)))
        .collect()
}

fn texts(roster: &[String]) -> Value {
    Value::Texts(roster.iter().cloned().map(Some).collect())
}
