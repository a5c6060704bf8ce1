//! `docket tenants`: whose work it is, and the limits that go with it.

use std::process::ExitCode;

use anyhow::Result;
use docket_client::wire::tenant::{Tenant, TenantPut, UploadLimit};

use crate::remote::{PageArgs, RemoteArgs, facts};

/// What `docket tenants` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a tenant, or change it; what is left out is the tier's
    Put {
        /// The tenant
        id: String,
        /// free, starter, pro, enterprise, or one of the deployment's own
        #[arg(long)]
        tier: String,
        /// Its own number of submissions in a rolling hour, or `unlimited`
        #[arg(long, value_name = "N", value_parser = upload_limit)]
        uploads_per_hour: Option<UploadLimit>,
        /// Its own number of jobs of a lane that run at once
        #[arg(long, value_name = "N")]
        concurrent_jobs: Option<u32>,
    },
    /// Show a tenant
    Show {
        /// The tenant
        id: String,
    },
    /// List the tenants
    List(PageArgs),
}

fn upload_limit(text: &str) -> Result<UploadLimit, String> {
    match text {
        "unlimited" => Ok(UploadLimit::Unlimited),
        number => match number.parse() {
            Ok(number) => Ok(UploadLimit::PerHour(number)),
            Err(_) => Err("a whole number from 0 on, or `unlimited`".to_owned()),
        },
    }
}

fn limit_word(limit: UploadLimit) -> String {
    match limit {
        UploadLimit::Unlimited => "unlimited".to_owned(),
        UploadLimit::PerHour(number) => number.to_string(),
    }
}

fn words(tenant: &Tenant) -> String {
    facts(&[
        ("tenant", tenant.id.clone()),
        ("tier", tenant.tier.clone()),
        ("uploads an hour", limit_word(tenant.uploads_per_hour)),
        ("jobs at once", tenant.concurrent_jobs.to_string()),
    ])
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Put {
            id,
            tier,
            uploads_per_hour,
            concurrent_jobs,
        } => {
            let put = TenantPut {
                tier: tier.clone(),
                uploads_per_hour: *uploads_per_hour,
                concurrent_jobs: *concurrent_jobs,
            };
            session.show(&session.client.tenant_put(id, &put).await?, words)
        }
        Action::Show { id } => session.show(&session.client.tenant(id).await?, words),
        Action::List(page) => {
            let tenants = page
                .gather(async |limit, cursor| session.client.tenants(limit, cursor).await)
                .await?;
            session.show_page(
                &tenants,
                ["tenant", "tier", "uploads an hour", "jobs at once"],
                |tenant| {
                    [
                        tenant.id.clone(),
                        tenant.tier.clone(),
                        limit_word(tenant.uploads_per_hour),
                        tenant.concurrent_jobs.to_string(),
                    ]
                },
            )
        }
    }
}
