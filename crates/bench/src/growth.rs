//! What must not grow: the cost of a tenant at its limit, of finished rows, of an open transaction that holds back vacuum.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::Args;
use crate::report::Report;
use crate::scenario::{SIMPLE_UPDATE, drain, short};
use crate::seed::{Seed, fill, names};
use crate::site::{Site, connect};
use crate::work;

const LANES: u32 = 1_000;
/// What the smallest queue holds, and each turn takes out of any.
const TURN_JOBS: u64 = 10_000;

/// The scenarios of growth on PostgreSQL.
pub(crate) async fn postgres(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    if !args.quick && args.wants("postgres: growth") {
        sizes(args, cluster, report).await?;
    }
    if args.wants("postgres: whale") {
        whale(args, cluster, report).await?;
    }
    if !args.quick && args.wants("postgres: finished") {
        finished(args, cluster, report).await?;
    }
    if !args.quick && args.wants("postgres: pinned") {
        pinned(args, cluster, report).await?;
    }
    Ok(())
}

/// The same number of jobs out of queues of different sizes. They take turns, so that a machine whose speed changes is fair to all, and
/// the median of each counts.
async fn sizes(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    const TURNS: usize = 7;
    const SIZES: [(u64, u32); 3] = [(TURN_JOBS, LANES), (1_000_000, LANES), (1_000_000, 100 * LANES)];
    let name = |(jobs, lanes): (u64, u32)| {
        let (jobs, lanes) = (short(jobs), short(u64::from(lanes)));
        format!("postgres: growth, {jobs} queued, {lanes} lanes, 4×50")
    };
    let seed = |(jobs, lanes): (u64, u32)| Seed {
        lanes,
        limit: 5,
        jobs,
    };
    let mut sites = Vec::new();
    for size in SIZES {
        let mut site = Site::postgres(args, cluster).await?;
        fill(&site, seed(size)).await?;
        site.start_background().await?;
        sites.push((size, site, Vec::with_capacity(TURNS)));
    }
    for _ in 0..TURNS {
        for (size, site, measured) in &mut sites {
            fill(site, seed(*size)).await?;
            measured.push(work::drain_some(site, &name(*size), (4, 50), TURN_JOBS - 500).await?);
        }
    }
    for (size, site, mut measured) in sites {
        measured.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        report.add(&name(size), &measured[TURNS / 2], None, &[SIMPLE_UPDATE]);
        site.close().await?;
    }
    let [small, deep, wide] = SIZES.map(name);
    report.times(&small, &deep, 1.2);
    report.times(&deep, &wide, 1.2);
    Ok(())
}

/// The same small lanes, without and with a tenant that has 900k jobs waiting behind its limit.
async fn whale(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    let alone = "postgres: whale absent, 1,000 lanes, 4×10";
    let beside = "postgres: whale beside (900k jobs at its limit), 4×10";
    let mut site = Site::postgres(args, cluster).await?;
    let seed = Seed {
        lanes: LANES,
        limit: 1,
        jobs: 200_000,
    };
    fill(&site, seed).await?;
    site.start_background().await?;
    drain(args, &site, report, alone, (4, 10), &[SIMPLE_UPDATE]).await?;
    fill(&site, seed).await?;
    if let Some(sql) = &site.sql {
        // Lane 1 becomes the whale: its jobs come in through plain SQL, and one of them runs and never ends.
        sql.batch_execute(
            "create temp table w as select n from generate_series(0, 899999) n;
             insert into item (collection_key, id, content_hash, is_file, size, payload, to_review, submitted_by, lane_key,
                               job_seq, created_at_ms, updated_at_ms)
             select 1, ('0198aaaa-0000-7000-8000-04' || lpad(to_hex(n), 10, '0'))::uuid, sha256(n::text::bytea), false, 2,
                    '{}', false, 'bench', 1, l.next_seq + n, 0, 0 from w cross join lane l where l.lane_key = 1;
             insert into job (lane_key, seq, collection_key, item_id, item_version, created_at_ms)
             select 1, l.next_seq + n, 1, ('0198aaaa-0000-7000-8000-04' || lpad(to_hex(n), 10, '0'))::uuid, 1, 0
             from w cross join lane l where l.lane_key = 1;
             update lane set queued = queued + 900000, next_seq = next_seq + 900000 where lane_key = 1;
             insert into delta (collection_key, to_status, n) values (1, 'queued', 900000);
             drop table w",
        )
        .await?;
        crate::baseline::settle(sql).await?;
        sql.batch_execute("update lane set served = -9000000000000000000 where lane_key = 1")
            .await?;
    }
    // A server that has claimed before would not look for a lane that plain SQL has put first.
    let other = site
        .another_engine(args)
        .await?
        .context("PostgreSQL has room for another")?;
    let held = other.claim(work::claim(99, 1, 0)?).await?;
    anyhow::ensure!(
        held.iter().any(|job| job.tenant_id == names(1).1),
        "the whale's one job is held"
    );
    other.close();
    drain(args, &site, report, beside, (4, 10), &[SIMPLE_UPDATE, alone]).await?;
    report.times(alone, beside, 1.2);
    site.close().await
}

/// The same load on an empty table and on one with five million finished jobs.
async fn finished(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    let fresh = "postgres: finished rows 0, 4×50";
    let full = "postgres: finished rows 5M, 4×50";
    let mut site = Site::postgres(args, cluster).await?;
    fill(
        &site,
        Seed {
            lanes: LANES,
            limit: 5,
            jobs: 500_000,
        },
    )
    .await?;
    site.start_background().await?;
    drain(args, &site, report, fresh, (4, 50), &[SIMPLE_UPDATE]).await?;
    if let Some(sql) = &site.sql {
        // Numbers far below the lanes' own, as if they had run long ago.
        sql.batch_execute(
            "insert into job (lane_key, seq, collection_key, item_id, item_version, state, created_at_ms, finished_at_ms)
             select n % 1000 + 1, -(n / 1000) - 1, n % 1000 + 1, '0198aaaa-0000-7000-8000-000000000000', 1, 2, 0, 0
             from generate_series(0, 4999999) n",
        )
        .await?;
        crate::baseline::settle(sql).await?;
    }
    drain(args, &site, report, full, (4, 50), &[SIMPLE_UPDATE, fresh]).await?;
    report.times(fresh, full, 1.2);
    site.close().await
}

/// The same load before and at the end of a minute in which an open transaction holds back vacuum.
async fn pinned(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    let before = "postgres: pinned by nothing, 4×10";
    let during = "postgres: pinned by a transaction open for 60 s, 4×10";
    let mut site = Site::postgres(args, cluster).await?;
    fill(
        &site,
        Seed {
            lanes: LANES,
            limit: 5,
            jobs: 2_000_000,
        },
    )
    .await?;
    site.start_background().await?;
    drain(args, &site, report, before, (4, 10), &[SIMPLE_UPDATE]).await?;
    if let Some(url) = &site.url {
        let pin = connect(url).await?;
        pin.batch_execute("begin isolation level repeatable read; select count(*) from tier")
            .await?;
        let load = work::drain(&site, "load while pinned", 4, 10, Duration::from_secs(50));
        load.await?;
        drain(args, &site, report, during, (4, 10), &[SIMPLE_UPDATE, before]).await?;
        report.rate(during, before, 0.5);
        pin.batch_execute("rollback").await?;
    }
    site.close().await
}
