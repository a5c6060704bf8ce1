//! Docket's load generator. It prints a table with, beside each figure, its ratio to a baseline taken in the same run, since
//! absolute figures say little on a shared machine; and it ends each scenario with the doctor, since a fast wrong answer is none.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![expect(clippy::print_stdout, reason = "a command speaks to its user")]

mod baseline;
mod growth;
mod http;
mod measure;
mod outbox;
mod process;
mod report;
mod review;
mod review_http;
mod scenario;
mod seed;
mod served;
mod site;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::report::Report;

/// Measures Docket beside raw baselines in the same run.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Args {
    /// The most telling scenarios only, in about two minutes.
    #[arg(long)]
    quick: bool,
    /// Only scenarios whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// How long each figure is measured, in seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// Where the results go as JSON.
    #[arg(long, default_value = "bench-results/latest.json")]
    json: PathBuf,
    /// The PostgreSQL cluster; `scripts/with-postgres --bench` sets it.
    #[arg(long, env = "DOCKET_TEST_POSTGRES")]
    cluster: Option<String>,
    /// Statements of each tuned operation that run side by side.
    #[arg(long, default_value_t = 2)]
    runners: usize,
}

impl Args {
    fn window(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(if self.quick { 1.5 } else { 8.0 }))
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut report = Report::new(args.quick);
    if let Some(cluster) = &args.cluster {
        scenario::postgres(&args, cluster, &mut report)
            .await
            .context("the scenarios on PostgreSQL")?;
    } else {
        println!("No PostgreSQL cluster was given (run `make bench`): SQLite only.");
    }
    scenario::sqlite(&args, &mut report)
        .await
        .context("the scenarios on SQLite")?;
    process::facts(&args, &mut report)
        .await
        .context("the program itself")?;
    println!("{}", report.table());
    report.write_json(&args.json)?;
    println!("Also as JSON in {}.", args.json.display());
    Ok(())
}
