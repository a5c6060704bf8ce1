//! `docket reviewers`: who reviews, whether they are there, how much they may hold.

use std::process::ExitCode;

use anyhow::Result;
use docket_client::wire::reviewer::{Reviewer, ReviewerAvailability, ReviewerCapacity, ReviewerPut};

use crate::remote::{PageArgs, RemoteArgs, Session, facts, or_nothing};

/// What `docket reviewers` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Describe a reviewer; what is left out is as if it had never been said
    Put {
        /// Who: the subject of their key or JWT
        id: String,
        /// Their name, for people
        #[arg(long)]
        name: Option<String>,
        /// For whom they review; left out for any tenant
        #[arg(long)]
        tenant: Option<String>,
        /// Nothing is assigned to them
        #[arg(long)]
        unavailable: bool,
        /// How many they may hold; left out for any number
        #[arg(long, value_name = "N")]
        capacity: Option<u32>,
    },
    /// Show a reviewer
    Show {
        /// Who
        id: String,
    },
    /// List the reviewers
    List(PageArgs),
    /// Say that a reviewer is there: reviews may be assigned to them
    Available {
        /// Who; a reviewer says it of themselves
        id: String,
    },
    /// Say that a reviewer is not there: nothing is assigned to them
    Unavailable {
        /// Who; a reviewer says it of themselves
        id: String,
        /// Hand on what they hold as well
        #[arg(long)]
        hand_on: bool,
    },
    /// Say how many reviews a reviewer may hold
    Capacity {
        /// Who
        id: String,
        /// How many; left out for any number
        n: Option<u32>,
    },
    /// Hand on everything that a reviewer holds who is not there
    HandOn {
        /// Who is not there
        id: String,
    },
}

fn words(reviewer: &Reviewer) -> String {
    facts(&[
        ("reviewer", reviewer.id.clone()),
        ("name", reviewer.name.clone()),
        ("tenant", or_nothing(reviewer.tenant_id.as_ref())),
        ("available", yes_or_no(reviewer.available)),
        ("capacity", or_nothing(reviewer.capacity)),
    ])
}

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Put {
            id,
            name,
            tenant,
            unavailable,
            capacity,
        } => {
            let put = ReviewerPut {
                name: name.clone().unwrap_or_else(|| id.clone()),
                tenant_id: tenant.clone(),
                available: !unavailable,
                capacity: *capacity,
            };
            session.show(&session.client.reviewer_put(id, &put).await?, words)
        }
        Action::Show { id } => session.show(&session.client.reviewer(id).await?, words),
        Action::List(page) => {
            let found = page
                .gather(async |limit, cursor| session.client.reviewers(limit, cursor).await)
                .await?;
            session.show_page(
                &found,
                ["reviewer", "name", "tenant", "available", "capacity"],
                |reviewer| {
                    [
                        reviewer.id.clone(),
                        reviewer.name.clone(),
                        or_nothing(reviewer.tenant_id.as_ref()),
                        yes_or_no(reviewer.available),
                        or_nothing(reviewer.capacity),
                    ]
                },
            )
        }
        Action::Available { id } => {
            let said = ReviewerAvailability { available: true };
            session.show(&session.client.reviewer_availability(id, &said).await?, words)
        }
        Action::Unavailable { id, hand_on } => {
            let said = ReviewerAvailability { available: false };
            let reviewer = session.client.reviewer_availability(id, &said).await?;
            if *hand_on {
                // Only now: what they hold would come back to them while they are there.
                return hand_on_from(&session, id).await;
            }
            session.show(&reviewer, words)
        }
        Action::Capacity { id, n } => {
            let said = ReviewerCapacity { capacity: *n };
            session.show(&session.client.reviewer_capacity(id, &said).await?, words)
        }
        Action::HandOn { id } => hand_on_from(&session, id).await,
    }
}

async fn hand_on_from(session: &Session, id: &str) -> Result<ExitCode> {
    session.show(&session.client.review_hand_on(id).await?, |handed| {
        match handed.handed_on {
            0 => format!("{id} holds nothing that could be handed on."),
            1 => format!("1 review of {id} is handed on."),
            n => format!("{n} reviews of {id} are handed on."),
        }
    })
}
