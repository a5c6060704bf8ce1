//! The scenarios, in the order in which they are told.

use anyhow::Result;

use crate::Args;
use crate::baseline;
use crate::growth;
use crate::http;
use crate::outbox;
use crate::report::Report;
use crate::review;
use crate::review_http;
use crate::seed::{Seed, fill};
use crate::site::{Site, connect, create_database, drop_database};
use crate::work;

/// The baseline that most figures are compared with.
pub(crate) const SIMPLE_UPDATE: &str = "pgbench -N, 16 clients";
const RAW_100: &str = "raw SKIP LOCKED, batches of 100";
/// How long one durable transaction takes where nobody else commits.
const ONE_CLIENT: &str = "pgbench -N, 1 client";
const RAW_1: &str = "raw SKIP LOCKED, one at a time";
const RAW_SQLITE: &str = "raw SQLite, batches of 100";

/// A lane's limit in scenarios with many lanes, and in those with one.
pub(crate) fn limit_for(lanes: u32) -> u32 {
    if lanes == 1 { 1_000 } else { 5 }
}

/// Everything on PostgreSQL.
pub(crate) async fn postgres(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    postgres_baselines(args, cluster, report).await?;
    postgres_drains(args, cluster, report).await?;
    submits(
        args,
        Site::postgres(args, cluster).await?,
        "postgres",
        report,
        &[SIMPLE_UPDATE],
    )
    .await?;
    lifecycles(
        args,
        Site::postgres(args, cluster).await?,
        "postgres",
        report,
        &[SIMPLE_UPDATE],
    )
    .await?;
    pick_ups(args, Site::postgres(args, cluster).await?, "postgres", report).await?;
    http::figures(args, Site::postgres(args, cluster).await?, "postgres", report).await?;
    review::figures(args, Site::postgres(args, cluster).await?, "postgres", report).await?;
    let site = Site::postgres(args, cluster).await?;
    review_http::figure(args, site, "postgres", report, &[SIMPLE_UPDATE]).await?;
    let site = Site::postgres(args, cluster).await?;
    outbox::figures(args, site, "postgres", report, &[SIMPLE_UPDATE]).await?;
    growth::postgres(args, cluster, report).await
}

/// Claims and completions at every depth, in every shape.
async fn postgres_drains(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    let baselines = &[SIMPLE_UPDATE, RAW_100];
    for (jobs, lanes) in depths(args.quick) {
        let label = format!(
            "postgres: claim+complete, {} queued, {} lanes",
            short(jobs),
            short(u64::from(lanes))
        );
        let shapes = shapes(args, &label);
        if shapes.is_empty() {
            continue;
        }
        let mut site = Site::postgres(args, cluster).await?;
        fill(
            &site,
            Seed {
                lanes,
                limit: limit_for(lanes),
                jobs,
            },
        )
        .await?;
        site.start_background().await?;
        for (workers, batch) in shapes {
            // No figure inherits what the one before has left behind: they begin alike.
            fill(
                &site,
                Seed {
                    lanes,
                    limit: limit_for(lanes),
                    jobs,
                },
            )
            .await?;
            let name = format!("{label}, {workers}×{batch}");
            drain(args, &site, report, &name, (workers, batch), baselines).await?;
            match (workers, batch) {
                (16, 1) if lanes > 1 => report.rate(&name, SIMPLE_UPDATE, 0.35),
                (4, 50) if lanes > 1 => report.rate(&name, SIMPLE_UPDATE, 1.5),
                _ => {}
            }
        }
        site.close().await?;
    }
    Ok(())
}

/// What PostgreSQL does without Docket, on a database of its own.
async fn postgres_baselines(args: &Args, cluster: &str, report: &mut Report) -> Result<()> {
    let (url, name) = create_database(cluster).await?;
    baseline::prepare_postgres(&connect(&url).await?).await?;
    report.add(
        SIMPLE_UPDATE,
        &baseline::simple_update(&url, 16, args.window()).await?,
        None,
        &[],
    );
    report.add(
        ONE_CLIENT,
        &baseline::simple_update(&url, 1, args.window()).await?,
        None,
        &[],
    );
    report.add(
        RAW_100,
        &baseline::raw_skip_locked(&url, 4, 100, args.window()).await?,
        None,
        &[SIMPLE_UPDATE],
    );
    report.add(
        RAW_1,
        &baseline::raw_skip_locked(&url, 16, 1, args.window()).await?,
        None,
        &[SIMPLE_UPDATE],
    );
    drop_database(cluster, &name).await
}

/// Everything on SQLite.
pub(crate) async fn sqlite(args: &Args, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    report.add(
        RAW_SQLITE,
        &baseline::raw_sqlite(folder.path(), 100, args.window()).await?,
        None,
        &[],
    );
    for (jobs, lanes) in depths(args.quick) {
        let label = format!(
            "sqlite: claim+complete, {} queued, {} lanes",
            short(jobs),
            short(u64::from(lanes))
        );
        let shapes = shapes(args, &label);
        if shapes.is_empty() {
            continue;
        }
        let mut site = Site::sqlite(args).await?;
        fill(
            &site,
            Seed {
                lanes,
                limit: limit_for(lanes),
                jobs,
            },
        )
        .await?;
        site.start_background().await?;
        for (workers, batch) in shapes {
            fill(
                &site,
                Seed {
                    lanes,
                    limit: limit_for(lanes),
                    jobs,
                },
            )
            .await?;
            drain(
                args,
                &site,
                report,
                &format!("{label}, {workers}×{batch}"),
                (workers, batch),
                &[RAW_SQLITE],
            )
            .await?;
        }
        site.close().await?;
    }
    submits(args, Site::sqlite(args).await?, "sqlite", report, &[RAW_SQLITE]).await?;
    lifecycles(args, Site::sqlite(args).await?, "sqlite", report, &[RAW_SQLITE]).await?;
    pick_ups(args, Site::sqlite(args).await?, "sqlite", report).await?;
    http::figures(args, Site::sqlite(args).await?, "sqlite", report).await?;
    review::figures(args, Site::sqlite(args).await?, "sqlite", report).await?;
    review_http::figure(args, Site::sqlite(args).await?, "sqlite", report, &[RAW_SQLITE]).await?;
    outbox::figures(args, Site::sqlite(args).await?, "sqlite", report, &[RAW_SQLITE]).await
}

fn depths(quick: bool) -> Vec<(u64, u32)> {
    if quick {
        return vec![(10_000, 1_000), (300_000, 1_000)];
    }
    [10_000, 1_000_000]
        .into_iter()
        .flat_map(|jobs| [1, 1_000, 100_000].map(|lanes| (jobs, lanes)))
        .collect()
}

/// The shapes of load that are wanted of a scenario: workers and the jobs of each claim.
fn shapes(args: &Args, label: &str) -> Vec<(usize, u32)> {
    let all: &[(usize, u32)] = if args.quick {
        &[(16, 1), (4, 50)]
    } else {
        &[(1, 1), (16, 1), (4, 10), (4, 50), (16, 50), (2, 500)]
    };
    all.iter()
        .copied()
        .filter(|(workers, batch)| args.wants(&format!("{label}, {workers}×{batch}")))
        .collect()
}

/// A number as people say it: 10k, 1M.
pub(crate) fn short(n: u64) -> String {
    match n {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// One figure of claiming and completing, with the WAL it wrote.
pub(crate) async fn drain(
    args: &Args,
    site: &Site,
    report: &mut Report,
    name: &str,
    (workers, batch): (usize, u32),
    baselines: &[&str],
) -> Result<()> {
    let before = site.wal().await?;
    let measured = work::drain(site, name, workers, batch, args.window()).await?;
    let wal = site
        .wal()
        .await?
        .zip(before)
        .map(|(after, before)| after - before);
    report.add(name, &measured, wal, baselines);
    Ok(())
}

async fn submits(
    args: &Args,
    mut site: Site,
    on: &str,
    report: &mut Report,
    baselines: &[&str],
) -> Result<()> {
    const LANES: u32 = 1_000;
    fill(
        &site,
        Seed {
            lanes: LANES,
            limit: 5,
            jobs: 0,
        },
    )
    .await?;
    site.start_background().await?;
    let shapes: &[(usize, u32)] = if args.quick {
        &[(64, 1), (4, 500)]
    } else {
        &[(1, 1), (64, 1), (4, 10), (4, 50), (4, 500)]
    };
    for (clients, batch) in shapes {
        let name = format!("{on}: submit, {clients}×{batch}");
        submit(args, &site, report, &name, (*clients, *batch, LANES), baselines).await?;
        if *batch == 500 && baselines.contains(&SIMPLE_UPDATE) {
            report.rate(&name, SIMPLE_UPDATE, 2.5);
        }
    }
    // As the tiers have it: every submission is counted.
    if let Some(sql) = &site.sql {
        sql.batch_execute("update tenant set uploads_per_hour = 1000000000")
            .await?;
        let name = format!("{on}: submit, 64×1, each tenant with a limit");
        submit(args, &site, report, &name, (64, 1, LANES), baselines).await?;
    }
    site.close().await
}

async fn submit(
    args: &Args,
    site: &Site,
    report: &mut Report,
    name: &str,
    (clients, batch, lanes): (usize, u32, u32),
    baselines: &[&str],
) -> Result<()> {
    if !args.wants(name) {
        return Ok(());
    }
    let before = site.wal().await?;
    let measured = work::submit(site, name, clients, batch, lanes, args.window()).await?;
    let wal = site
        .wal()
        .await?
        .zip(before)
        .map(|(after, before)| after - before);
    report.add(name, &measured, wal, baselines);
    Ok(())
}

async fn lifecycles(
    args: &Args,
    mut site: Site,
    on: &str,
    report: &mut Report,
    baselines: &[&str],
) -> Result<()> {
    let name = format!("{on}: submit+claim+complete, 64 single calls");
    if args.wants(&name) {
        fill(
            &site,
            Seed {
                lanes: 1_000,
                limit: 5,
                jobs: 0,
            },
        )
        .await?;
        site.start_background().await?;
        let before = site.wal().await?;
        let measured = work::lifecycle(&site, &name, 64, 1_000, args.window()).await?;
        let wal = site
            .wal()
            .await?
            .zip(before)
            .map(|(after, before)| after - before);
        report.add(&name, &measured, wal, baselines);
        if baselines.contains(&SIMPLE_UPDATE) {
            report.rate(&name, SIMPLE_UPDATE, 0.6);
        }
    }
    site.close().await
}

async fn pick_ups(args: &Args, site: Site, on: &str, report: &mut Report) -> Result<()> {
    fill(
        &site,
        Seed {
            lanes: 1,
            limit: 5,
            jobs: 0,
        },
    )
    .await?;
    let name = format!("{on}: pick-up by a waiting worker");
    if args.wants(&name) {
        let measured = work::pick_up(&site, &name, &site.engine, args.window()).await?;
        report.add(&name, &measured, None, &[]);
        report.wait(&name, 2.0, 10.0);
    }
    if let Some(other) = site.another_engine(args).await? {
        let name = format!("{on}: pick-up on another server");
        if args.wants(&name) {
            let measured = work::pick_up(&site, &name, &other, args.window()).await?;
            report.add(&name, &measured, None, &[]);
            report.wait(&name, 50.0, 50.0);
        }
        other.close();
    }
    site.close().await
}
