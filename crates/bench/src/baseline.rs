//! Baselines: what the databases do without Docket, taken in the same run.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_postgres::Client;

use crate::measure::{Latencies, Measured, Run, measure};
use crate::site::connect;

const ACCOUNTS: i32 = 1_000_000;

/// The tables of the loops below.
pub(crate) async fn prepare_postgres(sql: &Client) -> Result<()> {
    sql.batch_execute(&format!(
        "create table account (aid integer primary key, bid integer, balance integer, filler char(84)) with (fillfactor = 100);
         insert into account select g, g % 10, 0, '' from generate_series(1, {ACCOUNTS}) g;
         create table history (tid integer, bid integer, aid integer, delta integer, at_ms bigint, filler char(22));
         create table raw (id bigint generated always as identity primary key, state smallint not null default 0,
                           payload text not null);
         create index raw_ready on raw (id) where state = 0;
         insert into raw (payload) select repeat('x', 130) from generate_series(1, 1000000)"
    ))
    .await?;
    settle(sql).await
}

/// Leaves nothing of the preparation for later.
pub(crate) async fn settle(sql: &Client) -> Result<()> {
    sql.batch_execute("vacuum analyze").await?;
    sql.batch_execute("checkpoint").await?;
    Ok(())
}

/// `pgbench -N` by hand: update an account, read it, note it in the history, in one transaction.
pub(crate) async fn simple_update(url: &str, clients: usize, window: Duration) -> Result<Measured> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(connect(url).await?);
    }
    measure("baseline: pgbench -N", window, |run| {
        connections
            .into_iter()
            .enumerate()
            .map(|(seed, sql)| simple_update_one(sql, run.clone(), seed))
            .collect()
    })
    .await
}

async fn simple_update_one(sql: Client, run: Run, seed: usize) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let update = sql
        .prepare("update account set balance = balance + $1 where aid = $2")
        .await?;
    let select = sql.prepare("select balance from account where aid = $1").await?;
    let insert = sql
        .prepare("insert into history (tid, bid, aid, delta, at_ms, filler) values ($1, $2, $3, $4, $5, '')")
        .await?;
    let random = docket_core::random::SeededRandom::new(seed as u64);
    while run.goes_on() {
        use docket_core::random::Random as _;
        let aid = i32::try_from(random.below(ACCOUNTS as u64))? + 1;
        let delta = i32::try_from(random.below(10_000))? - 5_000;
        let began = Instant::now();
        sql.batch_execute("begin").await?;
        sql.execute(&update, &[&delta, &aid]).await?;
        sql.query_one(&select, &[&aid]).await?;
        sql.execute(&insert, &[&1_i32, &1_i32, &aid, &delta, &0_i64])
            .await?;
        sql.batch_execute("commit").await?;
        latencies.add(began.elapsed());
        run.add(1);
    }
    Ok(latencies)
}

/// The bare queue: claim rows with `skip locked`, then mark them done, in batches; no lanes, no leases, no log.
pub(crate) async fn raw_skip_locked(
    url: &str,
    clients: usize,
    batch: i64,
    window: Duration,
) -> Result<Measured> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(connect(url).await?);
    }
    measure("baseline: raw SKIP LOCKED", window, |run| {
        connections
            .into_iter()
            .map(|sql| raw_one(sql, run.clone(), batch))
            .collect()
    })
    .await
}

async fn raw_one(sql: Client, run: Run, batch: i64) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let claim = sql
        .prepare(
            "update raw set state = 1 where id = any (array(
               select id from raw where state = 0 order by id limit $1 for update skip locked)) returning id, payload",
        )
        .await?;
    let done = sql
        .prepare("update raw set state = 2 where id = any ($1)")
        .await?;
    while run.goes_on() {
        let began = Instant::now();
        let rows = sql.query(&claim, &[&batch]).await?;
        latencies.add(began.elapsed());
        if rows.is_empty() {
            run.end();
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        sql.execute(&done, &[&ids]).await?;
        run.add(rows.len());
    }
    Ok(latencies)
}

/// The bare queue on SQLite: claim and mark done in batches, each its own durable transaction.
pub(crate) async fn raw_sqlite(folder: &Path, batch: i64, window: Duration) -> Result<Measured> {
    let path = folder.join("raw.db");
    let db = tokio::task::spawn_blocking(move || prepare_sqlite(&path)).await??;
    measure("baseline: raw SQLite", window, |run| {
        let work = tokio::task::spawn_blocking(move || raw_sqlite_loop(db, &run, batch));
        vec![async move { work.await? }]
    })
    .await
}

fn prepare_sqlite(path: &Path) -> Result<rusqlite::Connection> {
    let db = rusqlite::Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.execute_batch(
        "create table raw (id integer primary key, state integer not null default 0, payload text not null);
         create index raw_ready on raw (id) where state = 0;
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000000)
         insert into raw (payload) select printf('%.130c', 'x') from n;",
    )?;
    Ok(db)
}

fn raw_sqlite_loop(mut db: rusqlite::Connection, run: &Run, batch: i64) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    while run.goes_on() {
        let began = Instant::now();
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let ids: Vec<i64> = tx
            .prepare_cached(
                "update raw set state = 1 where id in (select id from raw where state = 0 order by id limit ?1)
                 returning id",
            )?
            .query_map([batch], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        tx.commit()?;
        latencies.add(began.elapsed());
        if ids.is_empty() {
            run.end();
        }
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for id in &ids {
            tx.prepare_cached("update raw set state = 2 where id = ?1")?
                .execute([id])?;
        }
        tx.commit()?;
        run.add(ids.len());
    }
    Ok(latencies)
}
