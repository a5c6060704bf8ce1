//! `docket keys`: who may do what. A key can also be made without a server, against the database itself: for the day on which
//! the admin key is lost.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use docket_client::wire::key::{KeyCreate, KeyCreated, Role};
use docket_core::name::TenantId;
use docket_core::scope::Operator;
use docket_engine::NewKey;

use crate::remote::{PageArgs, RemoteArgs, Session, moment, or_nothing};
use crate::screen::Screen;
use crate::target::TargetArgs;

/// What `docket keys` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a key; it is shown this once
    Create(Create),
    /// List the keys, without their secrets
    List(PageArgs),
    /// Revoke a key
    Revoke {
        /// The key's id, as the list shows it
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// producer, worker, reviewer, lead, service or admin
    #[arg(long, value_parser = role)]
    role: Role,
    /// Whose key it is; for producers, reviewers and leads
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Who holds it, for the log; a reviewer's id
    #[arg(long)]
    subject: String,
    /// Without a server: the database itself, which no server may hold open if it is SQLite
    #[command(flatten)]
    target: TargetArgs,
}

fn role(word: &str) -> Result<Role, String> {
    let known = Role::ALL.iter().find(|role| role.as_str() == word).copied();
    known.ok_or_else(|| "one of producer, worker, reviewer, lead, service, admin".to_owned())
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Create(create) if create.target.is_given() => show(&session, &create_locally(create).await?),
        Action::Create(create) => {
            let wanted = KeyCreate {
                role: create.role,
                tenant_id: create.tenant.clone(),
                subject: create.subject.clone(),
            };
            show(&session, &session.client.key_create(&wanted).await?)
        }
        Action::List(page) => {
            let keys = page
                .gather(async |limit, cursor| session.client.keys(limit, cursor).await)
                .await?;
            session.show_page(
                &keys,
                ["id", "key", "role", "tenant", "subject", "made", "revoked"],
                |key| {
                    [
                        key.id.to_string(),
                        format!("{}…", key.prefix),
                        key.role.as_str().to_owned(),
                        or_nothing(key.tenant_id.as_ref()),
                        key.subject.clone(),
                        moment(key.created_at),
                        or_nothing(key.revoked_at.map(moment)),
                    ]
                },
            )
        }
        Action::Revoke { id } => {
            session.client.key_revoke(id).await?;
            session.show(&serde_json::json!({ "id": id, "revoked": true }), |_| {
                format!("Key {id} is revoked.")
            })
        }
    }
}

fn show(session: &Session, created: &KeyCreated) -> Result<ExitCode> {
    session.show(created, |created| {
        format!(
            "{}\n\nThis is key {}. It is shown this once; keep it safe.",
            created.key, created.id
        )
    })
}

async fn create_locally(create: &Create) -> Result<KeyCreated> {
    let target = create.target.resolve()?;
    target.check_exists()?;
    let Ok(role) = docket_core::access::Role::parse(create.role.as_str()) else {
        bail!("'{}' is no role", create.role.as_str());
    };
    let tenant = create
        .tenant
        .clone()
        .map(TenantId::new)
        .transpose()
        .context("--tenant is no name")?;
    let engine = target.open_without_files().await?;
    let new = NewKey {
        role,
        tenant,
        subject: create.subject.clone(),
    };
    let created = engine.key_create(&Operator::system(), new).await;
    engine.close();
    let created = created.context("the key could not be made")?;
    Screen::note(&format!("Made in {}, without a server.", target.describe()));
    Ok(KeyCreated {
        id: created.id.uuid(),
        key: created.key.reveal().to_owned(),
    })
}
