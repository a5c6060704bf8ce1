//! `docket bench`: a load on a running server over HTTP, as producers and workers make it. Items are submitted, then claimed and
//! completed, in batches over several connections.
//!
//! It makes a pipeline and tenants of its own and leaves no job behind. Its items and their log stay, as all that ever
//! happened does; a database that is kept for years is no place for it.
//!
//! Deliberately absent: baselines. What the database could do without Docket is measured by `make bench`.

mod load;
mod meter;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use docket_client::Client;
use docket_client::wire::collection::{CollectionPut, ReviewPolicy};
use docket_client::wire::key::{KeyCreate, KeyCreated, Role};
use docket_client::wire::pipeline::PipelinePut;
use docket_client::wire::tenant::{TenantPut, UploadLimit};
use docket_core::random::{Random as _, SystemRandom};
use serde::Serialize;

use crate::remote::{RemoteArgs, Session, table};
use load::{Load, Phase};

/// The pipeline of the load; its tenants and collections are named after it.
const NAME: &str = "docket-bench";
/// Jobs of one lane that may be in hand at once.
const LANE_LIMIT: u32 = 1_000;

/// What `docket bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    /// How many items are submitted and worked on
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// How many go in one call
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batch: u16,
    /// How many clients call at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// How many tenants the work is spread over, each with a lane
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    lanes: u16,
    /// How many bytes an item's payload has, about
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    payload_bytes: u32,
}

/// What was measured, and how.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    server: String,
    batch: u16,
    connections: u16,
    lanes: u16,
    payload_bytes: u32,
    /// Whether everything was done; false where a signal ended it early.
    whole: bool,
    phases: Vec<Phase>,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let admin = &session.client;
    let collections = world(admin, args.lanes).await?;
    // Submitting and working take different roles; a service has both.
    let key = KeyCreate {
        role: Role::Service,
        tenant_id: None,
        subject: NAME.to_owned(),
    };
    let key = admin.key_create(&key).await.context("the load needs a key")?;
    let measured = measure(args, &session, &key, collections).await;
    let revoked = admin.key_revoke(&key.id.to_string()).await;
    let report = measured?;
    revoked.context("the load's own key could not be revoked")?;
    session.show(&report, words)
}

/// Makes the pipeline, and a tenant with a collection for each lane; their collections.
async fn world(admin: &Client, lanes: u16) -> Result<Vec<String>> {
    let made = async {
        admin.pipeline_put(NAME, &PipelinePut::default()).await?;
        let mut collections = Vec::new();
        for lane in 1..=lanes {
            let id = format!("{NAME}-{lane}");
            let tenant = TenantPut {
                tier: "enterprise".to_owned(),
                uploads_per_hour: Some(UploadLimit::Unlimited),
                concurrent_jobs: Some(LANE_LIMIT),
            };
            admin.tenant_put(&id, &tenant).await?;
            let collection = CollectionPut {
                tenant_id: id.clone(),
                pipeline: Some(NAME.to_owned()),
                review: ReviewPolicy::default(),
                notify: None,
            };
            admin.collection_put(&id, &collection).await?;
            collections.push(id);
        }
        docket_client::Result::Ok(collections)
    };
    made.await
        .context("the load's tenants could not be made; it takes an admin's key")
}

async fn measure(
    args: &Args,
    session: &Session,
    key: &KeyCreated,
    collections: Vec<String>,
) -> Result<Report> {
    let load = Load {
        client: args.remote.client_with(&key.key)?,
        pipeline: NAME,
        collections,
        jobs: args.jobs,
        batch: args.batch,
        connections: args.connections,
        payload: "x".repeat(args.payload_bytes as usize),
        // Items of an earlier run are not repeated.
        run: format!("{:016x}", SystemRandom.next_u64()),
    };
    let measured = load.run().await?;
    Ok(Report {
        server: session.client.server(),
        batch: args.batch,
        connections: args.connections,
        lanes: args.lanes,
        payload_bytes: args.payload_bytes,
        whole: measured.whole,
        phases: measured.phases,
    })
}

fn words(report: &Report) -> String {
    let row = |phase: &Phase| {
        [
            phase.name.to_owned(),
            phase.jobs.to_string(),
            format!("{:.1}", phase.seconds),
            format!("{:.0}", phase.jobs_per_second),
            format!("{:.0}", phase.calls_per_second),
            format!("{:.1}", phase.p50_ms),
            format!("{:.1}", phase.p99_ms),
            format!("{:.1}", phase.max_ms),
        ]
    };
    let heads = [
        "what", "jobs", "seconds", "jobs/s", "calls/s", "p50 ms", "p99 ms", "max ms",
    ];
    let mut text = format!(
        "{}: {} connections, batches of {}, {} lanes\n",
        report.server, report.connections, report.batch, report.lanes
    );
    text.push_str(&table(heads, report.phases.iter().map(row)));
    if !report.whole {
        text.push_str("\nEnded by a signal: what is left is worked on by the next run.");
    }
    text
}
