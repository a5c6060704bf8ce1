//! Seeding: tenants, lanes and as many queued jobs as a scenario wants, written by plain SQL, since a million of them through the front
//! door would take longer than the measurement. The doctor checks at the end that they were written as the engine would have.

use anyhow::{Context as _, Result};
use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId};
use docket_core::random::SeededRandom;

use crate::measure::spinner;
use crate::site::Site;

/// When the first job was submitted; ten more follow every millisecond.
const CREATED_MS: i64 = 1_790_000_000_000;

/// How a site is filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    pub(crate) lanes: u32,
    pub(crate) limit: u32,
    /// How many are to wait.
    pub(crate) jobs: u64,
}

/// The collection of a lane, and its tenant.
pub(crate) fn names(lane: u32) -> (String, String) {
    (format!("c{lane}"), format!("t{lane}"))
}

const QUEUED: &str = "select cast(coalesce(sum(queued), 0) as bigint) from lane";

/// Makes the lanes 1 to `seed.lanes` and queues as many jobs as are missing, dealt out in turn.
pub(crate) async fn fill(site: &Site, seed: Seed) -> Result<()> {
    let filling = spinner(&format!("filling: {} jobs in {} lanes", seed.jobs, seed.lanes))?;
    match &site.sql {
        Some(sql) => {
            let queued: i64 = sql.query_one(QUEUED, &[]).await?.get(0);
            fill_postgres(sql, seed.without(queued)?).await?;
        }
        None => {
            let path = site.folder.path().join("data/docket.db");
            tokio::task::spawn_blocking(move || fill_sqlite(&path, seed)).await??;
        }
    }
    filling.finish_and_clear();
    Ok(())
}

impl Seed {
    /// What is left to do where some wait already.
    fn without(self, queued: i64) -> Result<Self> {
        let jobs = self.jobs.saturating_sub(u64::try_from(queued)?);
        Ok(Self { jobs, ..self })
    }
}

async fn fill_postgres(sql: &tokio_postgres::Client, seed: Seed) -> Result<()> {
    let Seed { lanes, limit, jobs } = seed;
    let text = format!(
        "set synchronous_commit = off;
         insert into tenant (id, tier, uploads_per_hour, concurrent_jobs, created_at_ms, updated_at_ms)
         select 't' || g, 'free', -1, {limit}, 0, 0 from generate_series(1, {lanes}) g on conflict do nothing;
         insert into lane_of (tenant_id, pipeline_key, lane_key)
         select 't' || g, (select pipeline_key from pipeline), g from generate_series(1, {lanes}) g on conflict do nothing;
         insert into lane (lane_key, pipeline_key, lim, served)
         select g, (select pipeline_key from pipeline), {limit}, g - 4611686018427387904
         from generate_series(1, {lanes}) g where not exists (select 1 from lane l where l.lane_key = g);
         insert into collection (collection_key, id, tenant_id, pipeline_key, lane_key, to_review, settings, created_at_ms,
                                 updated_at_ms)
         select g, 'c' || g, 't' || g, (select pipeline_key from pipeline), g, false, '{{}}', 0, 0
         from generate_series(1, {lanes}) g on conflict do nothing;
         create temp table seeded as
         select (n % {lanes} + 1)::integer as lane_key, n,
                l.next_seq + n / {lanes} as seq,
                (lpad(to_hex({CREATED_MS} + n / 10), 12, '0') || '7000' || to_hex(8 + ((x.bits >> 60) & 3))
                 || lpad(to_hex(x.bits & 1152921504606846975), 15, '0'))::uuid as id
         from generate_series(0, {jobs} - 1) n join lane l on l.lane_key = n % {lanes} + 1
         cross join lateral (select ((n % {lanes} + 1)::bigint << 42) | ((l.next_seq + n / {lanes}) & 4398046511103) as bits) x;
         insert into item (collection_key, id, external_id, content_hash, is_file, size, payload, to_review, submitted_by,
                           lane_key, job_seq, created_at_ms, updated_at_ms)
         select lane_key, id, 'seed-' || seq, sha256(id::text::bytea), false, 130,
                '{{\"document\":\"' || repeat('x', 110) || '\"}}', false, 'bench', lane_key, seq, {CREATED_MS} + n / 10, {CREATED_MS} + n / 10
         from seeded order by n;
         insert into job (lane_key, seq, collection_key, item_id, item_version, created_at_ms)
         select lane_key, seq, lane_key, id, 1, {CREATED_MS} + n / 10 from seeded order by n;
         update lane l set queued = l.queued + s.n, next_seq = l.next_seq + s.n
         from (select lane_key, count(*) as n from seeded group by lane_key) s where s.lane_key = l.lane_key;
         insert into delta (collection_key, to_status, n)
         select lane_key, 'queued', count(*) from seeded group by lane_key;
         drop table seeded;"
    );
    sql.batch_execute(&text).await.context("seeding")?;
    if jobs == 0 {
        // A table that was vacuumed while it was empty passes for empty until the next time; no real one is.
        return Ok(());
    }
    crate::baseline::settle(sql).await
}

fn fill_sqlite(path: &std::path::Path, seed: Seed) -> Result<()> {
    let mut db = rusqlite::Connection::open(path)?;
    db.busy_timeout(std::time::Duration::from_secs(30))?;
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let seed = seed.without(tx.query_row(QUEUED, [], |row| row.get(0))?)?;
    let pipeline: i64 = tx.query_row("select pipeline_key from pipeline", [], |row| row.get(0))?;
    for lane in 1..=seed.lanes {
        let (collection, tenant) = names(lane);
        tx.prepare_cached(
            "insert into tenant (id, tier, uploads_per_hour, concurrent_jobs, created_at_ms, updated_at_ms)
             values (?1, 'free', -1, ?2, 0, 0) on conflict do nothing",
        )?
        .execute((&tenant, seed.limit))?;
        tx.prepare_cached("insert into lane_of values (?1, ?2, ?3) on conflict do nothing")?
            .execute((&tenant, pipeline, lane))?;
        tx.prepare_cached(
            "insert into lane (lane_key, pipeline_key, lim, served) values (?1, ?2, ?3, ?1 - 4611686018427387904)
             on conflict do nothing",
        )?
        .execute((lane, pipeline, seed.limit))?;
        tx.prepare_cached(
            "insert into collection (collection_key, id, tenant_id, pipeline_key, lane_key, to_review, settings,
                                     created_at_ms, updated_at_ms)
             values (?1, ?2, ?3, ?4, ?1, 0, '{}', 0, 0) on conflict do nothing",
        )?
        .execute((lane, &collection, &tenant, pipeline))?;
    }
    let payload = format!("{{\"document\":\"{}\"}}", "x".repeat(110));
    let bases: Vec<i64> = (1..=seed.lanes)
        .map(|lane| {
            tx.query_row("select next_seq from lane where lane_key = ?1", [lane], |row| {
                row.get(0)
            })
        })
        .collect::<rusqlite::Result<_>>()?;
    // A site may be filled several times; no id is drawn twice.
    let random = SeededRandom::new(bases.iter().map(|base| base.unsigned_abs()).sum());
    for n in 0..seed.jobs {
        let lane = u32::try_from(n % u64::from(seed.lanes))? + 1;
        let seq = bases[lane as usize - 1] + i64::try_from(n / u64::from(seed.lanes))?;
        let created_ms = CREATED_MS + i64::try_from(n / 10)?;
        let id = ItemId::new(Timestamp::from_ms(created_ms), CollectionKey(lane), &random);
        let id = id.uuid().into_bytes();
        tx.prepare_cached(
            "insert into item (collection_key, id, external_id, content_hash, is_file, size, payload, to_review,
                               submitted_by, lane_key, job_seq, created_at_ms, updated_at_ms)
             values (?1, ?2, ?3, ?4, 0, 130, ?5, 0, 'bench', ?1, ?6, ?7, ?7)",
        )?
        .execute((lane, id, format!("seed-{seq}"), [0_u8; 32], &payload, seq, created_ms))?;
        tx.prepare_cached(
            "insert into job (lane_key, seq, collection_key, item_id, item_version, created_at_ms)
             values (?1, ?2, ?1, ?3, 1, ?4)",
        )?
        .execute((lane, seq, id, created_ms))?;
    }
    let per_lane = "select lane_key, count(*) as n from job j where state = 0 and seq >=
                      (select next_seq from lane l where l.lane_key = j.lane_key) group by lane_key";
    tx.execute(
        &format!(
            "insert into delta (collection_key, to_status, n) select lane_key, 'queued', n from ({per_lane})"
        ),
        [],
    )?;
    tx.execute(
        &format!(
            "update lane set queued = queued + s.n, next_seq = next_seq + s.n from ({per_lane}) s
             where s.lane_key = lane.lane_key"
        ),
        [],
    )?;
    tx.commit()?;
    Ok(())
}
