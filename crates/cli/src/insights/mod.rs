//! `docket insights`: what decided reviews tell of the machine, of the reviewers and of deadlines; and corrections as training data.

mod show;
mod training;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use docket_client::InsightFilter;
use docket_client::wire::Time;

use crate::remote::RemoteArgs;

/// What `docket insights` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Which fields the machine gets wrong, and how
    Corrections {
        #[command(flatten)]
        decisions: DecisionsArgs,
        /// Of this field only
        #[arg(long, value_name = "NAME")]
        field: Option<String>,
    },
    /// How many reviews a day, how long each, and how they are decided
    Reviewers {
        #[command(flatten)]
        decisions: DecisionsArgs,
    },
    /// How sure the machine was against what reviewers changed, and what an automatic approval would have let through
    Calibration {
        #[command(flatten)]
        decisions: DecisionsArgs,
        /// Of this field only, where fields are counted
        #[arg(long, value_name = "NAME")]
        field: Option<String>,
        /// A threshold to tell of besides the usual ones
        #[arg(long, value_name = "CONFIDENCE")]
        threshold: Option<f64>,
    },
    /// How many deadlines were kept, and how many will be missed at the present pace
    Sla {
        #[command(flatten)]
        decisions: DecisionsArgs,
        /// The present pace is that of the last so many hours
        #[arg(long, value_name = "HOURS", default_value_t = 24)]
        pace_hours: u32,
    },
    /// Write corrections as training data, a JSON object a line
    TrainingData {
        #[command(flatten)]
        decisions: DecisionsArgs,
        /// Of this field only
        #[arg(long, value_name = "NAME")]
        field: Option<String>,
        /// The file to write; `-` is standard output
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
}

/// Which decisions.
#[derive(Debug, clap::Args)]
struct DecisionsArgs {
    /// Of this collection; of all of the tenant's where none is named
    #[arg(long, value_name = "ID")]
    collection: Option<String>,
    /// Of this tenant, for keys of no tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// From this moment on, as 2026-09-21T00:00:00Z; 30 days where nothing is said
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Before this moment; up to now where nothing is said
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
}

fn moment(text: &str) -> Result<Time, String> {
    text.parse()
        .map_err(|_| "must be a time like 2026-09-21T12:00:00Z".to_owned())
}

impl DecisionsArgs {
    fn filter(&self, field: Option<&String>) -> InsightFilter {
        InsightFilter {
            tenant_id: self.tenant.clone(),
            collection_id: self.collection.clone(),
            since: self.since,
            until: self.until,
            field: field.cloned(),
        }
    }
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let client = &session.client;
    match &args.action {
        Action::Corrections { decisions, field } => {
            let filter = decisions.filter(field.as_ref());
            session.show(&client.insight_corrections(&filter).await?, show::corrections)
        }
        Action::Reviewers { decisions } => {
            let filter = decisions.filter(None);
            session.show(&client.insight_reviewers(&filter).await?, show::reviewers)
        }
        Action::Calibration {
            decisions,
            field,
            threshold,
        } => {
            let filter = decisions.filter(field.as_ref());
            let found = client.insight_calibration(&filter, *threshold).await?;
            session.show(&found, show::calibration)
        }
        Action::Sla {
            decisions,
            pace_hours,
        } => {
            let filter = decisions.filter(None);
            let found = client.insight_sla(&filter, Some(*pace_hours)).await?;
            session.show(&found, show::sla)
        }
        Action::TrainingData {
            decisions,
            field,
            output,
        } => {
            let download = client.training_data(&decisions.filter(field.as_ref())).await?;
            training::write(&session, download, output).await
        }
    }
}
