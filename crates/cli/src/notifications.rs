//! `docket notifications`, `docket deliveries`: tell people, see what became of it, and say what happens to what is stuck.

use std::process::ExitCode;

use anyhow::Result;
use docket_client::wire::notification::{
    Delivery, DeliveryResend, Notification, NotificationCreate, NotificationCreated,
};
use docket_client::{DeliveryFilter, NotificationFilter};
use docket_core::notification::DeliveryState;

use crate::remote::{PageArgs, RemoteArgs, moment, or_nothing, table, word};

/// How much of a text is shown in a table.
const CUT: usize = 60;

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
        #[command(flatten)]
        page: PageArgs,
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
        /// By this channel: email, webhook or file
        #[arg(long)]
        channel: Option<String>,
        #[command(flatten)]
        page: PageArgs,
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
        /// A word of your own, which makes the token; the same again sends nothing
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
        Action::List { changelist, page } => {
            let filter = |limit, cursor: Option<&str>| NotificationFilter {
                changelist_id: changelist.clone(),
                limit,
                cursor: cursor.map(str::to_owned),
            };
            let fetch = async |limit, cursor: Option<&str>| {
                session.client.notifications(&filter(limit, cursor)).await
            };
            let page = page.gather(fetch).await?;
            session.show_page(&page, ["id", "subject", "status", "made"], |one| {
                [
                    one.id.to_string(),
                    cut(&one.subject),
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
            page,
        } => {
            let filter = |limit, cursor: Option<&str>| DeliveryFilter {
                status: status.clone(),
                channel: channel.clone(),
                limit,
                cursor: cursor.map(str::to_owned),
            };
            let fetch =
                async |limit, cursor: Option<&str>| session.client.deliveries(&filter(limit, cursor)).await;
            let page = page.gather(fetch).await?;
            return session.show_page(&page, ["id", "recipient", "status", "when", "problem"], |one| {
                [
                    one.id.to_string(),
                    cut(&one.recipient),
                    word(&one.status),
                    when(one),
                    cut(&or_nothing(one.error.as_ref())),
                ]
            });
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
        (true, true, _) => " (the key was used before, for something else: this is what was made then)",
        (true, false, _) => " (the key was used before)",
        (false, _, true) => " (this version was told already)",
        (false, _, false) => "",
    };
    let one = &created.notification;
    let id = one.id;
    format!(
        "Notification {id} is {}{why}\nWhat became of it: docket notifications deliveries {id}",
        word(&one.status)
    )
}

fn shown(one: &Notification) -> String {
    format!(
        "Notification {}\nAbout:   {} version {}\nStatus:  {}{}\nSubject: {}\nMade by: {} at {}",
        one.id,
        one.changelist_id,
        one.review_version,
        word(&one.status),
        if one.expired { ", and forgotten since" } else { "" },
        one.subject,
        one.actor,
        moment(one.created_at)
    )
}

/// When it was told, or is tried next.
fn when(one: &Delivery) -> String {
    match (one.notified_at, one.next_attempt_at) {
        // It is being sent once more.
        (Some(at), Some(next)) => format!("told {}, next {}", moment(at), moment(next)),
        (Some(at), None) => format!("told {}", moment(at)),
        (None, Some(at)) => format!("next {}", moment(at)),
        (None, None) => String::new(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CUT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A delivery with what became of each try, the first one first.
fn told(one: &Delivery) -> String {
    let optional = if one.required { "" } else { " (optional)" };
    let when = Some(when(one)).filter(|when| !when.is_empty());
    let mut head = format!(
        "Delivery {} to {}{optional} is {}{}",
        one.id,
        one.recipient,
        word(&one.status),
        when.map_or_else(String::new, |when| format!(", {when}"))
    );
    if let Some(problem) = &one.error {
        head.push_str(&format!("\nProblem: {problem}"));
    }
    if let Some(hint) = hint(one) {
        head.push_str(&format!("\n{hint}"));
    }
    let rows = one.attempts.iter().rev().map(|attempt| {
        [
            moment(attempt.began_at),
            attempt.kind.clone(),
            attempt.outcome.clone(),
            attempt.words.clone(),
        ]
    });
    match one.attempts.is_empty() {
        true => head,
        false => format!("{head}\n{}", table(["at", "what", "outcome", "words"], rows)),
    }
}

/// What somebody can do about a delivery that does not go on by itself.
fn hint(one: &Delivery) -> Option<String> {
    let id = one.id;
    match one.status {
        DeliveryState::Held => Some(format!(
            "Nobody can tell whether it was sent. Find out, then: docket deliveries resend {id} --nonce WORD, or docket deliveries cancel {id}"
        )),
        DeliveryState::Failed => Some(format!(
            "It is not tried again by itself: docket deliveries resend {id} --nonce WORD"
        )),
        DeliveryState::Reconciling | DeliveryState::Unknown => Some(format!(
            "The provider is being asked; see docket notifications deliveries {}",
            one.of
        )),
        _ => None,
    }
}
