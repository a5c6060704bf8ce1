//! `docket notifications`, `docket deliveries`: tell people, see what became of it, and say what happens to what is stuck.

use std::process::ExitCode;

use anyhow::Result;
use docket_client::wire::notification::{
    Delivery, DeliveryResend, Notification, NotificationCreate, NotificationCreated,
};
use docket_client::{DeliveryFilter, NotificationFilter};

use crate::remote::{RemoteArgs, moment, or_nothing, table, word};

/// What `docket notifications` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Tell recipients about one version of one subject
    Create(CreateArgs),
    /// List notifications, newest first
    List {
        /// About this
        #[arg(long, value_name = "ID")]
        changelist: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Where the page before ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a notification
    Show {
        /// The notification's id
        id: String,
    },
    /// Show a notification's deliveries, with what the providers said
    Deliveries {
        /// The notification's id
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Your own key: the same again makes no second notification
    #[arg(long, value_name = "KEY")]
    idempotency_key: String,
    /// What it is about
    #[arg(long, value_name = "ID")]
    changelist: String,
    /// Which version of it
    #[arg(long, value_name = "N")]
    review_version: i64,
    /// Who has to be told: email:a@example.com, webhook:https://…, file:name; may be given several times
    #[arg(long = "to", value_name = "RECIPIENT", required = true)]
    recipients: Vec<String>,
    /// Who is told too
    #[arg(long = "also", value_name = "RECIPIENT")]
    optional_recipients: Vec<String>,
    /// One line
    #[arg(long)]
    subject: String,
    /// Plain text
    #[arg(long, default_value = "")]
    body: String,
    /// For which tenant; none for the deployment's own
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

/// What `docket deliveries` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct DeliveriesArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: DeliveryAction,
}

#[derive(Debug, clap::Subcommand)]
enum DeliveryAction {
    /// List deliveries, newest first
    List {
        /// In this state: held, failed, unknown, …
        #[arg(long)]
        status: Option<String>,
        /// By this channel
        #[arg(long)]
        channel: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Where the page before ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Have the provider asked what it knows
    Reconcile {
        /// The delivery's id
        id: String,
    },
    /// Send once more, under another token
    Resend {
        /// The delivery's id
        id: String,
        /// Makes the token; the same again sends nothing
        #[arg(long)]
        nonce: String,
    },
    /// Give it up
    Cancel {
        /// The delivery's id
        id: String,
    },
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Create(create) => {
            let created = session.client.notification_create(&request(create)).await?;
            session.show(&created, made)
        }
        Action::List {
            changelist,
            limit,
            cursor,
        } => {
            let filter = NotificationFilter {
                changelist_id: changelist.clone(),
                limit: *limit,
                cursor: cursor.clone(),
            };
            let page = session.client.notifications(&filter).await?;
            session.show_page(&page, ["id", "about", "version", "status", "since"], |one| {
                [
                    one.id.to_string(),
                    one.changelist_id.clone(),
                    one.review_version.to_string(),
                    word(&one.status),
                    moment(one.created_at),
                ]
            })
        }
        Action::Show { id } => {
            let found = session.client.notification(id).await?;
            session.show(&found, shown)
        }
        Action::Deliveries { id } => {
            let found = session.client.notification_deliveries(id).await?;
            session.show(&found, |found| {
                let parts: Vec<String> = found.items.iter().map(told).collect();
                parts.join("\n")
            })
        }
    }
}

pub(crate) async fn deliveries(args: &DeliveriesArgs) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let changed = match &args.action {
        DeliveryAction::List {
            status,
            channel,
            limit,
            cursor,
        } => {
            let filter = DeliveryFilter {
                status: status.clone(),
                channel: channel.clone(),
                limit: *limit,
                cursor: cursor.clone(),
            };
            let page = session.client.deliveries(&filter).await?;
            return session.show_page(
                &page,
                ["id", "recipient", "status", "next try", "last problem"],
                |one| {
                    [
                        one.id.to_string(),
                        one.recipient.clone(),
                        word(&one.status),
                        or_nothing(one.next_attempt_at.map(moment).as_ref()),
                        or_nothing(one.error.as_ref()),
                    ]
                },
            );
        }
        DeliveryAction::Reconcile { id } => session.client.delivery_reconcile(id).await?,
        DeliveryAction::Resend { id, nonce } => {
            let nonce = nonce.clone();
            session
                .client
                .delivery_resend(id, &DeliveryResend { nonce })
                .await?
        }
        DeliveryAction::Cancel { id } => session.client.delivery_cancel(id).await?,
    };
    session.show(&changed, told)
}

fn request(create: &CreateArgs) -> NotificationCreate {
    NotificationCreate {
        idempotency_key: create.idempotency_key.clone(),
        changelist_id: create.changelist.clone(),
        review_version: create.review_version,
        recipients: create.recipients.clone(),
        optional_recipients: create.optional_recipients.clone(),
        subject: create.subject.clone(),
        body: create.body.clone(),
        tenant_id: create.tenant.clone(),
    }
}

fn made(created: &NotificationCreated) -> String {
    let why = match (created.duplicate, created.request_differs, created.noop) {
        (true, true, _) => " (the key was used before, for something else)",
        (true, false, _) => " (the key was used before)",
        (false, _, true) => " (this version was told already)",
        (false, _, false) => "",
    };
    let one = &created.notification;
    format!("Notification {} is {}{why}", one.id, word(&one.status))
}

fn shown(one: &Notification) -> String {
    format!(
        "Notification {}\nAbout:   {} version {}\nStatus:  {}\nSubject: {}\nMade by: {} at {}",
        one.id,
        one.changelist_id,
        one.review_version,
        word(&one.status),
        one.subject,
        one.actor,
        moment(one.created_at)
    )
}

fn told(one: &Delivery) -> String {
    let head = format!(
        "Delivery {} to {} is {}{}",
        one.id,
        one.recipient,
        word(&one.status),
        one.notified_at
            .map_or_else(String::new, |at| format!(", told at {}", moment(at)))
    );
    let rows = one.attempts.iter().map(|attempt| {
        [
            attempt.number.to_string(),
            attempt.kind.clone(),
            attempt.outcome.clone(),
            moment(attempt.began_at),
            attempt.words.clone(),
        ]
    });
    match one.attempts.is_empty() {
        true => head,
        false => format!(
            "{head}\n{}",
            table(["try", "what", "outcome", "at", "words"], rows)
        ),
    }
}
